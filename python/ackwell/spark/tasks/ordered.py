"""Sorted events through `FollowedTopic`, and what it shows as rows; runs on the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from ackwell.errors import EventError
from ackwell.replay import tables
from ackwell.replay.events import event_from_fields
from ackwell.replay.sequence import Followed, FollowedTopic

MOMENT_SCHEMA: Final = tables.arrow_schema(tables.MOMENTS)
_ROWS: Final = 64

Fields = dict[str, Any]


def follow_batches(batches: Iterable[pa.RecordBatch], moments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Follow the topics of sorted event rows, one after the other; return rows of the table `MOMENTS`."""
    rows: list[Fields] = []
    for topic, events in groupby(_fields(batches), key=lambda fields: fields["topic"]):
        if topic is None:
            first = next(events)
            raise EventError("topic is null", file=first["file"] or None, line=first["sequence"])
        for row in _follow(topic, events, moments):
            rows.append(row)
            if len(rows) >= _ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)


def _follow(topic: str, events: Iterable[Fields], moments: Sequence[int]) -> Iterator[Fields]:
    followed = FollowedTopic()
    waiting = list(moments)
    last: tuple[Any, ...] | None = None
    for fields in events:
        order = fields["file"], fields["sequence"], fields["subscription"]
        if order == last and fields["sequence"] is not None:
            continue
        last = order
        while waiting and fields["time_ms"] is not None and fields["time_ms"] > waiting[0]:
            yield from _rows(topic, followed, waiting.pop(0))
        _feed(followed, fields)
    for moment in [*waiting, None]:
        yield from _rows(topic, followed, moment)


def _feed(followed: FollowedTopic, fields: Fields) -> None:
    file, line = fields["file"] or None, fields["sequence"]
    try:
        event = event_from_fields(fields, file=file, line=line)
        if line is None:
            raise EventError("sequence is null", file=file)
    except EventError as error:
        # What belongs to no subscription could be the error of none.
        if not fields["subscription"]:
            raise
        followed.refuse(fields["subscription"], str(error))
    else:
        followed.feed(event)


def _rows(topic: str, followed: FollowedTopic, at_ms: int | None) -> Iterator[Fields]:
    for name, subscription in sorted(followed.subscriptions.items()):
        names = {"topic": topic, "subscription": name, "at_ms": at_ms}
        if name in followed.errors:
            yield names | {"error": followed.errors[name]}
        elif not subscription.is_deleted:
            yield names | _state(subscription, at_ms or 0)


def _state(followed: Followed, now_ms: int) -> Fields:
    """Return the columns of the table `MOMENTS` for now."""
    cursor, summary = followed.cursor, followed.summary(now_ms)
    return {
        "mark_delete_ledger_id": cursor.mark_delete_position.ledger_id,
        "mark_delete_entry_id": cursor.mark_delete_position.entry_id,
        "individually_deleted": str(cursor.individually_deleted),
        "batch_deleted": {str(position): list(words) for position, words in cursor.batch_deleted.items()},
        "backlog_entries": cursor.backlog_entries,
        "unacked_messages": summary.unacked,
        "pending_entries": {each.name: each.pending_entries for each in summary.consumers},
        "pending_messages": {each.name: each.unacked for each in summary.consumers},
        "redeliveries": followed.redeliveries,
    }


def _fields(batches: Iterable[pa.RecordBatch]) -> Iterator[Fields]:
    for batch in batches:
        # In slices: a row as a Python object takes a kilobyte.
        for start in range(0, batch.num_rows, 4_096):
            yield from batch.slice(start, 4_096).to_pylist()
