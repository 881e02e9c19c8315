"""Files of events, whatever their format: which there are, their events one by one, and their fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ackwell.errors import EventError
from ackwell.replay.event_columns import Columns, columns_of
from ackwell.replay.events import event_from_fields
from ackwell.replay.fold import Fold
from ackwell.replay.resets import NO_RESETS, Resets, find_resets
from ackwell.replay.traces import SUFFIXES, trace_columns, trace_events

if TYPE_CHECKING:
    from ackwell.engine import Engine
    from ackwell.replay.events import Event

Progress = Callable[[Path], None]
_EVENTS: int = 4_096
"""Events of one batch, where they are Python objects."""


_SUFFIXES: Final = (*SUFFIXES, ".parquet")


def event_files(sources: Iterable[str | Path]) -> list[Path]:
    """List the event files that `sources` name, folders searched, in the order of replay (by name).

    Raises `FileNotFoundError` for a source that does not exist, `EventError` for a folder without any
    trace (`.jsonl`, `.jsonl.gz`, `.parquet`).
    """
    files: set[Path] = set()
    for source in map(Path, sources):
        if source.is_dir():
            found = [path for path in source.rglob("*") if _is_events(path.relative_to(source))]
            if not found:
                raise EventError(f"no trace here; expected {', '.join(_SUFFIXES)}", file=str(source))
            files.update(found)
        elif source.exists():
            files.add(source)
        else:
            raise FileNotFoundError(f"{source}: no such file or folder")
    return sorted(files, key=str)


def _is_events(path: Path) -> bool:
    """Return whether a file of a folder holds events; hidden ones do not, as everywhere in Spark."""
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and path.name.endswith(_SUFFIXES)


def read_events(
    sources: Iterable[str | Path], *, on_file: Callable[[Path], None] = lambda _: None
) -> Iterator[Event]:
    """Read the events of files and folders in order; `on_file` is called with each file before it is read.

    Memory is that of one event for JSON lines, of one row group for Parquet (which needs `pyarrow`).
    """
    for path in event_files(sources):
        on_file(path)
        yield from _parquet_events(path) if path.suffix == ".parquet" else trace_events(path)


def _parquet_events(path: Path) -> Iterator[Event]:
    from ackwell.extras import require

    require("pyarrow", f"{path}: reading Parquet")
    import pyarrow.parquet

    from ackwell.replay.parquet import damage_named

    line = 0
    with damage_named(str(path)):
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            for fields in batch.to_pylist():
                line += 1
                yield event_from_fields(fields, file=str(path), line=line)


def fold_files(
    sources: Sequence[str | Path],
    *,
    at: int | None = None,
    engine: Engine | None = None,
    on_file: Progress = lambda _: None,
    begin: Callable[[Fold], None] = lambda _: None,
) -> Fold:
    """Fold the events of files and folders, or the first `at` of them in the order of replay.

    `begin` is called with the fold before the first event: it may give it states to start from.
    """
    files = event_files(sources)

    def read() -> Iterator[Columns]:
        return _first(_columns(files, engine, on_file), at)

    if engine is None and at is None and all(path.suffix == ".parquet" for path in files):
        return _fold_parquet(files, on_file, begin)
    # In one pass, for a trace has its seeks in order. What fails so is folded again with its resets known.
    fold = Fold(engine=engine)
    begin(fold)
    flawed = False
    for columns in read():
        flawed |= fold.feed(columns) is not None
    if not flawed and fold.partials.first_flawed() is None:
        return fold
    return _again(find_resets(read), read, engine, begin)


def _again(
    resets: Resets,
    read: Callable[[], Iterator[Columns]],
    engine: Engine | None,
    begin: Callable[[Fold], None],
) -> Fold:
    fold = Fold(resets, engine=engine)
    begin(fold)
    for columns in read():
        fold.feed(columns)
    return fold


def _fold_parquet(files: list[Path], on_file: Progress, begin: Callable[[Fold], None]) -> Fold:
    from ackwell.replay.parquet import ParquetEvents

    has_resets = False
    for path in files:
        with ParquetEvents(str(path), path_columns(path)) as events:
            has_resets = has_resets or events.survey().has_resets

    def read() -> Iterator[Columns]:
        return _columns(files, None, lambda _: None)

    if has_resets:
        return _again(find_resets(read), read, None, begin)
    fold = Fold(NO_RESETS, ordered=False)
    begin(fold)
    for path in files:
        on_file(path)
        with ParquetEvents(str(path), path_columns(path)) as events:
            for columns in events.columns(lean=True):
                if fold.feed(columns) is not None:
                    # The same again, with what names the row.
                    return _again(NO_RESETS, read, None, begin)
    return fold


def _columns(files: list[Path], engine: Engine | None, on_file: Progress) -> Iterator[Columns]:
    for path in files:
        on_file(path)
        if engine is not None:
            yield from _events(path)
        elif path.suffix == ".parquet":
            from ackwell.replay.parquet import ParquetEvents

            with ParquetEvents(str(path), path_columns(path)) as events:
                yield from events.columns()
        else:
            yield from trace_columns(path)


def _events(path: Path) -> Iterator[Columns]:
    """Read one file event by event, for the reference engine."""
    batch = []
    for event in read_events([path]):
        batch.append(event)
        if len(batch) == _EVENTS:
            yield columns_of(batch)
            batch = []
    if batch:
        yield columns_of(batch)


def _first(batches: Iterator[Columns], at: int | None) -> Iterator[Columns]:
    """Return the first `at` events, or all."""
    left = at
    for columns in batches:
        if left is None:
            yield columns
            continue
        if left <= 0:
            return
        yield columns.head(left)
        left -= len(columns.ledger_ids)


def path_columns(path: Path) -> dict[str, str | None]:
    """Return the columns in a file's path, as Hive writes them: `topic=t/kind=ack/part-0.parquet`."""
    from ackwell.replay.columns import COLUMNS

    found: dict[str, str | None] = {}
    for part in path.parts[:-1]:
        name, separator, value = part.partition("=")
        if separator and name.lower() in COLUMNS:
            found[name.lower()] = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
    return found
