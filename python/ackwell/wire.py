"""The wire format of Protocol Buffers: tags, varints, lengths and groups, for any message.

The `protobuf` library does not meet two needs: unknown fields must be preserved byte for byte, and every
error must contain the offset at which reading stopped. The tests compare the results with those of the
library. The reader of the Rust core (`rust/core/src/position_info/wire`) has the same limits and errors.

A message is a sequence of fields. Each field is a varint tag, `number << 3 | wire type`, and a value. The
limits are those of the format: varints of at most 64 bits, field numbers from 1 to 2^29 - 1, lengths within
the message. Groups (deprecated, never written) are skipped as one unknown field, up to a nesting depth of
100.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ackwell.errors import CorruptStateError
from ackwell.integers import INT64_MAX

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)

_TYPE_NAMES: Final = ("varint", "fixed64", "length-delimited", "group", "end of group", "fixed32")
_NUMBER_MAX: Final = 2**29 - 1
_GROUP_DEPTH_MAX: Final = 100
_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}


class Field(NamedTuple):
    """One field of a message.

    `start` is the offset of the first byte of its tag. `end` is the offset after its last byte.
    """

    number: int
    wire_type: int
    value: int | Reader | None
    """An unsigned integer for a varint, or a reader of the content for a length-delimited field. None for
    fixed-width numbers and groups."""
    start: int
    end: int

    def varint(self) -> int:
        """Return the unsigned value of a varint field; raise `CorruptStateError` for another wire type."""
        if not isinstance(self.value, int):
            raise self._expected(VARINT)
        return self.value

    def int64(self) -> int:
        """Return the value of a varint field as a signed 64-bit integer."""
        return signed64(self.varint())

    def message(self) -> Reader:
        """Return a reader of the content of a length-delimited field.

        Raises `CorruptStateError` for another wire type.
        """
        if not isinstance(self.value, Reader):
            raise self._expected(BYTES)
        return self.value

    def int64s(self) -> Iterator[int]:
        """Yield the values of a repeated int64 field: one value, or all values of a packed field."""
        if self.wire_type == VARINT:
            yield self.int64()
            return
        packed = self.message()
        while packed.at < packed.end:
            yield signed64(packed.varint())

    def _expected(self, wire_type: int) -> CorruptStateError:
        found, expected = _TYPE_NAMES[self.wire_type], _TYPE_NAMES[wire_type]
        return CorruptStateError(f"field {self.number} is {found}, expected {expected}", self.start)


class Reader:
    """A reader of a message, or of part of one, in `data`. It reads from the offset `at` to the offset `end`.

    >>> [(field.number, field.value) for field in Reader(bytes([0x08, 0x96, 0x01])).fields()]
    [(1, 150)]
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def rest(self) -> bytes:
        """Return the unread bytes."""
        return self.data[self.at : self.end]

    def raw(self, field: Field) -> bytes:
        """Return the bytes of a field, including its tag."""
        return self.data[field.start : field.end]

    def text(self) -> str:
        """Return the unread bytes as text; raise `CorruptStateError` if they are not UTF-8."""
        try:
            return self.rest().decode()
        except UnicodeDecodeError as error:
            raise CorruptStateError("a name that is not UTF-8", self.at + error.start) from None

    def take(self, length: int) -> Reader:
        """Skip the next `length` bytes, and return a reader of these bytes."""
        left = self.end - self.at
        if length > left:
            raise CorruptStateError(f"{length} bytes announced, {left} bytes are left", self.at)
        self.at += length
        return Reader(self.data, self.at - length, self.at)

    def varint(self) -> int:
        """Read a varint: an unsigned integer of at most 64 bits."""
        value = 0
        for index, byte in enumerate(self.data[self.at : min(self.at + 10, self.end)]):
            value |= (byte & 0x7F) << (7 * index)
            if index == 9 and byte > 1:
                raise CorruptStateError("a varint of more than 64 bits", self.at)
            if byte < 0x80:
                self.at += index + 1
                return value
        raise CorruptStateError("the input ends inside a varint", self.at)

    def fields(self) -> Iterator[Field]:
        """Read and yield the remaining fields of the message, in order."""
        while self.at < self.end:
            start = self.at
            number, wire_type = self._tag()
            value: int | Reader | None = None
            if wire_type == VARINT:
                value = self.varint()
            elif wire_type == BYTES:
                value = self.take(self.varint())
            else:
                self._skip(start, number, wire_type)
            yield Field(number, wire_type, value, start, self.at)

    def _tag(self) -> tuple[int, int]:
        start = self.at
        tag = self.varint()
        if not 1 <= tag >> 3 <= _NUMBER_MAX:
            raise CorruptStateError(f"field number {tag >> 3} does not exist", start)
        return tag >> 3, tag & 7

    def _skip(self, start: int, number: int, wire_type: int) -> None:
        """Skip a fixed-width number or a group. `start` is the offset of the tag.

        Nested groups are tracked in a list instead of by recursion.
        """
        groups: list[int] = []
        while True:
            if wire_type == GROUP:
                if len(groups) == _GROUP_DEPTH_MAX:
                    raise CorruptStateError(f"more than {_GROUP_DEPTH_MAX} groups inside each other", start)
                groups.append(number)
            elif wire_type == END_GROUP:
                if not groups or groups.pop() != number:
                    raise CorruptStateError("the end of a group that is not open", start)
            else:
                self._skip_value(start, wire_type)
            if not groups:
                return
            start = self.at
            if self.at == self.end:
                raise CorruptStateError("the input ends inside a group", start)
            number, wire_type = self._tag()

    def _skip_value(self, start: int, wire_type: int) -> None:
        if wire_type == VARINT:
            self.varint()
        elif wire_type == BYTES:
            self.take(self.varint())
        elif wire_type in _WIDTHS:
            self.take(_WIDTHS[wire_type])
        else:
            raise CorruptStateError(f"wire type {wire_type}", start)


def signed64(value: int) -> int:
    """Convert an unsigned 64-bit integer to the signed integer with the same bits (two's complement).

    >>> signed64(2**64 - 1)
    -1
    """
    return value - 2**64 if value > INT64_MAX else value


def varint(value: int) -> bytes:
    """Encode an integer as a varint. A negative integer is encoded as its 64-bit two's complement.

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


def int_field(number: int, value: int) -> bytes:
    """Encode a field with a varint value, including its tag."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field, including its tag. The content is a string, bytes or a message."""
    return varint(number << 3 | BYTES) + varint(len(content)) + content
