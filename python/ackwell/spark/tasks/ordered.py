"""One subscription's events, in order, through `Subscription`; runs on the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from ackwell import Ledgers
from ackwell.ack_sets import after, to_words, within, without
from ackwell.cursor import Cursor
from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.replay import tables
from ackwell.replay.events import Event, Kind, event_from_fields
from ackwell.subscription import ConsumerKey, Subscription, SubscriptionSettings, sticky_key_hash

MOMENT_SCHEMA: Final = tables.arrow_schema(tables.MOMENTS)
_ROWS: Final = 64

_NOWHERE: Final = Cursor(Ledgers()).mark_delete_position
"""The position of a cursor before any ledger is known."""

NO_LIMITS: Final = SubscriptionSettings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)
"""The broker has decided already, so no limit of ours holds anything back."""


class Followed:
    """A subscription that follows its recorded events."""

    def __init__(self) -> None:
        self.ledgers = Ledgers()
        self.redeliveries = 0
        self._type = "Shared"
        self._sizes: dict[Position, int] = {}
        self._subscription = Subscription(self._type, self.ledgers, settings=NO_LIMITS)

    @property
    def cursor(self) -> Cursor:
        """What is acknowledged."""
        return self._subscription.cursor

    def feed(self, event: Event) -> None:  # noqa: C901 (one case a kind)
        """Apply one event."""
        position = Position(event.ledger_id or 0, event.entry_id or 0)
        consumer = event.consumer or ""
        match event.kind:
            case Kind.PUBLISH:
                self._publish(event, position)
            case Kind.CONSUMER_OPEN:
                self._take_type(event.detail)
                self._open(consumer)
            case Kind.RECEIVE:
                self._publish(event, position)
                self._receive(event, position)
            case Kind.ACK | Kind.ACK_CUMULATIVE:
                self._acknowledge(event, position)
            case Kind.NACK if consumer in self._subscription.consumers:
                self._subscription.redeliver(consumer, [position])
            case Kind.REDELIVER_UNACKED if consumer in self._subscription.consumers:
                self._subscription.redeliver(consumer)
            case Kind.SEEK:
                self._reset(position)
            case Kind.CLEAR_BACKLOG:
                last = position if event.ledger_id is not None else self.ledgers.last_position
                if last is None:
                    raise ProtocolError("backlog cleared before anything was published")
                self._reset(self.ledgers.next_valid(*last))
            case Kind.CONSUMER_CLOSE:
                self._close(consumer)
            case Kind.CLIENT_CLOSED | Kind.UNLOAD | Kind.BROKER_RESTART:
                for name in self._subscription.consumers:
                    self._close(name)

    def row(self, name: tuple[str, str], at_ms: int | None) -> dict[str, Any]:
        """Return the row of the table `MOMENTS` for now."""
        summary = self._subscription.summary(at_ms or 0)
        return {
            "topic": name[0],
            "subscription": name[1],
            "at_ms": at_ms,
            "mark_delete_ledger_id": self.cursor.mark_delete_position.ledger_id,
            "mark_delete_entry_id": self.cursor.mark_delete_position.entry_id,
            "individually_deleted": str(self.cursor.individually_deleted),
            "backlog_entries": self.cursor.backlog_entries,
            "unacked_messages": summary.unacked,
            "pending_entries": {each.name: each.pending_entries for each in summary.consumers},
            "pending_messages": {each.name: each.unacked for each in summary.consumers},
            "redeliveries": self.redeliveries,
        }

    def _publish(self, event: Event, position: Position) -> None:
        nowhere = self.ledgers.last_position is None and self.cursor.mark_delete_position == _NOWHERE
        self.ledgers.grow(position.ledger_id, position.entry_id + 1)
        if nowhere:
            self.cursor.reset(position.ledger_id, 0)
        size = event.batch_size
        if size is None and event.batch_index is not None:
            size = event.batch_index + 1
        if size is not None and size > self._sizes.get(position, 0):
            self._sizes[position] = size

    def _receive(self, event: Event, position: Position) -> None:
        """Apply a receive: a batch is one delivery, but its messages are received one by one."""
        consumer = event.consumer or ""
        self._open(consumer)
        # Only the first message of a batch is the delivery; those after it come with it.
        if event.batch_index or self.cursor.is_acked(*position):
            return
        self.redeliveries += bool(event.redelivery_count)
        key_hash = event.sticky_key_hash
        if key_hash is None:
            key_hash = 0 if event.key is None else sticky_key_hash(event.key)
        self._subscription.delivered(
            consumer,
            *position,
            event.time_ms or 0,
            batch_size=self._sizes.get(position, 1),
            sticky_key_hash=key_hash,
        )

    def _acknowledge(self, event: Event, position: Position) -> None:
        cumulative = event.kind is Kind.ACK_CUMULATIVE
        if cumulative and self._type == "Shared":
            # No event names the type, and a broker refuses this on Shared.
            self._take_type("Exclusive")
        ack_set = event.ack_set or ()
        size = event.batch_size or self._sizes.get(position, 0)
        if not ack_set and event.batch_index is not None and size > 1:
            unacked = after(event.batch_index) if cumulative else without(event.batch_index)
            ack_set = to_words(within(unacked, size))
        known = event.consumer in self._subscription.consumers
        consumer = event.consumer if known else None
        method = self._subscription.ack_cumulative if cumulative else self._subscription.ack
        method(consumer, *position, ack_set)

    def _open(self, consumer: str) -> None:
        if consumer not in self._subscription.consumers:
            self._subscription.add_consumer(consumer)

    def _close(self, consumer: ConsumerKey) -> None:
        if consumer in self._subscription.consumers:
            self._subscription.remove_consumer(consumer)

    def _take_type(self, detail: str | None) -> None:
        """Take the type that the broker reported, as long as no consumer is connected."""
        if detail and detail != self._type and not self._subscription.consumers:
            self._type = detail
            self._begin(self.cursor)

    def _reset(self, position: Position) -> None:
        """Apply a seek: it closes all consumers, and nothing is pending any more."""
        self.cursor.reset(*position)
        self._begin(self.cursor)

    def _begin(self, cursor: Cursor) -> None:
        self._subscription = Subscription(self._type, cursor=cursor, settings=NO_LIMITS)


def follow_batches(batches: Iterable[pa.RecordBatch], moments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Follow the subscriptions of sorted event rows, one after the other."""
    rows: list[dict[str, Any]] = []
    for name, events in groupby(_events(batches), key=lambda event: (event.topic, event.subscription)):
        rows += _follow(name, events, moments)
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=MOMENT_SCHEMA)


def _follow(
    name: tuple[str, str], events: Iterable[Event], moments: Sequence[int]
) -> Iterator[dict[str, Any]]:
    followed = Followed()
    waiting = list(moments)
    last: tuple[str | None, int] | None = None
    for event in events:
        if last == (event.file, event.sequence):
            continue
        last = event.file, event.sequence
        while waiting and event.time_ms is not None and event.time_ms > waiting[0]:
            yield followed.row(name, waiting.pop(0))
        try:
            followed.feed(event)
        except (ProtocolError, ValueError) as error:
            where = f"{name[0]}, {name[1]}, file {event.file!r}, sequence {event.sequence}"
            raise ProtocolError(f"{where}: {error}") from None
    for moment in [*waiting, None]:
        yield followed.row(name, moment)


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[Event]:
    for batch in batches:
        # In slices: a row as a Python object takes a kilobyte.
        for start in range(0, batch.num_rows, 4_096):
            for fields in batch.slice(start, 4_096).to_pylist():
                file, line = fields["file"] or None, fields["sequence"]
                yield event_from_fields(fields, file=file, line=line)
