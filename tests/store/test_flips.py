"""Damage to an SQLite file, its log or its witness file never silently gives an older or empty state.

Each bit is flipped alone. A load then returns the newest state or raises an `AckwellError`.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackwell import AckwellError, PositionInfo
from ackwell.saving.journal import Journal
from ackwell.store import SqliteStore, sqlite
from ackwell.store.sqlite import ledger_names

NAMES = ["orders", "payments"]
NEWEST = PositionInfo(3, 5, [(3, 7, 20)])


def save(path: Path, states: int) -> list[SqliteStore]:
    """Save states in two ledgers of one file, which stay open."""
    stores = [SqliteStore(path, name) for name in NAMES]
    for store in stores:
        journal = Journal(store)
        for upper in range(21 - states, 21):
            journal.save(PositionInfo(3, 5, [(3, 7, upper)]))
        store.set_metadata({"kept": b"as it is"})
    return stores


def closed(path: Path) -> None:
    for store in save(path, 4):
        store.close()


def crashed(path: Path) -> None:
    """Return the files of a process that ended without closing them; the log holds most of the data."""
    path.parent.mkdir(exist_ok=True)
    made = path.parent / "made.db"
    for store in save(made, 2):
        store.close()
    stores = [SqliteStore(made, name) for name in NAMES]
    for store in stores:
        journal = Journal(store)
        journal.load()
        journal.save(PositionInfo(3, 5, [(3, 7, 19)]))
        journal.save(NEWEST)
    for suffix in ("", "-wal", "-witness"):
        shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
    for store in stores:
        store.close()


def outcome(path: Path) -> str:
    """List and load the ledgers; return "newest" or "refused", and fail otherwise."""
    try:
        names = ledger_names(path)
        assert names == NAMES, f"listed {names}"
        listed = "newest"
    except AckwellError:
        listed = "refused"
    for name in NAMES:
        try:
            with SqliteStore(path, name) as store:
                found = Journal(store).load()
                metadata = dict(store.metadata)
        except AckwellError:
            listed = "refused"
            continue
        assert (found.position_info, found.older) == (NEWEST, False), f"{name}: {found}"
        assert metadata == {"kept": b"as it is"}
    return listed


def flips(folder: Path, file: str, bits: Iterator[int]) -> Counter[str]:
    """Flip each bit of a file alone and return the outcomes."""
    whole = {each.name: each.read_bytes() for each in folder.glob("acks.db*")}
    seen: Counter[str] = Counter()
    for bit in bits:
        for each in folder.iterdir():
            each.unlink()
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        damaged = bytearray(whole[file])
        damaged[bit // 8] ^= 1 << bit % 8
        (folder / file).write_bytes(damaged)
        try:
            seen[outcome(folder / "acks.db")] += 1
        except Exception as error:
            raise AssertionError(f"bit {bit % 8} of byte {bit // 8} of {file}") from error
    return seen


CASES = pytest.mark.parametrize(
    ("make", "file"),
    [
        (closed, "acks.db"),
        (closed, "acks.db-witness"),
        (crashed, "acks.db"),
        (crashed, "acks.db-wal"),
        (crashed, "acks.db-witness"),
    ],
    ids=["a closed file", "its witness", "a file with a log", "its log", "its log's witness"],
)


@pytest.mark.slow
@CASES
def test_no_flipped_bit_gives_an_older_or_an_empty_state(make: object, file: str, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    assert callable(make)
    make(folder / "acks.db")
    size = 8 * (folder / file).stat().st_size
    seen = flips(folder, file, iter(range(0, size, max(size // 150, 1) | 1)))
    assert sum(seen.values()) > 100
    # A damaged witness file is ignored; damage in a file or a log must be detected.
    assert bool(seen["refused"]) != file.endswith("-witness")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use SQLite's smallest page size: the same structures, and fewer unused bits."""
    opened = sqlite._opened

    def of_small_pages(*arguments: Any) -> sqlite3.Connection:
        connection = opened(*arguments)
        connection.execute("PRAGMA page_size = 512")
        return connection

    monkeypatch.setattr(sqlite, "_opened", of_small_pages)


@pytest.mark.proof
@CASES
@pytest.mark.parametrize("part", range(4))
@pytest.mark.usefixtures("small_pages")
def test_no_flip_of_any_bit_gives_an_older_or_an_empty_state(
    make: object, file: str, part: int, tmp_path: Path
) -> None:
    folder = tmp_path / "every"
    folder.mkdir()
    assert callable(make)
    make(folder / "acks.db")
    assert (folder / "acks.db").read_bytes()[16:18] == (512).to_bytes(2)
    size = 8 * (folder / file).stat().st_size
    bits = range(part, size, 4)
    seen = flips(folder, file, iter(bits))
    assert sum(seen.values()) == len(bits)
    print(file, part, len(bits), dict(seen))


@pytest.mark.parametrize("left", [0, 100, 4096, 8192, -4096])
def test_a_log_that_was_cut_is_refused(left: int, tmp_path: Path) -> None:
    crashed(tmp_path / "acks.db")
    log = tmp_path / "acks.db-wal"
    log.write_bytes(log.read_bytes()[:left])
    assert outcome(tmp_path / "acks.db") == "refused"
    # A second load also fails, because the refusal changed nothing.
    assert outcome(tmp_path / "acks.db") == "refused"


@pytest.mark.parametrize(
    ("left", "expected"),
    [(0, "refused"), (100, "refused"), (4096, "newest"), (8192, "newest"), (-4096, "newest")],
)
def test_a_file_that_was_cut_after_its_header_opens_with_its_log(
    left: int, expected: str, tmp_path: Path
) -> None:
    """The log contains every page after the header, so the newest save is whole."""
    crashed(tmp_path / "acks.db")
    data = (tmp_path / "acks.db").read_bytes()
    (tmp_path / "acks.db").write_bytes(data[:left])
    assert outcome(tmp_path / "acks.db") == expected


def test_a_log_that_was_deleted_after_a_crash_is_missed(tmp_path: Path) -> None:
    crashed(tmp_path / "acks.db")
    (tmp_path / "acks.db-wal").unlink()
    with pytest.raises(AckwellError, match=r"older than its last confirmed write: write \d+ was confirmed"):
        SqliteStore(tmp_path / "acks.db", "orders")
    (tmp_path / "acks.db-witness").unlink()
    with SqliteStore(tmp_path / "acks.db", "orders") as store:
        assert Journal(store).load().position_info == PositionInfo(3, 5, [(3, 7, 20)])


def test_a_damaged_log_is_left_for_whoever_can_mend_it(tmp_path: Path) -> None:
    crashed(tmp_path / "acks.db")
    log = tmp_path / "acks.db-wal"
    damaged = bytearray(log.read_bytes())
    damaged[40] ^= 1
    log.write_bytes(damaged)
    assert outcome(tmp_path / "acks.db") == "refused"
    assert log.read_bytes() == damaged
    damaged[40] ^= 1
    log.write_bytes(damaged)
    assert outcome(tmp_path / "acks.db") == "newest"


def checkpoint(path: Path) -> tuple[bytes, bytes]:
    """Leave the files of a crash at a path; return the file before and after a checkpoint of its log."""
    path.parent.mkdir()
    made = path.parent / "made.db"
    stores = save(made, 2)
    for store in stores:
        # The file grows, and the pages become free again.
        store.set_metadata({"kept": bytes(1000)})
        store.set_metadata({"kept": b"as it is"})
    before = made.read_bytes()
    for suffix in ("", "-wal", "-witness"):
        shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
    for store in stores:
        store.close()
    return before, made.read_bytes()


def cut_checkpoints(folder: Path, cuts: Callable[[int, int], Iterable[int]]) -> int:
    """Cut the checkpoint after some numbers of bytes; check that each file opens with the newest state."""
    before, after = checkpoint(folder / "acks.db")
    log, witness = ((folder / f"acks.db{suffix}").read_bytes() for suffix in ("-wal", "-witness"))
    page_bytes = int.from_bytes(after[16:18])
    assert len(after) >= len(before) + 3 * page_bytes
    count = 0
    # A checkpoint writes its pages in the order of their numbers.
    for bytes_written in cuts(page_bytes, len(after)):
        for each in folder.iterdir():
            each.unlink()
        (folder / "acks.db").write_bytes(after[:bytes_written] + before[bytes_written:])
        (folder / "acks.db-wal").write_bytes(log)
        (folder / "acks.db-witness").write_bytes(witness)
        try:
            assert sqlite.is_sqlite(folder / "acks.db")
            for name in NAMES:
                with SqliteStore(folder / "acks.db", name, read_only=True) as store:
                    assert Journal(store).load().position_info == NEWEST
            assert outcome(folder / "acks.db") == "newest"
        except Exception as error:
            raise AssertionError(f"cut after {bytes_written} bytes of {len(after)}") from error
        count += 1
    return count


@pytest.mark.usefixtures("small_pages")
def test_a_checkpoint_that_was_cut_at_any_page_loses_no_confirmed_save(tmp_path: Path) -> None:
    """A full disk, a kill and a power failure leave such a file; the log still has every page."""

    def cuts(page_bytes: int, size: int) -> Iterable[int]:
        yield from range(0, size + 1, page_bytes)
        yield from range(1, 120, 7)
        yield from range(page_bytes + 1, size, 347)

    assert cut_checkpoints(tmp_path / "cut", cuts) > 30


@pytest.mark.proof
@pytest.mark.usefixtures("small_pages")
def test_a_checkpoint_that_was_cut_at_any_byte_loses_no_confirmed_save(tmp_path: Path) -> None:
    cut = cut_checkpoints(tmp_path / "cut", lambda _, size: range(size + 1))
    print(f"{cut} cuts")


@pytest.mark.usefixtures("small_pages")
def test_a_checkpoint_that_was_cut_needs_its_log(tmp_path: Path) -> None:
    before, after = checkpoint(tmp_path / "cut" / "acks.db")
    path = tmp_path / "cut" / "acks.db"
    path.write_bytes(after[: len(before)])
    Path(f"{path}-wal").unlink()
    for name in NAMES:
        with pytest.raises(AckwellError, match="malformed"):
            SqliteStore(path, name)
