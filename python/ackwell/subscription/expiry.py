"""The search with which a broker finds the last entry to expire. It can end before the requested entry.

If the requested entry is in a closed ledger, the broker expires all entries up to it. In the open ledger, the
broker searches for the last entry at or before the requested entry. It first probes the last entry of the
topic, and then bisects. The search ends early, with the entry found so far, if all entries at and after the
next probe are acknowledged. So if the newest entries are acknowledged, fewer entries expire than requested,
often only one.

Source: `PersistentMessageExpiryMonitor.expireMessages`, `OpFindNewest`, `ManagedCursorImpl.hasMoreEntries`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import Ledgers
    from ackwell.cursor import Cursor


def found_by_search(cursor: Cursor, requested: Position) -> Position | None:
    """Return the last entry that a broker expires after a request to expire all entries up to `requested`.

    Return None if the broker expires no entry.

    O(ledgers · log entries).
    """
    ledgers = cursor.ledgers
    if ledgers.contains(*requested) and ledgers.state(requested.ledger_id) == "closed":
        return requested
    last, last_unacked = ledgers.last_position, _last_unacknowledged(cursor)
    if last is None or last_unacked is None:
        return None
    first = ledgers.next_valid(*cursor.mark_delete_position)
    if first > requested:
        return None
    found, low, high = first, 0, ledgers.entries_between(cursor.mark_delete_position, last)
    if last <= last_unacked and last <= requested:
        return last
    if last > last_unacked:
        return found
    while True:
        middle = low + max((high - low) // 2, 1)
        if high <= low:
            return found
        probed = _entry_after(ledgers, first, middle)
        if probed is None:
            return found
        if probed <= requested:
            found, low = probed, middle
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
    """Return the entry that is `count` entries after the entry `first`; None if there is no such entry."""
    for ledger_id, entries in ledgers:
        if ledger_id < first.ledger_id:
            continue
        start = first.entry_id if ledger_id == first.ledger_id else 0
        if start + count < entries:
            return Position(ledger_id, start + count)
        count -= entries - start
    return None
