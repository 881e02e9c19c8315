"""Ack timeouts: find the messages that a consumer did not acknowledge in time.

All messages delivered within one tick have the same deadline. The tracker is a queue of pairs of a deadline
and the set of positions with this deadline. A message costs one bit, and its acknowledgment costs nothing.
When a deadline passes, the positions of its set that are still pending have timed out. If a message is
returned before its deadline, it is removed from the set. So if it is delivered again, only the new deadline
counts.

An extension adds the message to the set of a later deadline. The message also stays in its earlier set until
the earlier deadline passes, so an extension needs no search.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.position import Position

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ackwell._native import PositionRangeSet
    from ackwell.subscription.structures import Structures


class AckTimeouts(EqualByState):
    """The ack-timeout deadlines of the entries that one consumer has."""

    __slots__ = ("_extended", "_sets", "_structures", "_tick_ms", "_timeout_ms")

    def __init__(self, structures: Structures, timeout_ms: int, tick_ms: int) -> None:
        self._structures = structures
        self._timeout_ms = timeout_ms
        self._tick_ms = tick_ms
        self._sets: deque[tuple[int, PositionRangeSet]] = deque()
        self._extended: dict[Position, int] = {}
        """Position of each extended message → its current deadline."""

    def start(self, ledger_id: int, entry_id: int, now_ms: int) -> None:
        """Start the timeout of one entry that is delivered at `now_ms`; O(1)."""
        self._open(now_ms).add(ledger_id, entry_id)

    def start_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike, now_ms: int) -> None:
        """Start the timeouts of many entries that are delivered at `now_ms`."""
        self._open(now_ms).add_many(ledger_ids, entry_ids)

    def extend(self, position: Position, now_ms: int) -> None:
        """Restart the timeout of an entry at `now_ms`; O(1)."""
        self._open(now_ms).add(*position)
        self._extended[position] = self._sets[-1][0]

    def stop(self, ledger_id: int, entry_id: int) -> None:
        """Remove the deadline of an entry that is no longer pending; O(timeout / tick)."""
        for _, positions in self._sets:
            positions.remove(ledger_id, entry_id)
        if self._extended:
            self._extended.pop(Position(ledger_id, entry_id), None)

    def clear(self) -> None:
        """Remove all deadlines."""
        self._sets.clear()
        self._extended.clear()

    def pop_due(self, now_ms: int) -> list[Position]:
        """Remove all deadlines that have passed, and return their positions.

        The result can contain positions that are no longer pending. The caller skips them.
        """
        due: list[Position] = []
        while self._sets and self._sets[0][0] <= now_ms:
            deadline_ms, positions = self._sets.popleft()
            for position in positions.positions():
                if self._extended.get(position, deadline_ms) == deadline_ms:
                    self._extended.pop(position, None)
                    due.append(position)
        return due

    def next_due_ms(self) -> int | None:
        """Return the earliest deadline, or `None` if there is none. Amortised O(1) for each extension."""
        while self._sets:
            deadline_ms, positions = self._sets[0]
            first = next(positions.positions(), None)
            if first is None:
                self._sets.popleft()
            elif self._extended.get(first, deadline_ms) == deadline_ms:
                return deadline_ms
            else:
                positions.remove(*first)
        return None

    @property
    def nbytes(self) -> int:
        """The heap bytes of the sets and of the map of extended messages."""
        return sum(positions.nbytes for _, positions in self._sets) + self._extended.__sizeof__()

    def _open(self, now_ms: int) -> PositionRangeSet:
        # Rounded up to the tick, so that no message times out early.
        deadline = -(-(now_ms + self._timeout_ms) // self._tick_ms) * self._tick_ms
        if not self._sets or self._sets[-1][0] < deadline:
            self._sets.append((deadline, self._structures.position_range_set()))
        return self._sets[-1][1]
