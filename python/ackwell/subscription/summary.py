"""A subscription in numbers, gathered from counters that stand ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.position import Position


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """One consumer: what it may get and what it has."""

    name: str
    permits: int
    unacked: int
    """Messages, not entries."""
    pending_entries: int
    blocked: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """One subscription at one time."""

    backlog_entries: int
    """Existing entries not wholly acknowledged, delivered or not."""
    unacked: int
    """Messages with consumers, of all consumers together."""
    delayed: int
    """Entries that wait for their time of delivery."""
    to_redeliver: int
    """Entries that were read and are owed again."""
    backing_off: int
    """Entries negatively acknowledged, still with their consumer until their back-off is over."""
    dead_letters: int
    in_transactions: int
    """Entries that open transactions hold, wholly or in part."""
    blocked: bool
    oldest_hole: Position | None
    """The first existing entry that is not acknowledged: it keeps the mark-delete position where it is."""
    oldest_hole_age_ms: int
    """For how long it has been; as exact as the calls that told the time were frequent."""
    consumers: tuple[ConsumerSummary, ...]
    nbytes: dict[str, int] = field(default_factory=dict)
    """Heap bytes of each structure."""
