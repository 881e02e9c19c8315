"""When a broker writes a cursor, and what was written last: all that it finds again after a crash.

A managed cursor writes to its ledger about once a second (`managedLedgerDefaultMarkDeleteRateLimit`), and
what that holds back within `managedLedgerCursorPositionFlushSeconds`. Acknowledging only parts of batches
writes nothing while no entry beyond the mark-delete position is acknowledged. What of the state is written
is `ackwell.broker.writes`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.broker.writes import CursorLedger, MemoryState

if TYPE_CHECKING:
    from ackwell.cursor import Cursor
    from ackwell.devbroker.clock import Clock

BETWEEN_WRITES_MS: Final = 1_000
"""`managedLedgerDefaultMarkDeleteRateLimit` of 1 a second."""


class RateLimit:
    """One write a second, as the limiter that a managed cursor has counts.

    A write is allowed as soon as the one before is paid for. A second without writes pays for the next, so
    after a rest two writes follow each other at once.
    """

    def __init__(self, now_ms: int) -> None:
        self._free_ms = float(now_ms)
        self._saved = 0.0

    def allows(self, now_ms: int) -> bool:
        """Decide one write; one that is allowed is counted."""
        if now_ms < self._free_ms:
            return False
        self._saved = min(self._saved + (now_ms - self._free_ms) / BETWEEN_WRITES_MS, 1.0)
        self._free_ms = now_ms + (1.0 - self._saved) * BETWEEN_WRITES_MS
        self._saved = 0.0
        return True


class CursorWrites:
    """The writes of one cursor; `written` is the state as it was last written, whole."""

    def __init__(self, cursor: Cursor, clock: Clock, flush_ms: int, ledger: CursorLedger) -> None:
        self._cursor = cursor
        self._clock = clock
        self._flush_ms = flush_ms
        self._dirty = False
        self._limit = RateLimit(clock.now_ms())
        self.ledger = ledger
        """Open from the first write on; read-only before that where the cursor was recovered from it."""
        self.written = MemoryState.held(cursor.to_state())

    def changed(self, *, whole: bool) -> None:
        """Take note of an acknowledgment: of whole entries, or of parts of batches only."""
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
