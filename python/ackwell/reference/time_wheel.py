"""`TimeWheel` as a sorted list of messages whose times are rounded up to a tick."""

from __future__ import annotations

from ackwell.reference.delayed import DelayedList
from ackwell.reference.integers import INT64_MAX, int64


class TimeWheel(DelayedList):
    """Times are rounded up to multiples of `tick_ms`, saturating; 1 is exact."""

    def __init__(self, tick_ms: int) -> None:
        super().__init__()
        self.tick_ms = int64(tick_ms)
        if self.tick_ms < 1:
            raise ValueError(f"tick is at least 1 ms, got {self.tick_ms}")

    def rounded(self, deliver_at_ms: int) -> int:
        """Round up to a tick; past int64 is the end of time."""
        return min(-(-deliver_at_ms // self.tick_ms) * self.tick_ms, INT64_MAX)

    def settings(self) -> str:
        """Name the constructor's argument."""
        return f"tick_ms={self.tick_ms}"
