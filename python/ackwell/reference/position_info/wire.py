"""Protocol Buffers as bytes: tags, varints, lengths and groups, and nothing of any message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ackwell.errors import CorruptStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
GROUP_DEPTH_MAX = 100
FIELD_NUMBER_MAX = (1 << 29) - 1


class Field(NamedTuple):
    """One field: its number, its wire type, its value and the bytes it took."""

    number: int
    wire_type: int
    value: int | Reader | None
    start: int
    end: int


class Reader:
    """The part of `data` that a message takes, and the next byte to read."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def rest(self) -> bytes:
        """The bytes left."""
        return self.data[self.at : self.end]

    def take(self, length: int) -> Reader:
        """The next `length` bytes as a reader of their own."""
        if length > self.end - self.at:
            raise CorruptStateError(f"{length} bytes announced, {self.end - self.at} left", self.at)
        self.at += length
        return Reader(self.data, self.at - length, self.at)

    def varint(self) -> int:
        """An unsigned number of at most 64 bits in at most ten bytes."""
        value = 0
        for index, byte in enumerate(self.data[self.at : min(self.at + 10, self.end)]):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value >> 64:
                    break
                self.at += index + 1
                return value
        raise CorruptStateError("no varint of 64 bits", self.at)

    def tag(self) -> tuple[int, int]:
        """Field number and wire type."""
        start = self.at
        tag = self.varint()
        if not 1 <= tag >> 3 <= FIELD_NUMBER_MAX:
            raise CorruptStateError(f"field number {tag >> 3} does not exist", start)
        return tag >> 3, tag & 7

    def value(self, wire_type: int, number: int, depth: int = 0) -> int | Reader | None:
        """What stands behind a tag; fixed-width numbers and groups are skipped."""
        match wire_type:
            case 0:
                return self.varint()
            case 1:
                self.take(8)
            case 2:
                return self.take(self.varint())
            case 3 if depth < GROUP_DEPTH_MAX:
                while True:
                    inner, inner_type = self.tag()
                    if inner_type == END_GROUP:
                        if inner != number:
                            raise CorruptStateError("the end of another group", self.at)
                        break
                    self.value(inner_type, inner, depth + 1)
            case 5:
                self.take(4)
            case _:
                raise CorruptStateError(f"wire type {wire_type}", self.at)
        return None

    def fields(self) -> Iterator[Field]:
        """The fields to the end of the message."""
        while self.at < self.end:
            start = self.at
            number, wire_type = self.tag()
            value = self.value(wire_type, number)
            yield Field(number, wire_type, value, start, self.at)


def signed(value: int) -> int:
    """An unsigned 64-bit number as an int64."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """An int64, negative ones in ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """An int64 field."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, content: bytes) -> bytes:
    """A string, bytes or an encoded message."""
    return varint(number << 3 | BYTES) + varint(len(content)) + content
