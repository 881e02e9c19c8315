"""Several threads on one set: every add takes effect, and no call sees a partial change."""

import threading
from collections.abc import Callable

import numpy as np

from ackwell import Ledgers, PositionRangeSet
from tests.threads.together import run

THREADS = 4
ROUNDS = 200


def test_adds_from_several_threads_all_arrive() -> None:
    acked = PositionRangeSet()
    added = [0] * THREADS

    def work(thread: int) -> Callable[[], None]:
        def add() -> None:
            for round_ in range(ROUNDS):
                # Blocks of 64 entries, assigned to the threads in turn; every other block twice.
                first = (round_ * THREADS + thread) * 64
                entries = np.arange(first, first + 64)
                added[thread] += acked.add_many(np.full(64, round_ % 7), entries)
                added[thread] += acked.add_many(np.full(32, round_ % 7), entries[::2])
                added[thread] += acked.add(round_ % 7, first)
                acked.contains_many(np.full(64, round_ % 7), entries)

        return add

    run(*(work(thread) for thread in range(THREADS)))
    acked.validate()
    assert acked.cardinality == sum(added) == THREADS * ROUNDS * 64


def test_sets_combined_both_ways_do_not_wait_on_each_other() -> None:
    left, right = PositionRangeSet([(3, -1, 5)]), PositionRangeSet([(4, 10, 500)])

    def combine(one: PositionRangeSet, other: PositionRangeSet) -> None:
        for round_ in range(ROUNDS):
            one |= other
            one.add(5, round_ * 3)
            assert (one == other) in (True, False)
            assert len(one | other) > 0

    run(lambda: combine(left, right), lambda: combine(right, left), lambda: combine(left, left))
    assert (left | right).cardinality == 6 + 490 + ROUNDS


def test_readers_see_whole_changes_while_a_writer_works() -> None:
    acked = PositionRangeSet()
    done = threading.Event()
    seen: list[int] = []

    def write() -> None:
        for round_ in range(ROUNDS):
            acked.add_range(3, 100 * round_, 100 * round_ + 50)
            acked.remove_up_to(3, 100 * (round_ - 5))
        done.set()

    def read() -> None:
        finished = False
        while not finished:
            finished = done.is_set()
            acked.validate()
            lengths = {upper - lower for _, lower, upper in acked}
            assert lengths <= {50}
            seen.extend(lengths)

    run(write, read, read)
    assert len(acked) == 6
    assert len(seen) >= 2, "each reader saw at least the end"


def test_ledgers_grow_under_readers() -> None:
    ledgers = Ledgers({0: 1})

    def grow(first: int) -> Callable[[], None]:
        def work() -> None:
            for ledger_id in range(first, 1000, 2):
                ledgers.grow(ledger_id, 3)

        return work

    def ask() -> None:
        for _ in range(ROUNDS):
            ledgers.validate()
            entries = ledgers.entries_between((0, -1), (1000, 0))
            assert entries <= ledgers.total_entries <= 3000

    run(grow(0), grow(1), ask)
    assert (len(ledgers), ledgers.total_entries) == (1000, 3000)
