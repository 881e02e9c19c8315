"""Back-offs: the time for which a negatively acknowledged message waits before its redelivery.

The structures are a min-heap of deadlines and a map from position to deadline. When a back-off is ended
early, its position is removed from the map only. The deadline stays in the heap without effect, until it is
at the top and is dropped. Every operation is amortised O(log n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import TripleLongHeap
    from ackwell.arrays import Int64s
    from ackwell.subscription.structures import Structures
    from ackwell.subscription.subscription_settings import RedeliveryBackoff


class Backoffs(EqualByState):
    """The entries in their back-off. It maps each position to the time at which the entry is queued."""

    __slots__ = ("_backoff", "_deadlines", "due_ms")

    def __init__(self, structures: Structures, backoff: RedeliveryBackoff) -> None:
        self._backoff = backoff
        self._deadlines: TripleLongHeap = structures.triple_heap()
        self.due_ms: dict[Position, int] = {}
        """Position → deadline in milliseconds. Only this class changes it."""

    def __len__(self) -> int:
        return len(self.due_ms)

    def start(self, position: Position, now_ms: int, redelivery_count: int) -> None:
        """Start the back-off of an entry; if the entry is already in its back-off, start it anew."""
        due_ms = now_ms + self._backoff.delay_ms(redelivery_count)
        self._deadlines.add(due_ms, *position)
        self.due_ms[position] = due_ms

    def stop(self, ledger_id: int, entry_id: int) -> None:
        """End the back-off of an entry, if it has one."""
        if self.due_ms:
            self.due_ms.pop(Position(ledger_id, entry_id), None)

    def stop_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """End the back-offs of those entries that have one."""
        if self.due_ms:
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.due_ms.pop(Position(*pair), None)

    def forget_up_to(self, position: Position) -> None:
        """End the back-offs of all entries up to and including a position."""
        for waiting in [each for each in self.due_ms if each <= position]:
            del self.due_ms[waiting]

    def clear(self) -> None:
        """End all back-offs."""
        self._deadlines.clear()
        self.due_ms.clear()

    def pop_due(self, now_ms: int) -> list[Position]:
        """Remove and return the entries whose back-off is over."""
        found = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            _, ledger_id, entry_id = self._deadlines.pop()
            position = Position(ledger_id, entry_id)
            del self.due_ms[position]
            found.append(position)
        return found

    def next_due_ms(self) -> int | None:
        """Return the time at which the first back-off ends; `None` if there is none. Amortised O(log n)."""
        if not self.due_ms:
            if len(self._deadlines):
                self._deadlines.clear()
            return None
        while True:
            due_ms, ledger_id, entry_id = self._deadlines.peek()
            if self.due_ms.get(Position(ledger_id, entry_id)) == due_ms:
                return due_ms
            self._deadlines.pop()

    @property
    def nbytes(self) -> int:
        """The heap bytes of the heap and of the map."""
        return self._deadlines.nbytes + self.due_ms.__sizeof__()

    def validate(self) -> None:
        """Check the heap. Check that each back-off in the map has a deadline in the heap."""
        self._deadlines.validate()
        deadlines = {((ledger, entry), due_ms) for due_ms, ledger, entry in self._deadlines}
        assert deadlines >= {(tuple(position), due_ms) for position, due_ms in self.due_ms.items()}, (
            "a back-off has no deadline"
        )
