"""The state of a cursor at a save, and its changes since the previous save.

The structures that hold the ack sets and the redelivery counts record each position that changes after a
save. The ranges do not record changes. A save compares them bit by bit with the ranges of the previous save,
which is fast. A save therefore takes O(ranges + changes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ackwell.errors import ProtocolError
from ackwell.saving.delta import Change, difference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell._native import AckSets, PositionInfo, PositionRangeSet
    from ackwell.cursor.rules import CursorRules
    from ackwell.engine import Engine
    from ackwell.position import Position


class Baseline(NamedTuple):
    """A saved state without its ack sets and redelivery counts. The next save is compared with it."""

    mark_delete: Position
    acked: PositionRangeSet
    """The individually deleted positions; a copy, because the cursor changes its own set."""
    properties: Mapping[str, int]
    idle_since: int | None
    unknown_fields: bytes


class TrackedState:
    """The state of a cursor and its carried fields at the moment of a save.

    The constructor copies the ranges. The save writes this copy. The next save compares the ranges of the
    cursor with the copy. The constructor raises `ProtocolError` if another thread changes the cursor at the
    same time.
    """

    def __init__(self, cursor: CursorRules, engine: Engine, ack_sets: AckSets) -> None:
        self._cursor, self._engine, self._carried = cursor, engine, cursor.carried
        mark_delete = cursor.mark_delete_position
        self.now = Baseline(
            mark_delete,
            cursor.individually_deleted.copy(),
            dict(cursor.properties),
            self._carried.idle_since,
            self._carried.unknown_fields,
        )
        self._ack_sets, self._changed_sets = ack_sets, ack_sets.begin_save()
        self._counts = self._carried.changed_counts
        self._changed_counts = self._counts.begin()
        if cursor.mark_delete_position is not mark_delete:
            raise _moved()

    def check_unmoved(self) -> None:
        """Raise `ProtocolError` if another thread changed the state after the save began."""
        cursor, now = self._cursor, self.now
        if (
            cursor.mark_delete_position is not now.mark_delete
            or self._ack_sets.moved
            or self._counts.moved
            or cursor.individually_deleted.cardinality != now.acked.cardinality
        ):
            raise _moved()

    def whole(self) -> PositionInfo:
        """Return the whole state, for a full save. O(ranges + ack sets + counts)."""
        now = self.now
        info: PositionInfo = self._engine.PositionInfo(
            *now.mark_delete,
            individually_deleted=now.acked,
            batch_deleted=self._cursor.batch_deleted,
            redelivery_counts=self._carried.counts(self._cursor.is_acked),
            properties=now.properties,
            idle_since=now.idle_since,
            unknown_fields=now.unknown_fields,
        )
        return info

    def baseline(self) -> Baseline:
        """End a successful save: forget the written changes, and return the saved state as a baseline."""
        self._ack_sets.end_save()
        self._counts.end_save()
        return self.now

    def change_since(self, baseline: Baseline | PositionInfo) -> Change | None:
        """Return the changes since `baseline`; None if only the whole state can be written.

        If `baseline` is a loaded state (a `PositionInfo`), compare it with the whole present state.
        """
        if not isinstance(baseline, Baseline):
            return difference(baseline, self.whole())
        now, mark_delete = self.now, self.now.mark_delete
        kept = baseline.acked.copy()
        kept.remove_up_to(*mark_delete)
        new = now.acked - kept
        # If the numbers of positions differ, a position that was acknowledged at the baseline is not
        # acknowledged now.
        taken_back = kept.cardinality + new.cardinality != now.acked.cardinality
        if taken_back or mark_delete < baseline.mark_delete:
            return None
        counts = self._values(self._changed_counts, self._carried.count_of)
        if self._changed_sets is None or counts is None:
            return None
        properties = now.properties != baseline.properties
        others = now[3:] != baseline[3:]
        changes = self._engine.PositionInfo(
            *mark_delete,
            individually_deleted=new,
            batch_deleted=self._changed_sets,
            redelivery_counts=counts,
            properties=now.properties if properties else None,
            idle_since=now.idle_since if others else None,
            unknown_fields=now.unknown_fields if others else None,
        )
        return Change(changes, properties, others, mark_delete != baseline.mark_delete)

    def _values(
        self, positions: set[Position] | None, value_of: Callable[[Position], int | None]
    ) -> dict[Position, int] | None:
        """Return the present values of the changed `positions`; None if a save must write the whole state.

        Positions of acknowledged entries are left out. The result is None if the changed positions are
        unknown, or if the value of an unacknowledged entry was removed, because a dictionary of changes
        cannot express a removal.
        """
        if positions is None:
            return None
        mark_delete, acked = self.now.mark_delete, self.now.acked
        found = {}
        for position in positions:
            if position > mark_delete and position not in acked:
                value = value_of(position)
                if value is None:
                    return None
                found[position] = value
        return found


def _moved() -> ProtocolError:
    return ProtocolError(
        "another thread changed the state during a save: use a cursor from one thread at a time. "
        "The next save includes the changes"
    )
