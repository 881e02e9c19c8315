"""`TripleLongHeap` as a sorted list that keeps duplicates."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from tests.reference.delayed import DelayedList, Triple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class TripleLongHeap(DelayedList):
    """A min-heap of `(deliver_at_ms, ledger_id, entry_id)`; any three int64, duplicates count."""

    @classmethod
    def from_arrays(
        cls, deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike
    ) -> TripleLongHeap:
        """Build a heap of three int64 arrays of one length."""
        heap = cls()
        heap.add_many(deliver_at_ms, ledger_ids, entry_ids)
        return heap

    def _accept(self, ledger_id: int, entry_id: int) -> None:
        """Accept any integers, because a heap has no restrictions."""

    def _insert(self, message: Triple) -> bool:
        insort(self._messages, message)
        return True

    @property
    def capacity(self) -> int:
        """The number of messages, because a list's capacity is not visible."""
        return len(self)

    def peek(self) -> Triple:
        """Return the earliest message; `IndexError` if the heap is empty."""
        return self._messages[0]

    def pop(self) -> Triple:
        """Remove and return the earliest message; `IndexError` if the heap is empty."""
        return self._messages.pop(0)
