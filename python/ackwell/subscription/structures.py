"""The classes of an engine from which a subscription makes its data structures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from ackwell._native import PendingAcks, PositionRangeSet, TripleLongHeap
    from ackwell.engine import Engine


class Structures(NamedTuple):
    """The classes of an engine that a subscription uses.

    A subscription stores these classes instead of the engine, because a module cannot be copied or pickled.
    """

    pending_acks: type[PendingAcks]
    position_range_set: type[PositionRangeSet]
    triple_heap: type[TripleLongHeap]

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Return the `Structures` of an engine."""
        return cls(engine.PendingAcks, engine.PositionRangeSet, engine.TripleLongHeap)
