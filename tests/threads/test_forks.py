"""A fork during another thread's batch: the child's structures are valid and usable."""

from __future__ import annotations

import gc
import os
import select
import signal
import threading

import numpy as np
import pytest

from ackwell import PositionRangeSet, TimeWheel
from tests.forks import fork

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

CHILD_SECONDS = 60


def answer_of_child(acked: PositionRangeSet) -> bytes:
    """Fork, use the set in the child, and return its output, or nothing if it hangs."""
    reader, writer = os.pipe()
    child = fork()
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
    child = fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert wheel.add_many([1, 2], [3, 3], [4, 5]) == 2


def test_a_child_does_not_collect_the_garbage_of_its_parent() -> None:
    """The other tests fork with the function that this test covers."""
    parent = os.getpid()

    class Garbage:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                os._exit(1)

    gc.disable()
    try:
        Garbage()
        child = fork()
        if child == 0:
            gc.collect()
            os._exit(0)
    finally:
        gc.enable()
    assert os.waitpid(child, 0)[1] == 0
