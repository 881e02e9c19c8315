"""The acknowledgment state of a message subscription, with the semantics of Apache Pulsar.

>>> from ackwell import Cursor, Ledgers, SqliteStore, Subscription

This module has the most common names. All other names are in subpackages such as `ackwell.subscription`. The
data structures and the errors are imported immediately, and the other names on first use. This keeps `import
ackwell` fast.
"""

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from ackwell._native import (
    AckSets,
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
from ackwell.errors import (
    AckwellError,
    CorruptStateError,
    EventError,
    FencedError,
    FrameError,
    LimitError,
    NewerVersionError,
    NotLoadedError,
    ProtocolError,
    SchemaError,
    StateTooLargeError,
    StatsError,
    StoreError,
)
from ackwell.lazy_names import lazy_names
from ackwell.pending_ack import PendingAck
from ackwell.position import Position

__all__ = [
    "AckSets",
    "AckwellError",
    "BitSet",
    "CorruptStateError",
    "Cursor",
    "CursorSettings",
    "DelayedDeliveryTracker",
    "EventError",
    "FencedError",
    "FrameError",
    "Journal",
    "Ledgers",
    "LimitError",
    "LongMap",
    "LossReport",
    "ManagedCursorInfo",
    "MemoryStore",
    "NewerVersionError",
    "NotLoadedError",
    "PendingAck",
    "PendingAcks",
    "Position",
    "PositionInfo",
    "PositionRangeSet",
    "ProtocolError",
    "SchemaError",
    "SqliteStore",
    "StateTooLargeError",
    "StatsError",
    "StoreError",
    "Subscription",
    "SubscriptionSettings",
    "TimeBuckets",
    "TimeWheel",
    "TripleLongHeap",
    "__version__",
]

__version__ = "0.1.0"
"""The version of the package, as in `Cargo.toml`. It is a constant, because `importlib.metadata` would take a
third of the time of `ackwell --version`."""

# A native class cannot inherit from `Mapping` or `MutableMapping`, so it is registered.
MutableMapping.register(LongMap)
Mapping.register(PendingAcks)
Mapping.register(AckSets)


def _drawing(ranges: PositionRangeSet) -> "Drawing":
    from ackwell.drawing import of_ranges

    return of_ranges(ranges)


PositionRangeSet._repr_html_ = lambda self: _drawing(self).html()  # type: ignore[method-assign]
PositionRangeSet.__rich__ = lambda self: _drawing(self).on_a_terminal()  # type: ignore[method-assign]

if TYPE_CHECKING:
    from ackwell.cursor import Cursor, CursorSettings
    from ackwell.delayed import DelayedDeliveryTracker
    from ackwell.drawing import Drawing
    from ackwell.loss import LossReport
    from ackwell.saving.journal import Journal
    from ackwell.store import MemoryStore, SqliteStore
    from ackwell.subscription import Subscription, SubscriptionSettings
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Cursor": ".cursor",
            "CursorSettings": ".cursor",
            "LossReport": ".loss",
            "DelayedDeliveryTracker": ".delayed",
            "Journal": ".saving.journal",
            "MemoryStore": ".store",
            "SqliteStore": ".store",
            "Subscription": ".subscription",
            "SubscriptionSettings": ".subscription",
        },
        names=__all__,
    )
