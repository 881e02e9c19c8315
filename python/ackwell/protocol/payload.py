"""The payload of a SEND or MESSAGE command: an entry, as a topic stores it.

    [0x0e02 · size, int32 · BrokerEntryMetadata]
    [0x0e01 · CRC-32C, uint32] · size, int32 · MessageMetadata · the body

The parts in brackets are optional. The checksum covers all bytes after it. The body contains one message, or
several messages (see `batches`). The metadata contains the compression of the body.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ackwell._native import crc32c, decompress
from ackwell.errors import AckwellError, FrameError
from ackwell.protocol import messages
from ackwell.protocol.constants import COMPRESSIONS, MAX_MESSAGE_BYTES

CHECKSUM_MAGIC: Final = b"\x0e\x01"
BROKER_ENTRY_MAGIC: Final = b"\x0e\x02"


class Payload(NamedTuple):
    """The parts of an entry, which `read_payload` returns."""

    metadata: Any
    """The `MessageMetadata` of the entry."""
    body: bytes
    """The message or messages of the entry, compressed as `metadata` specifies."""
    checksum_holds: bool
    """Whether the checksum is correct. True if the entry has no checksum."""
    broker_entry: Any | None = None
    """The `BrokerEntryMetadata`; None if the entry has none."""


def read_payload(data: bytes) -> Payload:
    """Split an entry into its parts; `FrameError` for invalid bytes.

    For a wrong checksum, `checksum_holds` is False, and no error is raised.

    >>> metadata = messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    >>> read_payload(write_payload(metadata, b"hello")).body
    b'hello'
    """
    broker_entry, holds, at = None, True, 0
    if data[:2] == BROKER_ENTRY_MAGIC:
        at = _end(data, 2)
        broker_entry = messages.parse("BrokerEntryMetadata", data[6:at])
    if data[at : at + 2] == CHECKSUM_MAGIC:
        if len(data) < at + 6:
            raise FrameError(f"an entry of {len(data)} bytes ends inside its checksum")
        holds = int.from_bytes(data[at + 2 : at + 6]) == crc32c(data[at + 6 :])
        at += 6
    end = _end(data, at)
    metadata = messages.parse("MessageMetadata", data[at + 4 : end])
    return Payload(metadata, data[end:], holds, broker_entry)


def read_metadata(data: bytes) -> Any:
    """Return the `MessageMetadata` of an entry; `FrameError` for invalid bytes.

    The checksum is not checked.
    """
    at = _end(data, 2) if data[:2] == BROKER_ENTRY_MAGIC else 0
    if data[at : at + 2] == CHECKSUM_MAGIC:
        at += 6
    return messages.parse("MessageMetadata", data[at + 4 : _end(data, at)])


def write_payload(metadata: Any, body: bytes) -> bytes:
    """Return the bytes of an entry that consists of a checksum, the metadata and the body."""
    encoded: bytes = metadata.SerializeToString()
    covered = b"".join((len(encoded).to_bytes(4), encoded, body))
    return b"".join((CHECKSUM_MAGIC, crc32c(covered).to_bytes(4), covered))


def uncompressed(payload: Payload, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return the body without compression; `FrameError` if it is invalid or larger than `max_bytes`."""
    metadata = payload.metadata
    if not metadata.compression:
        return payload.body
    if not 0 < metadata.compression < len(COMPRESSIONS):
        raise FrameError(f"compression type {metadata.compression}; expected 0 to {len(COMPRESSIONS) - 1}")
    name = COMPRESSIONS[metadata.compression]
    try:
        return decompress(payload.body, name, metadata.uncompressed_size, max_bytes)
    except (AckwellError, ValueError) as error:
        raise FrameError(f"a body that is not valid {name}: {error}") from None


def _end(data: bytes, at: int) -> int:
    """Return the offset at which a part of an entry ends. The part's size is at `at`, before the part."""
    end = at + 4 + int.from_bytes(data[at : at + 4])
    if end > len(data):
        raise FrameError(f"an entry of {len(data)} bytes ends inside its metadata")
    return end
