"""The executable specification: a plain Python implementation of each structure, under the same names.

Tests compare the native engine with it, and pass it as `engine=reference` to cursors, subscriptions and
replays. It imports ackwell, so it cannot replace a missing native module.
"""

from tests.reference.ack_sets import AckSets
from tests.reference.bit_set import BitSet
from tests.reference.ledgers import Ledgers
from tests.reference.long_map import LongMap
from tests.reference.partials import Partials
from tests.reference.pending_acks import PendingAcks
from tests.reference.position_info import (
    ManagedCursorInfo,
    PositionInfo,
    compress,
    decompress,
)
from tests.reference.range_set import PositionRangeSet
from tests.reference.time_buckets import TimeBuckets
from tests.reference.time_wheel import TimeWheel
from tests.reference.triple_heap import TripleLongHeap

__all__ = [
    "AckSets",
    "BitSet",
    "Ledgers",
    "LongMap",
    "ManagedCursorInfo",
    "Partials",
    "PendingAcks",
    "PositionInfo",
    "PositionRangeSet",
    "TimeBuckets",
    "TimeWheel",
    "TripleLongHeap",
    "compress",
    "decompress",
]
