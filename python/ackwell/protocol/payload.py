"""What follows a SEND or MESSAGE command: an entry, as a topic keeps it.

    [0x0e02 · size, int32 · BrokerEntryMetadata]
    [0x0e01 · CRC-32C, uint32] · size, int32 · MessageMetadata · the payload

Both parts in brackets may be missing. The checksum covers everything behind itself. The payload is one
message, or several (`batches`), compressed as the metadata says.
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
    """An entry in its parts."""

    metadata: Any
    """`MessageMetadata`."""
    body: bytes
    """The messages, compressed as the metadata says."""
    checksum_holds: bool
    """Whether the checksum is that of the bytes; true if the entry has none."""
    broker_entry: Any | None = None
    """`BrokerEntryMetadata`, if there is one."""


def read_payload(data: bytes) -> Payload:
    """Split an entry; `FrameError` for bytes that are not one. A wrong checksum is returned, not raised.

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
    """Return an entry's `MessageMetadata`, its checksum not looked at; `FrameError` for other bytes."""
    at = _end(data, 2) if data[:2] == BROKER_ENTRY_MAGIC else 0
    if data[at : at + 2] == CHECKSUM_MAGIC:
        at += 6
    return messages.parse("MessageMetadata", data[at + 4 : _end(data, at)])


def write_payload(metadata: Any, body: bytes) -> bytes:
    """Return an entry's bytes, with a checksum."""
    encoded: bytes = metadata.SerializeToString()
    covered = b"".join((len(encoded).to_bytes(4), encoded, body))
    return b"".join((CHECKSUM_MAGIC, crc32c(covered).to_bytes(4), covered))


def uncompressed(payload: Payload, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return the body as it was before compression; `FrameError` if it is not one, or over `max_bytes`."""
    metadata = payload.metadata
    if not metadata.compression:
        return payload.body
    if not 0 < metadata.compression < len(COMPRESSIONS):
        raise FrameError(f"compression type {metadata.compression}; expected 0 to {len(COMPRESSIONS) - 1}")
    name = COMPRESSIONS[metadata.compression]
    try:
        return decompress(payload.body, name, metadata.uncompressed_size, max_bytes)
    except (AckwellError, ValueError) as error:
        raise FrameError(f"a body that is not {name}: {error}") from None


def _end(data: bytes, at: int) -> int:
    """Return where the part ends whose size is at `at`."""
    end = at + 4 + int.from_bytes(data[at : at + 4])
    if end > len(data):
        raise FrameError(f"an entry of {len(data)} bytes ends inside its metadata")
    return end
