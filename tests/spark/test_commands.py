"""`ackwell spark …` in this process: its examples run, and Spark's errors are one sentence."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest

from ackwell.cli.spark_command import _cursors, stream
from ackwell.spark.versions import is_at_least
from tests.cli.test_help import COMMANDS, TRACES, examples
from tests.commands import ackwell, held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with the input of the examples. A session exists already."""
    assert spark
    monkeypatch.chdir(tmp_path)
    events = tmp_path / "events"
    events.mkdir()
    shutil.copy(TRACES / "delayed.jsonl.gz", events)
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    shutil.copy(TRACES / "shared_small_holes.live.stats.json", dumps)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("spark ")])
def test_the_first_example_of_a_spark_command_runs(name: str, folder: Path) -> None:
    line = examples(name)[0]
    options = [str(folder / word) if word.endswith("/") else word for word in shlex.split(line)[1:]]
    answer = held(ackwell(*options))
    if options[1] == "cursor-stream" and not is_at_least("4.0"):
        assert (answer.code, "needs Spark 4.0 or newer" in answer.err) == (1, True)
        return
    assert answer.code == 0, answer.err


def test_what_spark_refuses_is_one_sentence(folder: Path) -> None:
    """A missing input, and a second run of the documented line."""
    missing = held(ackwell("spark", "replay", "-i", str(folder / "none"), "-o", str(folder / "out")))
    assert missing.code == 1
    assert str(folder / "none") in missing.err
    line = ("spark", "replay", "-i", str(folder / "events"), "-o", str(folder / "out"))
    assert held(ackwell(*line)).code == 0
    again = held(ackwell(*line))
    assert again.code == 1
    assert again.err.rstrip().endswith("give another --output or --mode overwrite")
    assert held(ackwell(*line, "--mode", "overwrite", "--format", "json")).code == 0


@pytest.mark.skipif(not is_at_least("4.0"), reason="streams need Spark 4.0")
def test_a_stream_of_parquet_with_recorded_payloads_reads_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("events-000001.parquet", "_payloads-000001.jsonl"):
        (tmp_path / name).touch()
    spark = MagicMock()
    monkeypatch.setattr("ackwell.cli.spark_command._session", lambda _: spark)
    monkeypatch.setattr("ackwell.spark.register", MagicMock())
    monkeypatch.setattr("ackwell.spark.cursor_stream", MagicMock())
    stream(str(tmp_path), "out", "state")
    assert spark.readStream.schema.called
    assert not spark.readStream.format.called


@pytest.mark.parametrize(("name", "is_dump"), [("_delta_log/0.json", False), ("run/a.json.gz", True)])
def test_only_visible_files_are_dumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_dump: bool
) -> None:
    """A table of Delta Lake has hidden JSON files."""
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).touch()
    dumps, events = MagicMock(), MagicMock()
    events.return_value.columns = ["individually_deleted"]
    monkeypatch.setattr("ackwell.spark.read_files", dumps)
    monkeypatch.setattr("ackwell.spark.read_events", events)
    _cursors(MagicMock(), [str(tmp_path)])
    assert (dumps.called, events.called) == (is_dump, not is_dump)
