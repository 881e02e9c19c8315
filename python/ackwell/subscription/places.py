"""A check that each existing entry of a subscription is in exactly one place: not in none, and not in two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell._native import PositionRangeSet
    from ackwell.subscription.state import State


def check_places(state: State) -> None:
    """Raise `AssertionError` if an existing entry is not in exactly one place. O(entries).

    The places are: acknowledged, held whole by an open transaction, pending at a consumer, queued for
    redelivery, delayed, a dead letter, unread. There is one exception. The tracker of delayed messages may
    still contain an entry that is acknowledged or held. The tracker drops such an entry at its delivery time.
    """
    places = _places(state)
    seen = state.structures.position_range_set()
    for place, positions in places.items():
        expected = seen.cardinality + positions.cardinality
        union = seen | positions
        if union.cardinality != expected:
            position = next(each for each in positions.positions() if seen.contains(*each))
            other = next(name for name, others in places.items() if others.contains(*position))
            raise AssertionError(f"{position} is {other} and {place}")
        seen = union
    delayed = state.delayed
    if delayed is not None:
        for place in ("pending", "queued", "a dead letter"):
            for position in places[place].positions():
                assert not delayed.contains(*position), f"{position} is {place} and delayed"
    if state.policy.individual:
        for position in (_read(state) - seen).positions():
            is_delayed = delayed is not None and delayed.contains(*position)
            assert is_delayed, f"{position} is in no place"
    for place in ("pending", "queued", "a dead letter"):
        for position in places[place].positions():
            assert position < state.unread.position, f"{position} is {place} and unread"


def _places(state: State) -> dict[str, PositionRangeSet]:
    """Return the set of positions in each place, except unread and delayed.

    An entry has the place "in a transaction" if it is not acknowledged, and open transactions hold all its
    messages.
    """
    new = state.structures.position_range_set
    pending = new()
    for consumer in state.consumers:
        for position in consumer.pending:
            assert pending.add(*position), f"{position} is pending at two consumers"
    held = new()
    for position in {
        *(position for position, _ in state.transactions.held_entries()),
        *state.transactions.kept,
    }:
        unacked = state.cursor.unacked_bits(*position)
        acked = state.cursor.is_acked(*position)
        if not acked and state.transactions.holds_all(position, unacked):
            held.add(*position)
    acknowledged = state.cursor.acknowledged()
    return {
        "acknowledged": acknowledged,
        "in a transaction": held,
        "pending": pending,
        "queued": state.replay.as_set(),
        # An acknowledged entry is no longer a dead letter. A held entry stays in the set of dead letters
        # until the commit.
        "a dead letter": state.counts.dead - acknowledged - held,
    }


def _read(state: State) -> PositionRangeSet:
    """Return every existing entry before the read position."""
    read = state.structures.position_range_set()
    ledger_id, entry_id = state.unread.position
    for each, entries in state.cursor.ledgers:
        last = entries - 1 if each < ledger_id else min(entry_id, entries) - 1
        if each <= ledger_id and last >= 0:
            read.add_range(each, -1, last)
    return read
