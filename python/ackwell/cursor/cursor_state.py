"""The acknowledgments of one cursor as an immutable value. The source is a cursor, bytes, or a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from ackwell._native import AckSets
from ackwell.errors import StateTooLargeError
from ackwell.integers import INT64_MAX
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import Ledgers, PositionInfo, PositionRangeSet

AckSetMapping = Mapping[Position, Sequence[int]]
"""Maps each partly acknowledged entry to its ack set: signed 64-bit words, in which a set bit marks an
unacknowledged message."""


@dataclass(frozen=True, slots=True)
class CursorState:
    """The acknowledgments of one cursor, as far as the source shows them.

    >>> from ackwell import PositionInfo
    >>> CursorState.of(PositionInfo(3, 5, [(3, 7, 9)])).to_json()["individuallyDeletedMessages"]
    '[(3:7..3:9]]'
    """

    mark_delete_position: Position
    """All entries at or before this position are acknowledged."""
    individually_deleted: PositionRangeSet
    """The acknowledged positions after the mark-delete position."""
    batch_deleted: AckSetMapping | None = None
    """The ack sets; None if the source does not show them, for example the admin API."""
    ledgers: Ledgers | None = None
    """The number of entries of each ledger; None if the source does not show it, for example a persisted
    state."""

    @classmethod
    def of(cls, info: PositionInfo, ledgers: Ledgers | None = None) -> Self:
        """Return the acknowledgments of a persisted state, with the topic's ledgers if they are known."""
        return cls(info.position, info.individually_deleted, info.batch_deleted, ledgers)

    def to_position_info(self) -> PositionInfo:
        """Return the state as a `PositionInfo`, the form for persistence. O(ranges + ack sets)."""
        from ackwell._native import PositionInfo

        return PositionInfo(
            *self.mark_delete_position,
            individually_deleted=self.individually_deleted,
            batch_deleted=self.batch_deleted,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, with the field names that Pulsar's tools print."""
        return {
            "markDeletePosition": str(self.mark_delete_position),
            "individuallyDeletedMessages": str(self.individually_deleted),
            "batchDeletedIndexes": ack_sets_to_json(self.batch_deleted or {}),
        }


def existing(ranges: PositionRangeSet, ledgers: Ledgers) -> PositionRangeSet:
    """Return the positions in `ranges` for which the ledgers have an entry. O(ranges · log(ledgers))."""
    found = ranges.copy()
    remove_missing(found, ledgers)
    return found


def remove_missing(positions: PositionRangeSet | AckSets, ledgers: Ledgers) -> None:
    """Remove the positions for which the ledgers have no entry. O(positions · log(ledgers))."""
    for ledger_id in positions.ledger_ids():
        try:
            entries = ledgers.entries(ledger_id)
        except KeyError:
            entries = 0
        positions.remove_range(ledger_id, entries - 1, INT64_MAX)


def backlog_beyond(ledgers: Ledgers, mark_delete: Position, acked: PositionRangeSet) -> int:
    """Return the number of existing entries after `mark_delete` that are not in `acked`.

    All positions in `acked` must be existing entries after `mark_delete`.
    """
    last = ledgers.last_position
    if last is None or last <= mark_delete:
        return 0
    return ledgers.entries_between(mark_delete, last) - acked.cardinality


def ack_sets_to_json(sets: AckSetMapping) -> dict[str, tuple[int, ...]]:
    """Return the ack sets as JSON values: each position as text, and the words of its ack set."""
    if not isinstance(sets, AckSets):
        return {str(position): tuple(words) for position, words in sets.items()}
    ledger_ids, entry_ids, starts, all_words = (column.tolist() for column in sets.to_arrays())
    rows = zip(ledger_ids, entry_ids, pairwise(starts), strict=True)
    # Each ack set is a slice of one tuple and not a list, because the garbage collector visits every list.
    words = tuple(all_words)
    return {f"{ledger_id}:{entry_id}": words[start:end] for ledger_id, entry_id, (start, end) in rows}


def size_in(info: PositionInfo, form: str) -> int | None:
    """Return the size in bytes of a state in the given form; None if the form cannot hold the whole state."""
    try:
        return len(info.encode(form))
    except StateTooLargeError:
        return None
