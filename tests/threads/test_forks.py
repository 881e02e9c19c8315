"""A fork during another thread's batch: the child's structures are valid and usable."""

from __future__ import annotations

import os
import select
import signal
import threading

import numpy as np
import pytest

from ackwell import PositionRangeSet, TimeWheel

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

CHILD_SECONDS = 60


def answer_of_child(acked: PositionRangeSet) -> bytes:
    """Fork, use the set in the child, and return its output, or nothing if it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        answer = b"broken"
        try:
            acked.validate()
            acked.add_many(np.arange(100_000), np.arange(100_000))
            answer = b"whole"
        finally:
            os.write(writer, answer)
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], CHILD_SECONDS)
    answer = os.read(reader, 100) if ready else b""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    return answer


@pytest.mark.slow
def test_a_child_can_use_what_a_batch_held_when_the_process_forked() -> None:
    acked = PositionRangeSet()
    over, at_work = threading.Event(), threading.Event()
    columns = np.arange(1_000_000) % 1_000, np.arange(1_000_000)

    def work() -> None:
        while not over.is_set():
            at_work.set()
            acked.add_many(*columns)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        at_work.wait()
        # The worker spends nearly all its time in batches, so some forks happen during one.
        answers = {answer_of_child(acked) for _ in range(5)}
    finally:
        over.set()
        worker.join()
    assert answers == {b"whole"}


def test_batches_go_on_after_a_fork() -> None:
    wheel = TimeWheel(1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert wheel.add_many([1, 2], [3, 3], [4, 5]) == 2
