"""The acknowledgment state of a message subscription, at Apache Pulsar's semantics."""

from importlib import import_module
from types import ModuleType

from ackwell._native import Ledgers, PositionRangeSet, TimeBuckets, TripleLongHeap
from ackwell.cursor import Cursor
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
    "Cursor",
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
    "reference",
]


def __getattr__(name: str) -> ModuleType:
    """Import the reference engine when it is first asked for; most programs never do."""
    if name == "reference":
        return import_module("ackwell.reference")
    raise AttributeError(f"module 'ackwell' has no attribute {name!r}")
