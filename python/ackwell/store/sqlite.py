"""Ledgers in an SQLite file: the embedded default, with nothing but the standard library.

One file holds any number of ledgers, each with its name. The journal is a write-ahead log and
`synchronous` is FULL, so a commit is on the disk when it returns, and a crash anywhere leaves the
last commit. Each write checks the generation inside its own transaction: SQLite admits one writer
at a time, so no older owner can write between check and write, from whichever process.

The write-ahead log needs shared memory: keep the file on a local disk, not on a network one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import (
    Store,
    checked_entry,
    checked_id,
    checked_metadata,
    checked_name,
    require_writable,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

#: How every SQLite file begins.
FILE_MAGIC = b"SQLite format 3\0"
#: How every rollback journal begins; 8 bytes after it is the number of pages that the file had before.
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGES_BEFORE = slice(16, 20)
# "ackw": marks the file as ours where SQLite keeps such marks, in bytes 68 to 71 of its header.
APPLICATION_ID = 0x61636B77
VERSION = 1
HEADER_BYTES = 100
VERSION_AT, APPLICATION_ID_AT = 60, 68
# SQLite's integers, and so the ids of entries, are int64.
ID_END = 1 << 63

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
TABLES = {"ledger", "metadata", "entry"}


class SqliteStore(Store):
    """The ledger `name` in the file at `path`.

    A missing file is created empty; tables and the ledger are created when it is first owned. Any other
    database is refused (`StoreError`) and left as it is.

    Parameters
    ----------
    path
        The file. SQLite keeps `-wal` and `-shm` files beside it while it is open.
    name
        Which ledger of the file, for example `"topic/subscription"`.
    timeout_s
        How long a call waits for another process that is writing to the same file, before it
        raises `StoreError`.
    read_only
        Open an existing ledger for reading alone, also while another process owns it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str = "cursor",
        *,
        timeout_s: float = 5.0,
        read_only: bool = False,
    ) -> None:
        self._path = Path(path)
        self._name = checked_name(name)
        self.read_only = read_only
        self._generation = 0
        self._key: int | None = None
        self._closed = False
        self._connection = _connect(self._path, timeout_s, read_only=read_only)
        try:
            with _errors(self._path):
                # FULL syncs the log at each commit; `fullfsync` does on macOS what `fsync` promises there.
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("PRAGMA fullfsync = ON")
            self._find()
            if read_only:
                # One transaction to the end, so that all reads are of one moment.
                self._connection.execute("BEGIN")
                self._row()
            if read_only and self._key is None:
                raise StoreError(f"{self._path}: no ledger {name!r}; here are {ledger_names(self._path)}")
        except BaseException:
            self._connection.close()
            raise

    @property
    def generation(self) -> int:
        return self._generation

    def own(self) -> None:
        require_writable(self)
        if self._generation:
            self._require_newest()
            return
        self._create_tables()
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO ledger (name) VALUES (?)", [self._name])
            connection.execute("UPDATE ledger SET generation = generation + 1 WHERE name = ?", [self._name])
            key, generation = connection.execute(
                "SELECT key, generation FROM ledger WHERE name = ?", [self._name]
            ).fetchone()
        self._key, self._generation = key, generation

    @property
    def metadata(self) -> Mapping[str, bytes]:
        with _errors(self._path):
            if self._find() is None:
                return MappingProxyType({})
            rows = self._connection.execute(
                "SELECT name, value FROM metadata WHERE ledger = ? ORDER BY name", [self._key]
            )
            return MappingProxyType(dict(rows.fetchall()))

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        replaced = checked_metadata(metadata)
        with self._owner_transaction() as connection:
            connection.execute("DELETE FROM metadata WHERE ledger = ?", [self._key])
            connection.executemany(
                "INSERT INTO metadata VALUES (?, ?, ?)",
                [(self._key, name, value) for name, value in replaced.items()],
            )

    @property
    def first_id(self) -> int:
        return self._row()[1]

    @property
    def last_id(self) -> int:
        return self._row()[2]

    def append(self, data: bytes) -> int:
        entry = checked_entry(data)
        with self._owner_transaction() as connection:
            entry_id = self._row()[2] + 1
            connection.execute("INSERT INTO entry VALUES (?, ?, ?)", [self._key, entry_id, entry])
            connection.execute("UPDATE ledger SET last_id = ? WHERE key = ?", [entry_id, self._key])
        return entry_id

    def read(self, entry_id: int) -> bytes:
        entry_id = checked_id(entry_id)
        row = None
        with _errors(self._path):
            if self._find() is not None and 0 <= entry_id < ID_END:
                row = self._connection.execute(
                    "SELECT data FROM entry WHERE ledger = ? AND id = ?", [self._key, entry_id]
                ).fetchone()
        if row is None:
            raise KeyError(entry_id)
        return bytes(row[0])

    def delete_up_to(self, entry_id: int) -> None:
        entry_id = max(checked_id(entry_id), -1)
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
        self._closed = True
        self._connection.close()

    def _find(self) -> int | None:
        """Return the key of the ledger; None if it does not exist yet. Another database is refused."""
        if self._closed:
            raise StoreError("the store is closed")
        if self._key is None:
            with _errors(self._path):
                if not self._is_empty():
                    self._require_tables()
                    row = self._connection.execute(
                        "SELECT key FROM ledger WHERE name = ?", [self._name]
                    ).fetchone()
                    self._key = row and row[0]
        return self._key

    def _is_empty(self) -> bool:
        """Return whether the file is new: without tables, and not even marked as ours."""
        marks = self._value("PRAGMA application_id"), self._value("SELECT count(*) FROM sqlite_schema")
        return marks == (0, 0)

    def _require_tables(self) -> None:
        _require_tables(self._path, self._connection)

    def _create_tables(self) -> None:
        """Create the tables in an empty file. They come first, so no crash leaves a file of nobody's."""
        with self._transaction() as connection:
            if self._is_empty():
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
            else:
                self._require_tables()
        with _errors(self._path):
            if self._value("PRAGMA journal_mode") != "wal":
                self._connection.execute("PRAGMA journal_mode = WAL")

    def _row(self) -> tuple[int, int, int]:
        """Return the ledger's generation, first and last id.

        In a damaged file the last id may be too low: ids before the first one are never used again.
        """
        with _errors(self._path):
            if self._find() is None:
                return 0, 0, -1
            row: tuple[int, int, int] | None = self._connection.execute(
                "SELECT generation, first_id, max(last_id, first_id - 1) FROM ledger WHERE key = ?",
                [self._key],
            ).fetchone()
        if row is None:
            raise StoreError(f"{self._path}: ledger {self._name!r} is not whole; the file is damaged")
        return row

    def _value(self, statement: str) -> object:
        with _errors(self._path):
            return self._connection.execute(statement).fetchone()[0]

    def _require_newest(self) -> None:
        """Raise `FencedError` if a newer owner has taken the ledger."""
        generation = self._row()[0]
        if generation != self._generation:
            raise FencedError(f"generation {self._generation} was fenced by generation {generation}")

    @contextmanager
    def _owner_transaction(self) -> Iterator[sqlite3.Connection]:
        """Make a transaction in which this owner is known to be the newest."""
        if not self._generation:
            self.own()
        with self._transaction() as connection:
            self._require_newest()
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Make a transaction that admits no other writer; roll it back when its body raises."""
        with _errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def ledger_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the ledgers in a file, in order. The file is only read."""
    path = Path(path)
    with _errors(path), closing(_connect(path, 5.0, read_only=True)) as connection:
        _require_tables(path, connection)
        return [name for (name,) in connection.execute("SELECT name FROM ledger ORDER BY name")]


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Raise what SQLite raises as `StoreError`."""
    try:
        yield
    # A message that quotes damaged text cannot be decoded.
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: {error}") from error


def _connect(path: Path, timeout_s: float, *, read_only: bool) -> sqlite3.Connection:
    """Open the file, after reading its header: SQLite itself may change a file that it only opens."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        header = b""
        if read_only:
            raise StoreError(f"{path}: no such file") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if read_only or (header and not _never_committed(path)):
        _require_ours(path, header)
    mode = "ro" if read_only else "rwc"
    try:
        # Autocommit: every transaction is opened and ended by hand.
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _never_committed(path: Path) -> bool:
    """Return whether the first transaction ever was cut short: SQLite then makes the file empty again."""
    try:
        with path.with_name(f"{path.name}-journal").open("rb") as file:
            header = file.read(PAGES_BEFORE.stop)
    except OSError:
        return False
    return header.startswith(JOURNAL_MAGIC) and header[PAGES_BEFORE] == bytes(4)


def _require_ours(path: Path, header: bytes) -> None:
    """Raise `StoreError` for a file that is not ours, or of another version."""
    if len(header) < HEADER_BYTES or not header.startswith(FILE_MAGIC):
        raise StoreError(f"{path}: not an SQLite database")
    version, application_id = (
        int.from_bytes(header[at : at + 4], "big") for at in (VERSION_AT, APPLICATION_ID_AT)
    )
    if application_id != APPLICATION_ID:
        raise StoreError(f"{path}: not a file of ackwell's ledgers, but another program's database")
    _require_version(path, version)


def _require_tables(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `StoreError` for a file that is marked as ours and lacks our tables, or of another version."""
    # The header may be older than the log.
    _require_version(path, connection.execute("PRAGMA user_version").fetchone()[0])
    if not {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")} >= TABLES:
        raise StoreError(f"{path}: marked as ackwell's, but without its tables")


def _require_version(path: Path, version: int) -> None:
    if version != VERSION:
        raise StoreError(f"{path}: written in version {version}; this ackwell reads {VERSION}")
