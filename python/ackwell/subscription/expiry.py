"""How far a broker expires messages: its search for the last entry to expire, with where it gives up.

Up to an entry of a closed ledger it expires at once. In the ledger that is still written to it looks, first
at the last entry of the topic and then by halves, for the last entry at or before the one asked for. It ends
with what it has found so far as soon as it would look at an entry behind which everything is acknowledged.
So a subscription whose newest entries are acknowledged expires less than it was asked to, often one entry.
(`PersistentMessageExpiryMonitor.expireMessages`, `OpFindNewest`, `ManagedCursorImpl.hasMoreEntries`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import Ledgers
    from ackwell.cursor import Cursor


def found_by_search(cursor: Cursor, wanted: Position) -> Position | None:
    """Return up to where a broker expires; `None` for nothing. O(ledgers · log entries)."""
    ledgers = cursor.ledgers
    if ledgers.contains(*wanted) and ledgers.state(wanted.ledger_id) == "closed":
        return wanted
    last, last_unacked = ledgers.last_position, _last_unacknowledged(cursor)
    if last is None or last_unacked is None:
        return None
    first = ledgers.next_valid(*cursor.mark_delete_position)
    if first > wanted:
        return None
    found, low, high = first, 0, ledgers.entries_between(cursor.mark_delete_position, last)
    if last <= last_unacked and last <= wanted:
        return last
    if last > last_unacked:
        return found
    while True:
        middle = low + max((high - low) // 2, 1)
        if high <= low:
            return found
        looked_at = _entry_after(ledgers, first, middle)
        if looked_at is None:
            return found
        if looked_at <= wanted:
            found, low = looked_at, middle
        else:
            high = middle - 1


def _last_unacknowledged(cursor: Cursor) -> Position | None:
    for ledger_id, entries in reversed([*cursor.ledgers]):
        entry_id = entries - 1
        acked = cursor.individually_deleted.range_containing(ledger_id, entry_id)
        if acked is not None:
            entry_id = acked[1]
        if entry_id >= 0:
            position = Position(ledger_id, entry_id)
            return position if position > cursor.mark_delete_position else None
    return None


def _entry_after(ledgers: Ledgers, first: Position, count: int) -> Position | None:
    """Return the entry so many after the first."""
    for ledger_id, entries in ledgers:
        if ledger_id < first.ledger_id:
            continue
        start = first.entry_id if ledger_id == first.ledger_id else 0
        if start + count < entries:
            return Position(ledger_id, start + count)
        count -= entries - start
    return None
