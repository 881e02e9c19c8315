"""What a limit would cut from a state: said exactly, never done silently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class LossReport:
    """The acknowledgments that an encoding leaves out; false if there are none.

    Everything listed comes back to the consumers when the encoded state is recovered.
    """

    #: Whole entries, as a `PositionRangeSet` of the engine that encoded.
    individually_deleted: Any
    #: Ranges over a ledger's end that the form cannot hold.
    spanning_ranges: tuple[tuple[Position, Position], ...] = ()
    #: Entries of which a part is acknowledged, with their words.
    batch_deleted: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    #: Redelivery counts that the form cannot hold.
    redelivery_counts: Mapping[Position, int] = field(default_factory=dict)
    #: Which limits cut, or what the form cannot hold.
    reasons: tuple[str, ...] = ()

    @property
    def entries(self) -> int:
        """How many whole entries are left out."""
        count: int = self.individually_deleted.cardinality
        return count

    @property
    def ranges(self) -> int:
        """How many ranges are left out or shortened."""
        return len(self.individually_deleted)

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.reasons)

    def __str__(self) -> str:
        """One line for an error message."""
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
