"""Functions that read files as Arrow batches on executors, with the parsers of local replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ackwell.broker.stats import SubscriptionStats, read_stats
from ackwell.diagnosis.inspection import Inspection, StoredEntry, inspect, inspect_entries
from ackwell.errors import AckwellError, StatsError
from ackwell.regular_files import read_regular
from ackwell.replay import table_schemas
from ackwell.replay.files import path_columns, read_events

if TYPE_CHECKING:
    from ackwell import PositionRangeSet
    from ackwell.cursor.cursor_state import AckSetMapping
    from ackwell.position import Position
    from ackwell.replay.events import Event

EVENT_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.EVENTS)
STATS_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.STATS)
SAVED_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.SAVES)
_ROWS: Final = 65_536


class PartReader:
    """A function for `mapInArrow` that reads partitions of a data source.

    Each input row is an index into `parts`. The partition at this index is passed to the function `function`
    of the module `module`.
    """

    def __init__(self, module: str, function: str, parts: list[str]) -> None:
        self._module = module
        self._function = function
        self._parts = parts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the partitions whose indexes are in the column `id` of the batches."""
        read = getattr(import_module(self._module), self._function)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from read(self._parts[number])


def event_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Read one file of events. A line that is not an event raises `EventError` with the file and the line."""
    yield from to_batches(read_events([path]))


def to_batches(events: Iterable[Event]) -> Iterator[pa.RecordBatch]:
    """Convert events to rows of the table `EVENTS`."""
    events = iter(events)
    while rows := list(islice(events, _ROWS)):
        columns = [
            pa.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), EVENT_SCHEMA, strict=True)
        ]
        yield pa.record_batch(columns, schema=EVENT_SCHEMA)


def stats_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Read one dump of stats-internal. An unusable dump raises `StatsError` with the file and the reason."""
    rows = [_stats_row(stats) for stats in read_stats(path)]
    yield pa.RecordBatch.from_pylist(rows, schema=STATS_SCHEMA)


def saved_batches(files: str) -> Iterator[pa.RecordBatch]:
    """Read the saved states in one folder. `files` is a JSON array of the files of the folder, in order."""
    rows = [
        _saved_row(save, number, path_columns(Path(save.source)))
        for number, save in enumerate(_saves([Path(path) for path in json.loads(files)]))
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=SAVED_SCHEMA)


class _NoState(NamedTuple):
    source: str
    error: str


def _saves(files: list[Path]) -> Iterator[Inspection | _NoState]:
    entries = [StoredEntry(str(file), read_regular(file)) for file in files]
    try:
        yield from (
            save if save.entries == 1 else replace(save, source=save.source.rpartition(" … ")[2])
            for save in inspect_entries(entries)
        )
    except AckwellError:
        # An invalid entry does not affect the others.
        for entry in entries:
            try:
                yield inspect(entry.data, source=entry.source)
            except AckwellError as error:
                yield _NoState(entry.source, str(error))


def _saved_row(save: Inspection | _NoState, number: int, names: dict[str, str | None]) -> dict[str, Any]:
    row: dict[str, Any] = {name: names.get(name) for name in ("topic", "subscription")}
    row |= {"file": save.source, "number": number}
    if isinstance(save, _NoState):
        return row | {"error": save.error}
    row |= {
        name: getattr(save, name) for name in ("kind", "form", "size_bytes", "entries", "cursor_ledger_id")
    }
    if save.info is None:
        return row
    return row | _acknowledged(save.info.position, save.info.individually_deleted, save.info.batch_deleted)


def _acknowledged(
    mark_delete: Position, deleted: PositionRangeSet, sets: AckSetMapping | None
) -> dict[str, Any]:
    """Return the columns that describe acknowledged positions."""
    return {
        "mark_delete_ledger_id": mark_delete.ledger_id,
        "mark_delete_entry_id": mark_delete.entry_id,
        "individually_deleted": str(deleted),
        "range_count": len(deleted),
        "individually_deleted_entries": deleted.cardinality,
        "batch_deleted": None if sets is None else {str(at): list(words) for at, words in sets.items()},
    }


def _stats_row(stats: SubscriptionStats) -> dict[str, Any]:
    names = {
        "topic": stats.topic,
        "subscription": stats.subscription,
        "file": stats.source,
        "time_ms": stats.time_ms,
    }
    try:
        stats.required()
    except StatsError as error:
        return {**names, "delayed_messages": stats.delayed_messages, "error": error.reason}
    return {
        **names,
        **_acknowledged(stats.mark_delete_position, stats.individually_deleted, stats.batch_deleted),
        "backlog_entries": stats.backlog_entries,
        "delayed_messages": stats.delayed_messages,
        "ledgers": dict(stats.ledgers),
    }
