"""A store whose ledger is in an SQLite file. It is the default store, and needs only the standard library.

A file contains any number of named ledgers. SQLite uses a write-ahead log, and `synchronous` is FULL. A
commit is therefore on the disk when it returns, and survives a crash. Each write checks the generation of the
owner in the same transaction. SQLite permits only one write transaction at a time, so no other process can
write between the check and the write.

Damage in one place is always detected. The store never returns an older or an empty ledger instead of the
damaged one. Each row has a checksum of its values, the ledger's name and the ledger's random identity. The
store therefore rejects a row that was changed, moved, or copied from another store. A ledger has data in
three places: in the table of the ledgers, in the table of the entries, and in the witness file
(`ackwell.store.witness`), which has the number of the ledger's last write. The store treats a ledger as new
only if none of these three places has data of the ledger.

The write-ahead log requires shared memory, so keep the file on a local disk, and not on a network file
system.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import zlib
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.errors import CorruptStateError, FencedError, StoreError
from ackwell.integers import INT64_MAX, INT64_MIN
from ackwell.object_paths import local_path
from ackwell.regular_files import require_regular
from ackwell.store.base import (
    Store,
    checked_entry,
    checked_id,
    checked_metadata,
    checked_name,
    require_writable,
)
from ackwell.store.witness import ConfirmedWrite, Witness, confirmed_writes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

#: The first bytes of SQLite's rollback journal. The bytes 16 to 20 of the journal contain the number of pages
#: that the file had before the transaction.
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGES_BEFORE = slice(16, 20)
# SQLite's `application_id` of the files of this store: the letters "ackw".
APPLICATION_ID = 0x61636B77
VERSION = 3

#: The SQL statements that create the tables. A file whose tables have other statements is damaged.
TABLES: Final = {
    "ledger": """CREATE TABLE ledger (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    identity INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    checksum INTEGER NOT NULL
)""",
    "entry": """CREATE TABLE entry (
    ledger INTEGER NOT NULL,
    id INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (ledger, id)
) WITHOUT ROWID""",
}


class Row(NamedTuple):
    """The values of a ledger: one row of the table `ledger`."""

    key: int
    name: str
    identity: int = 0
    """A random number that is chosen at the first write. The witness file also has it."""
    generation: int = 0
    first_id: int = 0
    last_id: int = -1
    writes: int = 0
    """The number of writes to the ledger. The witness file has the number of the last confirmed write."""
    metadata: str = "{}"

    def checksum(self) -> int:
        """Return the CRC-32 of the values of the row and of their types."""
        return zlib.crc32(ascii(tuple(self)).encode())


class SqliteStore(Store):
    """A store whose ledger is `name` in the file `path`.

    If the file is missing, an empty file is created. The first `own` creates the tables and the ledger.
    Raises `StoreError` for a database of another program and for a damaged ledger. They stay unchanged.

    Only one thread may use a store at a time. A write during another write raises `StoreError`.

    Parameters
    ----------
    path
        The file. While it is open, SQLite keeps two more files with the suffixes `-wal` and `-shm` next to
        it. The witness file, with the suffix `-witness`, is permanent. It has the number of the last
        confirmed write of each ledger.
    name
        The ledger in the file, for example `"topic/subscription"`.
    timeout_s
        The maximum time in seconds for which a call waits while another process writes to the file. After
        this time, the call raises `StoreError`.
    read_only
        Open the ledger only for reading. The ledger must exist. Another process may own it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str = "cursor",
        *,
        timeout_s: float = 5.0,
        read_only: bool = False,
    ) -> None:
        self._path = real_file(path)
        self._name = checked_name(name)
        self._key = _key(name)
        self._timeout_s = timeout_s
        self.read_only = read_only
        self._generation = 0
        self._ours = False
        """Whether the file has the tables of this store. The first `own` creates them."""
        self._closed = False
        self._turn = [None]
        """A lock: a list with one element. A write takes the element. If a second thread finds the list
        empty, it raises an error."""
        self._found: tuple[tuple[object, ...] | None, Row | None] = None, None
        """The values of the row that were checked last, and the `Row` for these values. If the row did not
        change, it is not checked again."""
        self._witness = Witness(self._path, self._key)
        self._begin()

    def _begin(self) -> None:
        if not self.read_only and _has_log(self._path):
            # When the last writable connection closes, SQLite empties the log, even a damaged one. A
            # read-only connection leaves the log unchanged. Check the log with it first, so that a damaged
            # log stays for a repair.
            self._open(read_only=True)
            self._connection.close()
        self._open(read_only=self.read_only)

    def _open(self, *, read_only: bool) -> None:
        self._connection = _connect(self._path, self._timeout_s, read_only=read_only)
        try:
            with _errors(self._path):
                # With FULL, SQLite syncs the log at each commit. On macOS, the data reaches the disk only
                # with `fullfsync`.
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("PRAGMA fullfsync = ON")
                self._connection.execute("PRAGMA cell_size_check = ON")
            confirmed = self._witness.confirmed()
            if read_only:
                # The transaction stays open until `close`, so that all reads return the content of the same
                # moment.
                self._connection.execute("BEGIN")
            row = self._checked(confirmed)
            if self.read_only and row is None:
                raise StoreError(
                    f"{self._path}: no ledger {self._name!r}; the file has {ledger_names(self._path)}"
                )
        except BaseException:
            self._connection.close()
            raise

    @property
    def generation(self) -> int:
        return self._generation

    def own(self) -> None:
        require_writable(self)
        if self._generation:
            self._newest()
            return
        self._create_tables()

        def take() -> Row:
            row = self._checked(self._witness.confirmed()) or self._new_row()
            return row._replace(generation=row.generation + 1)

        self._generation = self._write(take).generation

    @property
    def metadata(self) -> Mapping[str, bytes]:
        texts = json.loads(self._current().metadata)
        return MappingProxyType({name: bytes.fromhex(value) for name, value in texts.items()})

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        replaced = checked_metadata(metadata)
        text = json.dumps({name: value.hex() for name, value in replaced.items()})
        self._write_as_owner(lambda row: row._replace(metadata=text))

    @property
    def first_id(self) -> int:
        return self._current().first_id

    @property
    def last_id(self) -> int:
        return self._current().last_id

    def append(self, data: bytes) -> int:
        entry = checked_entry(data)

        def add(row: Row) -> Row:
            entry_id = row.last_id + 1
            # The statement can replace only a damaged entry whose id is wrong.
            self._connection.execute(
                "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?)",
                [self._key, entry_id, entry, _checksum(row, entry_id, entry)],
            )
            return row._replace(last_id=entry_id)

        return self._write_as_owner(add).last_id

    def read(self, entry_id: int) -> bytes:
        entry_id = checked_id(entry_id)
        found = None
        if self._has_tables() and 0 <= entry_id <= INT64_MAX:
            with _errors(self._path):
                found = self._connection.execute(
                    "SELECT data, checksum FROM entry WHERE ledger = ? AND id = ?", [self._key, entry_id]
                ).fetchone()
        if found is None:
            row = self._row()
            if row is not None and row.first_id <= entry_id <= row.last_id:
                raise CorruptStateError(f"{self._path}: entry {entry_id} is missing", 0)
            raise KeyError(entry_id)
        data, checksum = found
        # The name and the identity of a ledger never change, so a row that was checked earlier suffices.
        row = self._found[1] or self._row()
        if row is None or not _is_whole(row, entry_id, data, checksum):
            raise CorruptStateError(f"{self._path}: the checksum of entry {entry_id} does not match", 0)
        return bytes(data)

    def delete_up_to(self, entry_id: int) -> None:
        entry_id = max(checked_id(entry_id), -1)

        def delete(row: Row) -> Row:
            if entry_id > row.last_id:
                raise ValueError(f"entry {entry_id} is beyond the last, {row.last_id}")
            self._connection.execute("DELETE FROM entry WHERE ledger = ? AND id <= ?", [self._key, entry_id])
            return row._replace(first_id=max(row.first_id, entry_id + 1))

        self._write_as_owner(delete)

    def close(self) -> None:
        self._closed = True
        self._connection.close()
        self._witness.close()

    def _has_tables(self) -> bool:
        """Return whether the file has the tables of this store.

        Raises `StoreError` for a database of another program.
        """
        if self._closed:
            raise StoreError("the store is closed")
        if not self._ours:
            with _errors(self._path):
                self._ours = not self._is_empty()
                if self._ours:
                    _require_tables(self._path, self._connection)
        return self._ours

    def _is_empty(self) -> bool:
        """Return whether the file is new, that is, has neither tables nor an application id."""
        marks = self._value("PRAGMA application_id"), self._value("SELECT count(*) FROM sqlite_schema")
        return marks == (0, 0)

    def _create_tables(self) -> None:
        """Create the tables in an empty file.

        The tables are created in a separate transaction before the first write. A crash during the first
        write therefore leaves a file with tables.
        """
        self._current()
        with self._transaction():
            self._add_tables()
        self._has_tables()
        self._begin_log()

    def _add_tables(self) -> None:
        """In the open transaction, create the tables if the file is empty."""
        if self._is_empty():
            for statement in TABLES.values():
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _begin_log(self) -> None:
        """Switch the file to a write-ahead log if it has another journal mode."""
        with _errors(self._path):
            if self._value("PRAGMA journal_mode") != "wal":
                self._connection.execute("PRAGMA journal_mode = WAL")

    def _row(self) -> Row | None:
        """Return the row of the ledger; None if the file has no row for the ledger."""
        if not self._has_tables():
            return None
        with _errors(self._path):
            found = self._connection.execute("SELECT * FROM ledger WHERE rowid = ?", [self._key]).fetchone()
        if found is None:
            return None
        checked, row = self._found
        if row is not None and found == checked:
            return row
        row = _whole_row(self._path, found)
        if row.name != self._name:
            raise StoreError(
                f"{self._path}: the names {self._name!r} and {row.name!r} have the same key: use another name"
            )
        self._found = found, row
        return row

    def _current(self) -> Row:
        """Return the row of the ledger; if the file has none, return the row of a new ledger."""
        row = self._row()
        if row is None and self._generation:
            raise self._damaged("its row is missing")
        return row or Row(self._key, self._name)

    def _new_row(self) -> Row:
        return Row(self._key, self._name, secrets.randbits(63))

    def _checked(self, confirmed: ConfirmedWrite) -> Row | None:
        """Return the row of the ledger. Check it against the entries and the last confirmed write."""
        row = self._row()
        last_id = -1 if row is None else row.last_id
        _require_confirmed(self._path, f"ledger {self._name!r}", row, confirmed)
        if self._ours:
            with _errors(self._path):
                beyond = self._connection.execute(
                    "SELECT id, data, checksum FROM entry WHERE ledger = ? AND id > ? LIMIT 1",
                    [self._key, last_id],
                ).fetchone()
            # If the entry has a wrong checksum, its id may be wrong. Then the entry itself is damaged, and
            # reading its true id raises the error.
            if beyond is not None and (row is None or _is_whole(row, *beyond)):
                raise self._damaged(f"entry {beyond[0]} exists, but its last id is {last_id}")
        return row

    def _damaged(self, detail: str) -> StoreError:
        return StoreError(
            f"{self._path}: ledger {self._name!r} is damaged: {detail}; restore the file from a copy"
        )

    def _value(self, statement: str) -> object:
        with _errors(self._path):
            return self._connection.execute(statement).fetchone()[0]

    def _newest(self) -> Row:
        """Return the row of the ledger; `FencedError` if a newer owner has written the row."""
        row = self._current()
        if row.generation != self._generation:
            raise FencedError(f"generation {self._generation} was fenced by generation {row.generation}")
        return row

    def _write_as_owner(self, change: Callable[[Row], Row]) -> Row:
        """In one transaction, read the row of the ledger, apply `change` to it, and write the new row.

        Returns the new row. Raises `FencedError` if this store is fenced.
        """
        if not self._generation:
            self.own()
        return self._write(lambda: change(self._newest()))

    def _write(self, change: Callable[[], Row]) -> Row:
        """In one transaction, call `change` and write the row that it returns.

        After the commit, record the write in the witness file.
        """
        with self._transaction() as connection:
            row = change()
            row = row._replace(writes=row.writes + 1)
            values = [*row, row.checksum()]
            connection.execute(
                f"INSERT OR REPLACE INTO ledger VALUES ({', '.join('?' * len(values))})", values
            )
        self._confirm(ConfirmedWrite(row.identity, row.writes))
        return row

    def _confirm(self, confirmed: ConfirmedWrite) -> None:
        """Record in the witness file that a write is durable."""
        self._witness.confirm(confirmed)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the `with` block in an exclusive write transaction.

        Roll it back if the block raises an error.
        """
        try:
            self._turn.pop()
        except IndexError:
            raise StoreError(
                f"{self._path}: another thread writes at the same time; use a store from one thread at a time"
            ) from None
        try:
            with _errors(self._path):
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
        finally:
            self._turn.append(None)


class _JoinedStore(SqliteStore):
    """A store that writes in the open transaction of another store of the same file."""

    def __init__(self, whole: SqliteStore, name: str) -> None:
        self._whole = whole
        self._confirmed = ConfirmedWrite()
        super().__init__(whole._path, name)  # noqa: SLF001

    def _begin(self) -> None:
        self._connection = self._whole._connection  # noqa: SLF001
        self._checked(self._witness.confirmed())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _errors(self._path):
            yield self._connection

    def _begin_log(self) -> None:
        """Do nothing. SQLite can change the journal mode only outside a transaction."""

    def _confirm(self, confirmed: ConfirmedWrite) -> None:
        self._confirmed = confirmed

    def close(self) -> None:
        self._closed = True

    def committed(self) -> None:
        """Record the last write in the witness file. Call it after the shared transaction was committed."""
        if self._confirmed.writes:
            self._witness.confirm(self._confirmed)
        self._witness.close()


@contextmanager
def one_transaction(path: str | os.PathLike[str]) -> Iterator[Callable[[str], Store]]:
    """Write to several ledgers of a file in one transaction.

    Yield a function that opens a ledger by its name. All writes are committed when the `with` block ends.

    A missing file is created. Until the block ends, no other process can write to the file.
    """
    joined: list[_JoinedStore] = []

    def opened(name: str) -> Store:
        joined.append(_JoinedStore(whole, name))
        return joined[-1]

    with SqliteStore(path) as whole:
        with whole._transaction():  # noqa: SLF001
            whole._add_tables()  # noqa: SLF001
            yield opened
        for store in joined:
            store.committed()
        whole._begin_log()  # noqa: SLF001


def ledger_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of all ledgers in a file, sorted. The file stays unchanged.

    Raises `StoreError` if a ledger is damaged, or if an entry belongs to a ledger that is missing.
    """
    path = real_file(path)
    with _errors(path), closing(_connect(path, 5.0, read_only=True)) as connection:
        confirmed = confirmed_writes(path)
        connection.execute("BEGIN")
        _require_tables(path, connection)
        rows = [_whole_row(path, found) for found in connection.execute("SELECT * FROM ledger")]
        by_key = {row.key: row for row in rows}
        key = INT64_MIN - 1
        while owned := connection.execute(
            "SELECT ledger, id FROM entry WHERE ledger > ? LIMIT 1", [max(key, INT64_MIN)]
        ).fetchone():
            key, entry_id = owned
            if key not in by_key:
                raise StoreError(f"{path}: the ledger of entry {entry_id} is missing; the file is damaged")
    for key, number in confirmed.items():
        row = by_key.get(key)
        _require_confirmed(
            path, "a ledger that is missing" if row is None else f"ledger {row.name!r}", row, number
        )
    return sorted(row.name for row in rows)


def is_sqlite(path: str | os.PathLike[str]) -> bool:
    """Return whether the file at a path is an SQLite file."""
    path = real_file(path)
    try:
        require_regular(path)
        _marks(path)
    except (OSError, sqlite3.Error):
        return False
    return path.stat().st_size > 0


def real_file(path: str | os.PathLike[str]) -> Path:
    """Return the target of a symbolic link.

    SQLite keeps its log next to the target, and not next to the link.
    """
    path = local_path(path)
    return path.resolve() if path.is_symlink() else path


def _key(name: str) -> int:
    """Return the key of a ledger in the tables: a 64-bit hash of its name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def _checksum(row: Row, entry_id: int, data: bytes) -> int:
    """Return the checksum of an entry.

    It also covers the ledger's name and random identity, so an entry from another store does not match.
    """
    return zlib.crc32(data, zlib.crc32(ascii((row.name, row.identity, entry_id)).encode()))


def _is_whole(row: Row, entry_id: object, data: object, checksum: object) -> bool:
    """Return whether the values of an entry have the right types, and whether its checksum is correct."""
    return (
        isinstance(entry_id, int) and isinstance(data, bytes) and checksum == _checksum(row, entry_id, data)
    )


def _whole_row(path: Path, values: tuple[object, ...]) -> Row:
    """Build a `Row` from the values of a row in the table; `StoreError` if the checksum is wrong."""
    row = Row(*values[:-1])  # type: ignore[arg-type]
    if row.checksum() != values[-1]:
        raise StoreError(f"{path}: the row of ledger {row.name!r} is damaged; restore the file from a copy")
    return row


def _require_confirmed(path: Path, ledger: str, row: Row | None, confirmed: ConfirmedWrite) -> None:
    """Check that a ledger has the confirmed identity and at least the confirmed number of writes.

    Raises `StoreError` otherwise.
    """
    writes = 0 if row is None else row.writes
    if row is not None and confirmed.writes and row.identity != confirmed.identity:
        raise StoreError(
            f"{path}: {ledger} is not the ledger of {path.name}-witness, although it has the same name: the "
            f"file or its log ({path.name}-wal) was replaced by one of another store. Restore it, or delete "
            f"{path.name}-witness to accept the file"
        )
    if writes < confirmed.writes:
        raise StoreError(
            f"{path}: {ledger} is older than its last confirmed write: write {confirmed.writes} was "
            f"confirmed, but the last write in the file is {writes}. The file or its log ({path.name}-wal) "
            f"is damaged, missing or an older copy. Restore it, or delete {path.name}-witness to accept it"
        )


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Translate the errors of SQLite in the `with` block to `StoreError`."""
    try:
        yield
    # The message of an SQLite error may contain damaged text that cannot be decoded.
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: {error}") from error


def _connect(path: Path, timeout_s: float, *, read_only: bool) -> sqlite3.Connection:
    """Check the header of a file, then open the file.

    The check comes first, because SQLite may change a file that it opens.
    """
    try:
        require_regular(path)
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
        if read_only:
            raise StoreError(f"{path}: no such file") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if read_only or (size and not _never_committed(path)):
        _require_ours(path)
    try:
        return _opened(path, "rwc" if not read_only else "ro", timeout_s)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _opened(path: Path, mode: str, timeout_s: float = 5.0) -> sqlite3.Connection:
    # SQLite does not begin transactions itself. This module begins and ends every transaction.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _has_log(path: Path) -> bool:
    """Return whether the file has a write-ahead log that is not empty."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False


def _never_committed(path: Path) -> bool:
    """Return whether the first transaction of a file was interrupted before its commit.

    In this case, SQLite rolls the transaction back, and the file is then empty.
    """
    try:
        with path.with_name(f"{path.name}-journal").open("rb") as file:
            header = file.read(PAGES_BEFORE.stop)
    except OSError:
        return False
    return header.startswith(JOURNAL_MAGIC) and header[PAGES_BEFORE] == bytes(4)


def _marks(path: Path) -> tuple[int, int]:
    """Return the application id and the version in the header of a file. The file stays unchanged.

    This function reads the header through SQLite and does not open the file itself. When a process closes a
    file, the operating system releases all locks of the process on the file, also those of SQLite. Another
    process could then delete the log.

    If a killed process or a full disk interrupted a checkpoint, the page count in the header includes pages
    that are only in the log. Such a file can be opened only together with its log.
    """
    try:
        return _marks_of(path, "ro&immutable=1")
    except sqlite3.DatabaseError:
        if not _has_log(path):
            raise
        return _marks_of(path, "ro")


def _marks_of(path: Path, mode: str) -> tuple[int, int]:
    with closing(_opened(path, mode)) as connection:
        application_id, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
    return application_id, version


def _require_ours(path: Path) -> None:
    """Check that a file has ackwell's application id and the current version; `StoreError` otherwise."""
    with _errors(path):
        application_id, version = _marks(path)
    if application_id != APPLICATION_ID:
        raise StoreError(f"{path}: not a file of ackwell's ledgers, but another program's database")
    _require_version(path, version)


def _require_tables(path: Path, connection: sqlite3.Connection) -> None:
    """Check that a file has exactly the expected tables; `StoreError` otherwise."""
    # The header of the file may be older than the log, so read the version again through the connection.
    _require_version(path, connection.execute("PRAGMA user_version").fetchone()[0])
    found = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    if found != TABLES:
        raise StoreError(f"{path}: has ackwell's application id but not its tables; the file is damaged")


def _require_version(path: Path, version: int) -> None:
    if version != VERSION:
        raise StoreError(f"{path}: written in version {version}; this ackwell reads {VERSION}")
