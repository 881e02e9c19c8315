"""The protocol of an engine: a module that implements the data structures under the names below.

ackwell uses the engine `ackwell._native`. A second engine, `tests/reference`, is the executable
specification. The differential tests compare the results and errors of both engines. Here the classes have
the type `type[Any]`, because only the stub `_native.pyi` defines their signatures.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MessageIdFields(TypedDict):
    """The fields of one message id in a `CommandAck`; `ackwell.protocol.MessageId` documents them."""

    ledger_id: int
    entry_id: int
    partition: int
    batch_index: int
    ack_set: tuple[int, ...]
    batch_size: int | None
    first_chunk: MessageIdFields | None
    unknown_fields: bytes


class AckFields(NamedTuple):
    """The fields of a `CommandAck` that an engine decoded; `ackwell.protocol.AckColumns` documents them."""

    consumer_id: int
    cumulative: bool
    ledger_ids: NDArray[np.int64]
    entry_ids: NDArray[np.int64]
    ack_set_starts: NDArray[np.int64] | None
    ack_set_words: NDArray[np.int64] | None
    others: list[tuple[int, MessageIdFields]]
    """The message ids that have other fields than a position and an ack set. Each has the index of its
    row."""
    validation_error: int | None
    properties: tuple[tuple[str, int], ...]
    transaction: tuple[int, int] | None
    """The transaction id: its most significant 64 bits, then its least significant 64 bits."""
    request_id: int | None
    unknown_fields: bytes


class Engine(Protocol):
    """The classes and functions that both engines implement, in the order of `docs/architecture.md`."""

    __name__: str
    """The name of the module."""

    Ledgers: type[Any]
    LongMap: type[Any]
    BitSet: type[Any]
    PendingAcks: type[Any]
    PositionRangeSet: type[Any]
    AckSets: type[Any]
    TripleLongHeap: type[Any]
    TimeBuckets: type[Any]
    TimeWheel: type[Any]
    PositionInfo: type[Any]
    ManagedCursorInfo: type[Any]
    Partials: type[Any]

    def compress(self, data: bytes, compression: str) -> bytes:
        """Compress bytes with the method NONE, LZ4, ZLIB, ZSTD or SNAPPY."""

    def decompress(self, data: bytes, compression: str, size: int, max_bytes: int = 67108864) -> bytes:
        """Decompress bytes whose decompressed size must be exactly `size`."""


@cache
def native_engine() -> Engine:
    """Return the engine that is used by default, the module `ackwell._native`."""
    return engine_named("ackwell._native")


def engine_named(name: str) -> Engine:
    """Return the engine whose module has this name.

    A cursor calls this function when it is copied or unpickled.
    """
    return cast("Engine", import_module(name))
