"""The Python classes of the indexes, compared with a bare call, `heapq`, a sorted list and pyroaring."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time_ns
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap
from sortedcontainers import SortedList

from ackwell import TimeBuckets, TimeWheel, TripleLongHeap
from benches.bars.bare import bare_call
from benches.bars.sides import OURS

Measured: TypeAlias = tuple[str, str, str, list[float]]

MESSAGES = 100_000
ROUNDS = 5
INDEXES: dict[str, Callable[[], Any]] = {
    "TripleLongHeap": TripleLongHeap,
    "TimeBuckets": lambda: TimeBuckets(10),
    "TimeWheel": lambda: TimeWheel(1),
}


def measure() -> Iterator[Measured]:
    """Measure every figure of this process, in nanoseconds per message."""
    messages = [(1_700_000_000_000 + number, 7, number) for number in range(MESSAGES)]
    bare = bare_call()
    empty = min(_timed(lambda: [None for _ in messages]) for _ in range(ROUNDS))
    for name, make in INDEXES.items():
        for _ in range(ROUNDS):
            yield OURS, "python", f"add, {name}", [_each(make().add, messages) - empty]
            yield "bare call", "python", f"add, {name}", [_each(bare.three, messages) - empty]
    yield from _batches()
    yield from _queues()


def _each(call: Callable[[int, int, int], object], messages: list[tuple[int, int, int]]) -> float:
    return _timed(lambda: [call(*message) for message in messages])


def _batches() -> Iterator[Measured]:
    numbers = np.arange(10 * MESSAGES)
    columns = 1_700_000_000_000 + numbers, numbers // 50_000, numbers % 50_000
    for name, make in INDEXES.items():
        for _ in range(ROUNDS):
            index = make()
            yield (
                OURS,
                "python",
                f"add_many, {name}",
                [_timed(partial(index.add_many, *columns), len(numbers))],
            )
            yield OURS, "python", f"pop_due of 1,000, {name}", [_timed(partial(_drain, index), len(numbers))]


def _drain(index: Any) -> None:
    while len(index.pop_due(2**62, 1_000)[0]):
        pass


def _by_heapq(rows: list[tuple[int, int, int]]) -> None:
    heap: list[tuple[int, int, int]] = []
    for row in rows:
        heapq.heappush(heap, row)
    while heap:
        heapq.heappop(heap)


def _by_sorted_list(rows: list[tuple[int, int, int]]) -> None:
    queue = SortedList()
    for row in rows:
        queue.add(row)
    while queue:
        queue.pop(0)


def _by_bitmaps(rows: list[tuple[int, int, int]]) -> None:
    buckets: dict[int, BitMap] = {}
    for time, _, entry in rows:
        buckets.setdefault(time >> 10, BitMap()).add(entry)
    for bucket in sorted(buckets):
        list(buckets.pop(bucket))


def _queues() -> Iterator[Measured]:
    """Measure adding and popping all messages at random times: ackwell in arrays, Python one by one."""
    times = np.random.default_rng(42).integers(0, 3_600_000, MESSAGES)
    numbers = np.arange(MESSAGES)
    rows = list(zip(times.tolist(), (numbers // 1_000).tolist(), numbers.tolist(), strict=True))

    def ours() -> None:
        heap = TripleLongHeap()
        heap.add_many(times, numbers // 1_000, numbers)
        heap.pop_due(2**62, MESSAGES)

    sides: dict[str, Callable[[], object]] = {
        OURS: ours,
        "heapq": partial(_by_heapq, rows),
        "SortedList": partial(_by_sorted_list, rows),
        "pyroaring": partial(_by_bitmaps, rows),
    }
    for _ in range(ROUNDS):
        for side, run in sides.items():
            yield side, "python", "bulk add + pop all", [_timed(run)]


def _timed(run: Callable[[], object], per: int = MESSAGES) -> float:
    before = thread_time_ns()
    run()
    return (thread_time_ns() - before) / per
