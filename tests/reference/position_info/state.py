"""The content of a persisted cursor."""

from __future__ import annotations

from dataclasses import dataclass, field

from ackwell.position import Position
from tests.reference.range_set import PositionRangeSet


@dataclass(slots=True)
class State:
    """The content of a `PositionInfo` in any form."""

    mark_delete: Position = Position(0, -1)  # noqa: RUF009 - an immutable tuple
    individually_deleted: PositionRangeSet = field(default_factory=PositionRangeSet)
    spanning_ranges: tuple[tuple[Position, Position], ...] = ()
    batch_deleted: dict[Position, tuple[int, ...]] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    redelivery_counts: dict[Position, int] = field(default_factory=dict)
    idle_since: int | None = None
    unknown_fields: bytes = b""
