"""What an engine is: a module that has the structures under these names.

`ackwell._native` (the default) and `ackwell.reference` both satisfy `Engine`; the differential
tests hold them to the same results and the same errors. The classes are typed as `Any` class on
purpose: the stub `_native.pyi` is the one place where their signatures stand.
"""

from typing import Any, Protocol


class Engine(Protocol):
    """The structures, in the order of `docs/architecture.md`."""

    Ledgers: type[Any]
    LongMap: type[Any]
    BitSet: type[Any]
    PendingAcks: type[Any]
    PositionRangeSet: type[Any]
    TripleLongHeap: type[Any]
    TimeBuckets: type[Any]
    TimeWheel: type[Any]
    PositionInfo: type[Any]
    ManagedCursorInfo: type[Any]

    def compress(self, data: bytes, compression: str) -> bytes:
        """Compress bytes as NONE, LZ4, ZLIB, ZSTD or SNAPPY."""

    def decompress(self, data: bytes, compression: str, size: int, max_bytes: int = 67108864) -> bytes:
        """Decompress to exactly `size` bytes."""


def native() -> Engine:
    """Give the default engine."""
    from ackwell import _native

    return _native
