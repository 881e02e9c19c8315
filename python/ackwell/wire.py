"""The protobuf wire format, read and written by hand, for `CommandAck`.

The reference codec of `PositionInfo` has a reader of its own (`ackwell.reference.position_info.wire`);
the two should become one.

Own code, and not the `protobuf` library, for two reasons: unknown fields must survive byte for byte,
and every refusal must name the offset at which reading stopped. The library is the tests' oracle.

A message is a run of fields, each a varint key `(number << 3) | wire type` and a value. Limits are
those of the format: varints of at most 10 bytes, field numbers from 1 to 2^29 - 1, lengths within the
message. Groups (deprecated, never written) are skipped as one unknown field, at most 32 deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ackwell.errors import CorruptStateError

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
GROUP_START: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5

_TYPE_NAMES: Final = ("varint", "fixed64", "length-delimited", "group", "end of group", "fixed32")
_MAX_NUMBER: Final = 2**29 - 1
_MAX_GROUP_DEPTH: Final = 32


class Field(NamedTuple):
    """One field as it stands in `data`: the bytes `start` to `end` hold its key and its value."""

    number: int
    wire_type: int
    value: int
    """A varint's value, unsigned; for the other types the offset at which the content starts."""
    start: int
    end: int

    def varint(self) -> int:
        """Give the unsigned value of a varint field; `CorruptStateError` if it is another type."""
        self.expect(VARINT)
        return self.value

    def int64(self) -> int:
        """Give a varint field as a signed 64-bit integer."""
        return signed64(self.varint())

    def content(self, data: bytes) -> bytes:
        """Give the content of a length-delimited field."""
        self.expect(LENGTH)
        return data[self.value : self.end]

    def text(self, data: bytes) -> str:
        """Give the content of a string field; it must be UTF-8."""
        try:
            return self.content(data).decode()
        except UnicodeDecodeError as error:
            raise CorruptStateError("a string that is not UTF-8", self.value + error.start) from None

    def int64s(self, data: bytes) -> Iterator[int]:
        """Give the values of a repeated int64 field: one, or many where they are packed."""
        if self.wire_type == VARINT:
            yield signed64(self.value)
            return
        self.expect(LENGTH)
        offset = self.value
        while offset < self.end:
            value, offset = read_varint(data, offset, self.end)
            yield signed64(value)

    def expect(self, wire_type: int) -> None:
        """Raise `CorruptStateError` unless the field has this wire type."""
        if self.wire_type != wire_type:
            raise CorruptStateError(
                f"field {self.number} is {_TYPE_NAMES[self.wire_type]}, expected {_TYPE_NAMES[wire_type]}",
                self.start,
            )


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Read the fields of the message in `data[start:end]`, in order.

    Raises `CorruptStateError`, with the offset in `data`, where the bytes are no message.

    >>> [(field.number, field.value) for field in fields(bytes([0x08, 0x96, 0x01]))]
    [(1, 150)]
    """
    end = len(data) if end is None else end
    offset = start
    while offset < end:
        field = _read_field(data, offset, end, 0)
        if field.wire_type == GROUP_END:
            raise CorruptStateError(f"the end of group {field.number}, which was not opened", offset)
        yield field
        offset = field.end


def read_varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read the varint at `offset`: its unsigned 64-bit value, and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        position = offset + shift // 7
        if position >= end:
            raise CorruptStateError("the bytes end inside a varint", end)
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The tenth byte has one bit of use; like every reader, drop what lies above 64 bits.
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + 1
    raise CorruptStateError("a varint longer than 10 bytes", offset)


def signed64(value: int) -> int:
    """Read an unsigned 64-bit value as two's complement.

    >>> signed64(2**64 - 1)
    -1
    """
    return value - 2**64 if value >= 2**63 else value


def varint(value: int) -> bytes:
    """Write an integer as a varint; a negative one as its 64-bit two's complement.

    >>> varint(150).hex(), len(varint(-1))
    ('9601', 10)
    """
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number: int, value: int) -> bytes:
    """Write a varint field."""
    return varint(number << 3 | VARINT) + varint(value)


def length_field(number: int, content: bytes) -> bytes:
    """Write a length-delimited field: a string, bytes or a nested message."""
    return varint(number << 3 | LENGTH) + varint(len(content)) + content


def _read_field(data: bytes, start: int, end: int, depth: int) -> Field:
    key, offset = read_varint(data, start, end)
    number, wire_type = key >> 3, key & 7
    if not 1 <= number <= _MAX_NUMBER:
        raise CorruptStateError(f"field number {number}", start)
    if wire_type == VARINT:
        value, after = read_varint(data, offset, end)
        return Field(number, wire_type, value, start, after)
    if wire_type == LENGTH:
        length, offset = read_varint(data, offset, end)
        return _bounded(number, wire_type, offset, start, offset + length, end)
    if wire_type == FIXED64:
        return _bounded(number, wire_type, offset, start, offset + 8, end)
    if wire_type == FIXED32:
        return _bounded(number, wire_type, offset, start, offset + 4, end)
    if wire_type == GROUP_END:
        return Field(number, wire_type, offset, start, offset)
    if wire_type == GROUP_START:
        return Field(number, wire_type, offset, start, _end_of_group(data, number, offset, end, depth))
    raise CorruptStateError(f"wire type {wire_type}", start)


def _bounded(number: int, wire_type: int, value: int, start: int, after: int, end: int) -> Field:
    if after > end:
        raise CorruptStateError(
            f"field {number} is {after - value} bytes long; {end - value} are left", start
        )
    return Field(number, wire_type, value, start, after)


def _end_of_group(data: bytes, number: int, offset: int, end: int, depth: int) -> int:
    if depth >= _MAX_GROUP_DEPTH:
        raise CorruptStateError(f"groups nested deeper than {_MAX_GROUP_DEPTH}", offset)
    while offset < end:
        field = _read_field(data, offset, end, depth + 1)
        offset = field.end
        if field.wire_type == GROUP_END:
            if field.number != number:
                raise CorruptStateError(f"group {number} ends as group {field.number}", field.start)
            return offset
    raise CorruptStateError(f"the bytes end inside group {number}", end)
