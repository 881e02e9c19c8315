"""Computes the change of a cursor's state between two saves. A save of a small change is small.

A `Change` contains the new mark-delete position, the newly acknowledged positions, and the changed ack sets
and redelivery counts. If the properties, `idle_since` or unknown fields changed, the `Change` contains their
new values. Applying a change adds its acknowledgments to those of the state. The change from state A to state
B can therefore be applied to A, to B, and to every state between them. The result is always B.

A change cannot revoke acknowledgments. It removes the ack set or the redelivery count of an entry only if the
whole entry is acknowledged. For a change that does more, such as a reset of the cursor, `difference` returns
None, and the caller saves the whole state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackwell._native import AckSets, PositionInfo, PositionRangeSet
    from ackwell.position import Position

# These fields share one flag and are always replaced together, because they are small and rarely change.
OTHERS = ("idle_since", "unknown_fields")
# The field exists only in states of brokers before 2.4. A cursor resolves the field when it loads such a
# state.
NOT_IN_DELTAS = ("spanning_ranges",)


class Change(NamedTuple):
    """The differences between an earlier state and a later state, with the values of the later state."""

    changes: PositionInfo
    """A state that contains the new mark-delete position, and only the added or changed values of the other
    fields."""
    properties: bool = False
    """Whether the change replaces the properties. If false, the earlier properties stay."""
    others: bool = False
    """Whether the change replaces `idle_since` and the unknown fields. If false, the earlier values stay."""
    moves: bool = True
    """Whether the mark-delete position of the later state differs from that of the earlier state."""

    @property
    def empty(self) -> bool:
        """Whether the two states are equal, so that the change has no effect."""
        changes = self.changes
        return not (
            self.moves
            or self.properties
            or self.others
            or changes.individually_deleted.cardinality
            or changes.batch_deleted
            or changes.redelivery_counts
        )


def difference(before: PositionInfo, after: PositionInfo) -> Change | None:
    """Return the change from the state `before` to the state `after`.

    Return None if a `Change` cannot express the difference.

    O(ranges), about as fast as a copy of the ranges, plus O(ack sets and redelivery counts).
    """
    mark_delete = after.position
    acked, kept = after.individually_deleted, before.individually_deleted
    kept.remove_up_to(*mark_delete)
    first = acked.first_range()
    if (
        mark_delete < before.position
        or (kept - acked).cardinality
        or (first is not None and first[:2] < mark_delete)
        or any(getattr(before, name) != getattr(after, name) for name in NOT_IN_DELTAS)
    ):
        return None
    old_sets, sets = _open_sets(before.batch_deleted, mark_delete, acked), after.batch_deleted
    counts, old_counts = after.redelivery_counts, before.redelivery_counts
    if (
        len(_open_sets(after.batch_deleted, mark_delete, acked)) != len(sets)
        or any(position not in sets for position in old_sets.changed_from(sets))
        or _uncovered(counts, mark_delete, acked) != counts
        or _uncovered(old_counts, mark_delete, acked).keys() - counts.keys()
    ):
        return None
    properties = before.properties != after.properties
    others = any(getattr(before, name) != getattr(after, name) for name in OTHERS)
    changes = after.replace(
        individually_deleted=acked - kept,
        properties=after.properties if properties else {},
        idle_since=after.idle_since if others else None,
        unknown_fields=after.unknown_fields if others else b"",
        batch_deleted=sets.changed_from(old_sets),
        redelivery_counts={
            position: count for position, count in counts.items() if old_counts.get(position) != count
        },
    )
    return Change(changes, properties, others, mark_delete != before.position)


def merge(first: Change, second: Change) -> Change:
    """Return one change that has the effect of `first` followed by `second`.

    The result can be applied to the state before `first`, or to the state between `first` and `second`. Both
    give the state after `second`.
    """
    acked = first.changes.individually_deleted | second.changes.individually_deleted
    newest_properties = second if second.properties else first
    newest_others = second if second.others else first
    position = second.changes.position
    acked.remove_up_to(*position)
    sets = first.changes.batch_deleted
    sets.update(second.changes.batch_deleted)
    counts = {**first.changes.redelivery_counts, **second.changes.redelivery_counts}
    changes = second.changes.replace(
        individually_deleted=acked,
        properties=newest_properties.changes.properties,
        **{name: getattr(newest_others.changes, name) for name in OTHERS},
        batch_deleted=_open_sets(sets, position, acked),
        redelivery_counts=_uncovered(counts, position, acked),
    )
    return Change(changes, first.properties or second.properties, first.others or second.others)


def replay(before: PositionInfo, changes: Iterable[Change]) -> PositionInfo:
    """Apply changes to the state `before`, in order, and return the resulting state.

    No change revokes an acknowledgment. The ack sets and redelivery counts of acknowledged entries are
    therefore removed only once, after the last change.
    """
    position, acked, properties = before.position, before.individually_deleted, before.properties
    sets, counts = before.batch_deleted, before.redelivery_counts
    others = before
    for change in changes:
        state = change.changes
        position = state.position
        acked |= state.individually_deleted
        properties = state.properties if change.properties else properties
        others = state if change.others else others
        sets.update(state.batch_deleted)
        counts.update(state.redelivery_counts)
    acked.remove_up_to(*position)
    return before.replace(
        ledger_id=position.ledger_id,
        entry_id=position.entry_id,
        individually_deleted=acked,
        properties=properties,
        **{name: getattr(others, name) for name in OTHERS},
        batch_deleted=_open_sets(sets, position, acked),
        redelivery_counts=_uncovered(counts, position, acked),
    )


def _open_sets(sets: AckSets, mark_delete: Position, acked: PositionRangeSet) -> AckSets:
    """Remove the ack sets of wholly acknowledged entries. Change `sets` in place, and return it."""
    sets.remove_up_to(*mark_delete)
    sets.remove_ranges(acked)
    return sets


def _uncovered(
    counts: Mapping[Position, int], mark_delete: Position, acked: PositionRangeSet
) -> dict[Position, int]:
    """Return the redelivery counts without those of entries that are acknowledged as a whole."""
    return {
        position: value
        for position, value in counts.items()
        if position > mark_delete and position not in acked
    }
