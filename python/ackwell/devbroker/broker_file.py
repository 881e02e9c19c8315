"""The SQLite file of a broker. It contains the entries, cursors and facts that survive a killed process.

A *fact* is any other persistent value, such as a policy or a schema.

The commands that arrive together form one SQLite transaction. The broker commits the transaction before it
sends the receipts of these commands. Every message with a receipt therefore survives `kill -9`. Cursors are
saved in ackwell's own format, which loses nothing and includes open transactions. `persistent_map` reads and
writes the facts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell import PositionInfo
from ackwell.devbroker.entry import LogEntry
from ackwell.errors import StoreError
from ackwell.object_paths import local_path
from ackwell.protocol.command_ack import TransactionId
from ackwell.regular_files import require_regular

if TYPE_CHECKING:
    import os

APPLICATION_ID: Final = 0x61636462
"""The SQLite `application_id` of a dev broker's file: the letters `acdb`."""

VERSION: Final = 1

_SCHEMA: Final = f"""
CREATE TABLE entry (
    topic TEXT NOT NULL, ledger INTEGER NOT NULL, id INTEGER NOT NULL, data BLOB NOT NULL,
    batch_size INTEGER NOT NULL, publish_ms INTEGER NOT NULL, deliver_at_ms INTEGER NOT NULL,
    most TEXT, least TEXT, marker INTEGER NOT NULL,
    PRIMARY KEY (topic, ledger, id)
) WITHOUT ROWID;
CREATE TABLE cursor (
    topic TEXT NOT NULL, subscription TEXT NOT NULL, type TEXT NOT NULL, properties TEXT NOT NULL,
    state BLOB NOT NULL, PRIMARY KEY (topic, subscription)
) WITHOUT ROWID;
CREATE TABLE fact (
    kind TEXT NOT NULL, topic TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, topic, name)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""


class SavedCursor(NamedTuple):
    """The saved state of one subscription."""

    subscription: str
    type: str
    properties: dict[str, str]
    info: PositionInfo


class BrokerFile:
    """The SQLite file of one broker.

    If another broker already uses the file, opening it raises `StoreError`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = local_path(path)
        require_regular(self._path)
        with self._errors():
            self._connection = sqlite3.connect(
                self._path, timeout=0.1, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        # Only one broker may open the file. A commit does not wait for a sync, because the cache of the
        # operating system survives a killed process.
        execute("PRAGMA locking_mode = EXCLUSIVE")
        self._check()
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("BEGIN IMMEDIATE")
        if execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";"):
                execute(statement)
        execute("COMMIT")

    def _check(self) -> None:
        """Check that the file is empty or belongs to a dev broker of this version. `StoreError` otherwise."""
        execute = self._connection.execute
        names = ("application_id", "user_version")
        found = tuple(execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        is_empty = execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0 and found == (0, 0)
        # SQLite accepts a file of one byte as an empty database. Such a file is refused.
        if not (is_empty or found == (APPLICATION_ID, VERSION)) or self._path.stat().st_size == 1:
            raise StoreError(f"{self._path}: not a dev broker's file, or of another version")

    # Writing

    def append(self, topic: str, ledger_id: int, entry_id: int, entry: LogEntry) -> None:
        """Write one entry of a topic."""
        most, least = (None, None) if entry.transaction is None else map(str, entry.transaction)
        self._write(
            "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                topic,
                ledger_id,
                entry_id,
                entry.data,
                entry.batch_size,
                entry.publish_ms,
                entry.deliver_at_ms,
                most,
                least,
                entry.marker,
            ),
        )

    def trim(self, topic: str, before_ledger_id: int) -> None:
        """Delete all ledgers of a topic with ids below `before_ledger_id`."""
        self._write("DELETE FROM entry WHERE topic = ? AND ledger < ?", (topic, before_ledger_id))

    def forget_topic(self, name: str) -> None:
        """Delete all entries, cursors and facts of a topic."""
        for table in ("entry", "cursor", "fact"):
            self._write(f"DELETE FROM {table} WHERE topic = ?", (name,))

    def cursor(self, topic: str, saved: SavedCursor) -> None:
        """Write the state of one subscription."""
        state, properties = saved.info.encode("compact"), json.dumps(saved.properties)
        row = topic, saved.subscription, saved.type, properties, state
        self._write("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?, ?)", row)

    def forget_cursor(self, topic: str, subscription: str) -> None:
        """Delete the state of one subscription."""
        self._write("DELETE FROM cursor WHERE topic = ? AND subscription = ?", (topic, subscription))

    def put(self, kind: str, topic: str, name: str, value: Any) -> None:
        """Write a fact. The value is stored as JSON. For a fact about the broker, `topic` is empty."""
        self._write("INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)", (kind, topic, name, json.dumps(value)))

    def delete(self, kind: str, topic: str, name: str) -> None:
        """Delete a fact."""
        self._write("DELETE FROM fact WHERE kind = ? AND topic = ? AND name = ?", (kind, topic, name))

    def commit(self) -> None:
        """Commit all changes.

        The changes survive if the process is killed, because the operating system has them in its cache.
        """
        if self._connection.in_transaction:
            with self._errors():
                self._connection.execute("COMMIT")

    def close(self) -> None:
        """Commit all changes and close the file."""
        self.commit()
        self._connection.close()

    # Reading

    def ledgers(self, topic: str) -> dict[int, list[LogEntry]]:
        """Return the entries of a topic, by ledger id."""
        found: dict[int, list[LogEntry]] = {}
        columns = "ledger, data, batch_size, publish_ms, deliver_at_ms, most, least, marker"
        rows = self._rows(f"SELECT {columns} FROM entry WHERE topic = ? ORDER BY ledger, id", topic)
        for ledger_id, data, size, publish_ms, deliver_at_ms, most, least, marker in rows:
            transaction = None if most is None else TransactionId(int(most), int(least))
            entry = LogEntry(data, size, publish_ms, deliver_at_ms, transaction, marker=marker)
            found.setdefault(ledger_id, []).append(entry)
        return found

    def cursors(self, topic: str) -> list[SavedCursor]:
        """Return the saved cursors of a topic."""
        rows = self._rows("SELECT subscription, type, properties, state FROM cursor WHERE topic = ?", topic)
        return [
            SavedCursor(name, kind, json.loads(properties), PositionInfo.decode(state))
            for name, kind, properties, state in rows
        ]

    def facts(self, kind: str, topic: str) -> dict[str, Any]:
        """Return all facts of one kind, by name."""
        rows = self._rows("SELECT name, value FROM fact WHERE kind = ? AND topic = ?", kind, topic)
        return {name: json.loads(value) for name, value in rows}

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._errors():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(statement, values)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error
