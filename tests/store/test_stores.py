"""The stores that need nothing installed, held to the public conformance suite."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ackwell import FencedError, StoreError
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore, Store
from ackwell.store.sqlite import VERSION
from ackwell.testing.stores import Opener, StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def new_ledger(self) -> Callable[[], Opener]:
        def new() -> Opener:
            ledger = MemoryLedger()
            return lambda: MemoryStore(ledger)

        return new


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def new_ledger(self, tmp_path: Path) -> Callable[[], Opener]:
        numbers = itertools.count()

        def new() -> Opener:
            path = tmp_path / f"{next(numbers)}.db"
            return lambda: SqliteStore(path)

        return new


class TestSqliteStoreWithManyLedgersInOneFile(StoreConformance):
    @pytest.fixture
    def new_ledger(self, tmp_path: Path) -> Callable[[], Opener]:
        numbers = itertools.count()

        def new() -> Opener:
            name = f"topic/subscription-{next(numbers)}"
            return lambda: SqliteStore(tmp_path / "acks.db", name)

        return new


def test_every_commit_is_synced_to_the_log(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "acks.db")
    assert store._value("PRAGMA journal_mode") == "wal"
    assert store._value("PRAGMA synchronous") == 2
    store.close()


def test_a_write_leaves_no_transaction_open_when_it_refuses(tmp_path: Path) -> None:
    old = SqliteStore(tmp_path / "acks.db")
    new = SqliteStore(tmp_path / "acks.db")
    with pytest.raises(FencedError, match="generation 1 was fenced by generation 2"):
        old.append(b"late")
    assert new.append(b"a") == 0


def test_another_writer_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    store = SqliteStore(path, timeout_s=0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        store.append(b"a")
    other.execute("ROLLBACK")
    assert store.append(b"a") == 0


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 200])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "acks.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"acks\.db"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="not a file of ackwell"):
        SqliteStore(path)


def test_a_newer_version_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match=f"version {VERSION + 1}"):
        SqliteStore(path)


def test_a_missing_folder_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        SqliteStore(tmp_path / "missing" / "acks.db")


def test_a_plain_object_with_the_methods_is_a_store() -> None:
    assert isinstance(MemoryStore(), Store)
    assert not isinstance(object(), Store)
