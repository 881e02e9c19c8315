"""`TimeBuckets` as a sorted list of messages whose times are rounded to a bucket."""

from __future__ import annotations

from ackwell.reference.delayed import DelayedList
from ackwell.reference.integers import INT64_MAX, int64

BITS_MAX = 62
MODES = ("round_down", "round_up", "bucket_end")


class TimeBuckets(DelayedList):
    """Buckets of `2**bits` ms, all due at a multiple of that or at the last ms before one."""

    def __init__(self, bits: int, mode: str = "round_down") -> None:
        super().__init__()
        bits = int64(bits)
        if not 0 <= bits <= BITS_MAX:
            raise ValueError(f"bits are 0 to {BITS_MAX}, got {bits}")
        if mode not in MODES:
            raise ValueError(f"mode is one of {MODES}, got {mode!r}")
        self.bits = bits
        self.mode = mode

    @classmethod
    def from_tick(cls, tick_time_ms: int, mode: str = "round_down") -> TimeBuckets:
        """Derive the width from a tick time as the broker does: floor(log2(tick)) bits."""
        tick_time_ms = int64(tick_time_ms)
        if tick_time_ms < 1:
            raise ValueError(f"tick time is at least 1 ms, got {tick_time_ms}")
        return cls(min(tick_time_ms.bit_length() - 1, BITS_MAX), mode)

    def rounded(self, deliver_at_ms: int) -> int:
        """Return when the bucket of a time is due; rounding up saturates."""
        width = 1 << self.bits
        start = deliver_at_ms // width * width
        if self.mode == "round_down":
            return start
        if self.mode == "bucket_end":
            return start + width - 1
        return min(-(-deliver_at_ms // width) * width, INT64_MAX)

    def settings(self) -> str:
        """Name the constructor's arguments."""
        return f"bits={self.bits}, mode={self.mode!r}"

    @property
    def bucket_count(self) -> int:
        """The number of different rounded times."""
        return len({time for time, _, _ in self})
