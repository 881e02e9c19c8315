"""`make demo`, the README's main job, on two of its traces."""

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
FEW = ("shared_small_holes", "holes_batch_graceful")
"""Small traces: one that agrees throughout, one in which the broker forgot."""


def test_the_demo_agrees_with_every_snapshot(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The session of all tests serves it, so that this costs no JVM.
    monkeypatch.setattr(ackwell_spark, "local_session", lambda: spark)
    for name in FEW:
        for path in (EXAMPLES / "traces").glob(f"{name}.*"):
            shutil.copy(path, tmp_path)
    main = runpy.run_path(str(EXAMPLES / "demo.py"))["main"]
    monkeypatch.setitem(main.__globals__, "TRACES", tmp_path)
    assert main() == 0
    out = capsys.readouterr().out
    assert re.search(r"replaying [\d,]+ events of 2 traces on Spark", out)
    agreed = re.search(r"agrees with the broker: (\d+) of (\d+) snapshots", out)
    assert agreed is not None
    assert agreed[1] == agreed[2] == "5"
    assert "snapshots were taken after the broker had lost" in out
