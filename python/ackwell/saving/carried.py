"""What a loaded state holds beside the cursor's part. The next save writes it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.saving.source import TrackedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.position import Position


class Carried:
    """What a loaded state holds beside the cursor's part: read by a `Subscription`, else written back."""

    __slots__ = ("idle_since", "redelivery_counts", "taken", "unknown_fields")

    def __init__(
        self,
        redelivery_counts: Mapping[Position, int] | None = None,
        idle_since: int | None = None,
        unknown_fields: bytes = b"",
    ) -> None:
        self.redelivery_counts = TrackedDict()
        self.redelivery_counts.update(redelivery_counts or {})
        """How often entries were redelivered."""
        self.idle_since = idle_since
        """Since when a broker saw the cursor idle, in milliseconds since the epoch."""
        self.unknown_fields = unknown_fields
        """Open transactions of a subscription, and the fields of newer brokers."""
        self.taken = False
        """Whether a subscription has taken the state over, which now saves all of it."""

    def fields(self, is_acked: Callable[[int, int], bool]) -> dict[str, Any]:
        """Return the fields of `PositionInfo`, without the counts of acknowledged entries. O(counts)."""
        for position in [each for each in self.redelivery_counts if is_acked(*each)]:
            del self.redelivery_counts[position]
        return {
            "redelivery_counts": self.redelivery_counts,
            "idle_since": self.idle_since,
            "unknown_fields": self.unknown_fields,
        }
