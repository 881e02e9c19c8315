"""`TimeBuckets` as a sorted list of messages whose times are rounded to a bucket."""

from __future__ import annotations

from ackwell.reference.delayed import DelayedList
from ackwell.reference.integers import INT64_MAX, int64

BITS_MAX = 62


class TimeBuckets(DelayedList):
    """Buckets of `2**bits` ms; "pulsar" truncates, "never_early" rounds up and saturates."""

    def __init__(self, bits: int, mode: str = "pulsar") -> None:
        super().__init__()
        bits = int64(bits)
        if not 0 <= bits <= BITS_MAX:
            raise ValueError(f"bits are 0 to {BITS_MAX}, got {bits}")
        if mode not in ("pulsar", "never_early"):
            raise ValueError(f"mode is 'pulsar' or 'never_early', got {mode!r}")
        self.bits = bits
        self.mode = mode

    @classmethod
    def from_tick(cls, tick_time_ms: int, mode: str = "pulsar") -> TimeBuckets:
        """Derive the width from a tick time as the broker does: floor(log2(tick)) bits."""
        tick_time_ms = int64(tick_time_ms)
        if tick_time_ms < 1:
            raise ValueError(f"tick time is at least 1 ms, got {tick_time_ms}")
        return cls(min(tick_time_ms.bit_length() - 1, BITS_MAX), mode)

    def rounded(self, deliver_at_ms: int) -> int:
        """Cut the low bits off, or round them up."""
        width = 1 << self.bits
        if self.mode == "pulsar":
            return deliver_at_ms // width * width
        return min(-(-deliver_at_ms // width) * width, INT64_MAX)

    def settings(self) -> str:
        """Name the constructor's arguments."""
        return f"bits={self.bits}, mode={self.mode!r}"

    @property
    def bucket_count(self) -> int:
        """The number of different rounded times."""
        return len({time for time, _, _ in self})
