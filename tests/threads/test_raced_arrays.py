"""Arrays that change while a batch reads them break neither an invariant nor memory safety."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import pytest

from ackwell import (
    BitSet,
    LimitError,
    LongMap,
    PendingAcks,
    PositionRangeSet,
    TimeBuckets,
    TimeWheel,
    TripleLongHeap,
)
from ackwell._native import Names, Partials
from tests.threads.together import eager_switching

ROWS = 200_000
BUDGET_SECONDS = 0.4

# The values of a column during half of the time.
BAD = (-5, -(2**63), 2**63 - 1)

Batch = Callable[[Any, list[Any]], object]
CALLS: dict[str, tuple[Callable[[], Any], int, Batch]] = {
    "PositionRangeSet.add_many": (PositionRangeSet, 2, lambda s, c: s.add_many(*c)),
    "PositionRangeSet.add_ranges": (PositionRangeSet, 3, lambda s, c: s.add_ranges(*c)),
    "PositionRangeSet.add_words": (PositionRangeSet, 1, lambda s, c: s.add_words(3, c[0])),
    "PositionRangeSet.remove_many": (
        lambda: PositionRangeSet([(3, -1, 10**6)]),
        2,
        lambda s, c: s.remove_many(*c),
    ),
    "PendingAcks.add_many": (PendingAcks, 4, lambda s, c: s.add_many(*c)),
    "PendingAcks.remove_many": (PendingAcks, 2, lambda s, c: s.remove_many(*c)),
    "BitSet.set_many": (lambda: BitSet(limit=10**6), 1, lambda s, c: s.set_many(c[0])),
    "BitSet.get_many": (lambda: BitSet(limit=10**6), 1, lambda s, c: s.get_many(c[0])),
    "LongMap.put_many": (LongMap, 2, lambda s, c: s.put_many(*c)),
    "TripleLongHeap.add_many": (TripleLongHeap, 3, lambda s, c: s.add_many(*c)),
    "TimeBuckets.add_many": (lambda: TimeBuckets(10), 3, lambda s, c: s.add_many(*c)),
    "TimeWheel.add_many": (lambda: TimeWheel(1), 3, lambda s, c: s.add_many(*c)),
}


def race(write: Callable[[], None], read: Callable[[], None]) -> None:
    """Write repeatedly in a thread while this thread reads, at least once and for some time."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            write()

    writer = threading.Thread(target=go_on)
    end = monotonic() + BUDGET_SECONDS
    with eager_switching():
        writer.start()
        try:
            read()
            while monotonic() < end:
                read()
        finally:
            over.set()
            writer.join()


@pytest.mark.slow
@pytest.mark.parametrize(("make", "width", "call"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("bad", BAD)
def test_a_writer_beside_a_batch_breaks_nothing(
    make: Callable[[], Any], width: int, call: Batch, bad: int
) -> None:
    good = np.arange(ROWS)
    columns = [good.copy() for _ in range(width)]

    def write() -> None:
        # Half of a column at a time, so that a write can happen between a check and a use.
        for column in columns:
            column[ROWS // 2 :] = bad
        for column in columns:
            column[ROWS // 2 :] = good[ROWS // 2 :]

    def read() -> None:
        structure = make()
        with contextlib.suppress(ValueError, MemoryError, LimitError):
            call(structure, columns)
        structure.validate()
        restored = pickle.loads(pickle.dumps(structure))
        assert restored == structure

    race(write, read)


def test_codes_that_change_are_folded_or_refused() -> None:
    codes, zeros, rows = np.zeros(ROWS, np.int32), np.zeros(ROWS, np.int32), np.zeros(ROWS, np.int64)
    numbers, acks = np.arange(1, 11, dtype=np.int32), np.array([3], np.int32)

    def write() -> None:
        codes[:] = 2_000_000
        codes[:] = 1

    def read() -> None:
        partials = Partials()
        try:
            partials.feed((codes, numbers), (zeros, numbers), (zeros, acks), rows, rows)
        except ValueError:
            assert len(partials) == 0
        else:
            assert 0 < len(partials) <= 10

    race(write, read)


def test_a_name_that_changes_is_a_name_or_refused() -> None:
    # A long column, so that a write can happen between its check and its copy.
    data = np.full(1 << 20, 0x41, np.uint8)
    offsets = np.array([0, len(data)], np.int32)

    def write() -> None:
        data[::2] = 0x41
        data[::2] = 0xFF

    def read() -> None:
        names = Names()
        with contextlib.suppress(ValueError):
            names.number_many(offsets, data)
        names.validate()

    race(write, read)


def test_a_handler_that_alters_the_arrays_changes_nothing_of_the_batch() -> None:
    columns = [np.full(5, 3), np.arange(5), np.ones(5, np.int64), np.zeros(5, np.int64)]

    def alter(_ledger: int, _entry: int, _hash: int) -> bool:
        for column in columns:
            column[:] = -5
        return True

    pending = PendingAcks(add_handler=alter)
    assert pending.add_many(*columns) == 5
    pending.validate()
    assert [tuple(column.tolist()) for column in pending.to_arrays()] == [
        (3, 3, 3, 3, 3),
        (0, 1, 2, 3, 4),
        (1, 1, 1, 1, 1),
        (0, 0, 0, 0, 0),
    ]


RESIZES = """
import numpy as np
from ackwell import PendingAcks
columns = [np.ones(100_000, np.int64) for _ in range(4)]
def shrink(*_):
    for column in columns:
        column.resize(0, refcheck=False)
    return True
class Shrink:
    def handle_removing(self, *_):
        shrink()
    def start_batch(self): pass
    def end_batch(self): pass
pending = PendingAcks(add_handler=shrink, remove_handler=Shrink())
print(pending.add_many(*columns))
columns = [np.ones(100_000, np.int64) for _ in range(2)]
print(pending.remove_many(*columns))
pending.validate()
"""


def test_a_handler_that_frees_the_arrays_ends_no_process() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RESIZES], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["100000", "1"]), ran.stderr


RESIZED_BY_A_THREAD = """
import threading
import numpy as np
from ackwell import PositionRangeSet
over = threading.Event()
columns = [np.arange(3_000_000), np.arange(3_000_000)]
def resize():
    while not over.is_set():
        for column in columns:
            column.resize(10, refcheck=False)
            column.resize(3_000_000, refcheck=False)
thread = threading.Thread(target=resize)
thread.start()
for _ in range(10):
    acked = PositionRangeSet()
    try:
        acked.add_many(*columns)
    except ValueError:
        pass
    acked.validate()
over.set()
thread.join()
print("whole")
"""


@pytest.mark.slow
def test_a_thread_that_frees_the_arrays_ends_no_process() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RESIZED_BY_A_THREAD], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "whole"), ran.stderr
