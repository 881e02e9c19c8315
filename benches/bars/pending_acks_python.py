"""`PendingAcks` through its class, compared with a bare call and Python's maps: dicts and a sorted dict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from sortedcontainers import SortedDict

from ackwell import PendingAcks
from benches.bars.bare import bare_call
from benches.bars.calls import afresh, alternate
from benches.bars.sides import OURS

Measured: TypeAlias = tuple[str, str, str, list[float]]
Entries: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

ENTRIES = 50_000
BATCH = 10_000


def measure() -> Iterator[Measured]:
    """Measure every figure of this process."""
    shuffled = np.random.default_rng(42).permutation(ENTRIES)
    for order, entries in (("in order", np.arange(BATCH)), ("at random", shuffled[:BATCH])):
        yield from _scalar(order, entries)
        yield from _batch(order, entries)
    flat = _flat()
    yield OURS, "python", "bytes", [_filled().nbytes / ENTRIES]
    yield "dict", "python", "bytes", [_bytes_of(flat)]


# The statement of each side for every key, as users write it.
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
    # The add prepares the next removal; it is on both sides.
    "remove + add": {
        OURS: "pending.remove(ledger_id, entry_id); pending.add(ledger_id, entry_id, 1, entry_id)",
        "bare call": "bare.two(ledger_id, entry_id); bare.four(ledger_id, entry_id, 1, entry_id)",
        "dict": "del flat[ledger_id, entry_id]; flat[ledger_id, entry_id] = 1, entry_id",
    },
}


def _loop(statement: str, names: dict[str, Any]) -> Callable[[], object]:
    """Return a function that runs a statement for every key, like `timeit`."""
    code = f"def loop():\n  for ledger_id, entry_id in keys:\n    {statement}"
    exec(code, names)
    loop: Callable[[], object] = names["loop"]
    return loop


def _flat() -> dict[tuple[int, int], tuple[int, int]]:
    return {(1, entry): (1, entry) for entry in range(ENTRIES)}


def _scalar(order: str, entries: Entries) -> Iterator[Measured]:
    flat = _flat()
    names = {
        # The objects are in memory in the order of use, like those of the peers.
        "keys": [(1, entry) for entry in entries.tolist()],
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
            yield side, f"python {order}", operation, [value - loop for value in values]


def _batch(order: str, entries: Entries) -> Iterator[Measured]:
    pending = _filled()
    ledgers, ones = np.ones_like(entries), np.ones_like(entries)
    hashes = 31 * entries

    samples = alternate(
        {
            "add_many": lambda: pending.add_many(ledgers, entries, ones, hashes),
            "contains_many": lambda: pending.contains_many(ledgers, entries),
            "get_many": lambda: pending.get_many(ledgers, entries),
        },
        per=len(entries),
    )
    samples["remove_many"] = afresh(
        pending.copy, lambda pending: pending.remove_many(ledgers, entries), per=len(entries)
    )
    samples["add_many, new"] = afresh(
        PendingAcks, lambda empty: empty.add_many(ledgers, entries, ones, hashes), per=len(entries)
    )
    for operation, values in samples.items():
        yield OURS, f"python {order}", operation, values


def _filled() -> PendingAcks:
    pending = PendingAcks()
    ids = np.arange(ENTRIES)
    pending.add_many(np.ones_like(ids), ids, (ids & 15) + 1, 31 * ids)
    return pending


def _bytes_of(flat: dict[tuple[int, int], tuple[int, int]]) -> float:
    """Return the bytes per entry of a dict, with its tuples and the integers that Python does not share."""
    tuples = sum(sys.getsizeof(key) + sys.getsizeof(value) for key, value in flat.items())
    integers = sum(sys.getsizeof(entry) for _, entry in flat if entry > 256)
    return (sys.getsizeof(flat) + tuples + integers) / len(flat)
