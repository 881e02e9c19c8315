"""The change of a cursor's state between two saves, with a size proportional to the change.

A `Change` holds the new mark-delete position, the newly acknowledged positions, the changed ack sets and
redelivery counts, and the properties, `idle_since` and unknown fields if they changed. Applying a change is a
union. A change from state A to state B can therefore be applied to A, to B, and to every state between them.
A change cannot revoke acknowledgments. Ack sets and counts leave the state only when the mark-delete position
or an acknowledgment covers their entry. For other changes, such as a reset, `difference` returns None, and
the caller saves the whole state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackwell._native import AckSets, PositionInfo, PositionRangeSet
    from ackwell.position import Position

# Replaced together, under one flag, because they are small and rarely change.
OTHERS = ("idle_since", "unknown_fields")
# Only states of brokers before 2.4 have this field, and a cursor resolves it when it loads such a state.
NOT_IN_DELTAS = ("spanning_ranges",)


class Change(NamedTuple):
    """The fields of a state that differ from the saved state, with their new values."""

    changes: PositionInfo
    """The new mark-delete position, and the added or changed values of the other fields."""
    properties: bool = False
    """Whether the properties replace the old ones."""
    others: bool = False
    """Whether `idle_since` and the unknown fields replace the old ones."""
    moves: bool = True
    """Whether the mark-delete position moves."""

    @property
    def empty(self) -> bool:
        """Whether the change has no effect."""
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
    """Return the change from `before` to `after`, or None if a `Change` cannot express it.

    O(ranges) at the speed of copying them, plus O(ack sets and redelivery counts).
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

    The change can be applied to the state before `first` or to the state between both. The result is the
    state after `second`.
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
    """Apply the changes in order to `before`, and return the last state.

    Acknowledged entries stay acknowledged, so their ack sets and counts are removed once, at the end.
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
    """Remove the ack sets of wholly acknowledged entries from `sets`, and return `sets`."""
    sets.remove_up_to(*mark_delete)
    sets.remove_ranges(acked)
    return sets


def _uncovered(
    counts: Mapping[Position, int], mark_delete: Position, acked: PositionRangeSet
) -> dict[Position, int]:
    """Return the redelivery counts of the entries that are not wholly acknowledged."""
    return {
        position: value
        for position, value in counts.items()
        if position > mark_delete and position not in acked
    }
