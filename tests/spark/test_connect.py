"""The tests marked `connect` once more, with Spark Connect between them and the session.

Marked are those that need what Connect can break: each public function of the pipeline once, on each
kind of input. A process uses a session one way or the other, so another process runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


def passed_through_connect(marks: str) -> int:
    """Run the Spark tests with these marks through Spark Connect; return how many passed."""
    pytest.importorskip("pyspark.sql.connect.client", reason="the extra [connect] is not installed")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/spark", "-m", marks],
        # Where SPARK_TESTING is set, PySpark lets the server choose a free port, in place of 15002.
        env=os.environ | {"ACKWELL_SPARK_CONNECT": "1", "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-8_000:] + run.stderr[-2_000:]
    assert " skipped" not in run.stdout
    found = re.search(r"(\d+) passed", run.stdout)
    return int(found[1]) if found else 0


def test_the_pipeline_runs_through_spark_connect() -> None:
    assert passed_through_connect("connect") >= 10


@pytest.mark.soak
def test_all_tests_of_the_pipeline_pass_through_spark_connect() -> None:
    assert passed_through_connect("xdist_group and not soak") >= 40
