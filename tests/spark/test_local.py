"""`ackwell replay --spark` equals `ackwell replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from ackwell.cli import app
from ackwell.replay.files import read_events
from tests.replay import layouts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACE = Path("examples/traces/batch_partial.jsonl.gz").resolve()


@pytest.mark.parametrize("options", [(), ("--at", "40")])
@pytest.mark.parametrize("parquet", [False, True])
def test_the_command_on_spark_prints_the_local_states(
    spark: SparkSession, tmp_path: Path, options: tuple[str, ...], parquet: bool
) -> None:
    """The command uses the session of all tests. Spark provides the path of plain Parquet."""
    place = TRACE
    if parquet:
        place = tmp_path / "events"
        place.mkdir()
        layouts.parquet(list(read_events([TRACE])), place)
    states = []
    for engine in ([], ["--spark"]):
        done = CliRunner().invoke(app, ["replay", str(place), *options, *engine, "--format", "json"])
        assert done.exit_code == 0, done.output
        states.append(json.loads(done.stdout))
    assert states[0] == states[1]
    assert states[0]
