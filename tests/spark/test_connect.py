"""The same tests once more, with Spark Connect between them and the session.

A process speaks to a session either way, not both: another one runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

TESTS: Final = (
    "test_replay.py::test_every_trace_replays_to_the_local_rows",
    "test_replay.py::test_auto_takes_files_only_for_exactly_the_files",
    "test_replay.py::test_collected_states_are_those_of_local_replay",
    "test_replay.py::test_partials_of_yesterday_and_today_make_the_cursors_of_both",
    "test_ordered.py",
    "test_sources.py",
    "test_stream.py",
    "test_tables.py::test_a_missing_and_a_wrong_column_are_named_before_any_job",
    "test_tables.py::test_the_unordered_path_sorts_no_rows_and_runs_no_python_over_them",
)
"""Every function of the pipeline, on every kind of input."""


def test_the_pipeline_runs_through_spark_connect() -> None:
    pytest.importorskip("pyspark.sql.connect.client", reason="the extra [connect] is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5"]
    run = subprocess.run(
        [*command, *(f"tests/spark/{test}" for test in TESTS)],
        env=os.environ | {"ACKWELL_SPARK_CONNECT": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stdout[-8_000:] + run.stderr[-2_000:]
    assert " passed" in run.stdout
    assert " skipped" not in run.stdout
