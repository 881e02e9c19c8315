"""Records the events of the broker, in the event schema of `ackwell.replay`.

A single event is stored as an `Event`. Events of the same kind for many entries are stored as one `EventRun`.
The `EventRun` creates the `Event` objects when the events are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from typing import Unpack

    from ackwell.devbroker.clock import Clock
    from ackwell.replay.events import EventFields


EVENT_RUN_MAX: Final = 1_000
"""The maximum number of publishes in one `EventRun`. The recorder drops its oldest events one `EventRun` at a
time."""


class EventRun(NamedTuple):
    """Events of one kind for many entries, such as the publishes or the acknowledgments of these entries."""

    sequence: int
    topic: str
    subscription: str
    kind: Kind
    time_ms: int
    consumer: str | None
    columns: Sequence[Sequence[int]]
    """The ledger ids, the entry ids, optionally the batch sizes, and optionally the redelivery counts."""

    def events(self) -> Iterator[Event]:
        """Yield one event for each entry."""
        for number, (ledger_id, entry_id, *others) in enumerate(zip(*self.columns, strict=True)):
            size, count, *_ = *others, None, None
            yield Event(
                self.topic,
                self.subscription,
                self.sequence + number,
                self.kind,
                self.time_ms,
                self.consumer,
                ledger_id,
                entry_id,
                batch_size=size,
                redelivery_count=count,
            )


class Recorder:
    """Keeps the newest events, about `max_events` of them."""

    def __init__(self, clock: Clock, max_events: int) -> None:
        self._clock = clock
        self._max = max_events
        self._rows: deque[Event | EventRun] = deque()
        self._published: tuple[EventRun | None, list[int], list[int], list[int]] = None, [], [], []
        """The newest run of publishes, and its columns. Publishes are added to the columns until another
        event is recorded."""
        self._sequence = 0
        self._forgotten = 0

    def record(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        position: tuple[int, int] | None = None,
        consumer: str | None = None,
        **fields: Unpack[EventFields],
    ) -> None:
        """Record one event."""
        self._sequence += 1
        ledger_id, entry_id = position or (None, None)
        now_ms = self._clock.now_ms()
        self._rows.append(
            Event(topic, subscription, self._sequence, kind, now_ms, consumer, ledger_id, entry_id, **fields)
        )
        if self._sequence - self._forgotten > self._max:
            self._forget()

    def record_publish(self, topic: str, position: tuple[int, int], batch_size: int) -> None:
        """Record a publish. Publishes to the same topic in the same millisecond form one `EventRun`."""
        self._sequence = sequence = self._sequence + 1
        now_ms = self._clock.now_ms()
        run, ledger_ids, entry_ids, sizes = self._published
        rows = self._rows
        if (
            run is None
            or not rows
            or rows[-1] is not run
            or run.time_ms != now_ms
            or run.topic != topic
            or len(sizes) >= EVENT_RUN_MAX
        ):
            ledger_ids, entry_ids, sizes = [], [], []
            columns = ledger_ids, entry_ids, sizes
            run = EventRun(sequence, topic, "", Kind.PUBLISH, now_ms, None, columns)
            self._published = run, ledger_ids, entry_ids, sizes
            rows.append(run)
        ledger_ids.append(position[0])
        entry_ids.append(position[1])
        sizes.append(batch_size)
        if sequence - self._forgotten > self._max:
            self._forget()

    def record_run(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        consumer: str,
        columns: Sequence[Sequence[int]],
    ) -> None:
        """Record the same kind of event for many entries as one `EventRun`."""
        count = len(columns[0])
        if not count:
            return
        now_ms = self._clock.now_ms()
        self._rows.append(EventRun(self._sequence + 1, topic, subscription, kind, now_ms, consumer, columns))
        self._sequence += count
        if self._sequence - self._forgotten > self._max:
            self._forget()

    def clear(self) -> None:
        """Drop all events."""
        self._rows.clear()
        self._sequence = self._forgotten = 0

    def events(self) -> list[Event]:
        """Return all recorded events, in the order in which they happened."""
        return [
            event for row in self._rows for event in (row.events() if isinstance(row, EventRun) else (row,))
        ]

    def _forget(self) -> None:
        """Drop the oldest events until at most `max_events` are left."""
        while self._rows and self._sequence - self._forgotten > self._max:
            row = self._rows.popleft()
            self._forgotten += len(row.columns[0]) if isinstance(row, EventRun) else 1
