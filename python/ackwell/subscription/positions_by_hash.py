"""Positions by sticky-key hash. Each position blocks later messages of its hash, which must not overtake it.

A position is stored twice: in a map from position to hash, and in the sorted list of its hash. The list
stores a position as a single integer, so that comparisons are fast. The memory depends on the number of
positions, not on the number of keys.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import PendingAcks
    from ackwell.arrays import Int64s
    from ackwell.subscription.structures import Structures


class PositionsByHash(EqualByState):
    """A set of positions with their hashes: a map from position to hash, and a sorted list for each hash."""

    __slots__ = ("_hashes", "_sorted", "active")

    def __init__(self, structures: Structures) -> None:
        self._hashes: PendingAcks = structures.pending_acks()
        self._sorted: dict[int, list[int]] = {}
        self.active = False
        """Whether the set contains any position."""

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, position: Position) -> bool:
        return position in self._hashes

    def add(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        """Add a position, or change its hash.

        With n positions of the hash: O(log n) if the new position is greater than all of them, else O(n).
        """
        self.discard(ledger_id, entry_id)
        self._hashes.add(ledger_id, entry_id, 1, sticky_key_hash)
        insort(self._sorted.setdefault(sticky_key_hash, []), ledger_id << 63 | entry_id)
        self.active = True

    def discard(self, ledger_id: int, entry_id: int) -> None:
        """Remove a position, if it is in the set."""
        value = self._hashes.remove_and_get(ledger_id, entry_id)
        if value is not None:
            self._drop(ledger_id, entry_id, value[1])
            self.active = bool(self._sorted)

    def remove_up_to(self, position: Position) -> None:
        """Remove all positions up to and including the given position."""
        ledger_ids, entry_ids, _, hashes = self._hashes.take_all_up_to(*position)
        for row in zip(ledger_ids.tolist(), entry_ids.tolist(), hashes.tolist(), strict=True):
            self._drop(*row)
        self.active = bool(self._sorted)

    def clear(self) -> None:
        """Remove all positions."""
        self._hashes.clear()
        self._sorted.clear()
        self.active = False

    def hash_of(self, position: Position) -> int | None:
        """Return the hash of a position; `None` if the position is not in the set."""
        value = self._hashes.get(position)
        return None if value is None else value[1]

    def has_earlier(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        """Return whether the set contains an earlier position with this hash. O(1)."""
        waiting = self._sorted.get(sticky_key_hash)
        return waiting is not None and waiting[0] < ledger_id << 63 | entry_id

    def has_any(self, sticky_key_hashes: Int64s) -> bool:
        """Return whether the set contains a position of any of these hashes. O(hashes)."""
        return not self._sorted.keys().isdisjoint(sticky_key_hashes.tolist())

    def positions(self) -> dict[Position, int]:
        """Return a map from each position to its hash. O(positions)."""
        return {Position(*position): value[1] for position, value in self._hashes.items()}

    @property
    def nbytes(self) -> int:
        """The heap bytes of the map and of the lists, including the integers in the lists."""
        lists = sum(each.__sizeof__() + 40 * len(each) for each in self._sorted.values())
        return self._hashes.nbytes + self._sorted.__sizeof__() + lists

    def validate(self) -> None:
        """Check that the map and the lists contain the same positions."""
        self._hashes.validate()
        assert self.active == (len(self._hashes) > 0)
        expected: dict[int, list[int]] = {}
        for (ledger_id, entry_id), sticky_key_hash in self.positions().items():
            expected.setdefault(sticky_key_hash, []).append(ledger_id << 63 | entry_id)
        assert self._sorted == expected, f"positions by hash are {self._sorted}, expected {expected}"

    def _drop(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        waiting = self._sorted[sticky_key_hash]
        del waiting[bisect_left(waiting, ledger_id << 63 | entry_id)]
        if not waiting:
            del self._sorted[sticky_key_hash]
