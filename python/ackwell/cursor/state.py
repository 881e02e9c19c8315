"""The acknowledgments of a cursor as a value: read from a cursor, from bytes, or from a broker's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ackwell.errors import StateTooLargeError
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell._native import Ledgers, PositionInfo, PositionRangeSet

AckSets = Mapping[Position, Sequence[int]]
"""Partly acknowledged entries: signed 64-bit words each, bit set = message not acknowledged."""


@dataclass(frozen=True, slots=True)
class CursorState:
    """What is acknowledged, as far as its source shows it.

    >>> from ackwell import PositionInfo
    >>> CursorState.of(PositionInfo(3, 5, [(3, 7, 9)])).to_json()["individuallyDeletedMessages"]
    '[(3:7..3:9]]'
    """

    mark_delete_position: Position
    """Everything at or before this position is acknowledged."""
    individually_deleted: PositionRangeSet
    """The acknowledged positions beyond it."""
    batch_deleted: AckSets | None = None
    """The ack sets; None if the source does not show them: the admin API does not."""
    ledgers: Ledgers | None = None
    """The entries of each ledger; None if the source does not show them: bytes do not."""

    @classmethod
    def of(cls, info: PositionInfo, ledgers: Ledgers | None = None) -> Self:
        """Return a persisted state, in the ledgers of its topic if they are known."""
        return cls(info.position, info.individually_deleted, info.batch_deleted, ledgers)

    def to_position_info(self) -> PositionInfo:
        """Return the state as it is persisted. O(ranges + ack sets)."""
        from ackwell._native import PositionInfo

        return PositionInfo(
            *self.mark_delete_position,
            individually_deleted=self.individually_deleted,
            batch_deleted=self.batch_deleted,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state under the names that Pulsar's own tools print."""
        return {
            "markDeletePosition": str(self.mark_delete_position),
            "individuallyDeletedMessages": str(self.individually_deleted),
            "batchDeletedIndexes": {
                str(position): list(words) for position, words in (self.batch_deleted or {}).items()
            },
        }


def size_in(info: PositionInfo, form: str) -> int | None:
    """Return the bytes that a state takes in a form, nothing cut; None if the form cannot hold all of it."""
    try:
        return len(info.encode(form))
    except StateTooLargeError:
        return None
