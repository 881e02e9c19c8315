"""The fields of a saved state that a cursor does not use, but carries for its subscription.

A loaded cursor keeps these fields of the loaded state in a `LoadedFields`, and writes them with the next
save. A `Subscription` replaces the `LoadedFields` with its own current values. A save of the cursor then
includes the state of the subscription.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ackwell.cursor.changes import ChangedPositions, TrackedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.position import Position


class CarriedFields(Protocol):
    """The fields of a `PositionInfo` that are neither acknowledgments nor properties."""

    @property
    def changed_counts(self) -> ChangedPositions:
        """The positions whose redelivery count changed since the last save."""

    @property
    def idle_since(self) -> int | None:
        """The time since which a broker considers the cursor idle, in ms since 1970; None if unset."""

    @property
    def unknown_fields(self) -> bytes:
        """The fields that a cursor does not decode, as encoded bytes; for example, transactions."""

    def count_of(self, position: Position) -> int | None:
        """Return the redelivery count of an entry; None if the entry has no count. O(1)."""

    def counts(self, is_acked: Callable[[int, int], bool]) -> Mapping[Position, int]:
        """Return the redelivery counts of the entries that are not acknowledged. O(counts)."""

    def clear_counts(self) -> None:
        """Remove all redelivery counts."""


class LoadedFields:
    """The carried fields of a loaded state; only the redelivery counts can change."""

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
    def changed_counts(self) -> ChangedPositions:
        """The positions whose redelivery count was removed since the last save."""
        return self._counts.changed

    def count_of(self, position: Position) -> int | None:
        """Return the loaded redelivery count of an entry; None if the entry has no count."""
        return self._counts.get(position)

    def counts(self, is_acked: Callable[[int, int], bool]) -> Mapping[Position, int]:
        """Return the loaded redelivery counts of the entries that are not acknowledged."""
        # This copy is needed, because another thread may clear the counts during a save.
        counts = self._counts.copy()
        return {position: count for position, count in counts.items() if not is_acked(*position)}

    def clear_counts(self) -> None:
        """Remove all redelivery counts."""
        self._counts.clear()
