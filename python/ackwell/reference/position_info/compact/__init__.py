"""Our own form: magic 0xAC, version, flags, CRC-32, and a body that zstd may compress.

`docs/formats.md` describes each byte.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.reference.position_info import pulsar
from ackwell.reference.position_info.compact import acks, sections
from ackwell.reference.position_info.compact.bits import BitReader, BitWriter
from ackwell.reference.position_info.compression import compress, decompress
from ackwell.reference.position_info.state import State
from ackwell.reference.position_info.wire import Reader, varint

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = 0xAC
VERSION = 1
COMPRESSED, DELTA = 1, 2
HEADER_BYTES = 7
COMPRESS_FROM_BYTES = 64


def encode(state: State) -> bytes:
    """Write a whole state."""
    bits = BitWriter()
    put_body(bits, state)
    return seal(0, bits.finish())


def encode_delta(state: State, base: int) -> bytes:
    """Write what changed since the entry whose checksum is `base`."""
    bits = BitWriter()
    bits.put(base, 32)
    put_body(bits, state)
    return seal(DELTA, bits.finish())


def decode(data: bytes, max_bytes: int) -> State:
    """Read a whole state."""
    flags, body = unseal(data, max_bytes)
    if flags & DELTA:
        raise CorruptStateError("a delta, which is no state without the entries before it", 2)
    return take_body(BitReader(body))


def decode_delta(data: bytes, max_bytes: int) -> tuple[State, int]:
    """Read a delta and the checksum of the entry it goes on from."""
    flags, body = unseal(data, max_bytes)
    if not flags & DELTA:
        raise CorruptStateError("a whole state, not a delta", 2)
    bits = BitReader(body)
    base = bits.take(32)
    return take_body(bits), base


def checksum(data: bytes) -> int:
    """CRC-32 of all but the checksum itself."""
    return zlib.crc32(data[HEADER_BYTES:], zlib.crc32(data[:3]))


def seal(flags: int, body: bytes) -> bytes:
    """Put header and checksum before a body, compressed where that makes it smaller."""
    if len(body) >= COMPRESS_FROM_BYTES:
        small = varint(len(body)) + compress("ZSTD", body)
        if len(small) < len(body):
            flags, body = flags | COMPRESSED, small
    head = bytes((MAGIC, VERSION, flags))
    return head + zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "little") + body


def unseal(data: bytes, max_bytes: int) -> tuple[int, bytes]:
    """Check the header; give the flags and the body."""
    if len(data) < HEADER_BYTES or data[0] != MAGIC:
        raise CorruptStateError("not the compact form", 0)
    if data[1] != VERSION:
        raise CorruptStateError(f"compact version {data[1]}; this release reads {VERSION}", 1)
    if checksum(data) != int.from_bytes(data[3:7], "little"):
        raise CorruptStateError("the checksum is wrong: bytes are missing or changed", 3)
    flags = data[2]
    if flags & ~(COMPRESSED | DELTA):
        raise CorruptStateError(f"flags {flags:#010b} are unknown", 2)
    if not flags & COMPRESSED:
        return flags, data[HEADER_BYTES:]
    reader = Reader(data, HEADER_BYTES)
    size = reader.varint()
    return flags, decompress("ZSTD", reader.rest(), size, max_bytes)


def put_body(bits: BitWriter, state: State) -> None:
    """The mark-delete position, which sections follow, and the sections."""
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
    """Read what `put_body` writes."""
    ledger_id, entry = bits.take_varint(), bits.take_varint()
    if ledger_id >> 63 or entry > 1 << 63:
        raise bits.refuse("a mark-delete position of more than 63 bits")
    state = State(mark_delete=Position(ledger_id, entry - 1))
    present = bits.take_varint()
    if present >> 7:
        raise bits.refuse(f"sections {present:#b} are unknown")
    if present & 1:
        state.individually_deleted = acks.take(bits)
        bits.align()
    if present & 2:
        state.spanning_ranges = sections.take_spanning(bits)
    if present & 4:
        state.batch_deleted = sections.take_batches(bits)
    if present & 8:
        state.properties = sections.take_properties(bits)
    if present & 16:
        state.redelivery_counts = sections.take_counts(bits)
    if present & 32:
        state.idle_since = sections.take_int(bits)
    if present & 64:
        state.unknown_fields = sections.take_bytes(bits)
        probe, _ = pulsar.decode(bytes((1 << 3, 0, 2 << 3, 0)) + state.unknown_fields)
        if probe.unknown_fields != state.unknown_fields:
            raise bits.refuse("unknown fields that are none")
    bits.finish()
    return state
