"""The acknowledgments that a saved state omits because of a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class LossReport:
    """The acknowledgments that an encoded state omits. `bool(report)` is False if nothing is omitted.

    If the encoded state is loaded, all messages in this report are redelivered.
    """

    #: Whole entries, as a `PositionRangeSet` of the encoding engine.
    individually_deleted: Any
    #: Ranges that span several ledgers, if the form of the state has no place for them.
    spanning_ranges: tuple[tuple[Position, Position], ...] = ()
    #: Partly acknowledged entries, each with the words of its ack set.
    batch_deleted: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    #: Redelivery counts, if the form of the state has no place for them.
    redelivery_counts: Mapping[Position, int] = field(default_factory=dict)
    #: The reasons: the limits that were exceeded, or the fields for which the form has no place.
    reasons: tuple[str, ...] = ()

    @property
    def entries(self) -> int:
        """The number of whole entries whose acknowledgment is omitted."""
        count: int = self.individually_deleted.cardinality
        return count

    @property
    def ranges(self) -> int:
        """The number of ranges of acknowledged entries that are omitted or shortened."""
        return len(self.individually_deleted)

    def __bool__(self) -> bool:
        """Return whether any acknowledgment is omitted."""
        return bool(self.reasons)

    def __str__(self) -> str:
        """Return the report as one line for an error message."""
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
