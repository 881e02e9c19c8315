"""`make demo`, the README's main job, on one of its traces."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackwell import spark as ackwell_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
TRACE = "holes_batch_graceful"
"""A small trace: the broker agrees before a restart and has lost acknowledgments after it."""


@pytest.mark.slow
def test_the_demo_agrees_with_every_snapshot(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The demo uses the session of all tests, so this starts no JVM.
    monkeypatch.setattr(ackwell_spark, "local_session", lambda: spark)
    for path in (EXAMPLES / "traces").glob(f"{TRACE}.*"):
        shutil.copy(path, tmp_path)
    main = runpy.run_path(str(EXAMPLES / "demo.py"))["main"]
    monkeypatch.setitem(main.__globals__, "TRACES", tmp_path)
    assert main() == 0
    out = capsys.readouterr().out
    assert re.search(r"replaying [\d,]+ events of 1 traces on Spark", out)
    assert "a 4.2 broker with its default settings\nsnapshots below: by the settings of each trace" in out
    assert "1 snapshots were taken after the broker had lost" in out
    assert "agrees with the broker: 1 of 1 snapshots" in out
