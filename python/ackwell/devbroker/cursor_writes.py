"""Emulates when a Pulsar broker writes a cursor. The last written state survives a crash.

A managed cursor writes to its ledger at most about once a second (`managedLedgerDefaultMarkDeleteRateLimit`).
A change that exceeds this rate is written within `managedLedgerCursorPositionFlushSeconds`. The
acknowledgment of a part of a batch causes a write only if an entry after the mark-delete position is
acknowledged. `ackwell.broker.writes` decides which parts of the state are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.writes import CursorLedger, MemoryState

if TYPE_CHECKING:
    from ackwell.cursor import Cursor
    from ackwell.devbroker.clock import Clock

WRITES_PER_S: Final = 1.0
"""The default rate of cursor writes per second (`managedLedgerDefaultMarkDeleteRateLimit`)."""


class RateLimit:
    """A limit of writes per second. It has the same rules as the rate limiter of a managed cursor.

    Each write uses one permit. With a rate of N, a new permit becomes available every 1/N seconds. Unused
    permits are saved, up to the permits of one second. After a pause, two writes may therefore follow each
    other at once. A rate of 0 means no limit.
    """

    def __init__(self, now_ms: int, rate: float = WRITES_PER_S) -> None:
        self.rate = rate
        self._free_ms = float(now_ms)
        self._saved = 0.0

    def allows(self, now_ms: int) -> bool:
        """Return whether the limit permits a write at this time. If it does, count the write."""
        if self.rate <= 0:
            return True
        if now_ms < self._free_ms:
            return False
        between_ms, at_most = 1_000 / self.rate, self.rate
        self._saved = min(self._saved + (now_ms - self._free_ms) / between_ms, at_most)
        used = min(self._saved, 1.0)
        self._saved -= used
        self._free_ms = now_ms + (1.0 - used) * between_ms
        return True


class CursorWrites:
    """The writes of one cursor. `written` is the state of the last write, which survives a crash."""

    def __init__(self, cursor: Cursor, clock: Clock, flush_ms: int, ledger: CursorLedger) -> None:
        self._cursor = cursor
        self._clock = clock
        self._flush_ms = flush_ms
        self._dirty = False
        self._limit = RateLimit(clock.now_ms())
        self.ledger = ledger
        """The state of the cursor ledger: `open` after the first write of this cursor. Before the first
        write, it is `read-only` if the cursor was recovered from a ledger, and otherwise `none`."""
        self.written = MemoryState.from_state(cursor.to_state())

    def limit_rate(self, persistence: dict[str, Any] | None) -> None:
        """Set the rate of writes from a persistence policy (`managedLedgerMaxMarkDeleteRate`)."""
        rate = WRITES_PER_S if persistence is None else persistence["managedLedgerMaxMarkDeleteRate"]
        if rate != self._limit.rate:
            self._limit = RateLimit(self._clock.now_ms(), rate)

    def write_or_schedule(self, *, whole: bool) -> None:
        """Write the cursor now if the rate limit permits it; otherwise schedule a write.

        `whole` is true if any entry was acknowledged as a whole, and false if only parts of batches were
        acknowledged. If `whole` is false, do nothing unless an entry after the mark-delete position is
        acknowledged.
        """
        if not whole and not len(self._cursor.individually_deleted):
            return
        now_ms = self._clock.now_ms()
        if self._limit.allows(now_ms):
            self._write()
        elif not self._dirty:
            self._dirty = True
            self._clock.call_at(now_ms + self._flush_ms, self._flush)

    def _flush(self) -> None:
        if self._dirty:
            self._limit.allows(self._clock.now_ms())
            self._write()

    def _write(self) -> None:
        self._dirty = False
        self.ledger = "open"
        self.written = MemoryState.from_state(self._cursor.to_state())
