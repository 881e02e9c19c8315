"""Several threads on one native object: a call waits for a running batch, so it sees all or none of it."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ackwell import BitSet, LongMap, PendingAcks, PositionRangeSet, TimeBuckets, TimeWheel, TripleLongHeap
from tests.threads.together import run

ROUNDS = 40
BEGIN_SECONDS_MAX = 600
ENTRIES = np.arange(20_000)
ONES = np.ones_like(ENTRIES)

Batch = Callable[[Any], object]
Count = Callable[[Any], int]

# Functions that create, fill with one batch, clear, and count.
BATCHES: dict[str, tuple[Callable[[], Any], Batch, Batch, Count]] = {
    "PendingAcks": (
        PendingAcks,
        lambda acks: acks.add_many(ONES, ENTRIES, ONES, ENTRIES),
        PendingAcks.clear,
        len,
    ),
    "LongMap": (LongMap, lambda longs: longs.put_many(ENTRIES, ONES), LongMap.clear, len),
    "BitSet": (BitSet, lambda bits: bits.set_many(ENTRIES), BitSet.clear_all, len),
    "PositionRangeSet": (
        PositionRangeSet,
        lambda acked: acked.add_many(ONES, ENTRIES),
        PositionRangeSet.clear,
        lambda acked: acked.cardinality,
    ),
    **{
        name: (make, lambda index: index.add_many(ENTRIES, ONES, ENTRIES), lambda index: index.clear(), len)
        for name, make in (
            ("TripleLongHeap", TripleLongHeap),
            ("TimeBuckets", lambda: TimeBuckets(bits=4)),
            ("TimeWheel", lambda: TimeWheel(tick_ms=64)),
        )
    },
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_call_waits_for_a_batch(name: str) -> None:
    make, fill, clear, count = BATCHES[name]
    shared = make()
    seen: set[int] = set()
    begun = threading.Event()
    done = False

    def write() -> None:
        nonlocal done
        try:
            # A busy machine may run the whole writer before a reader.
            assert begun.wait(BEGIN_SECONDS_MAX)
            for _ in range(ROUNDS):
                clear(shared)
                fill(shared)
        finally:
            done = True

    def read() -> None:
        while not done:
            seen.add(count(shared))
            begun.set()

    run(write, read, read)
    assert seen
    assert seen <= {0, len(ENTRIES)}
    shared.validate()
    assert count(shared) == len(ENTRIES)


def test_pending_acks_of_several_threads_all_arrive_and_leave() -> None:
    threads, rounds, block = 4, 100, 64
    pending = PendingAcks()
    added, removed = [0] * threads, [0] * threads

    def work(thread: int) -> Callable[[], None]:
        def add_and_remove() -> None:
            for round_ in range(rounds):
                # Blocks are assigned in turn, so that every thread adds and removes pages of each ledger.
                first = (round_ * threads + thread) * block
                ids, entries = np.full(block, round_ % 7), np.arange(first, first + block)
                added[thread] += pending.add_many(ids, entries, np.ones_like(ids), entries)
                assert pending.get_remaining(round_ % 7, first) == 1
                assert pending.update_remaining(round_ % 7, first, 1)
                removed[thread] += pending.remove_many(ids[::2], entries[::2])
                removed[thread] += pending.remove(round_ % 7, first + 1)

        return add_and_remove

    run(*(work(thread) for thread in range(threads)))
    pending.validate()
    assert sum(added) == threads * rounds * block
    assert sum(removed) == threads * rounds * (block // 2 + 1)
    assert len(pending) == sum(added) - sum(removed)


def test_handlers_may_call_the_map_while_others_work_on_it() -> None:
    told: list[int] = []

    class Handler:
        def start_batch(self) -> None: ...
        def end_batch(self) -> None: ...
        def handle_removing(self, ledger_id: int, entry_id: int, sticky_key_hash: int, closing: bool) -> None:
            assert (ledger_id, entry_id) not in pending
            told.append(entry_id)

    pending = PendingAcks(remove_handler=Handler())

    def feed(ledger_id: int) -> Callable[[], None]:
        def work() -> None:
            for entry_id in range(300):
                assert pending.add(ledger_id, entry_id)
                if entry_id % 10 == 9:
                    assert pending.remove(ledger_id, entry_id)

        return work

    def clean() -> None:
        for _ in range(10):
            pending.add_many(np.ones(30, int), np.arange(30), np.ones(30, int), np.arange(30))
            assert pending.remove_all_up_to(1, 29) == 30

    run(feed(2), feed(3), clean)
    pending.validate()
    assert len(told) == 2 * 30 + 10 * 30
    assert len(pending) == 2 * 270
