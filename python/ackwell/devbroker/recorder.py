"""What happened in the broker, in the event schema of `ackwell.replay`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ackwell.replay.events import Event, Kind

if TYPE_CHECKING:
    from ackwell.devbroker.clock import Clock

Row = tuple[int, str, str, Kind, int, tuple[int, int] | None, dict[str, Any]]


class Recorder:
    """Keeps the newest events; they become `Event` objects when somebody asks."""

    def __init__(self, clock: Clock, max_events: int) -> None:
        self._clock = clock
        self._rows: deque[Row] = deque(maxlen=max_events)
        self._sequence = 0

    def record(
        self, topic: str, subscription: str, kind: Kind, place: tuple[int, int] | None, fields: dict[str, Any]
    ) -> None:
        """Take down one event."""
        self._sequence += 1
        self._rows.append((self._sequence, topic, subscription, kind, self._clock.now_ms(), place, fields))

    def events(self) -> list[Event]:
        """Return the events in their order."""
        return [_event(*row) for row in self._rows]

    def clear(self) -> None:
        """Forget the events."""
        self._rows.clear()


def _event(
    sequence: int,
    topic: str,
    subscription: str,
    kind: Kind,
    time_ms: int,
    place: tuple[int, int] | None,
    fields: dict[str, Any],
) -> Event:
    ledger_id, entry_id = place or (None, None)
    return Event(
        topic, subscription, sequence, kind, time_ms, ledger_id=ledger_id, entry_id=entry_id, **fields
    )
