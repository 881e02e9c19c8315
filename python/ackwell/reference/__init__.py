"""The executable specification: every structure once more in plain Python, under the same names.

It is an oracle for tests and an explicit choice (`engine=ackwell.reference`), never a silent
fallback.
"""

from ackwell.reference.bit_set import BitSet
from ackwell.reference.command_ack import decode_command_ack
from ackwell.reference.crc32c import crc32c
from ackwell.reference.ledgers import Ledgers
from ackwell.reference.long_map import LongMap
from ackwell.reference.names import Names
from ackwell.reference.partials import Partials
from ackwell.reference.pending_acks import PendingAcks
from ackwell.reference.position_info import (
    ManagedCursorInfo,
    PositionInfo,
    compress,
    decompress,
)
from ackwell.reference.range_set import PositionRangeSet
from ackwell.reference.time_buckets import TimeBuckets
from ackwell.reference.time_wheel import TimeWheel
from ackwell.reference.trace import TraceReader
from ackwell.reference.triple_heap import TripleLongHeap

__all__ = [
    "BitSet",
    "Ledgers",
    "LongMap",
    "ManagedCursorInfo",
    "Names",
    "Partials",
    "PendingAcks",
    "PositionInfo",
    "PositionRangeSet",
    "TimeBuckets",
    "TimeWheel",
    "TraceReader",
    "TripleLongHeap",
    "compress",
    "crc32c",
    "decode_command_ack",
    "decompress",
]
