"""Scalar calls of several threads on one structure; without a GIL they run at the same time."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ackwell import (
    BitSet,
    Ledgers,
    LongMap,
    PendingAcks,
    PositionRangeSet,
    TimeBuckets,
    TimeWheel,
    TripleLongHeap,
)
from ackwell._native import Names, Partials
from tests.threads.together import run

THREADS = 4
ROUNDS = 2_000

# Functions that add the entry of a number, unique to a thread, and count the entries.
Calls = tuple[Callable[[], Any], Callable[[Any, int], object], Callable[[Any], int]]
CALLS: dict[str, Calls] = {
    "LongMap": (LongMap, lambda longs, number: longs.put(number, number), len),
    "BitSet": (BitSet, lambda bits, number: bits.set(number), len),
    "PendingAcks": (PendingAcks, lambda acks, number: acks.add(number % 7, number), len),
    "PositionRangeSet": (
        PositionRangeSet,
        lambda acked, number: acked.add(number % 7, number),
        lambda acked: acked.cardinality,
    ),
    "TripleLongHeap": (TripleLongHeap, lambda heap, number: heap.add(number, 1, number), len),
    "TimeBuckets": (lambda: TimeBuckets(4), lambda index, number: index.add(number, 1, number), len),
    # Every other ledger is inserted in between, which moves the later ones.
    "Ledgers": (Ledgers, lambda ledgers, number: ledgers.grow(number ^ 1, 1), len),
    "Names": (Names, lambda names, number: names.number(f"{number}"), len),
    "Partials": (Partials, lambda partials, number: partials.pair(number % 7, number), len),
    "TimeWheel": (lambda: TimeWheel(8), lambda index, number: index.add(number, 1, number), len),
}


@pytest.mark.parametrize(("make", "add", "count"), CALLS.values(), ids=CALLS)
def test_scalar_calls_of_several_threads_all_count(
    make: Callable[[], Any], add: Callable[[Any, int], object], count: Callable[[Any], int]
) -> None:
    shared = make()

    def work(thread: int) -> Callable[[], None]:
        def add_all() -> None:
            for round_ in range(ROUNDS):
                add(shared, round_ * THREADS + thread)
                assert count(shared) > round_

        return add_all

    run(*(work(thread) for thread in range(THREADS)))
    if make is not Partials:  # its content has no invariant that other threads could break
        shared.validate()
    assert count(shared) == THREADS * ROUNDS


def test_iterators_that_threads_share_give_every_item_once() -> None:
    acked = PositionRangeSet((1, 2 * entry, 2 * entry + 1) for entry in range(ROUNDS))
    pending = PendingAcks({(1, entry): (1, 0) for entry in range(ROUNDS)})
    for shared in (iter(pending), iter(BitSet(range(ROUNDS))), iter(acked), acked.positions()):
        seen: list[object] = []
        run(*[partial(seen.extend, shared)] * THREADS)
        assert len(seen) == len(set(seen)) == ROUNDS


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="the interpreter has a global lock"
)
def test_the_module_does_not_bring_the_global_lock_back() -> None:
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]
