"""`PendingAcks` through its class; `benches/bars` measures it beside a bare call and Python's maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ackwell import PendingAcks
from benches.bars.workloads import section

WORKLOAD = section("pending_acks")["1x50000"]
ENTRIES = np.arange(WORKLOAD["entries"])
LEDGERS = np.zeros_like(ENTRIES)
REMAINING, HASHES = (ENTRIES & 15) + 1, 31 * ENTRIES


@pytest.fixture
def pending() -> PendingAcks:
    filled = PendingAcks()
    filled.add_many(LEDGERS, ENTRIES, REMAINING, HASHES)
    return filled


def test_add_one(benchmark: Any, pending: PendingAcks) -> None:
    assert benchmark(pending.add, 0, 25_000, 1, 7)


def test_contains_one(benchmark: Any, pending: PendingAcks) -> None:
    assert benchmark(pending.contains, 0, 25_000)


def test_get_remaining_of_one(benchmark: Any, pending: PendingAcks) -> None:
    assert benchmark(pending.get_remaining, 0, 25_000) == 9


def test_get_one(benchmark: Any, pending: PendingAcks) -> None:
    assert benchmark(pending.__getitem__, (0, 25_000)) == (9, 775_000)


def test_add_50_000(benchmark: Any) -> None:
    assert len(ENTRIES) == benchmark(lambda: PendingAcks().add_many(LEDGERS, ENTRIES, REMAINING, HASHES))


def test_get_50_000(benchmark: Any, pending: PendingAcks) -> None:
    remaining, _ = benchmark(pending.get_many, LEDGERS, ENTRIES)
    assert remaining.tolist() == REMAINING.tolist()


def test_take_all_of_50_000(benchmark: Any, pending: PendingAcks) -> None:
    taken = benchmark.pedantic(
        lambda filled: filled.take_all_up_to(0, 50_000),
        setup=lambda: ((pending.copy(),), {}),
        rounds=20,
    )
    assert len(ENTRIES) == len(taken[0])


def test_iterate_50_000(benchmark: Any, pending: PendingAcks) -> None:
    assert len(ENTRIES) == len(benchmark(lambda: list(pending)))
