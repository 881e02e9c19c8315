"""What is saved with a cursor and is not its own.

A cursor that was loaded writes back what it found (`Loaded`). A `Subscription` puts its own part in that
place, so whoever saves the cursor saves all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ackwell.cursor.changes import Changed, TrackedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.position import Position


class Carried(Protocol):
    """The fields of a `PositionInfo` beside acknowledgments and properties."""

    @property
    def changed_counts(self) -> Changed:
        """The positions whose redelivery count changed since the last save."""

    @property
    def idle_since(self) -> int | None:
        """Since when a broker saw the cursor idle, in milliseconds since the epoch."""

    @property
    def unknown_fields(self) -> bytes:
        """Open transactions of a subscription, its type, and the fields of newer brokers."""

    def count_of(self, position: Position) -> int | None:
        """Return the redelivery count of an entry, None for none. O(1)."""

    def counts(self, is_acked: Callable[[int, int], bool]) -> Mapping[Position, int]:
        """Return the redelivery counts of what is not acknowledged. O(counts)."""

    def clear_counts(self) -> None:
        """Drop every redelivery count."""


class Loaded:
    """What a state held when it was loaded."""

    __slots__ = ("_counts", "idle_since", "unknown_fields")

    def __init__(
        self,
        redelivery_counts: Mapping[Position, int] | None = None,
        idle_since: int | None = None,
        unknown_fields: bytes = b"",
    ) -> None:
        self._counts = TrackedDict()
        self._counts.update(redelivery_counts or {})
        self.idle_since = idle_since
        self.unknown_fields = unknown_fields

    @property
    def changed_counts(self) -> Changed:
        """The positions whose count was removed since the last save."""
        return self._counts.changed

    def count_of(self, position: Position) -> int | None:
        """Return the count that was loaded."""
        return self._counts.get(position)

    def counts(self, is_acked: Callable[[int, int], bool]) -> Mapping[Position, int]:
        """Return the counts that were loaded, without those of acknowledged entries."""
        return {position: count for position, count in self._counts.items() if not is_acked(*position)}

    def clear_counts(self) -> None:
        """Drop every count."""
        self._counts.clear()
