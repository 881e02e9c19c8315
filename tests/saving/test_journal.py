"""Saves of a cursor: the written entries, the kept entries, and the owner of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackwell import (
    FencedError,
    NotLoadedError,
    PositionInfo,
    StoreError,
)
from ackwell.saving.journal import Journal, SaveResult
from ackwell.saving.source import FixedSource
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.helpers import loaded, saved
from tests.saving.saves import states

if TYPE_CHECKING:
    from ackwell.saving.recovery import Recovery


def test_a_save_of_nothing_new_writes_nothing() -> None:
    store = MemoryStore()
    journal = Journal(store)
    assert journal.save(PositionInfo(3, 5)).kind == "full"
    assert journal.save(PositionInfo(3, 5)) == SaveResult("unchanged", 0, 0)
    assert store.last_id == 0


def test_a_source_that_did_not_change_writes_nothing() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    assert journal.save_source(FixedSource(PositionInfo(3, 5))).kind == "full"
    assert journal.save_source(FixedSource(PositionInfo(3, 5))) == SaveResult("unchanged", 0, 0)
    assert len(ledger.entries) == 1


def test_what_lies_before_the_last_full_save_but_one_is_deleted() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form="pulsar-ranges", entry_bytes_max=8)
    last: list[int] = []
    for state in states(3, 20):
        saved = journal.save(state)
        last = [*last[-1:], saved.entries]
        assert len(ledger.entries) == sum(last)
    assert ledger.first_id > 20


def test_an_owner_that_loads_again_builds_on_what_another_saved() -> None:
    lives = list(states(4, 12, resets=False))
    ledger = saved(*lives[:3])
    journal = Journal(MemoryStore(ledger))
    journal.load()
    for index in range(3, 10, 3):
        journal.save(lives[index])
        other = Journal(MemoryStore(ledger))
        other.load()
        other.save(lives[index + 1])
        # A fenced journal can load the present state but cannot save; with a new store it can.
        journal._store = MemoryStore(ledger)
        journal.load()
        assert journal.save(lives[index + 2]).kind == "delta"
        assert loaded(ledger) == lives[index + 2]


def test_a_save_after_an_error_is_a_full_one() -> None:
    class FullDisk(MemoryStore):
        full = False

        def append(self, data: bytes) -> int:
            if self.full:
                raise StoreError("disk full")
            return super().append(data)

    ledger = MemoryLedger()
    store = FullDisk(ledger)
    journal = Journal(store)
    for entry_id in (5, 6, 7):
        journal.save(PositionInfo(3, entry_id))
    store.full = True
    with pytest.raises(StoreError):
        journal.save(PositionInfo(3, 8))
    assert loaded(ledger) == PositionInfo(3, 7)
    store.full = False
    assert journal.save(PositionInfo(3, 9)).kind == "full"
    assert journal.save(PositionInfo(3, 10)).kind == "delta"
    assert loaded(ledger) == PositionInfo(3, 10)


def test_nothing_saved_is_no_state() -> None:
    recovery = Journal(MemoryStore()).load()
    assert recovery.position_info is None
    assert recovery.saved_as is None
    assert str(recovery) == "read 0 entries, 0 bytes\nthe store has no complete save"


def test_loading_reads_every_second_delta() -> None:
    ledger = saved(*(PositionInfo(3, entry_id) for entry_id in range(102)))
    recovery = Journal(MemoryStore(ledger)).load()
    assert (recovery.position_info, recovery.deltas, recovery.entries_read) == (PositionInfo(3, 101), 50, 51)
    assert (recovery.form, recovery.full_first_id, recovery.full_last_id) == ("compact", 1, 1)
    assert (recovery.entry_id, recovery.last_id, recovery.damaged, recovery.skipped) == (101, 101, (), ())
    assert recovery.bytes_read == recovery.full_bytes + recovery.delta_bytes
    assert "the state of entry 101: compact" in str(recovery)


def test_a_save_over_what_was_not_loaded_is_refused_and_neither_writes_nor_fences() -> None:
    ledger = MemoryLedger()
    owner = Journal(MemoryStore(ledger))
    owner.save(PositionInfo(3, 5))
    store = MemoryStore(ledger)
    journal = Journal(store)
    with pytest.raises(NotLoadedError, match=r"holds saves that were not loaded.*replace=True"):
        journal.save(PositionInfo(0, -1))
    assert (store.generation, ledger.generation, ledger.last_id) == (0, 1, 0)
    owner.save(PositionInfo(3, 6))
    assert loaded(ledger) == PositionInfo(3, 6)
    assert journal.save(PositionInfo(3, 7), replace=True).kind == "full"
    assert loaded(ledger) == PositionInfo(3, 7)
    # Replaced entries stay until the next full save is complete.
    assert ledger.first_id == 0
    with pytest.raises(FencedError):
        owner.save(PositionInfo(3, 8))


def test_two_journals_on_one_store_never_overwrite_each_other() -> None:
    store = MemoryStore()
    one, other = Journal(store), Journal(store)
    one.save(PositionInfo(3, 5))
    other.load()
    other.save(PositionInfo(3, 6))
    with pytest.raises(NotLoadedError, match="was written to since"):
        one.save(PositionInfo(3, 7))
    assert Journal(store).load().position_info == PositionInfo(3, 6)
    one.load()
    one.save(PositionInfo(3, 7))
    with pytest.raises(NotLoadedError, match="was written to since"):
        other.save(PositionInfo(3, 6))
    assert other.save(PositionInfo(3, 8), replace=True).kind == "full"
    assert Journal(store).load().position_info == PositionInfo(3, 8)


def test_an_owner_that_saves_while_another_loads_is_read_again() -> None:
    ledger = MemoryLedger()
    owner = Journal(MemoryStore(ledger))
    owner.save(PositionInfo(3, 5))

    class SlowStore(MemoryStore):
        def own(self) -> None:
            if not self.generation:
                owner.save(PositionInfo(3, 6))
            super().own()

    assert Journal(SlowStore(ledger)).load().position_info == PositionInfo(3, 6)
    owner = Journal(MemoryStore(empty := MemoryLedger()))
    with pytest.raises(NotLoadedError, match="another owner during this save"):
        Journal(SlowStore(empty)).save(PositionInfo(3, 5))
    assert loaded(empty) == PositionInfo(3, 6)


def test_a_read_only_store_is_loaded_and_not_owned() -> None:
    ledger = saved(PositionInfo(3, 5))
    store = MemoryStore(ledger, read_only=True)
    journal = Journal(store)
    assert journal.load().position_info == PositionInfo(3, 5)
    assert ledger.generation == 1
    with pytest.raises(StoreError, match="read-only"):
        journal.save(PositionInfo(3, 6))


def test_a_builder_that_refuses_a_state_leaves_the_owner_its_store() -> None:
    ledger = saved(PositionInfo(3, 5))
    store = MemoryStore(ledger)

    def build(found: Recovery) -> None:
        assert found.position_info is not None
        raise ValueError(str(found.position_info.position))

    with pytest.raises(ValueError, match="3:5"):
        Journal(store).load_as(build)
    assert (store.generation, ledger.generation) == (0, 1)
