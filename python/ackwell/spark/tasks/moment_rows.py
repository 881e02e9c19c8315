"""The replay of sorted events with `OrderedFold` and `TopicReplay`, to get the state at given times.

A *moment* is such a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ackwell.errors import EventError
from ackwell.replay import table_schemas
from ackwell.replay.columns import CURSOR_SCHEMA, BatchReader, cursor_batches
from ackwell.replay.events import event_from_fields
from ackwell.replay.in_order import OrderedFold
from ackwell.replay.sequence import SubscriptionReplay, TopicReplay

if TYPE_CHECKING:
    from ackwell.replay.event_columns import Columns

MOMENT_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.MOMENTS)
_OF_CURSORS: Final = (
    *(name for name in MOMENT_SCHEMA.names if name in CURSOR_SCHEMA.names and name != "unacked_messages"),
)
"""The columns of `MOMENTS` that have the values of the same columns of `CURSORS`. The column
`unacked_messages` is not one of them, because in `MOMENTS` it counts messages that are pending at
consumers."""

_ROWS: Final = 64
_EVENTS: Final = 4_096
"""The number of events that are converted to Python objects at a time. Each object takes a kilobyte."""

Fields = dict[str, Any]


def follow_batches(
    batches: Iterable[pa.RecordBatch], moments: Sequence[int], *, strict: bool = False
) -> Iterator[pa.RecordBatch]:
    """Replay event rows that are sorted by topic, and yield rows of the table `MOMENTS`."""
    rows: list[Fields] = []
    for row in _rows(batches, moments, strict=strict):
        rows.append(row)
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)


def _rows(batches: Iterable[pa.RecordBatch], moments: Sequence[int], *, strict: bool) -> Iterator[Fields]:
    reader, topic = BatchReader(), None
    for batch in batches:
        for first in range(0, batch.num_rows, _EVENTS):
            part = batch.slice(first, _EVENTS)
            columns, start = reader.columns(part), 0
            for name, group in groupby(part.to_pylist(), key=lambda fields: fields["topic"]):
                events = list(group)
                if topic is None or topic.name != name:
                    if topic is not None:
                        yield from topic.end()
                    topic = _MomentReplay(name, moments, strict=strict)
                yield from topic.feed(columns.take(slice(start, start + len(events))), events)
                start += len(events)
    if topic is not None:
        yield from topic.end()


class _MomentReplay:
    """The replay of one topic: a fold of its acknowledgments, and a replay of its consumers."""

    def __init__(self, name: str, moments: Sequence[int], *, strict: bool) -> None:
        self.name = name
        self._strict = strict
        self._fold, self._consumers = OrderedFold(), TopicReplay()
        self._waiting: list[int | None] = [*moments, None]
        self._last: tuple[Any, ...] | None = None

    def feed(self, columns: Columns, events: list[Fields]) -> Iterator[Fields]:
        """Apply the next events. Before each event, yield the rows of the moments before the event."""
        start = 0
        for row, fields in enumerate(events):
            while self._is_over(self._waiting[0], fields["time_ms"]):
                self._fold.feed(columns.take(slice(start, row)))
                start = row
                yield from self._at(self._waiting.pop(0))
            self._follow(fields)
        self._fold.feed(columns.take(slice(start, None)))

    def end(self) -> Iterator[Fields]:
        """Yield the rows of the moments after the last event, and then the row for the end of the events."""
        for moment in self._waiting:
            yield from self._at(moment)

    @staticmethod
    def _is_over(moment: int | None, time_ms: int | None) -> bool:
        return moment is not None and time_ms is not None and time_ms > moment

    def _follow(self, fields: Fields) -> None:
        order = fields["file"], fields["sequence"], fields["subscription"]
        if order == self._last:
            return
        self._last = order
        try:
            event = event_from_fields(fields, file=fields["file"] or None, line=fields["sequence"])
        except EventError as error:
            # Invalid events without a subscription are reported by the fold.
            if fields["subscription"]:
                self._consumers.fail(fields["subscription"], str(error))
        else:
            self._consumers.feed(event)

    def _at(self, at_ms: int | None) -> Iterator[Fields]:
        self._fold.end()
        self._fold.raise_flaw(all_flaws=self._strict)
        errors = self._consumers.errors
        if self._strict and errors:
            raise EventError(f"{self.name}, {min(errors)}: {errors[min(errors)]}")
        for batch in cursor_batches(self._fold, strict=self._strict):
            for row in batch.select(_OF_CURSORS).to_pylist():
                name, consumers = row["subscription"], self._consumers.subscriptions[row["subscription"]]
                row["error"] = row["error"] or errors.get(name)
                if row["error"] is not None:
                    row = {column: row[column] for column in ("topic", "subscription", "error")}
                else:
                    row |= _consumers(consumers, at_ms or 0)
                yield row | {"at_ms": at_ms}


def _consumers(consumers: SubscriptionReplay, now_ms: int) -> Fields:
    """Return the columns of the table `MOMENTS` that depend on consumers."""
    summary = consumers.summary(now_ms)
    return {
        "unacked_messages": summary.unacked,
        "pending_entries": {each.name: each.pending_entries for each in summary.consumers},
        "pending_messages": {each.name: each.unacked for each in summary.consumers},
        "redeliveries": consumers.redeliveries,
    }
