"""Moves of the cursor that an administrator requests: seek, skip, expire, clear the backlog, change the type.

Such a move may acknowledge all messages up to a position on every subscription type. A consumer may not do
this on a Shared or Key_Shared subscription.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.subscription.expiry import found_by_search

if TYPE_CHECKING:
    from ackwell.protocol.constants import SubscriptionType
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.state import State


class CursorMoves:
    """Applies moves to the cursor, and to all other state that depends on the cursor."""

    def __init__(self, state: State) -> None:
        self._state = state

    def seek(self, position: Position, ack_set: tuple[int, ...]) -> None:
        """Move the cursor so that the given position is read next.

        An ack set selects the messages of the entry at this position that become unacknowledged: those whose
        bit is set.
        """
        # The reset also drops the redelivery counts, because the cursor saves them.
        self._state.cursor.reset(*position, ack_set)
        self._state.start_over()

    def change_type(self, kind: SubscriptionType, selector: Selector | None) -> None:
        """Change the subscription type; `ProtocolError` while a consumer is connected."""
        state = self._state
        if len(state.consumers):
            raise ProtocolError(
                f"the subscription is {state.kind} and has consumers; it cannot become {kind}",
                code=ErrorCode.CONSUMER_BUSY,
            )
        state.change_type(kind, selector)

    def acknowledge_up_to(self, position: Position) -> int:
        """Acknowledge all messages up to a position; return the number of entries that this changed."""
        state = self._state
        before = state.cursor.backlog_entries
        last = state.cursor.ledgers.last_position
        if last is None or position <= state.cursor.mark_delete_position:
            return 0
        position = min(position, last)
        if not state.cursor.ledgers.contains(*position):
            position = state.cursor.ledgers.previous_valid(*position)
            if position.entry_id < 0 or position <= state.cursor.mark_delete_position:
                return 0
        state.cursor.ack_cumulative(*position)
        state.forget_acknowledged()
        return before - state.cursor.backlog_entries

    def expire(self, requested: Position) -> int:
        """Acknowledge all messages up to a position; return the number of entries that this changed.

        With `expires_by_search`, this position is the entry that a broker's search finds. It can be before
        the requested entry (see `expiry`).
        """
        state = self._state
        by_search = state.settings.expires_by_search
        position = found_by_search(state.cursor, requested) if by_search else requested
        return 0 if position is None else self.acknowledge_up_to(position)

    def skip(self, entries: int) -> int:
        """Acknowledge the first `entries` unacknowledged entries; return how many entries changed."""
        position = self._unacknowledged(entries)
        return 0 if position is None else self.acknowledge_up_to(position)

    def clear_backlog(self) -> int:
        """Acknowledge every existing entry; return the number of entries that this changed."""
        state = self._state
        last = state.cursor.ledgers.last_position
        cleared = 0 if last is None else self.acknowledge_up_to(last)
        if state.delayed is not None:
            state.delayed.clear()
        return cleared

    def _unacknowledged(self, count: int) -> Position | None:
        """Return the last of the first `count` unacknowledged entries, or of all if there are fewer.

        Return None if all entries are acknowledged, or if `count` is 0.
        """
        import numpy as np

        cursor, found, left = self._state.cursor, None, count
        mark_delete = cursor.mark_delete_position
        ledger_ids, lower, upper = cursor.individually_deleted.to_arrays()
        for ledger_id, entries in cursor.ledgers:
            if ledger_id < mark_delete.ledger_id or not left:
                continue
            ranges = slice(*np.searchsorted(ledger_ids, [ledger_id, ledger_id + 1]))
            first = mark_delete.entry_id + 1 if ledger_id == mark_delete.ledger_id else 0
            starts = np.concatenate([[first], upper[ranges] + 1])
            sizes = np.maximum(np.concatenate([lower[ranges] + 1, [entries]]) - starts, 0)
            ends = np.cumsum(sizes)
            taken = min(left, int(ends[-1]))
            if taken:
                gap = int(np.searchsorted(ends, taken))
                found = Position(ledger_id, int(starts[gap] + sizes[gap] - (ends[gap] - taken)) - 1)
                left -= taken
        return found
