"""The command line under `spark-submit`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ackwell
from ackwell.replay.states import replay_files
from ackwell.spark.session import find_java

TRACE = Path("examples/traces/shared_small_holes.jsonl")


@pytest.mark.launch
def test_a_submitted_replay_writes_cursors_and_prints_what_it_counted(tmp_path: Path) -> None:
    find_java()
    submit = Path(sys.executable).with_name("spark-submit")
    program = Path(ackwell.__file__).with_name("__main__.py")
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    arguments = ["spark", "replay", "-i", str(TRACE), "-o", str(tmp_path / "cursors")]
    run = subprocess.run(
        [str(submit), *options, str(program), *arguments],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    (state,) = replay_files([TRACE])
    (row,) = pq.read_table(tmp_path / "cursors").to_pylist()
    assert row["individually_deleted"] == str(state.cursor.individually_deleted)
    assert row["backlog_entries"] == state.cursor.backlog_entries == 20
    summary = dict(re.findall(r"^ *(\S.*?)  +(\S+) *$", run.stdout, re.MULTILINE))
    assert summary["subscriptions"] == "1"
    assert summary["backlog entries"] == "20"
