"""The tests marked `connect` once more, with Spark Connect between them and the session.

Marked are those that need what Connect can break: each public function of the pipeline once, on each
kind of input. A process uses a session one way or the other, so another process runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOO_SLOW = "Python worker failed to connect back"
"""Spark waits 10 s for the Python of a stream to start, which no setting changes."""


def passed_through_connect(marks: str, cache: Path) -> int:
    """Run the Spark tests with these marks through Spark Connect; return how many passed."""
    pytest.importorskip("pyspark.sql.connect.client", reason="the extra [connect] is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "tests/spark", "-m", marks]
    # Where SPARK_TESTING is set, PySpark lets the server choose a free port, in place of 15002.
    environment = os.environ | {"ACKWELL_SPARK_CONNECT": "1", "SPARK_TESTING": "1"}
    passed = 0
    for attempts_left in (2, 1, 0):
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert " skipped" not in run.stdout
        found = re.search(r"(\d+) passed", run.stdout)
        passed += int(found[1]) if found else 0
        if run.returncode == 0:
            break
        wrong = run.stdout[-8_000:] + run.stderr[-2_000:]
        assert TOO_SLOW in run.stdout, wrong
        assert attempts_left, wrong
        command = [*command, "--last-failed"]
    return passed


@pytest.mark.launch
def test_the_pipeline_runs_through_spark_connect(tmp_path: Path) -> None:
    assert passed_through_connect("connect", tmp_path) >= 10


@pytest.mark.proof
def test_all_tests_of_the_pipeline_pass_through_spark_connect(tmp_path: Path) -> None:
    assert passed_through_connect("xdist_group and not proof", tmp_path) >= 40
