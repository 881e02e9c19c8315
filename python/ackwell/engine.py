"""What an engine is: a module that has the structures under these names.

`ackwell._native` is the one of the package. `tests/reference`, the executable specification, is another: the
differential tests hold both to the same results and the same errors. The classes are typed as `Any` class on
purpose: the stub `_native.pyi` is the one place where their signatures are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast


class Engine(Protocol):
    """The structures, in the order of `docs/architecture.md`."""

    __name__: str
    """The module's name."""

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
    Names: type[Any]
    Partials: type[Any]
    TraceReader: type[Any]

    def compress(self, data: bytes, compression: str) -> bytes:
        """Compress bytes as NONE, LZ4, ZLIB, ZSTD or SNAPPY."""

    def decompress(self, data: bytes, compression: str, size: int, max_bytes: int = 67108864) -> bytes:
        """Decompress to exactly `size` bytes."""

    def crc32c(self, data: bytes, crc: int = 0) -> int:
        """Return the CRC-32C of bytes, going on from that of the bytes before them."""

    def decode_command_ack(self, data: bytes) -> dict[str, Any]:
        """Read a `CommandAck`; `ackwell.subscription.AckColumns` names what is returned."""


def native_engine() -> Engine:
    """Return the default engine."""
    return engine_named("ackwell._native")


def engine_named(name: str) -> Engine:
    """Return the engine whose module has this name; a copied or unpickled object finds its engine so."""
    return cast("Engine", import_module(name))
