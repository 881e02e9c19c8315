"""The unread entries: the entries at and after the read position that need delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.cursor import Cursor
    from ackwell.subscription.transactions import Transactions


class UnreadEntries(EqualByState):
    """The read position, and a search for the entries at or after it that need delivery."""

    __slots__ = ("_cursor", "_transactions", "ledgers", "position")

    def __init__(self, cursor: Cursor, transactions: Transactions) -> None:
        self._cursor = cursor
        self.ledgers = cursor.ledgers
        self._transactions = transactions
        self.position: tuple[int, int] = (0, 0)
        """The read position: entries before it were read. There may be no entry at this position."""
        self.rewind()

    def rewind(self) -> None:
        """Set the read position to the first position after the mark-delete position."""
        ledger_id, entry_id = self._cursor.mark_delete_position
        self.position = ledger_id, entry_id + 1

    def skip_acknowledged(self) -> None:
        """Advance the read position to the position after the mark-delete position; never move it back."""
        ledger_id, entry_id = self._cursor.mark_delete_position
        self.position = max(self.position, (ledger_id, entry_id + 1))

    def needs_delivery(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is neither acknowledged nor held as a whole by open transactions."""
        if self._cursor.is_acked(ledger_id, entry_id):
            return False
        if not self._transactions.leaves_out:
            return True
        unacked = self._cursor.unacked_bits(ledger_id, entry_id)
        return not self._transactions.holds_all(Position(ledger_id, entry_id), unacked)

    def delivered(self, limit: int | None = None) -> list[Position]:
        """Return the entries before the read position that need delivery, at most the first `limit`."""
        position = self.position
        self.rewind()
        count = self.ledgers.entries_between(self._just_before(), Position(*position))
        ledger_ids, entry_ids = self.first(count if limit is None else min(count, limit))
        self.position = position
        pairs = zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)
        return [Position(*pair) for pair in pairs if pair < position]

    def is_next(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the given entry is the first unread entry."""
        ledger_ids, entry_ids = self.first(1)
        return len(ledger_ids) > 0 and (int(ledger_ids[0]), int(entry_ids[0])) == (ledger_id, entry_id)

    def held_before(self, place: tuple[int, int]) -> list[Position]:
        """Return the unread entries before `place` that open transactions hold as a whole."""
        held = (
            position for position, _ in self._transactions.held_entries() if self.position <= position < place
        )
        return sorted(
            each for each in held if not (self._cursor.is_acked(*each) or self.needs_delivery(*each))
        )

    def before(self, position: Position) -> list[Position]:
        """Return the unread entries before a position."""
        count = self.ledgers.entries_between(self._just_before(), position)
        ledger_ids, entry_ids = self.first(count)
        pairs = zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)
        return [Position(*pair) for pair in pairs if pair < position]

    def _just_before(self) -> Position:
        ledger_id, entry_id = self.position
        return Position(ledger_id, entry_id - 1)

    def first(self, limit: int) -> tuple[Int64s, Int64s]:
        """Return the first `limit` unread entries as ledger ids and entry ids.

        The read position does not change.
        """
        import numpy as np

        found: list[tuple[Int64s, Int64s]] = []
        ledgers = self.ledgers
        ledger_id, entry_id = self.position
        while limit > 0 and len(ledgers):
            if not ledgers.contains(ledger_id, entry_id):
                ledger_id, entry_id = ledgers.next_valid(ledger_id, entry_id - 1)
                if not ledgers.contains(ledger_id, entry_id):
                    break
            # Examine 1.5 times `limit` plus 64 entries. So a few acknowledged entries do not need a second
            # round.
            end = min(ledgers.entries(ledger_id), entry_id + limit + limit // 2 + 64)
            entries = self._unacknowledged(ledger_id, np.arange(entry_id, end, dtype=np.int64))[:limit]
            found.append((np.full(len(entries), ledger_id, dtype=np.int64), entries))
            limit -= len(entries)
            entry_id = end
        if len(found) == 1:
            return found[0]
        empty = np.empty(0, dtype=np.int64)
        return (
            np.concatenate([empty, *(ledger_ids for ledger_ids, _ in found)]),
            np.concatenate([empty, *(entry_ids for _, entry_ids in found)]),
        )

    def _unacknowledged(self, ledger_id: int, entries: Int64s) -> Int64s:
        import numpy as np

        deleted = self._cursor.individually_deleted
        if deleted.cardinality:
            ledger_ids = np.full(len(entries), ledger_id, dtype=np.int64)
            entries = entries[~deleted.contains_many(ledger_ids, entries)]
        mark_delete = self._cursor.mark_delete_position
        if ledger_id == mark_delete.ledger_id:
            entries = entries[entries > mark_delete.entry_id]
        elif ledger_id < mark_delete.ledger_id:
            entries = entries[:0]
        if self._transactions.leaves_out:
            entries = np.array(
                [e for e in entries.tolist() if self.needs_delivery(ledger_id, e)], dtype=np.int64
            )
        return entries
