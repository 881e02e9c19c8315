"""The queue of the examples, killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "queue" / "worker.py"


def start(folder: Path, jobs: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), str(folder), str(jobs)], stdout=subprocess.PIPE, text=True
    )


def printed(output: str, word: str) -> set[str]:
    """Return the jobs that a whole line reports as put or done."""
    lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return {line.removeprefix(word).strip() for line in lines if line.startswith(word + " ")}


@pytest.mark.faults
@pytest.mark.parametrize("kills", [20])
def test_a_queue_that_is_killed_loses_no_job_and_repeats_none_that_was_confirmed(
    tmp_path: Path, kills: int
) -> None:
    chance, put, done = random.Random(3), set[str](), set[str]()
    worked = tmp_path / "done.txt"
    for number in range(kills):
        before = worked.stat().st_size if worked.exists() else 0
        with start(tmp_path, 100_000) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(chance.random() * 0.3)
            process.kill()
            output = first + process.stdout.read()
        # The first line is the one that the kill cut.
        again = set(worked.read_bytes()[before:].decode().splitlines()[1:]) if worked.exists() else set()
        assert not again & done, f"kill {number}"
        put, done = put | printed(output, "put"), done | printed(output, "done")
    process = start(tmp_path, 1)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "all done" in output
    assert len(put) > kills
    assert len(done) > kills
    assert put <= set(worked.read_text().splitlines())
