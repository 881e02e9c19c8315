"""Find event files of any format, read their events one by one, or fold all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ackwell.errors import EventError
from ackwell.object_paths import AnyPath, any_path, require_paths
from ackwell.regular_files import file_kind, files_under, is_hidden, require_regular
from ackwell.replay.events import Event, Kind
from ackwell.replay.fold import Fold
from ackwell.replay.jobs import Job, fold_jobs, usable_cores
from ackwell.replay.resets import NO_RESETS, RESETTING, find_resets
from ackwell.replay.traces import trace_columns, trace_events
from ackwell.sources import EVENT_SUFFIXES, PARQUET_SUFFIX, SourceKind, wrong_kind

if TYPE_CHECKING:
    from ackwell.replay.event_columns import Columns
    from ackwell.replay.parquet import RowGroups

Progress = Callable[[AnyPath], None]

_NAMES: Final = frozenset(Event._fields)

_SHARES: Final = 4
"""The number of shares per thread into which the files are split. With several small shares, all threads
finish at nearly the same time."""

_RESETS: Final = RESETTING - {Kind.COMMIT.value}
"""The kinds of resets that a fold of all files must know before it folds other events. Commits are not needed
in advance, because the fold keeps each acknowledgment in a transaction until it reads the commit."""


def event_files(sources: Iterable[str | AnyPath]) -> list[AnyPath]:
    """List the event files in `sources`, which are files and folders. The list is in the order of replay.

    The files of a folder are ordered by name. Raises `FileNotFoundError` for a source that does not exist,
    `EventError` for a folder without event files (`.jsonl`, `.jsonl.gz`, `.parquet`), and `OSError` for a
    pipe or a device.
    """
    require_paths(sources)
    files: set[AnyPath] = set()
    for source in map(any_path, sources):
        if source.is_dir():
            inside = files_under(source)
            found = [path for path in inside if _is_events(path, source)]
            _refuse_hidden_lines(inside)
            if not found:
                raise EventError(f"no trace here; expected {', '.join(EVENT_SUFFIXES)}", file=str(source))
            files.update(found)
        elif source.exists():
            _refuse_other_kinds(source)
            files.add(source)
        else:
            raise FileNotFoundError(f"{source}: no such file or folder")
    for path in files:
        require_regular(path)
    return sorted(files, key=str)


def _refuse_hidden_lines(paths: list[AnyPath]) -> None:
    """Raise `EventError` for a hidden file of JSON lines if the Parquet file of the same name is missing.

    A recording hides its file of JSON lines, and then adds a Parquet file with the same events. If the
    recording is killed between these two steps, the events are only in the hidden file. A replay would skip
    them.
    """
    for lines in paths:
        if not (lines.name.startswith("_events-") and lines.name.endswith(".jsonl")):
            continue
        shown = lines.with_name(lines.name[1:])
        if not shown.with_suffix(PARQUET_SUFFIX).exists():
            raise EventError(f"a killed recording has left it; rename it to {shown.name}", file=str(lines))


def _refuse_other_kinds(path: AnyPath) -> None:
    """Raise `EventError` for a file without an event suffix if its content shows another kind of file."""
    if path.name.endswith(EVENT_SUFFIXES):
        return
    kind = file_kind(path)
    if kind not in (SourceKind.EVENTS, SourceKind.JSON, SourceKind.TEXT, SourceKind.BINARY, SourceKind.EMPTY):
        raise EventError(wrong_kind(kind, SourceKind.EVENTS), file=str(path))


def _is_events(path: AnyPath, folder: AnyPath) -> bool:
    """Return whether a file in a folder is an event file. A hidden file is not an event file."""
    return not is_hidden(path, folder) and path.name.endswith(EVENT_SUFFIXES)


def read_events(
    sources: Iterable[str | AnyPath], *, on_file: Callable[[AnyPath], None] = lambda _: None
) -> Iterator[Event]:
    """Read the events of files and folders in order. `on_file` is called with each file before it is read.

    A file of JSON lines needs memory for only one event. All Parquet files are read together, in the place of
    the first Parquet file. `parquet_events` describes the order of their events and the needed memory.
    Parquet needs `pyarrow`.
    """
    files = event_files(sources)
    parts = [path for path in files if path.suffix == PARQUET_SUFFIX]
    for path in files:
        on_file(path)
        if path.suffix != PARQUET_SUFFIX:
            yield from trace_events(path)
        elif path == parts[0]:
            yield from _parquet_events(parts)


def _parquet_events(files: list[AnyPath]) -> Iterator[Event]:
    from ackwell.extras import require

    require("pyarrow", f"{files[0]}: reading Parquet")
    from ackwell.replay.parquet_rows import parquet_events

    yield from parquet_events([(path, path_columns(path)) for path in files])


def fold_files(
    sources: Iterable[str | AnyPath],
    *,
    at: int | None = None,
    on_file: Progress = lambda _: None,
    begin: Callable[[Fold], None] = lambda _: None,
    threads: int | None = 1,
) -> Fold:
    """Fold the events of files and folders. With `at`, fold only the first `at` events in replay order.

    `begin` is called with the new fold before the first event, and can set initial states. `threads` is the
    number of threads, which share the files and row groups; None means one for each core. The result does not
    depend on the number of threads.
    """
    files = event_files(sources)
    if threads is None:
        threads = usable_cores()
    if threads < 1:
        raise ValueError(f"threads={threads}: expected at least 1")

    def read() -> Iterator[Columns]:
        return _limited(_columns(files, lambda _: None), at)

    fold, flawed = None, False
    if at is None:
        try:
            fold, flawed = _fold_all(files, threads, on_file, begin)
        except _UnexpectedResetError:
            flawed = True
    else:
        fold = Fold(whole=True)
        begin(fold)
        for columns in _limited(_columns(files, on_file), at):
            flawed |= fold.feed(columns)
        flawed |= fold.end()
    if fold is not None and not flawed and fold.partials.first_flawed() is None:
        return fold
    # Fold again, now with known resets and with the columns by which error messages name a row.
    return fold_twice(read, begin)


def fold_twice(read: Callable[[], Iterator[Columns]], begin: Callable[[Fold], None] = lambda _: None) -> Fold:
    """Fold events that are in any order. `read` is called first to find the resets, then again to fold."""
    fold = Fold(find_resets(read), ordered=False, whole=True)
    begin(fold)
    for columns in read():
        fold.feed(columns)
    fold.end()
    return fold


def raise_first_flaw(sources: Iterable[str | AnyPath], at: int | None = None) -> None:
    """Raise `EventError` for the first row that is not an event. Return if every row is an event.

    The files are read in order. With `at`, only the first `at` events are read.
    """
    left = at
    for path in event_files(sources):
        fold, row = Fold(NO_RESETS, ordered=False), 0
        for columns in _limited(_columns([path], lambda _: None), left):
            if fold.feed(columns):
                _raise_flaw(columns, path, row)
            row += len(columns.ledger_ids)
        left = None if left is None else left - row


def _raise_flaw(columns: Columns, path: AnyPath, rows_before: int) -> None:
    """Raise `EventError` for the first row of `columns` that is not an event. O(rows · log rows)."""
    first, end = 0, len(columns.ledger_ids)
    while end - first > 1:
        middle = (first + end) // 2
        is_before = Fold(NO_RESETS, ordered=False).feed(columns.take(slice(first, middle)))
        first, end = (first, middle) if is_before else (middle, end)
    fold = Fold(NO_RESETS, ordered=False)
    fold.feed(columns.take(slice(first, end)))
    try:
        fold.raise_flaw()
    except EventError as error:
        raise EventError(
            error.reason, file=str(path), line=rows_before + first + 1, flaw=error.flaw
        ) from None


class _UnexpectedResetError(Exception):
    """A Parquet file has a reset whose kind is not in the dictionaries of the column `kind`."""


def _fold_all(
    files: list[AnyPath], threads: int, on_file: Progress, begin: Callable[[Fold], None]
) -> tuple[Fold, bool]:
    """Fold files on several threads. Return the fold, and whether any row is not an event."""
    has_resets = False
    shares: list[tuple[AnyPath, RowGroups | None]] = []
    for path in files:
        if path.suffix != PARQUET_SUFFIX:
            shares.append((path, None))
            continue
        from ackwell.replay.parquet import ParquetEvents, RowGroups

        constants = path_columns(path)
        with ParquetEvents(str(path), constants) as events:
            has_resets = has_resets or bool(events.kinds(dictionaries_only=True) & _RESETS)
            groups_of = events.shares(-(-_SHARES * threads // len(files)) if threads > 1 else 1)
            shares += [(path, RowGroups(str(path), indexes, constants)) for indexes in groups_of]

    def read(path: AnyPath, groups: RowGroups | None) -> Iterator[Columns]:
        if groups is None:
            yield from trace_columns(path)
            return
        from ackwell.replay.parquet import row_group_columns

        for columns in row_group_columns(groups, lean=not is_ordered, ordered=reset_topics):
            if not has_resets and not _RESETS.isdisjoint(columns.kinds[1]):
                raise _UnexpectedResetError
            yield columns

    def new() -> Fold:
        # The resets of traces are read in order. If `is_ordered`, the Parquet files have no resets, so the
        # order of their rows does not matter.
        resets = None if is_ordered else known
        return Fold(resets, ordered=is_ordered, whole=True)

    is_ordered = not has_resets and any(groups is None for _, groups in shares)
    known = NO_RESETS
    if has_resets:
        known = find_resets(lambda: _columns(files, lambda _: None), lambda: _reset_rows(files))
    reset_topics = sorted({topic for topic, _ in (*known.seeks, *known.clears, *known.unresolved_clears)})
    jobs = [Job(path, partial(read, path, groups)) for path, groups in shares]
    return fold_jobs(jobs, new, threads, on_file, begin)


def _columns(files: list[AnyPath], on_file: Progress) -> Iterator[Columns]:
    for path in files:
        on_file(path)
        if path.suffix == PARQUET_SUFFIX:
            from ackwell.replay.parquet import ParquetEvents

            with ParquetEvents(str(path), path_columns(path)) as events:
                yield from events.columns()
        else:
            yield from trace_columns(path)


def _reset_rows(files: list[AnyPath]) -> Iterator[Columns]:
    """Read the resets of files. Traces are read as a whole; Parquet row groups without resets are skipped."""
    for path in files:
        if path.suffix != PARQUET_SUFFIX:
            yield from trace_columns(path)
            continue
        from ackwell.replay.parquet import ParquetEvents

        with ParquetEvents(str(path), path_columns(path)) as events:
            yield from events.rows_of(_RESETS)


def _limited(batches: Iterator[Columns], at: int | None) -> Iterator[Columns]:
    """Yield the columns of the first `at` events, or of all events if `at` is None."""
    left = at
    for columns in batches:
        if left is None:
            yield columns
            continue
        if left <= 0:
            return
        yield columns.head(left)
        left -= len(columns.ledger_ids)


def path_columns(path: AnyPath) -> dict[str, str | None]:
    """Return the columns that a file's path contains in Hive's form, such as `topic=t/kind=ack/0.parquet`."""
    found: dict[str, str | None] = {}
    for part in path.parts[:-1]:
        name, separator, value = part.partition("=")
        if separator and name.lower() in _NAMES:
            found[name.lower()] = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
    return found
