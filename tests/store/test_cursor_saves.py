"""A cursor saved and loaded is the cursor, in both engines, from whichever store."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import ackwell
from ackwell import Cursor, reference
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore

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
    cursor.save(MemoryStore(ledger))
    store = MemoryStore(ledger)
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
    assert cursor.recovery.deltas == 5
    cursor.reset(3, 1)
    assert cursor.save(store).kind == "full"


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
