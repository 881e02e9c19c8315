"""The acknowledgment state of a message subscription, at Apache Pulsar's semantics."""

from ackwell._native import Ledgers, PositionRangeSet, TimeBuckets, TripleLongHeap
from ackwell.errors import (
    AckwellError,
    CorruptStateError,
    EventError,
    FencedError,
    LimitError,
    ProtocolError,
    StateTooLargeError,
    StoreError,
)
from ackwell.position import Position

__all__ = [
    "AckwellError",
    "CorruptStateError",
    "EventError",
    "FencedError",
    "Ledgers",
    "LimitError",
    "Position",
    "PositionRangeSet",
    "ProtocolError",
    "StateTooLargeError",
    "StoreError",
    "TimeBuckets",
    "TripleLongHeap",
]
