"""What an engine is: a module that has the structures under these names.

`ackwell._native` is the one of the package. `tests/reference`, the executable specification, is another: the
differential tests hold both to the same results and the same errors. The classes are typed as `Any` class on
purpose: the stub `_native.pyi` is the one place where their signatures are.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MessageIdFields(TypedDict):
    """One id of a `CommandAck`; `ackwell.protocol.MessageId` says what each field is."""

    ledger_id: int
    entry_id: int
    partition: int
    batch_index: int
    ack_set: tuple[int, ...]
    batch_size: int | None
    first_chunk: MessageIdFields | None
    unknown_fields: bytes


class AckFields(NamedTuple):
    """A `CommandAck` as an engine reads it; `ackwell.protocol.AckColumns` says what each field is."""

    consumer_id: int
    cumulative: bool
    ledger_ids: NDArray[np.int64]
    entry_ids: NDArray[np.int64]
    ack_set_starts: NDArray[np.int64] | None
    ack_set_words: NDArray[np.int64] | None
    others: list[tuple[int, MessageIdFields]]
    """The ids that say more than a position and an ack set, each with its row."""
    validation_error: int | None
    properties: list[tuple[str, int]]
    transaction: tuple[int, int] | None
    """The most and the least significant half."""
    request_id: int | None
    unknown_fields: bytes


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

    def decode_command_ack(self, data: bytes) -> AckFields:
        """Read the bytes of a `CommandAck`."""


@cache
def native_engine() -> Engine:
    """Return the default engine."""
    return engine_named("ackwell._native")


def engine_named(name: str) -> Engine:
    """Return the engine whose module has this name; a copied or unpickled object finds its engine so."""
    return cast("Engine", import_module(name))
