"""Files of events as Arrow batches, on the executors: the same parser as local replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from ackwell.broker.stats import SubscriptionStats, read_stats
from ackwell.replay import tables
from ackwell.replay.events import Event, read_events

EVENT_SCHEMA: Final = tables.arrow_schema(tables.EVENTS)
STATS_SCHEMA: Final = tables.arrow_schema(tables.STATS)
_ROWS: Final = 65_536


def event_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Read one file of events; `EventError` names the file and line of anything that is none."""
    yield from to_batches(read_events([path]))


def to_batches(events: Iterable[Event]) -> Iterator[pa.RecordBatch]:
    """Return events as rows of the table `EVENTS`."""
    events = iter(events)
    while rows := list(islice(events, _ROWS)):
        columns = [
            pa.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), EVENT_SCHEMA, strict=True)
        ]
        yield pa.record_batch(columns, schema=EVENT_SCHEMA)


def stats_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Read one dump of stats-internal; `StatsError` names the file and what is wrong with it."""
    rows = [_stats_row(stats) for stats in read_stats(path)]
    yield pa.RecordBatch.from_pylist(rows, schema=STATS_SCHEMA)


def _stats_row(stats: SubscriptionStats) -> dict[str, Any]:
    deleted = stats.individually_deleted
    sets = stats.batch_deleted
    return {
        "topic": stats.topic,
        "subscription": stats.subscription,
        "file": stats.source,
        "time_ms": stats.time_ms,
        "mark_delete_ledger_id": stats.mark_delete_position.ledger_id,
        "mark_delete_entry_id": stats.mark_delete_position.entry_id,
        "individually_deleted": str(deleted),
        "range_count": len(deleted),
        "individually_deleted_entries": deleted.cardinality,
        "batch_deleted": None if sets is None else {str(p): list(w) for p, w in sets.items()},
        "backlog_entries": stats.backlog_entries,
        "delayed_messages": stats.delayed_messages,
        "ledgers": dict(stats.ledgers),
    }
