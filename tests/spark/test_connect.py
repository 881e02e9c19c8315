"""Run the tests marked `connect` a second time, through Spark Connect.

Marked are the tests of all that Connect can break: each public function of the pipeline once, on each kind of
input. A process uses a session in only one way, so another process runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def passed_through_connect(marks: str, cache: Path) -> int:
    """Run the Spark tests with these marks through Spark Connect; return how many passed."""
    pytest.importorskip("grpc", reason="the extra [connect] is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "tests/spark", "-m", marks]
    # With SPARK_TESTING, PySpark lets the server choose a free port instead of 15002.
    environment = os.environ | {"ACKWELL_SPARK_CONNECT": "1", "SPARK_TESTING": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-8_000:] + run.stderr[-2_000:]
    assert " skipped" not in run.stdout
    found = re.search(r"(\d+) passed", run.stdout)
    return int(found[1]) if found else 0


@pytest.mark.launch
def test_the_pipeline_runs_through_spark_connect(tmp_path: Path) -> None:
    assert passed_through_connect("connect", tmp_path) >= 10


@pytest.mark.proof
def test_all_tests_of_the_pipeline_pass_through_spark_connect(tmp_path: Path) -> None:
    assert passed_through_connect("xdist_group and not proof", tmp_path) >= 40
