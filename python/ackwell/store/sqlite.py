"""Ledgers in an SQLite file: the embedded default, with nothing but the standard library.

One file holds any number of ledgers, told apart by name. The journal is a write-ahead log and
`synchronous` is FULL, so a commit is on the disk when it returns and a crash anywhere leaves the
last commit. Each write checks the generation inside its own transaction: SQLite admits one writer
at a time, so no older owner can slip in between check and write, from whichever process.

The write-ahead log needs shared memory: keep the file on a local disk, not on a network one.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

# "ackw": marks the file as ours where SQLite keeps such marks, in bytes 68 to 71 of its header.
APPLICATION_ID = 0x61636B77
VERSION = 1

SCHEMA = f"""
CREATE TABLE ledger (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL DEFAULT 0,
    first_id INTEGER NOT NULL DEFAULT 0,
    last_id INTEGER NOT NULL DEFAULT -1
);
CREATE TABLE metadata (
    ledger INTEGER NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (ledger, name)
);
CREATE TABLE entry (
    ledger INTEGER NOT NULL, id INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (ledger, id)
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""


class SqliteStore(Store):
    """An owner of the ledger `name` in the file at `path`, which is created when missing.

    Parameters
    ----------
    path
        The file; SQLite keeps `-wal` and `-shm` files beside it while it is open.
    name
        Which ledger of the file, for example `"topic/subscription"`.
    timeout_s
        How long a call waits for another process that is writing to the same file, before it
        raises `StoreError`.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "cursor", *, timeout_s: float = 5.0) -> None:
        self._path = Path(path)
        with self._errors():
            # Autocommit: every transaction below is opened and ended by hand.
            self._connection = sqlite3.connect(
                self._path, timeout=timeout_s, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare()
            self._key, self._generation = self._own(name)
        except BaseException:
            self._connection.close()
            raise

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def metadata(self) -> Mapping[str, bytes]:
        with self._errors():
            rows = self._connection.execute(
                "SELECT name, value FROM metadata WHERE ledger = ? ORDER BY name", [self._key]
            )
            return MappingProxyType(dict(rows.fetchall()))

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        rows = [(self._key, name, bytes(value)) for name, value in metadata.items()]
        with self._owner_transaction() as connection:
            connection.execute("DELETE FROM metadata WHERE ledger = ?", [self._key])
            connection.executemany("INSERT INTO metadata VALUES (?, ?, ?)", rows)

    @property
    def first_id(self) -> int:
        return self._row()[1]

    @property
    def last_id(self) -> int:
        return self._row()[2]

    def append(self, data: bytes) -> int:
        with self._owner_transaction() as connection:
            entry_id = self._row()[2] + 1
            connection.execute("INSERT INTO entry VALUES (?, ?, ?)", [self._key, entry_id, bytes(data)])
            connection.execute("UPDATE ledger SET last_id = ? WHERE key = ?", [entry_id, self._key])
        return entry_id

    def read(self, entry_id: int) -> bytes:
        with self._errors():
            row = self._connection.execute(
                "SELECT data FROM entry WHERE ledger = ? AND id = ?", [self._key, entry_id]
            ).fetchone()
        if row is None:
            raise KeyError(entry_id)
        return bytes(row[0])

    def delete_up_to(self, entry_id: int) -> None:
        with self._owner_transaction() as connection:
            _, first_id, last_id = self._row()
            if entry_id > last_id:
                raise ValueError(f"entry {entry_id} is beyond the last, {last_id}")
            connection.execute("DELETE FROM entry WHERE ledger = ? AND id <= ?", [self._key, entry_id])
            connection.execute(
                "UPDATE ledger SET first_id = ? WHERE key = ?",
                [max(first_id, entry_id + 1), self._key],
            )

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        """Create the tables in a new file; refuse a file that is not ours, or newer than this."""
        # FULL syncs the log at each commit; `fullfsync` does on macOS what `fsync` promises there.
        self._execute("PRAGMA synchronous = FULL")
        self._execute("PRAGMA fullfsync = ON")
        if self._value("PRAGMA journal_mode") != "wal":
            self._execute("PRAGMA journal_mode = WAL")
        with self._transaction():
            if self._value("SELECT count(*) FROM sqlite_schema") == 0:
                for statement in SCHEMA.split(";"):
                    self._connection.execute(statement)
            if self._value("PRAGMA application_id") != APPLICATION_ID:
                raise StoreError(f"{self._path}: not a file of ackwell's ledgers")
            version = self._value("PRAGMA user_version")
            if version != VERSION:
                raise StoreError(f"{self._path}: written in version {version}; this ackwell reads {VERSION}")

    def _own(self, name: str) -> tuple[int, int]:
        """Take the ledger, made where missing, under the next generation: its key and that."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO ledger (name) VALUES (?)", [name])
            connection.execute("UPDATE ledger SET generation = generation + 1 WHERE name = ?", [name])
            key, generation = connection.execute(
                "SELECT key, generation FROM ledger WHERE name = ?", [name]
            ).fetchone()
            return key, generation

    def _row(self) -> tuple[int, int, int]:
        """The ledger's generation, first and last id, as they stand in the file."""
        with self._errors():
            generation, first_id, last_id = self._connection.execute(
                "SELECT generation, first_id, last_id FROM ledger WHERE key = ?", [self._key]
            ).fetchone()
            return generation, first_id, last_id

    def _value(self, statement: str) -> object:
        with self._errors():
            return self._connection.execute(statement).fetchone()[0]

    def _execute(self, statement: str) -> None:
        with self._errors():
            self._connection.execute(statement)

    @contextmanager
    def _owner_transaction(self) -> Iterator[sqlite3.Connection]:
        """Make a transaction in which this owner is known to be the newest."""
        with self._transaction() as connection:
            generation = self._row()[0]
            if generation != self._generation:
                raise FencedError(f"generation {self._generation} was fenced by generation {generation}")
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Make a transaction that admits no other writer; roll it back when its body raises."""
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what SQLite raises as `StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error
