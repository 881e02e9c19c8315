"""Redelivery counts, and dead letters: messages with a redelivery count above the maximum.

The count of a message increases when its consumer returns it or does not acknowledge it in time. If a
consumer is lost, `SubscriptionSettings.lost_counts` selects the messages whose count increases. An
acknowledgment removes the count. The counts are part of the saved state; those of a broker are not
(apache/pulsar#25533).
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from ackwell.cursor.changes import ChangedPositions
from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackwell._native import PendingAcks, PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.subscription.structures import Structures


class RedeliveryCounts:
    """The redelivery count of each entry, the dead letters, and the suspects (see `in_hand`)."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_counts", "_dead", "_limit", "_suspects", "active", "changed", "suspecting")

    def __init__(self, structures: Structures, limit: int | None) -> None:
        # The structure is a `PendingAcks` whose field `remaining` stores the redelivery count.
        self._counts: PendingAcks = structures.pending_acks()
        self._dead: PositionRangeSet = structures.position_range_set()
        self._suspects: PositionRangeSet = structures.position_range_set()
        self._limit = limit
        self.active = False
        """Whether any entry has a redelivery count."""
        self.suspecting = False
        """Whether any entry is a suspect."""
        self.changed = ChangedPositions()
        """The entries whose count changed since the last save."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RedeliveryCounts):
            return NotImplemented
        # `changed` is not compared, because it depends on the time of the last save.
        return (self._counts, self._dead, self._suspects, self._limit) == (
            other._counts,
            other._dead,
            other._suspects,
            other._limit,
        )

    def get(self, position: Position) -> int | None:
        """Return the redelivery count of an entry; `None` if it has none."""
        return self._counts.get_remaining(*position)

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, ledger_id: int, entry_id: int) -> int:
        """Return the redelivery count of an entry; 0 if it has none."""
        value = self._counts.get_remaining(ledger_id, entry_id) if self.active else None
        return 0 if value is None else value

    def counts(self) -> Iterator[tuple[Position, int]]:
        """Yield the position and the count of each entry that has a redelivery count."""
        return ((Position(*position), count) for position, (count, _) in self._counts.items())

    def counts_of(self, ledger_ids: Int64s, entry_ids: Int64s) -> Int64s | None:
        """Return the counts of many entries; `None` if no entry of the subscription has a count."""
        if not self.active:
            return None
        import numpy as np

        found: Int64s = np.maximum(self._counts.get_many(ledger_ids, entry_ids)[0], 0)
        return found

    def restore(self, position: Position, count: int) -> None:
        """Set the redelivery count of an entry to the count in a saved state."""
        self._counts.add(*position, count, 0)
        self.changed.add(position)
        self.active = True

    def increment(self, ledger_id: int, entry_id: int) -> None:
        """Increase the redelivery count of an entry by one."""
        self._counts.add(ledger_id, entry_id, self.count(ledger_id, entry_id) + 1, 0)
        self.changed.add(Position(ledger_id, entry_id))
        self.active = True

    def increment_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Increase the redelivery count of each of many entries by one."""
        import numpy as np

        if not len(ledger_ids):
            return
        self._changed_many(ledger_ids, entry_ids)
        counts = self.counts_of(ledger_ids, entry_ids)
        ones = np.ones(len(ledger_ids), dtype=np.int64)
        self._counts.add_many(ledger_ids, entry_ids, ones if counts is None else counts + 1, ones * 0)
        self.active = True

    def is_dead(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the redelivery count of an entry exceeds the maximum.

        If it does, add the entry to the dead letters.
        """
        if not self.exceeds(ledger_id, entry_id):
            return False
        self._dead.add(ledger_id, entry_id)
        self.clear_suspicion(ledger_id, entry_id)
        return True

    def exceeds(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the redelivery count of an entry exceeds the maximum."""
        return self._limit is not None and self.count(ledger_id, entry_id) > self._limit

    def forget_dead(self) -> None:
        """Clear the set of dead letters. A dead letter that is read again is added again."""
        self._dead.clear()

    def suspect(self, positions: Iterable[Position], *, counted: bool = True) -> None:
        """Add entries to the suspects. If `counted`, increase the redelivery count of each by one."""
        for position in positions:
            if counted:
                self.increment(*position)
            self._suspects.add(*position)
            self.suspecting = True

    def is_suspect(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is a suspect."""
        return self.suspecting and self._suspects.contains(ledger_id, entry_id)

    def clear_suspicion(self, ledger_id: int, entry_id: int) -> None:
        """Remove an entry from the suspects, for example because its consumer returned it without a crash."""
        if self.suspecting:
            self._suspects.remove(ledger_id, entry_id)
            self.suspecting = self._suspects.cardinality > 0

    def clear_suspicion_of(self, positions: Iterable[tuple[int, int]]) -> None:
        """Remove entries from the suspects."""
        for position in positions:
            self.clear_suspicion(*position)

    @property
    def suspects(self) -> PositionRangeSet:
        """The set of suspects itself, not a copy. Do not change it."""
        return self._suspects

    @property
    def dead(self) -> PositionRangeSet:
        """The set of unacknowledged dead letters itself, not a copy. Do not change it."""
        return self._dead

    @property
    def limited(self) -> bool:
        """Whether there is a maximum redelivery count, so that messages can become dead letters."""
        return self._limit is not None

    def reset(self, ledger_id: int, entry_id: int) -> None:
        """Remove the redelivery count of an entry. The entry is then neither a dead letter nor a suspect."""
        if self.active:
            self.changed.add(Position(ledger_id, entry_id))
            self._counts.remove(ledger_id, entry_id)
            self._dead.remove(ledger_id, entry_id)
            self.clear_suspicion(ledger_id, entry_id)
            self.active = len(self._counts) > 0

    def reset_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Remove the redelivery counts of many entries, as `reset` does."""
        if self.active:
            self._changed_many(ledger_ids, entry_ids)
            self._counts.remove_many(ledger_ids, entry_ids)
            self._dead.remove_many(ledger_ids, entry_ids)
            self._suspects.remove_many(ledger_ids, entry_ids)
            self.suspecting = self._suspects.cardinality > 0
            self.active = len(self._counts) > 0

    def forget_up_to(self, position: Position) -> None:
        """Remove the redelivery counts of all entries up to and including a position."""
        if self.active:
            self.changed.update(takewhile(position.__ge__, (each for each, _ in self.counts())))
            self._counts.remove_all_up_to(*position)
            self._dead.remove_up_to(*position)
            self._suspects.remove_up_to(*position)
            self.suspecting = self._suspects.cardinality > 0
            self.active = len(self._counts) > 0

    def clear(self) -> None:
        """Remove all redelivery counts, dead letters and suspects."""
        self.changed.update(position for position, _ in self.counts())
        self._counts.clear()
        self._dead.clear()
        self._suspects.clear()
        self.active = self.suspecting = False

    def _changed_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        if self.changed.remembers:
            self.changed.update(map(Position, ledger_ids.tolist(), entry_ids.tolist()))

    @property
    def nbytes(self) -> int:
        """The heap bytes of counts, dead letters and suspects."""
        return self._counts.nbytes + self._dead.nbytes + self._suspects.nbytes

    def validate(self) -> None:
        """Check the maps and sets. Check that each dead letter and each suspect has a count."""
        self._counts.validate()
        self._dead.validate()
        assert self.active == (len(self._counts) > 0), "active does not match the counts"
        assert self.suspecting == (self._suspects.cardinality > 0), "suspecting does not match the suspects"
        assert all(self._counts.contains(*position) for position in (self._dead | self._suspects).positions())
        assert not any(self._dead.contains(*position) for position in self._suspects.positions())
