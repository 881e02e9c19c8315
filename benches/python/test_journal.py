"""The cost of a save after one acknowledgment, and of a load, for a cursor with a million ranges.

Saves are measured in memory, and synced to a disk.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ackwell import Ledgers, PositionInfo, PositionRangeSet
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore
from ackwell.subscription import Subscription

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from ackwell.store import Store

RANGES = 1_000_000
SAVES = 500


def alternating() -> PositionRangeSet:
    acked = PositionRangeSet()
    acked.add_many(np.full(RANGES, 3), np.arange(RANGES) * 2 + 1)
    return acked


@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_save_one_ack(benchmark: BenchmarkFixture, tmp_path: Path, place: str) -> None:
    store: Store = MemoryStore() if place == "memory" else SqliteStore(tmp_path / "acks.db")
    acked, entry_ids = alternating(), itertools.count(0, 2)
    journal = Journal(store)
    journal.save(PositionInfo(3, -1, acked))
    # A delta needs two saves to build on.
    acked.add(3, next(entry_ids) + 2)
    journal.save(PositionInfo(3, -1, acked))

    def save() -> None:
        acked.add(3, next(entry_ids) + 2)
        assert journal.save(PositionInfo(3, -1, acked)).kind == "delta"

    benchmark.group = "save one ack beside a million ranges"
    benchmark.pedantic(save, rounds=SAVES)  # type: ignore[no-untyped-call]
    benchmark.extra_info["entry_bytes"] = len(store.read(store.last_id))


def test_load(benchmark: BenchmarkFixture) -> None:
    ledger, acked = MemoryLedger(), alternating()
    journal = Journal(MemoryStore(ledger))
    for entry_id in range(100):
        acked.add(3, 2 * entry_id + 2)
        journal.save(PositionInfo(3, -1, acked))
    benchmark.group = "load a million ranges after 100 saves"
    assert benchmark(lambda: Journal(MemoryStore(ledger)).load()).deltas == 49


@pytest.mark.parametrize("what", ["redelivery count", "ack set"])
def test_save_one_change_beside_50_000(benchmark: BenchmarkFixture, what: str) -> None:
    many = 50_000
    subscription, store = Subscription("Shared", Ledgers({3: 4 * many})), MemoryStore()
    subscription.add_consumer("a")
    subscription.flow("a", 10 * many)
    ids = subscription.next_reads_many(2 * many, 0)
    subscription.dispatch_many(*ids, 0)
    entry_ids = itertools.count(1, 2)
    subscription.redeliver("a", [(3, 2 * number + 1) for number in range(many)])
    for number in range(many):
        subscription.ack(None, 3, 2 * many + number, (6,))

    def change() -> None:
        entry_id = next(entry_ids)
        if what == "ack set":
            subscription.ack(None, 3, 2 * many + entry_id, (4,))
        else:
            subscription.dispatch(3, entry_id, now_ms=0)
            subscription.redeliver("a", [(3, entry_id)])

    # A delta needs two saves to build on.
    for _ in range(2):
        change()
        subscription.save(store)
    benchmark.group = "save one change beside 50,000"
    benchmark.pedantic(subscription.save, (store,), setup=change, rounds=SAVES)  # type: ignore[no-untyped-call]
    assert len(store.read(store.last_id)) < 200
