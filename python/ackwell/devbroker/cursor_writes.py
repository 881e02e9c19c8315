"""The times at which a broker writes a cursor, and the last written state, which survives a crash.

A managed cursor writes to its ledger about once a second (`managedLedgerDefaultMarkDeleteRateLimit`), and
writes postponed changes within `managedLedgerCursorPositionFlushSeconds`. An acknowledgment of a part of a
batch is written only if an entry after the mark-delete position is acknowledged. `ackwell.broker.writes`
decides which parts of the state are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.writes import CursorLedger, MemoryState

if TYPE_CHECKING:
    from ackwell.cursor import Cursor
    from ackwell.devbroker.clock import Clock

WRITES_PER_S: Final = 1.0
"""`managedLedgerDefaultMarkDeleteRateLimit`."""


class RateLimit:
    """A limit of writes per second, with the rules of the rate limiter of a managed cursor.

    Each write uses one permit. With a rate of N, a new permit is available after 1/N seconds. The unused
    permits of up to one second are saved, so after a pause two writes may follow each other at once. A rate
    of 0 means no limit.
    """

    def __init__(self, now_ms: int, rate: float = WRITES_PER_S) -> None:
        self.rate = rate
        self._free_ms = float(now_ms)
        self._saved = 0.0

    def allows(self, now_ms: int) -> bool:
        """Return whether a write is allowed now, and count it if it is."""
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
    """The writes of one cursor; `written` is the complete state that was written last."""

    def __init__(self, cursor: Cursor, clock: Clock, flush_ms: int, ledger: CursorLedger) -> None:
        self._cursor = cursor
        self._clock = clock
        self._flush_ms = flush_ms
        self._dirty = False
        self._limit = RateLimit(clock.now_ms())
        self.ledger = ledger
        """The state of the cursor ledger: open after the first write. Before that, read-only if the cursor
        was recovered from a ledger."""
        self.written = MemoryState.held(cursor.to_state())

    def limit_rate(self, persistence: dict[str, Any] | None) -> None:
        """Set the rate of a persistence policy (`managedLedgerMaxMarkDeleteRate`)."""
        rate = WRITES_PER_S if persistence is None else persistence["managedLedgerMaxMarkDeleteRate"]
        if rate != self._limit.rate:
            self._limit = RateLimit(self._clock.now_ms(), rate)

    def changed(self, *, whole: bool) -> None:
        """Write the cursor, or schedule a write; `whole` means that whole entries were acknowledged."""
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
        self.written = MemoryState.held(self._cursor.to_state())
