"""The acknowledgment state of a message subscription, at Apache Pulsar's semantics."""

from collections.abc import Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

from ackwell._native import (
    BitSet,
    Ledgers,
    LongMap,
    ManagedCursorInfo,
    PendingAcks,
    PositionInfo,
    PositionRangeSet,
    TimeBuckets,
    TimeWheel,
    TripleLongHeap,
)
from ackwell.cursor import Cursor
from ackwell.errors import (
    AckwellError,
    CorruptStateError,
    EventError,
    FencedError,
    FrameError,
    LimitError,
    NewerVersionError,
    NotLoadedError,
    OlderVersionError,
    ProtocolError,
    SchemaError,
    StateTooLargeError,
    StoreError,
)
from ackwell.loss import LossReport
from ackwell.pending_ack import PendingAck
from ackwell.position import Position

__all__ = [
    "AckwellError",
    "BitSet",
    "CorruptStateError",
    "Cursor",
    "EventError",
    "FencedError",
    "FrameError",
    "Ledgers",
    "LimitError",
    "LongMap",
    "LossReport",
    "ManagedCursorInfo",
    "NewerVersionError",
    "NotLoadedError",
    "OlderVersionError",
    "PendingAck",
    "PendingAcks",
    "Position",
    "PositionInfo",
    "PositionRangeSet",
    "ProtocolError",
    "SchemaError",
    "StateTooLargeError",
    "StoreError",
    "TimeBuckets",
    "TimeWheel",
    "TripleLongHeap",
    "reference",
]

# A native class cannot inherit from them.
MutableMapping.register(LongMap)
Mapping.register(PendingAcks)

if TYPE_CHECKING:
    from ackwell import reference
else:

    def __getattr__(name):
        """Import the reference engine when it is first asked for; most programs never do."""
        if name == "reference":
            return import_module("ackwell.reference")
        raise AttributeError(f"module 'ackwell' has no attribute {name!r}")
