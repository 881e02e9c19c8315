"""What one more ack costs to save beside a million ranges, in memory and synced to a disk; and loading."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ackwell import PositionInfo, PositionRangeSet
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore

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
