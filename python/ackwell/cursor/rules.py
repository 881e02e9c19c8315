"""The acknowledgments of a subscription, by the rules of Pulsar's `ManagedCursorImpl`.

All entries up to the *mark-delete position* are acknowledged. The *individually deleted* ranges hold the
acknowledged entries beyond it. An entry that holds a batch of messages can have an *ack set*: the messages of
the batch that are not yet acknowledged (`ackwell.cursor.ack_sets`). The mark-delete position moves as soon as
no existing entry is between it and the first range. Ranges and ack sets at or before the new mark-delete
position are then removed.

Acknowledgments commute, and repeating an acknowledgment has no further effect. Only `reset` revokes
acknowledgments. (With `CursorSettings.replace_ack_sets`, a cumulative acknowledgment inside a batch does not
commute with others.)

Every method checks its arguments before it changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from operator import index
from typing import TYPE_CHECKING, Any, Final, Self

from ackwell.arrays import as_int64
from ackwell.cursor.ack_sets import check_word_count, from_words, words_of_rows
from ackwell.cursor.carried import LoadedFields
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.cursor.cursor_state import CursorState, remove_missing
from ackwell.drawing import DrawableValue, Drawing
from ackwell.engine import engine_named, native_engine
from ackwell.errors import ProtocolError
from ackwell.integers import INT64_MAX, check_int64, is_int64
from ackwell.position import Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ackwell._native import AckSets, Ledgers, PositionInfo, PositionRangeSet
    from ackwell.arrays import Int64s
    from ackwell.cursor.carried import CarriedFields
    from ackwell.engine import Engine

_EARLIEST: Final = (-1, -1)


class CursorRules(DrawableValue):
    """A cursor in memory: its state, and the effects of acknowledgments. The subclass `Cursor` adds saves."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        ledgers: Ledgers,
        *,
        mark_delete: tuple[int, int] | None = None,
        settings: CursorSettings | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._engine = engine or native_engine()
        self._ledgers = ledgers
        self._settings = settings or CursorSettings()
        self._mark_delete = (
            _before_first(ledgers) if mark_delete is None else _checked_mark_delete(mark_delete)
        )
        self._individually_deleted: PositionRangeSet = self._engine.PositionRangeSet()
        # The acknowledged positions of a recovered state that no ledger contains. They are kept in a separate
        # set, so that no count includes them.
        self._missing: PositionRangeSet | None = None
        self._ack_sets: AckSets = self._engine.AckSets()
        self._consumed_before = 0
        self.properties: dict[str, int] = {}
        """Named int64 values that belong to the mark-delete position. They are saved with the cursor."""
        self.carried: CarriedFields = LoadedFields()
        """The fields that belong to the cursor's subscription, but are saved with the cursor."""

    @property
    def ledgers(self) -> Ledgers:
        """The ledgers of the topic, which define the existing positions."""
        return self._ledgers

    @property
    def settings(self) -> CursorSettings:
        """The rules by which this cursor treats acknowledgments."""
        return self._settings

    @property
    def mark_delete_position(self) -> Position:
        """The mark-delete position; all entries at or before it are acknowledged."""
        return self._mark_delete

    @property
    def individually_deleted(self) -> PositionRangeSet:
        """The acknowledged positions beyond the mark-delete position. Do not change it; it is not a copy."""
        if self._missing is None:
            return self._individually_deleted
        both = self._individually_deleted | self._missing
        both.remove_up_to(*self._mark_delete)
        return both

    @property
    def batch_deleted(self) -> AckSets:
        """A copy of the ack sets of partly acknowledged batches."""
        return self._ack_sets.copy()

    def unacked_bits(self, ledger_id: int, entry_id: int) -> int | None:
        """Return the unacknowledged messages of an entry as bits; None if it is not partly acknowledged."""
        return self._ack_sets.unacked_bits(ledger_id, entry_id)

    @property
    def partly_acked(self) -> int:
        """The number of partly acknowledged entries."""
        return len(self._ack_sets)

    @property
    def backlog_entries(self) -> int:
        """The number of existing entries that are not wholly acknowledged. O(log ledgers)."""
        last = self._ledgers.last_position or self._mark_delete
        acked = self._individually_deleted.cardinality
        if self._ledgers.trimmed_before > self._mark_delete.ledger_id:
            acked -= sum(
                self._individually_deleted.cardinality_of(ledger_id)
                for ledger_id in self._individually_deleted.ledger_ids()
                if ledger_id < self._ledgers.trimmed_before
            )
        return self._ledgers.entries_between(self._mark_delete, last) - acked

    @property
    def messages_consumed(self) -> int:
        """Pulsar's `messagesConsumedCounter`: the number of added entries minus `backlog_entries`.

        Only entries added after this cursor was created or recovered count as added. The value of a new
        cursor is 0, that of a recovered cursor is `-backlog_entries`. Each acknowledged entry adds 1; `reset`
        subtracts the entries that are no longer acknowledged.
        """
        return self._consumed_before + self._individually_deleted.cardinality

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the entry is wholly acknowledged."""
        if (ledger_id, entry_id) <= self._mark_delete:
            return True
        if self._individually_deleted.contains(ledger_id, entry_id):
            return True
        return self._missing is not None and self._missing.contains(ledger_id, entry_id)

    def acknowledged(self) -> PositionRangeSet:
        """Return a new set of all existing positions that are wholly acknowledged."""
        return acknowledged(self._ledgers, self._mark_delete, self._individually_deleted)

    def ack(self, ledger_id: int, entry_id: int) -> bool:
        """Acknowledge one entry. Return False if the whole entry was already acknowledged, else True.

        If the entry is already acknowledged, only its ack set is removed. Raises `ValueError` for a negative
        id. Raises `ProtocolError` for an entry that does not exist, as a broker refuses positions after the
        last entry. Amortised O(1).
        """
        if not self._ledgers.contains(ledger_id, entry_id):
            self._require_passed(Position(ledger_id, entry_id))
            return False
        mark_delete = self._mark_delete
        if (ledger_id, entry_id) <= mark_delete:
            return False
        deleted = self._individually_deleted
        if self._ack_sets:
            self._ack_sets.remove(ledger_id, entry_id)
        elif (ledger_id, entry_id - 1) == mark_delete and not deleted.cardinality:
            # The entry is the next one, and there are no ranges, so the range set is not needed. The
            # constructor of `Position` would take half of this method's time.
            self._mark_delete = tuple.__new__(Position, (ledger_id, entry_id))
            self._consumed_before += 1
            return True
        if not deleted.add(ledger_id, entry_id):
            return False
        self._advance()
        return True

    def ack_many(
        self,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        ack_sets: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> int:
        """Acknowledge many entries. Return the number of acknowledgments that changed anything.

        The two int64 arrays have equal length. The method raises `ProtocolError` if an entry does not exist,
        and `ValueError` for a negative id; nothing is then acknowledged. The mark-delete position moves once,
        at the end. O(entries).

        With `ack_sets`, the method acknowledges parts of batches, as `ack_batch` does for each row in order.
        `ack_sets` is a pair of arrays. The first contains the index of each row's first word, and as its last
        item the total number of words. The second contains the words of all rows. A row without words
        acknowledges the whole entry.
        """
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        if ack_sets is not None:
            return int((self.ack_parts(ledgers, entries, *ack_sets) >= 0).sum())
        self._require_all_passed(ledgers, entries)
        return self._ack_whole(ledgers, entries)

    def ack_parts(
        self, ledger_ids: ArrayLike, entry_ids: ArrayLike, starts: ArrayLike, words: ArrayLike
    ) -> Int64s:
        """Call `ack_part` for each row in order, and return the results. `ack_many` describes the arrays."""
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        firsts, ack_sets = as_int64(starts), as_int64(words)
        self._require_all_passed(ledgers, entries)
        import numpy as np

        if not self._settings.batch_index_acks:
            rows = zip(ledgers.tolist(), entries.tolist(), words_of_rows(firsts, ack_sets), strict=True)
            return np.array([self.ack_part(*row) for row in rows], dtype=np.int64)
        acked = self.acked_rows(ledgers, entries)
        if not acked.any():
            left = self._ack_sets.intersect_many(ledgers, entries, firsts, ack_sets)
        else:
            unacked, counts = ~acked, np.diff(firsts)
            if len(counts) != len(ledgers) or (counts < 0).any() or firsts[0] or firsts[-1] != len(ack_sets):
                raise ValueError("the starts of the rows do not divide the words")
            left = np.full(len(ledgers), -1, dtype=np.int64)
            left[unacked] = self._ack_sets.intersect_many(
                ledgers[unacked],
                entries[unacked],
                np.concatenate(([0], np.cumsum(counts[unacked]))),
                ack_sets[np.repeat(unacked, counts)],
            )
        whole = left == 0
        if whole.any():
            self._ack_whole(ledgers[whole], entries[whole])
        return left

    def acked_rows(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean array: whether the entry of each row is wholly acknowledged."""
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        ledger_id, entry_id = self._mark_delete
        acked: NDArray[np.bool_] = (ledgers < ledger_id) | ((ledgers == ledger_id) & (entries <= entry_id))
        for ranges in (self._individually_deleted, self._missing):
            if ranges:
                acked |= ranges.contains_many(ledgers, entries)
        return acked

    def _require_all_passed(self, ledgers: Int64s, entries: Int64s) -> None:
        """Check each row with `_require_passed`."""
        if not self._ledgers.contains_all(ledgers, entries, self._mark_delete):
            self._require_all(ledgers, entries)

    def _ack_whole(self, ledgers: Int64s, entries: Int64s) -> int:
        """Acknowledge existing entries. Return how many of them were not wholly acknowledged before."""
        added = self._individually_deleted.add_many(ledgers, entries)
        added -= self._individually_deleted.remove_up_to(*self._mark_delete)
        if self._ack_sets:
            self._ack_sets.remove_many(ledgers, entries)
        self._advance()
        return added

    def ack_batch(self, ledger_id: int, entry_id: int, ack_set: Iterable[int]) -> bool:
        """Acknowledge the messages whose bit in `ack_set` is clear. Return whether the call changed anything.

        `ack_set` holds at most `ack_sets.WORDS_MAX` 64-bit words, signed or unsigned, least significant bit
        first; a set bit marks a message that is not acknowledged. Without words, the call acknowledges the
        whole entry. `ack_set` and the stored ack set are combined by AND; if the result has no set bit, the
        whole entry is acknowledged. Raises the errors of `ack` and `ack_sets.from_words`. O(words).
        """
        return self.ack_part(ledger_id, entry_id, ack_set) >= 0

    def ack_part(self, ledger_id: int, entry_id: int, ack_set: Iterable[int]) -> int:
        """Do the same as `ack_batch`, but return the number of messages of the entry that are unacknowledged.

        Return -1 if the call changed nothing.
        """
        if self._settings.batch_index_acks:
            if self._ledgers.contains(ledger_id, entry_id) and not self.is_acked(ledger_id, entry_id):
                left = self._ack_sets.intersect(ledger_id, entry_id, ack_set)
                if left:
                    return left
            else:
                from_words(ack_set)
        elif from_words(ack_set):
            self._require_passed(Position(index(ledger_id), index(entry_id)))
            return -1
        return 0 if self.ack(ledger_id, entry_id) else -1

    def ack_cumulative(
        self,
        ledger_id: int,
        entry_id: int,
        ack_set: Iterable[int] | None = None,
        *,
        properties: Mapping[str, int] | None = None,
    ) -> bool:
        """Acknowledge all entries up to this one. Return whether the acknowledgments changed.

        With an `ack_set` (see `ack_batch`), the call acknowledges all earlier entries, and those messages of
        this entry whose bit is clear; see `CursorSettings.replace_ack_sets`. `properties` replace the
        properties of the cursor. If `properties` is None, the cursor keeps its properties.

        An acknowledgment before the mark-delete position changes nothing; with
        `CursorSettings.refuse_cumulative_behind` it raises `ProtocolError`. Raises the errors of `ack_batch`.
        """
        position = Position(index(ledger_id), index(entry_id))
        words = () if ack_set is None else tuple(ack_set)
        bits = from_words(words) if words else 0
        new_properties = None if properties is None else _checked_properties(properties)
        settings = self._settings
        # If true, only the earlier entries are wholly acknowledged, and this entry keeps an ack set.
        inside = bool(words) and (bits > 0 or settings.replace_ack_sets)
        if position < self._mark_delete or (inside and position == self._mark_delete):
            self._require_passed(position)
            if settings.refuse_cumulative_behind:
                raise ProtocolError(
                    f"cumulative acknowledgment of {position}, behind the mark-delete position "
                    f"{self._mark_delete}"
                )
            return False
        if position > self._mark_delete:
            self._require(position)
        if new_properties is not None:
            self.properties = new_properties
        if not inside:
            return self._mark_delete_up_to(position)
        changed = self._mark_delete_up_to(self._ledgers.previous_valid(*position))
        return self._ack_inside(position, words) or changed

    def add_properties(self, properties: Mapping[str, int]) -> None:
        """Add the properties of an individual acknowledgment to the properties of the cursor.

        They have no effect unless `CursorSettings.merge_individual_properties` is on.

        Raises `TypeError` for a name that is not a string or a value that is not an integer, and `ValueError`
        for a value outside int64.
        """
        new = _checked_properties(properties)
        if self._settings.merge_individual_properties:
            self.properties |= new

    def reset(self, ledger_id: int, entry_id: int, ack_set: Iterable[int] = ()) -> None:
        """Make this position the next one to be read, as a seek does.

        Afterwards, all earlier entries are acknowledged, this entry and all later entries are unacknowledged,
        and the cursor has no properties. `(-1, -1)` is the first position. Any position after the last entry
        is the end of the topic. With an `ack_set`, only those messages of this entry are unacknowledged whose
        bit is set.
        """
        words = tuple(ack_set)
        bits = from_words(words)
        position = Position(ledger_id, entry_id)
        if position == _EARLIEST:
            position = Position(_before_first(self._ledgers).ledger_id, 0)
        mark_delete = self._ledgers.previous_valid(*position)
        added = self.messages_consumed + self.backlog_entries
        self._ack_sets.remove_up_to(*mark_delete)
        self._individually_deleted.remove_up_to(*mark_delete)
        if mark_delete < self._mark_delete or self._individually_deleted or self._ack_sets:
            # The seek revokes acknowledgments. One of them may have removed a saved ack set, and a delta
            # cannot restore an ack set. This clear forces a full save.
            self._ack_sets.clear()
        self._mark_delete = mark_delete
        self._individually_deleted = self._engine.PositionRangeSet()
        self._missing = None
        self.properties = {}
        self.carried.clear_counts()
        if words and self._settings.batch_index_acks and self._ledgers.contains(*position):
            if bits or self._settings.seek_keeps_empty_ack_set:
                self._ack_sets.set(*position, words)
            else:
                self._mark_delete = position
        self._consumed_before = added - self.backlog_entries

    def to_state(self) -> CursorState:
        """Return the acknowledgments as an immutable value. O(ranges + ack sets)."""
        return CursorState(
            self._mark_delete, self.individually_deleted.copy(), self.batch_deleted, self._ledgers
        )

    def to_position_info(self) -> PositionInfo:
        """Return the state to persist, including the `carried` fields. O(ranges + ack sets + counts)."""
        info: PositionInfo = self._engine.PositionInfo(
            *self._mark_delete,
            individually_deleted=self.individually_deleted,
            batch_deleted=self.batch_deleted,
            redelivery_counts=self.carried.counts(self.is_acked),
            properties=self.properties,
            idle_since=self.carried.idle_since,
            unknown_fields=self.carried.unknown_fields,
        )
        return info

    @classmethod
    def from_position_info(
        cls,
        info: PositionInfo,
        ledgers: Ledgers,
        *,
        settings: CursorSettings | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Return a cursor with a persisted state.

        `ledgers` contains the ledgers of the topic. An entry that is not in one of them cannot be
        acknowledged. A mark-delete position after the last entry moves back to the last entry. Other
        positions outside all ledgers are dropped, or kept separately
        (`CursorSettings.keep_missing_positions`). If no entry is between the mark-delete position and the
        first range, the mark-delete position moves to the end of this range. Brokers before 2.4 wrote ranges
        over several ledgers; such a range is split at the ends of the ledgers. Redelivery counts,
        `idle_since` and unknown fields become `carried` fields, and the next save writes them again.
        """
        mark_delete = _recovered_mark_delete(Position(info.ledger_id, info.entry_id), ledgers)
        cursor = cls(ledgers, mark_delete=mark_delete, settings=settings, engine=engine)
        keep = cursor._settings.keep_missing_positions
        recovered = info.individually_deleted
        existing = recovered.copy()
        if cursor._remove_missing(existing) and keep:
            cursor._missing = recovered - existing
        cursor._join(existing)
        for lower, upper in info.spanning_ranges:
            cursor._join(cursor._between(lower, upper))
        cursor._ack_sets = cursor._recovered_ack_sets(info)
        cursor._consumed_before = -cursor.backlog_entries - cursor._individually_deleted.cardinality
        cursor.properties = dict(info.properties)
        cursor.carried = LoadedFields(info.redelivery_counts, info.idle_since, info.unknown_fields)
        return cursor

    def validate(self) -> None:
        """Check the invariants. Raises `AssertionError`; the message names the broken invariant."""
        self._individually_deleted.validate()
        first = self._individually_deleted.first_range()
        if first is not None:
            ledger_id, lower, _ = first
            assert Position(ledger_id, lower) > self._mark_delete, "range at or before mark-delete"
            assert self._ledgers.entries_between(self._mark_delete, (ledger_id, lower)) > 0, (
                "no entry between mark-delete and the first range"
            )
        self._ack_sets.validate()
        for position, words in self._ack_sets.items():
            assert position > self._mark_delete, f"ack set of {position} at or before mark-delete"
            assert position not in self._individually_deleted, f"ack set of {position}, acked"
            may_be_empty = self._settings.replace_ack_sets or self._settings.seek_keeps_empty_ack_set
            assert words or may_be_empty, f"empty ack set of {position}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CursorRules):
            return NotImplemented
        return self._compared() == other._compared()

    def _compared(self) -> tuple[object, ...]:
        return (
            self._ledgers,
            self._settings,
            self._mark_delete,
            self.individually_deleted,
            self._ack_sets,
            self.properties,
        )

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        # The engine is a module, and modules cannot be pickled. The state contains the name of the module
        # instead.
        return self.__dict__ | {"_engine": self._engine.__name__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_engine": engine_named(state["_engine"])})

    def __repr__(self) -> str:
        return (
            f"<Cursor at {self._mark_delete}, {len(self._individually_deleted)} ranges, "
            f"{len(self._ack_sets)} partly acknowledged batches>"
        )

    def drawing(self) -> Drawing:
        """Return the drawing of the cursor for notebooks and terminals."""
        from ackwell.drawing.ledger_map import Line

        ranges = self.individually_deleted
        numbers = {
            "backlog entries": self.backlog_entries,
            "acknowledged beyond": ranges.cardinality,
            "ranges": len(ranges),
            "partly acknowledged batches": len(self._ack_sets),
        }
        line = Line.beyond(self._ledgers, self._mark_delete)
        return Drawing(f"Cursor at {self._mark_delete}", numbers, line, ranges)

    def _between(self, lower: Position, upper: Position) -> PositionRangeSet:
        """Return the existing positions after `lower` and up to `upper`, which is in a later ledger."""
        split: PositionRangeSet = self._engine.PositionRangeSet()
        for ledger_id, entries in self._ledgers:
            if lower.ledger_id <= ledger_id <= upper.ledger_id:
                first = lower.entry_id if ledger_id == lower.ledger_id else -1
                last = entries - 1 if ledger_id < upper.ledger_id else min(upper.entry_id, entries - 1)
                if first < last:
                    split.add_range(ledger_id, first, last)
        return split

    def _require(self, position: Position) -> None:
        """Raise `ValueError` for a negative id, and `ProtocolError` for a position of a missing entry."""
        if not self._ledgers.contains(*position):
            if min(position) < 0:
                raise ValueError(f"position {position}; ledger and entry ids are at least 0")
            raise ProtocolError(
                f"acknowledgment of {position}, which was never published; "
                f"the last position is {self._ledgers.last_position or 'none'}"
            )

    def _require_all(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Check all positions in two arrays as `_require_passed` checks one position."""
        import numpy as np

        if ledger_ids.min() < 0 or entry_ids.min() < 0:
            raise ValueError("a ledger or entry id is negative; both are at least 0")
        for ledger_id in np.unique(ledger_ids).tolist():
            # A ledger has all entry ids from 0 to its last one. So only the greatest id must be checked.
            last = int(entry_ids[ledger_ids == ledger_id].max())
            self._require_passed(Position(ledger_id, last))

    def _require_passed(self, position: Position) -> None:
        """Check a position like `_require`, but accept every position up to the mark-delete position."""
        if position > self._mark_delete or min(position) < 0:
            self._require(position)

    def _ack_inside(self, position: Position, words: tuple[int, ...]) -> bool:
        """Apply the ack set of a cumulative acknowledgment to the entry in which the acknowledgment ends.

        Return whether anything changed.
        """
        if not self._settings.batch_index_acks or self.is_acked(*position):
            return False
        if not self._settings.replace_ack_sets:
            return self.ack_batch(*position, words)
        return self._ack_sets.replace_if_later(*position, words)

    def _recovered_ack_sets(self, info: PositionInfo) -> AckSets:
        """Return the ack sets of a persisted state, without the ack sets of wholly acknowledged entries."""
        sets: AckSets = self._engine.AckSets(info.batch_deleted)
        check_word_count(sets.longest())
        if not self._settings.keep_missing_positions:
            remove_missing(sets, self._ledgers)
        sets.remove_up_to(*self._mark_delete)
        sets.remove_ranges(self.individually_deleted)
        if not self._settings.replace_ack_sets:
            sets.remove_empty()
        return sets

    def _join(self, ranges: PositionRangeSet) -> None:
        """Add existing positions to the acknowledged ranges."""
        self._individually_deleted |= ranges
        self._drop_up_to_mark_delete()
        self._advance()

    def _remove_missing(self, positions: PositionRangeSet) -> int:
        """Remove the positions that no ledger contains from a range set. Return the number of removals."""
        before = positions.cardinality
        remove_missing(positions, self._ledgers)
        return before - positions.cardinality

    def _mark_delete_up_to(self, position: Position) -> bool:
        """Move the mark-delete position to `position` or further. Return whether it moved."""
        if position <= self._mark_delete:
            return False
        self._consumed_before += self._ledgers.entries_between(self._mark_delete, position)
        self._mark_delete = position
        self._drop_up_to_mark_delete()
        self._advance()
        return True

    def _advance(self) -> None:
        """Move the mark-delete position over every range that follows without a gap, also across ledgers."""
        start_ledger_id = self._mark_delete.ledger_id
        while (first := self._individually_deleted.first_range()) is not None:
            ledger_id, lower, upper = first
            start = ledger_id, lower
            if start > self._mark_delete and self._ledgers.entries_between(self._mark_delete, start):
                break
            self._mark_delete = Position(ledger_id, upper)
            self._consumed_before += self._individually_deleted.remove_up_to(ledger_id, upper)
        # Inside a ledger, the mark-delete position passes only wholly acknowledged entries, which have no ack
        # sets. Between ledgers, it may pass entries that do not exist, of which a recovered state may have
        # ack sets.
        if self._ack_sets and self._mark_delete.ledger_id != start_ledger_id:
            self._ack_sets.remove_up_to(*self._mark_delete)

    def _drop_up_to_mark_delete(self) -> None:
        self._individually_deleted.remove_up_to(*self._mark_delete)
        if self._ack_sets:
            self._ack_sets.remove_up_to(*self._mark_delete)


def acknowledged(
    ledgers: Ledgers, mark_delete: tuple[int, int], individually_deleted: PositionRangeSet
) -> PositionRangeSet:
    """Return all existing positions that are at or before `mark_delete` or individually deleted.

    Two states acknowledge the same entries if these sets are equal, even if their mark-delete positions
    differ.
    """
    acked = individually_deleted.copy()
    for ledger_id, entries in ledgers:
        last = entries - 1 if ledger_id < mark_delete[0] else min(mark_delete[1], entries - 1)
        if ledger_id <= mark_delete[0] and last >= 0:
            acked.add_range(ledger_id, -1, last)
    return acked


def last_existing(ledgers: Ledgers, position: Position) -> Position | None:
    """Return the last existing entry at or before a position; None if there is none. O(log ledgers)."""
    if ledgers.contains(*position):
        return position
    if position.ledger_id < 0:
        return None
    found = ledgers.previous_valid(position.ledger_id, max(position.entry_id, 0))
    return found if found.entry_id >= 0 else None


def _before_first(ledgers: Ledgers) -> Position:
    return ledgers.first_position or Position(0, -1)


def _checked_mark_delete(position: tuple[int, int]) -> Position:
    """Return the checked mark-delete position. Raises `ValueError` if it is below 0:-1 or outside int64."""
    ledger_id, entry_id = map(index, position)
    if not (0 <= ledger_id <= INT64_MAX and -1 <= entry_id <= INT64_MAX):
        raise ValueError(f"mark-delete position {ledger_id}:{entry_id}; expected 0:-1 or more, in int64")
    return Position(ledger_id, entry_id)


def _recovered_mark_delete(position: Position, ledgers: Ledgers) -> Position:
    """Return the mark-delete position that a broker would recover (`recoveredCursor`) from a persisted one.

    A position at the start of a deleted ledger moves to the next ledger. A position after the last entry
    moves back to the last entry.
    """
    if position.entry_id == -1:
        ledger_ids = [ledger_id for ledger_id, _ in ledgers]
        later = [ledger_id for ledger_id in ledger_ids if ledger_id >= position.ledger_id]
        position = Position(later[0], -1) if later else position
    return min(position, ledgers.last_position or _before_first(ledgers))


def _checked_properties(properties: Mapping[str, int]) -> dict[str, int]:
    """Check the names and values of properties, and return a copy."""
    if not isinstance(properties, Mapping):
        raise TypeError(f"properties are {properties!r}; expected names and values")
    checked = {}
    for name, value in properties.items():
        if not isinstance(name, str):
            raise TypeError(f"property name {name!r}; expected a string")
        is_exact = type(value) is int and is_int64(value)
        checked[name] = value if is_exact else check_int64(f"property {name!r}", value)
    return checked
