"""The acknowledgments that a size limit would remove from a saved state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class LossReport:
    """The acknowledgments that an encoding omits. The report is false if nothing is omitted.

    After a recovery of the encoded state, all messages listed here are redelivered.
    """

    #: Whole entries, as a `PositionRangeSet` of the encoding engine.
    individually_deleted: Any
    #: Ranges that span several ledgers, which the form cannot hold.
    spanning_ranges: tuple[tuple[Position, Position], ...] = ()
    #: Partly acknowledged entries, with the words of their ack sets.
    batch_deleted: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    #: Redelivery counts that the form cannot hold.
    redelivery_counts: Mapping[Position, int] = field(default_factory=dict)
    #: The limits that apply, or the fields that the form cannot hold.
    reasons: tuple[str, ...] = ()

    @property
    def entries(self) -> int:
        """The number of whole entries that are omitted."""
        count: int = self.individually_deleted.cardinality
        return count

    @property
    def ranges(self) -> int:
        """The number of ranges that are omitted or shortened."""
        return len(self.individually_deleted)

    def __bool__(self) -> bool:
        """Return whether anything is omitted."""
        return bool(self.reasons)

    def __str__(self) -> str:
        """Return one line for an error message."""
        if not self:
            return "nothing is left out"
        parts = [
            f"{count} {what}"
            for count, what in (
                (self.entries, f"entries in {self.ranges} ranges"),
                (len(self.spanning_ranges), "ranges over a ledger's end"),
                (len(self.batch_deleted), "partly acknowledged batches"),
                (len(self.redelivery_counts), "redelivery counts"),
            )
            if count
        ]
        return f"{', '.join(parts)} would be lost: {'; '.join(self.reasons)}"
