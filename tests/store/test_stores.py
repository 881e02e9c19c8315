"""The public conformance suite on the stores that need no other package."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ackwell import CorruptStateError, FencedError, PositionInfo, StoreError
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore, SqliteStore, Store
from ackwell.store.sqlite import (
    APPLICATION_ID,
    JOURNAL_MAGIC,
    TABLES,
    VERSION,
    is_sqlite,
    ledger_names,
    one_transaction,
)
from ackwell.store.witness import SLOT_BYTES, ConfirmedWrite, Witness, confirmed_writes, witness_path
from ackwell.testing.stores import Opener, StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def new_ledger(self) -> Callable[[], Opener]:
        def new() -> Opener:
            ledger = MemoryLedger()
            return lambda read_only=False: MemoryStore(ledger, read_only=read_only)

        return new


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def new_ledger(self, tmp_path: Path) -> Callable[[], Opener]:
        numbers = itertools.count()

        def new() -> Opener:
            path = tmp_path / f"{next(numbers)}.db"
            return lambda read_only=False: SqliteStore(path, read_only=read_only)

        return new


class TestSqliteStoreWithManyLedgersInOneFile(StoreConformance):
    @pytest.fixture
    def new_ledger(self, tmp_path: Path) -> Callable[[], Opener]:
        numbers = itertools.count()

        def new() -> Opener:
            name = f"topic/subscription-{next(numbers)}"
            return lambda read_only=False: SqliteStore(tmp_path / "acks.db", name, read_only=read_only)

        return new


def test_every_commit_is_synced_to_the_log_and_pages_are_checked(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "acks.db")
    store.own()
    assert store._value("PRAGMA journal_mode") == "wal"
    assert store._value("PRAGMA synchronous") == 2
    assert store._value("PRAGMA cell_size_check") == store._value("PRAGMA fullfsync") == 1
    store.close()


def test_a_write_leaves_no_transaction_open_when_it_refuses(tmp_path: Path) -> None:
    old = SqliteStore(tmp_path / "acks.db")
    old.own()
    new = SqliteStore(tmp_path / "acks.db")
    new.own()
    with pytest.raises(FencedError, match="generation 1 was fenced by generation 2"):
        old.append(b"late")
    assert new.append(b"a") == 0


def test_another_writer_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    store = SqliteStore(path, timeout_s=0.01)
    store.own()
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
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="not a file of ackwell"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_another_programs_database_keeps_its_log(tmp_path: Path) -> None:
    """Opening and closing the file with SQLite would write its log into the file and delete the log."""
    path, copy = tmp_path / "other.db", tmp_path / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (x)")
        for file in tmp_path.glob("other.db*"):
            shutil.copy(file, copy)
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert "other.db-wal" in before
    with pytest.raises(StoreError, match="not a file of ackwell"):
        SqliteStore(copy / "other.db")
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before


def test_another_programs_database_keeps_its_journal(tmp_path: Path) -> None:
    """Opening the file with SQLite would roll back the other program's transaction."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    # No records, a nonce, 2 pages before the transaction, the sizes of a sector and of a page.
    header = JOURNAL_MAGIC + b"".join(number.to_bytes(4, "big") for number in (0, 1, 2, 512, 4096))
    (tmp_path / "other.db-journal").write_bytes(header.ljust(512, b"\0"))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(StoreError, match="not a file of ackwell"):
        SqliteStore(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_database_that_another_program_made_since_the_opening_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        before = path.read_bytes()
        with pytest.raises(StoreError, match="written in version 0"):
            store.own()
        assert path.read_bytes() == before


@pytest.mark.parametrize("mark", ["", f"PRAGMA application_id = {APPLICATION_ID}"])
def test_a_database_without_our_tables_is_not_taken_over(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "blank.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(mark or "PRAGMA user_version = 7")
        if mark:
            connection.execute(f"PRAGMA user_version = {VERSION}")
    before = path.read_bytes()
    assert before
    with pytest.raises(StoreError, match="not its tables" if mark else "not a file of ackwell"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_kill_while_the_file_is_made_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.own()
    with closing(sqlite3.connect(path)) as connection:
        # The state before the write-ahead log is enabled.
        connection.execute("PRAGMA journal_mode = DELETE")
    with SqliteStore(path) as store:
        assert store.append(b"a") == 0
        assert store._value("PRAGMA journal_mode") == "wal"


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    path.touch()
    with SqliteStore(path) as store:
        assert (store.first_id, store.last_id) == (0, -1)
        assert path.read_bytes() == b""
        assert store.append(b"a") == 0


def test_a_reader_needs_a_ledger_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with pytest.raises(StoreError, match="no such file"):
        SqliteStore(path, read_only=True)
    assert not path.exists()
    with SqliteStore(path, "orders") as store:
        store.append(b"a")
    with pytest.raises(StoreError, match=r"no ledger 'payments'; the file has \['orders'\]"):
        SqliteStore(path, "payments", read_only=True)
    assert ledger_names(path) == ["orders"]


def test_two_first_owners_of_one_new_file_both_find_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    one, other = SqliteStore(path, "one"), SqliteStore(path, "other")
    assert (one.append(b"a"), other.append(b"b")) == (0, 0)
    assert (one.read(0), other.read(0)) == (b"a", b"b")
    one.close()
    other.close()


def test_ledgers_of_one_transaction_are_written_together_and_refuse_calls_after_close(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with one_transaction(path) as opened:
        one, other = opened("one"), opened("other")
        assert (one.append(b"a"), other.append(b"b")) == (0, 0)
        one.close()
        calls: list[Callable[[], object]] = [lambda: one.append(b"c"), lambda: one.last_id]
        for call in calls:
            with pytest.raises(StoreError, match="the store is closed"):
                call()
        assert other.append(b"c") == 1
    with suppress(KeyError), one_transaction(path) as opened:
        opened("one").append(b"lost")
        raise KeyError
    with SqliteStore(path, "one", read_only=True) as one, SqliteStore(path, "other") as other:
        assert (one.last_id, one.read(0)) == (0, b"a")
        assert (other.last_id, other.read(1)) == (1, b"c")


@pytest.mark.parametrize("name", ["\ud800", 5])
def test_a_name_that_no_file_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises((ValueError, TypeError), match="name"):
        SqliteStore(tmp_path / "acks.db", name)
    assert not list(tmp_path.iterdir())


def test_a_folder_a_text_and_a_missing_file_are_not_sqlite_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("SQLite")
    (tmp_path / "empty").touch()
    assert not any(map(is_sqlite, (tmp_path, tmp_path / "text", tmp_path / "empty", tmp_path / "missing")))


def test_a_newer_version_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.own()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match=f"version {VERSION + 1}"):
        SqliteStore(path)


def test_a_missing_folder_or_a_folder_instead_of_a_file_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        SqliteStore(tmp_path / "missing" / "acks.db")
    with pytest.raises(StoreError, match="Is a directory"):
        SqliteStore(tmp_path)
    (tmp_path / "acks.db-witness").mkdir()
    for call in (SqliteStore, confirmed_writes):
        with pytest.raises(StoreError, match=r"acks\.db-witness: Is a directory"):
            call(tmp_path / "acks.db")


def test_a_plain_object_with_the_methods_is_a_store() -> None:
    assert isinstance(MemoryStore(), Store)
    assert not isinstance(object(), Store)


def test_a_damaged_schema_or_a_lost_row_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.append(b"a")
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM ledger")
            other.commit()
        with pytest.raises(StoreError, match="is damaged"):
            _ = store.last_id
    whole = path.read_bytes()
    page = slice(0, 4096)
    schema = [at for at in range(100, 4096) if whole[page][at]]
    assert len(schema) > 300
    for at in schema[:: len(schema) // 100]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        with suppress(StoreError), SqliteStore(path) as store:
            _ = store.last_id
        with suppress(StoreError):
            ledger_names(path)


def test_a_save_after_lost_entries_whose_deletion_was_kept_is_found() -> None:
    """A disk without real syncs can keep a deletion and lose the entries: seed 58163 of the simulation."""
    state = PositionInfo(3, 5)
    ledger = MemoryLedger(first_id=4, last_id=2)
    store = MemoryStore(ledger)
    assert store.last_id == 3
    with pytest.raises(CorruptStateError, match="earlier entries were deleted"):
        Journal(store).load()
    Journal(store).save(state, replace=True)
    again = MemoryStore(ledger)
    assert again.last_id == 4
    assert Journal(again).load().position_info == state


@pytest.mark.parametrize(
    "column", ["name", "generation", "first_id", "last_id", "writes", "metadata", "checksum"]
)
@pytest.mark.parametrize("value", ["NULL", "'text'", "2.5", "7", "x'00'", str(2**63 - 1)])
def test_a_ledger_whose_row_is_not_the_one_that_was_written_is_refused(
    column: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.append(b"a")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE ledger SET {column} = {value}")
        connection.execute("PRAGMA writable_schema = ON")
        for name, sql in TABLES.items():
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", [sql, name])
    for opened in (lambda: SqliteStore(path), lambda: ledger_names(path)):
        with pytest.raises(StoreError, match=r"the row of ledger .* is damaged"):
            opened()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM ledger", "entry 0 exists|the ledger of entry 0 is missing"),
        ("UPDATE entry SET id = 7", ""),
        ("UPDATE entry SET ledger = 7", "the ledger of entry .* is missing"),
    ],
)
def test_entries_that_nobody_owns_are_named(statement: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.append(b"a")
    (tmp_path / "acks.db-witness").unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    if said:
        with pytest.raises(StoreError, match=said):
            ledger_names(path)
    if statement.startswith("DELETE"):
        with pytest.raises(StoreError, match=said):
            SqliteStore(path)
    else:
        with SqliteStore(path) as store, pytest.raises(CorruptStateError, match="entry 0 is missing"):
            store.read(0)


def test_a_damaged_entry_under_a_false_id_makes_way_for_the_one_of_that_id(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.append(b"a")
        store.append(b"b")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET id = 2 WHERE id = 0")
    with SqliteStore(path) as store:
        assert store.append(b"c") == 2
        assert store.read(2) == b"c"


@pytest.mark.parametrize("column", ["data", "checksum"])
@pytest.mark.parametrize("value", ["'text'", "7", "x'00'"])
def test_an_entry_that_is_not_the_one_that_was_written_is_damaged(
    column: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "acks.db"
    with SqliteStore(path) as store:
        store.append(b"a")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE entry SET {column} = {value}")
    with SqliteStore(path) as store, pytest.raises(CorruptStateError, match="entry 0 does not match"):
        store.read(0)


def test_an_entry_of_another_ledger_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    for name in ("one", "other"):
        with SqliteStore(path, name) as store:
            store.append(name.encode())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute("SELECT data, checksum FROM entry ORDER BY data").fetchall()
        connection.execute("UPDATE entry SET data = ?, checksum = ?", rows[0])
    with SqliteStore(path, "other") as store, pytest.raises(CorruptStateError):
        store.read(0)
    with SqliteStore(path, "one") as store:
        assert store.read(0) == b"one"


def test_an_entry_of_another_store_with_a_ledger_of_the_same_name_is_damage(tmp_path: Path) -> None:
    """The log of a store above the file of another one mixes the pages of both."""
    for name in ("ours", "other"):
        with SqliteStore(tmp_path / name) as store:
            store.append(name.encode())
    with closing(sqlite3.connect(tmp_path / "ours", isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS other", [str(tmp_path / "other")])
        connection.execute("UPDATE entry SET (data, checksum) = (SELECT data, checksum FROM other.entry)")
    with SqliteStore(tmp_path / "ours") as store, pytest.raises(CorruptStateError, match="does not match"):
        store.read(0)


def test_another_process_that_closes_leaves_the_log_to_a_process_with_two_stores(tmp_path: Path) -> None:
    """Closing any handle of a file releases the process's locks on it, and SQLite then deletes the log."""
    path = tmp_path / "acks.db"
    with SqliteStore(path, "one") as one, SqliteStore(path, "two") as two:
        one.append(b"a")
        two.append(b"b")
        SqliteStore(path, "three").close()
        assert is_sqlite(path)
        other = "import sys; from ackwell.store import SqliteStore; SqliteStore(sys.argv[1], 'other').close()"
        subprocess.run([sys.executable, "-c", other, path], check=True)
        assert (tmp_path / "acks.db-wal").exists()
        assert one.append(b"c") == 1
        read = (
            "import sys; from ackwell.store import SqliteStore; "
            "print(SqliteStore(sys.argv[1], 'one', read_only=True).last_id)"
        )
        found = subprocess.run([sys.executable, "-c", read, path], check=True, capture_output=True, text=True)
        assert found.stdout.strip() == "1"


def test_a_late_confirmation_of_a_fenced_owner_does_not_lower_the_witness(tmp_path: Path) -> None:
    fenced, newer = (Witness(tmp_path / "acks.db", 7) for _ in range(2))
    fenced.confirm(ConfirmedWrite(1, 4))
    newer.confirm(ConfirmedWrite(1, 6))
    fenced.confirm(ConfirmedWrite(1, 5))
    assert confirmed_writes(tmp_path / "acks.db") == {7: ConfirmedWrite(1, 6)}
    assert fenced.confirmed() == newer.confirmed() == ConfirmedWrite(1, 6)
    newer.confirm(ConfirmedWrite(1, 7))
    assert confirmed_writes(tmp_path / "acks.db") == {7: ConfirmedWrite(1, 7)}
    # A damaged slot is ignored and written again.
    with witness_path(tmp_path / "acks.db").open("r+b") as file:
        file.write(b"x")
    newer.confirm(ConfirmedWrite(1, 8))
    assert confirmed_writes(tmp_path / "acks.db") == {7: ConfirmedWrite(1, 8)}
    fenced.close()
    newer.close()


def test_both_readings_of_a_witness_agree_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    slots = []
    for key, writes in [(7, 5), (8, 1), (7, 3), (7, 9), (7, 4)]:
        witness_path(path).unlink(missing_ok=True)
        Witness(path, key).confirm(ConfirmedWrite(1, writes))
        slots.append(witness_path(path).read_bytes())
    zero = bytes(SLOT_BYTES)
    cases = {
        b"".join(slots): 9,
        slots[2] + slots[0]: 5,
        slots[0] + slots[2]: 5,
        zero + slots[4]: 4,
        # Bytes that are not aligned to a slot are ignored.
        b"abc" + slots[0]: 0,
        slots[2] + b"abc" + slots[0]: 3,
        slots[0][:-1]: 0,
        slots[1] + slots[0][:-1] + b"x": 0,
    }
    for data, writes in cases.items():
        witness_path(path).write_bytes(data)
        expected = ConfirmedWrite(1, writes) if writes else ConfirmedWrite()
        assert Witness(path, 7).confirmed() == confirmed_writes(path).get(7, ConfirmedWrite()) == expected, (
            data
        )


@pytest.mark.parametrize("room_bytes", [0, 9, 19, 27, 33])
def test_a_witness_for_which_the_disk_has_no_room_is_an_error_of_ours(
    tmp_path: Path, room_bytes: int
) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "acks.db"
    if room_bytes > SLOT_BYTES:
        Witness(path, 1).confirm(ConfirmedWrite(1, 3))
    witness, before = Witness(path, 7), confirmed_writes(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"acks\.db-witness: (No space left on device|File too large)"):
            witness.confirm(ConfirmedWrite(1, 5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert confirmed_writes(path) == before
    witness.confirm(ConfirmedWrite(1, 5))
    assert confirmed_writes(path) == {**before, 7: ConfirmedWrite(1, 5)}
    witness.close()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_ledger_that_falls_behind_its_witness_is_refused(tmp_path: Path, is_link: bool) -> None:
    path, copy = tmp_path / "acks.db", tmp_path / "copy"
    given = tmp_path / "link.db" if is_link else path
    if is_link:
        given.symlink_to(path)
    with SqliteStore(path) as store:
        store.append(b"a")
    shutil.copy(path, copy)
    with SqliteStore(path) as store:
        store.append(b"b")
    shutil.copy(copy, path)
    for opened in (
        lambda: SqliteStore(given),
        lambda: SqliteStore(given, read_only=True),
        lambda: ledger_names(given),
    ):
        with pytest.raises(StoreError, match="write 4 was confirmed, but the last write in the file is 2"):
            opened()
    path.unlink()
    with pytest.raises(StoreError, match="write 4 was confirmed, but the last write in the file is 0"):
        SqliteStore(given)
    (tmp_path / "acks.db-witness").unlink()
    with SqliteStore(given) as store:
        assert store.append(b"anew") == 0


def test_an_owner_that_comes_just_before_a_write_fences_it(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    old, new = SqliteStore(path), SqliteStore(path)
    old.own()
    # SQLite calls the trace function before it runs the statement.
    before_it(old, "BEGIN", new.own)
    with pytest.raises(FencedError):
        old.append(b"late")
    assert new.append(b"a") == 0


def test_no_other_writer_comes_between_the_check_of_an_owner_and_its_write(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    store, other = SqliteStore(path), SqliteStore(path, "other", timeout_s=0)
    store.own()
    other.own()
    refused: list[str] = []

    def write() -> None:
        with pytest.raises(StoreError, match="locked") as caught:
            other.append(b"b")
        refused.append(str(caught.value))

    before_it(store, "INSERT", write)
    store.append(b"a")
    assert len(refused) == 1


def before_it(store: SqliteStore, statement: str, act: Callable[[], object]) -> None:
    """Call a function once, before the next statement with this beginning."""
    waiting = [act]

    def look(text: str) -> None:
        if text.startswith(statement) and waiting:
            waiting.pop()()

    store._connection.set_trace_callback(look)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("writes", [1, 5])
def test_the_file_or_the_log_of_another_store_is_refused(tmp_path: Path, suffix: str, writes: int) -> None:
    """Both stores have a ledger of the same name. The other one has fewer, or more, confirmed writes."""
    stores, copies = {}, {}
    for name, count in (("ours", 3), ("other", writes)):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "acks.db"
        with SqliteStore(path) as first:
            first.own()
        stores[name] = SqliteStore(path)
        for number in range(count):
            stores[name].append(b"%d" % number)
        # As a killed process leaves them: the log holds the writes.
        copies[name] = {
            each: path.with_name(f"acks.db{each}").read_bytes() for each in ("", "-wal", "-witness")
        }
    for store in stores.values():
        store.close()
    path = tmp_path / "acks.db"
    for each, data in copies["ours"].items():
        path.with_name(f"acks.db{each}").write_bytes(data)
    path.with_name(f"acks.db{suffix}").write_bytes(copies["other"][suffix])
    if not suffix:
        path.with_name("acks.db-wal").write_bytes(copies["other"]["-wal"])
    for opened in (
        lambda: SqliteStore(path),
        lambda: SqliteStore(path, read_only=True),
        lambda: ledger_names(path),
    ):
        with pytest.raises(StoreError, match="was replaced by one of another store"):
            opened()
    (tmp_path / "acks.db-witness").unlink()
    with SqliteStore(path) as store:
        assert store.last_id == writes - 1
