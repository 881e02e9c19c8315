"""`PendingAcks` through its class, beside a bare call and the maps Python has: dicts and a sorted dict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from sortedcontainers import SortedDict

from ackwell import PendingAcks
from benches.bars.bare import bare_call
from benches.bars.calls import alternate
from benches.bars.sides import OURS

Measured: TypeAlias = tuple[str, str, str, list[float]]

ENTRIES = 50_000
BATCH = 10_000


def measure() -> Iterator[Measured]:
    """Take every figure of this process."""
    yield from _scalar()
    yield from _batch("in order", np.arange(BATCH))
    yield from _batch("at random", np.random.default_rng(42).permutation(ENTRIES)[:BATCH])


# What each side runs for every key, as one would write it.
STATEMENTS = {
    "contains": {
        OURS: "pending.contains(ledger_id, entry_id)",
        "bare call": "bare.two(ledger_id, entry_id)",
        "dict": "(ledger_id, entry_id) in flat",
        "nested dicts": "entry_id in nested[ledger_id]",
        "SortedDict": "(ledger_id, entry_id) in ordered",
    },
    "get_remaining": {
        OURS: "pending.get_remaining(ledger_id, entry_id)",
        "bare call": "bare.two(ledger_id, entry_id)",
        "dict": "flat[ledger_id, entry_id][0]",
        "nested dicts": "nested[ledger_id][entry_id][0]",
        "SortedDict": "ordered[ledger_id, entry_id][0]",
    },
    "add": {
        OURS: "pending.add(ledger_id, entry_id, 1, entry_id)",
        "bare call": "bare.four(ledger_id, entry_id, 1, entry_id)",
        "dict": "flat[ledger_id, entry_id] = 1, entry_id",
        "nested dicts": "nested[ledger_id][entry_id] = 1, entry_id",
        "SortedDict": "ordered[ledger_id, entry_id] = 1, entry_id",
    },
    "update_remaining": {
        OURS: "pending.update_remaining(ledger_id, entry_id, 0)",
        "bare call": "bare.three(ledger_id, entry_id, 0)",
    },
    # The add is there to remove again; it is on both sides.
    "remove + add": {
        OURS: "pending.remove(ledger_id, entry_id); pending.add(ledger_id, entry_id, 1, entry_id)",
        "bare call": "bare.two(ledger_id, entry_id); bare.four(ledger_id, entry_id, 1, entry_id)",
        "dict": "del flat[ledger_id, entry_id]; flat[ledger_id, entry_id] = 1, entry_id",
    },
}


def _loop(statement: str, names: dict[str, Any]) -> Callable[[], object]:
    """A function that runs a statement for every key, as `timeit` makes one."""
    code = f"def loop():\n  for ledger_id, entry_id in keys:\n    {statement}"
    exec(code, names)
    loop: Callable[[], object] = names["loop"]
    return loop


def _scalar() -> Iterator[Measured]:
    keys = [(1, entry) for entry in range(ENTRIES)]
    flat = {key: (1, key[1]) for key in keys}
    shuffled = keys.copy()
    Random(42).shuffle(shuffled)
    names = {
        "keys": shuffled[:BATCH],
        "bare": bare_call(),
        "pending": _filled(),
        "flat": flat,
        "nested": {1: {entry: value for (_, entry), value in flat.items()}},
        "ordered": SortedDict(flat),
    }
    for operation, statements in STATEMENTS.items():
        sides = {side: _loop(statement, names) for side, statement in statements.items()}
        samples = alternate({**sides, "loop": _loop("pass", names)}, per=BATCH)
        loop = median(samples.pop("loop"))
        for side, values in samples.items():
            yield side, "python", operation, [value - loop for value in values]
    yield OURS, "python", "bytes", [names["pending"].nbytes / ENTRIES]
    yield "dict", "python", "bytes", [_bytes_of(flat)]


def _batch(order: str, entries: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[Measured]:
    pending = _filled()
    ledgers, ones = np.ones_like(entries), np.ones_like(entries)
    hashes = 31 * entries

    def remove_and_add() -> None:
        pending.remove_many(ledgers, entries)
        pending.add_many(ledgers, entries, ones, hashes)

    samples = alternate(
        {
            "add_many": lambda: pending.add_many(ledgers, entries, ones, hashes),
            "contains_many": lambda: pending.contains_many(ledgers, entries),
            "get_many": lambda: pending.get_many(ledgers, entries),
            "remove and add": remove_and_add,
        },
        per=len(entries),
    )
    both, add = samples.pop("remove and add"), median(samples["add_many"])
    samples["remove_many"] = [value - add for value in both]
    for operation, values in samples.items():
        yield OURS, f"python {order}", operation, values


def _filled() -> PendingAcks:
    pending = PendingAcks()
    ids = np.arange(ENTRIES)
    pending.add_many(np.ones_like(ids), ids, (ids & 15) + 1, 31 * ids)
    return pending


def _bytes_of(flat: dict[tuple[int, int], tuple[int, int]]) -> float:
    """A dict's bytes an entry, with its tuples and the integers above those Python shares."""
    tuples = sum(sys.getsizeof(key) + sys.getsizeof(value) for key, value in flat.items())
    integers = sum(sys.getsizeof(entry) for _, entry in flat if entry > 256)
    return (sys.getsizeof(flat) + tuples + integers) / len(flat)
