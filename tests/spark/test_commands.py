"""`ackwell spark …` in this process: its examples run, and Spark's errors are one sentence."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    if options[1] == "stream" and not is_at_least("4.1"):
        assert (answer.code, "needs Spark 4.1 or newer" in answer.err) == (1, True)
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
    assert held(ackwell(*line, "--mode", "overwrite", "--json")).code == 0
