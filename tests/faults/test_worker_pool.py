"""The worker pool of the tutorial, killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "worker_pool.py"


def lines(path: Path) -> list[str]:
    """Return the whole lines of a file; a kill may have torn the last one."""
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def start(folder: Path, messages: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), str(folder), str(messages)], stdout=subprocess.PIPE, text=True
    )


def finish(folder: Path, messages: int) -> str:
    pool = start(folder, messages)
    output, _ = pool.communicate()
    assert pool.returncode == 0
    return output


def kill_at_work(folder: Path, messages: int, after_seconds: float) -> None:
    """Start the pool, wait until it works, then kill it a little later."""
    before = len(lines(folder / "done.txt"))
    with start(folder, messages) as pool:
        while pool.poll() is None and len(lines(folder / "done.txt")) == before:
            time.sleep(0.005)
        time.sleep(after_seconds)
        pool.kill()


@pytest.mark.slow
def test_a_pool_that_is_not_disturbed_does_each_message_once(tmp_path: Path) -> None:
    assert "all done" in finish(tmp_path, 300)
    assert sorted(lines(tmp_path / "done.txt")) == sorted(lines(tmp_path / "log.txt"))
    assert "300 messages, 0 not acknowledged yet" in finish(tmp_path, 300)


@pytest.mark.faults
def test_a_pool_killed_twenty_times_loses_nothing_and_repeats_nothing_it_was_told(tmp_path: Path) -> None:
    messages, kills = 20_000, 0
    randomness = random.Random(7)
    for _ in range(20):
        told, done = set(lines(tmp_path / "acked.txt")), len(lines(tmp_path / "done.txt"))
        kill_at_work(tmp_path, messages, randomness.random() * 0.2)
        # The first line may be the one that the kill cut.
        assert not told & set(lines(tmp_path / "done.txt")[done + 1 :])
        kills += len(told) < messages
    assert kills >= 10
    finish(tmp_path, messages)
    assert set(lines(tmp_path / "done.txt")) >= set(lines(tmp_path / "log.txt"))
