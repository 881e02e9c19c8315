"""ackwell's form: magic 0xAC, version, flags, CRC-32, and a body that zstd may compress.

`docs/formats.md` describes each byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ackwell.errors import CorruptStateError, NewerVersionError
from ackwell.position import Position
from ackwell.wire import Reader, varint
from tests.reference.position_info import pulsar
from tests.reference.position_info.compact import acks, sections
from tests.reference.position_info.compact.bits import BitReader, BitWriter
from tests.reference.position_info.compression import compress, decompress
from tests.reference.position_info.state import State

MAGIC = 0xAC
VERSION = 1
COMPRESSED = 1
HEADER_BYTES = 7
COMPRESS_FROM_BYTES = 64


def encode(state: State) -> bytes:
    """Write a whole state."""
    bits = BitWriter()
    put_body(bits, state)
    return seal(bits.finish())


def decode(data: bytes, max_bytes: int) -> State:
    """Read a whole state."""
    return take_body(BitReader(unseal(data, max_bytes)))


def checksum(data: bytes) -> int:
    """CRC-32 of all but the checksum itself."""
    return zlib.crc32(data[HEADER_BYTES:], zlib.crc32(data[:3]))


def seal(body: bytes) -> bytes:
    """Put header and checksum before a body, which is compressed if that makes it smaller."""
    flags = 0
    if len(body) >= COMPRESS_FROM_BYTES:
        small = varint(len(body)) + compress(body, "ZSTD")
        if len(small) < len(body):
            flags, body = COMPRESSED, small
    head = bytes((MAGIC, VERSION, flags))
    return head + zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "little") + body


def unseal(data: bytes, max_bytes: int) -> bytes:
    """Check the header and return the body."""
    if len(data) < HEADER_BYTES or data[0] != MAGIC:
        raise CorruptStateError("not the compact form", 0)
    whole = checksum(data) == int.from_bytes(data[3:7], "little")
    if data[1] != VERSION:
        error = NewerVersionError if whole and data[1] > VERSION else CorruptStateError
        raise error(f"compact version {data[1]}; the newest this release reads is {VERSION}", 1)
    if not whole:
        raise CorruptStateError("the checksum is wrong: bytes are missing or changed", 3)
    flags = data[2]
    if flags & ~COMPRESSED:
        raise CorruptStateError(f"flags {flags:#010b} are unknown", 2)
    if not flags & COMPRESSED:
        return data[HEADER_BYTES:]
    reader = Reader(data, HEADER_BYTES)
    size = reader.varint()
    return decompress(reader.rest(), "ZSTD", size, max_bytes)


def take_unknown(bits: BitReader) -> bytes:
    """Return unknown fields, which must be complete and must not have known numbers."""
    fields = sections.take_bytes(bits)
    probe, _ = pulsar.decode(bytes((1 << 3, 0, 2 << 3, 0)) + fields)
    if probe.unknown_fields != fields:
        raise bits.refuse("bytes that are not unknown fields")
    return fields


#: The sections in their order, with their readers.
SECTIONS: dict[str, Callable[[BitReader], object]] = {
    "individually_deleted": acks.take,
    "spanning_ranges": sections.take_spanning,
    "batch_deleted": sections.take_batches,
    "properties": sections.take_properties,
    "redelivery_counts": sections.take_counts,
    "idle_since": sections.take_int,
    "unknown_fields": take_unknown,
}


def put_body(bits: BitWriter, state: State) -> None:
    """Return the mark-delete position, the flags of the sections, and the sections."""
    parts: list[tuple[bool, Callable[[], None]]] = [
        (bool(len(state.individually_deleted)), lambda: acks.put(bits, state.individually_deleted)),
        (bool(state.spanning_ranges), lambda: sections.put_spanning(bits, state.spanning_ranges)),
        (bool(state.batch_deleted), lambda: sections.put_batches(bits, state.batch_deleted)),
        (bool(state.properties), lambda: sections.put_properties(bits, state.properties)),
        (bool(state.redelivery_counts), lambda: sections.put_counts(bits, state.redelivery_counts)),
        (state.idle_since is not None, lambda: sections.put_int(bits, state.idle_since or 0)),
        (bool(state.unknown_fields), lambda: sections.put_bytes(bits, state.unknown_fields)),
    ]
    bits.put_varint(state.mark_delete.ledger_id)
    bits.put_varint(state.mark_delete.entry_id + 1)
    bits.put_varint(sum(1 << index for index, (is_there, _) in enumerate(parts) if is_there))
    for is_there, put in parts:
        if is_there:
            put()


def take_body(bits: BitReader) -> State:
    """Read the output of `put_body`."""
    ledger_id, entry = bits.take_varint(), bits.take_varint()
    if ledger_id >> 63 or entry > 1 << 63:
        raise bits.refuse("a mark-delete position of more than 63 bits")
    state = State(mark_delete=Position(ledger_id, entry - 1))
    present = bits.take_varint()
    if present >> 7:
        raise bits.refuse(f"sections {present:#b} are unknown")
    for index, (name, take) in enumerate(SECTIONS.items()):
        if present >> index & 1:
            setattr(state, name, take(bits))
    bits.finish()
    return state
