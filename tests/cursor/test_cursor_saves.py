"""A saved and loaded cursor equals the original, in both engines and every store."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ackwell
from ackwell import (
    CorruptStateError,
    Cursor,
    FencedError,
    LimitError,
    NotLoadedError,
    StateTooLargeError,
    StoreError,
)
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore
from tests import reference

ENGINES = pytest.mark.parametrize("engine", [ackwell._native, reference])
FORMS = pytest.mark.parametrize("form", ["compact", "pulsar-ranges", "pulsar-long-array", "pulsar-auto"])


@ENGINES
@FORMS
def test_a_loaded_cursor_is_the_one_that_was_saved(tmp_path: Path, engine: ModuleType, form: str) -> None:
    ledgers = engine.Ledgers({3: 100, 4: 100})
    with SqliteStore(tmp_path / "acks.db", "orders/billing") as store:
        cursor = Cursor(ledgers, engine=engine)
        for entry_id in (0, 1, 5, 9):
            cursor.ack(3, entry_id)
        cursor.ack_batch(4, 2, [0b1010])
        cursor.properties["sequence"] = 7
        cursor.save(store, form=form)
    with SqliteStore(tmp_path / "acks.db", "orders/billing") as store:
        loaded = Cursor.load(store, ledgers, form=form, engine=engine)
    assert loaded.to_position_info() == cursor.to_position_info()
    assert loaded.recovery is not None
    assert loaded.recovery.skipped == ()
    loaded.validate()


@ENGINES
def test_acks_after_a_load_are_saved_as_deltas(engine: ModuleType) -> None:
    ledger, ledgers = MemoryLedger(), engine.Ledgers({3: 100})
    cursor = Cursor(ledgers, engine=engine)
    cursor.ack(3, 5)
    store = MemoryStore(ledger)
    cursor.save(store)
    cursor.ack(3, 9)
    cursor.save(store)
    cursor = Cursor.load(store, ledgers, engine=engine)
    for entry_id in (7, 3, 0, 1, 2):
        cursor.ack(3, entry_id)
        assert cursor.save(store).kind == "delta"
        assert Cursor.load(MemoryStore(ledger), ledgers, engine=engine).to_position_info() == (
            cursor.to_position_info()
        )
        store = MemoryStore(ledger)
        cursor = Cursor.load(store, ledgers, engine=engine)
    assert cursor.recovery is not None
    assert cursor.recovery.deltas == 3
    cursor.reset(3, 1)
    assert cursor.save(store).kind == "full"


@ENGINES
def test_a_save_after_the_mark_delete_position_passed_ranges_is_a_delta(engine: ModuleType) -> None:
    ledgers, ledger = engine.Ledgers({3: 100}), MemoryLedger()
    cursor, store = Cursor(ledgers, engine=engine), MemoryStore(ledger)
    # A delta builds on two saves.
    kinds = {(1, 2, 8): "full", (20,): "full", (0,): "delta", (3, 5): "delta", (4, 6): "delta"}
    for entry_ids, kind in kinds.items():
        for entry_id in entry_ids:
            cursor.ack(3, entry_id)
        assert cursor.save(store).kind == kind
        loaded = Cursor.load(MemoryStore(ledger, read_only=True), ledgers, engine=engine)
        assert loaded.to_position_info() == cursor.to_position_info()
    assert cursor.mark_delete_position == (3, 6)


def test_an_empty_store_gives_a_new_cursor() -> None:
    cursor = Cursor.load(MemoryStore(), ackwell.Ledgers({3: 5}))
    assert cursor.mark_delete_position == (3, -1)
    assert cursor.recovery is not None
    assert cursor.recovery.position_info is None


def test_another_store_gets_the_whole_state() -> None:
    cursor = Cursor(ackwell.Ledgers({3: 5}))
    cursor.ack(3, 0)
    assert cursor.save(MemoryStore()).kind == "full"
    assert cursor.save(MemoryStore()).kind == "full"


def test_a_store_with_another_state_is_not_overwritten_unless_told_to() -> None:
    ledgers = ackwell.Ledgers({3: 5000})
    with_acks, fresh = Cursor(ledgers), Cursor(ledgers)
    ledger = MemoryLedger()
    store = MemoryStore(ledger)
    for entry_id in range(0, 5000, 2):
        with_acks.ack(3, entry_id)
    with_acks.save(store)
    with pytest.raises(NotLoadedError):
        fresh.save(MemoryStore(ledger))
    assert (ledger.generation, ledger.last_id) == (1, 0)
    with_acks.ack(3, 1)
    with_acks.save(store)
    assert Cursor.load(MemoryStore(ledger), ledgers).individually_deleted == with_acks.individually_deleted
    fresh.save(MemoryStore(ledger), replace=True)
    assert not len(Cursor.load(MemoryStore(ledger), ledgers).individually_deleted)


@ENGINES
def test_a_cursor_writes_back_what_it_loaded_and_does_not_own(engine: ModuleType) -> None:
    others = {
        "redelivery_counts": {(3, 7): 2, (3, 8): 5},
        "idle_since": 1234,
        "unknown_fields": bytes([0xF8, 0x01, 7]),
    }
    store, ledgers = MemoryStore(), engine.Ledgers({3: 100})
    Journal(store, engine=engine).save(engine.PositionInfo(3, 5, **others))
    for entry_id in (8, 20, 30):
        cursor = Cursor.load(store, ledgers, engine=engine)
        cursor.ack(3, entry_id)
        cursor.save(store)
    found = Cursor.load(store, ledgers, engine=engine).to_position_info()
    # An acknowledged entry has no redelivery count, as in a subscription.
    assert found.redelivery_counts == {(3, 7): 2}
    assert (found.idle_since, found.unknown_fields) == (1234, others["unknown_fields"])
    cursor = Cursor.load(store, ledgers, engine=engine)
    cursor.reset(3, 0)
    assert cursor.to_position_info().redelivery_counts == {}


def test_a_form_without_redelivery_counts_does_not_drop_those_that_were_loaded() -> None:
    store, ledgers = MemoryStore(), ackwell.Ledgers({3: 100})
    Journal(store).save(ackwell.PositionInfo(3, 5, redelivery_counts={(3, 7): 2}))
    cursor = Cursor.load(store, ledgers)
    cursor.ack(3, 9)
    with pytest.raises(StateTooLargeError, match="redelivery counts"):
        cursor.save(store, form="pulsar-ranges")
    assert store.last_id == 0
    assert cursor.save(store).kind == "full"


@pytest.mark.parametrize("entries", [50_000, pytest.param(750_000, marks=pytest.mark.proof)])
def test_many_partly_acknowledged_entries_are_saved_and_loaded(entries: int) -> None:
    """`make proof` saves 750,000 entries, which fit into the default limit; `make test` saves 50,000."""
    store = MemoryStore()
    info = ackwell.PositionInfo(3, -1, batch_deleted={(3, entry_id): (1,) for entry_id in range(entries)})
    Journal(store).save(info)
    loaded = Cursor.load(store, ackwell.Ledgers({3: 1_000_000}))
    assert loaded.partly_acked == entries
    assert pickle.loads(pickle.dumps(info)) == info


@ENGINES
def test_a_state_of_any_size_is_pickled(engine: ModuleType) -> None:
    """Pickles come from this process, so the limits for hostile bytes do not apply."""
    restore, arguments = engine.PositionInfo(3, 5).__reduce__()
    assert restore.keywords == {"max_bytes": sys.maxsize}
    assert restore(*arguments) == engine.PositionInfo(3, 5)
    record = engine.ManagedCursorInfo(7)
    assert pickle.loads(pickle.dumps(record)) == record
    assert record.__reduce__()[0].keywords == {"max_bytes": sys.maxsize}


def test_a_damaged_store_is_an_error_and_older_states_are_taken_when_asked_for() -> None:
    ledger, ledgers = MemoryLedger(), ackwell.Ledgers({3: 100})
    store, cursor = MemoryStore(ledger), Cursor(ledgers)
    for entry_id in (3, 5, 7):
        cursor.ack(3, entry_id)
        cursor.save(store)
    ledger.entries[2] = ledger.entries[2][:-1]
    with pytest.raises(CorruptStateError, match="take_older"):
        Cursor.load(MemoryStore(ledger), ledgers)
    older = Cursor.load(MemoryStore(ledger), ledgers, take_older=True)
    assert older.recovery is not None
    assert older.recovery.older
    assert str(older.individually_deleted) == "[(3:2..3:3],(3:4..3:5]]"


def test_a_read_only_store_gives_the_cursor_and_leaves_it_to_its_owner(tmp_path: Path) -> None:
    ledgers = ackwell.Ledgers({3: 100})
    with SqliteStore(tmp_path / "acks.db") as store:
        cursor = Cursor(ledgers)
        cursor.ack(3, 5)
        cursor.save(store)
        with SqliteStore(tmp_path / "acks.db", read_only=True) as reader:
            looked_at = Cursor.load(reader, ledgers)
            assert str(looked_at.individually_deleted) == "[(3:4..3:5]]"
            looked_at.ack(3, 6)
            with pytest.raises(StoreError, match="read-only"):
                looked_at.save(reader)
        cursor.ack(3, 7)
        cursor.save(store)
        # A load for writing changes the owner.
        Cursor.load(SqliteStore(tmp_path / "acks.db"), ledgers)
        cursor.ack(3, 9)
        with pytest.raises(FencedError):
            cursor.save(store)


def test_a_load_with_wrong_arguments_leaves_the_store_to_its_owner() -> None:
    ledger = MemoryLedger()
    owner = Journal(MemoryStore(ledger))
    for saved in (False, True):
        if saved:
            owner.save(ackwell.PositionInfo(3, 5, batch_deleted={(3, 9): (1,) * 20_000}))
        with pytest.raises((TypeError, AttributeError, LimitError)):
            Cursor.load(MemoryStore(ledger), ackwell.Ledgers({3: 100}) if saved else None)  # type: ignore[arg-type]
        assert ledger.generation == int(saved)


@pytest.mark.parametrize("wrong", [None, "acks.db", object()])
def test_anything_but_a_store_is_refused(wrong: Any) -> None:
    cursor = Cursor(ackwell.Ledgers({3: 5}))
    with pytest.raises(TypeError, match="not a store"):
        cursor.save(wrong)
    with pytest.raises(TypeError, match="not a store"):
        Cursor.load(wrong, ackwell.Ledgers({3: 5}))
