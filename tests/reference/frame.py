"""The frame around a saved index of delayed messages: magic, version, varints, and a CRC-32."""

from __future__ import annotations

import zlib

from ackwell.errors import CorruptStateError
from tests.reference.integers import INT64_MAX

VERSION = 1
RESTORED_MAX = 1 << 32
"""The maximum number of messages of a restored index, because a few bytes can announce any number."""


def varint(value: int) -> bytes:
    """Write a non-negative number, seven bits in each byte, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> bytes:
    """Write a signed number: 0, -1, 1, -2, …."""
    return varint(2 * value if value >= 0 else -2 * value - 1)


def framed(magic: bytes, body: bytes) -> bytes:
    """Return a body in its frame."""
    data = magic + bytes([VERSION]) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


class FrameReader:
    """Reads a frame with a correct checksum; `CorruptStateError` otherwise."""

    def __init__(self, data: bytes, magic: bytes, name: str) -> None:
        if not isinstance(data, bytes):
            raise TypeError(f"expected bytes, got {type(data).__name__}")
        if data[:4] != magic:
            raise CorruptStateError(f"not a saved {name}", 0)
        if len(data) < 5 or data[4] != VERSION:
            found = f"version {data[4]}" if len(data) > 4 else "no version"
            raise CorruptStateError(f"{name} of {found}; this ackwell reads version {VERSION}", 4)
        self._end = len(data) - 4
        if self._end < 5 or zlib.crc32(data[: self._end]) != int.from_bytes(data[self._end :], "little"):
            raise CorruptStateError("the checksum does not match", max(self._end, 0))
        self._data = data
        self._at = 5

    def refuse(self, message: str) -> CorruptStateError:
        """Return an error with the offset of the last value."""
        return CorruptStateError(message, self._at)

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        if length > self._end - self._at:
            raise self.refuse(f"{length} bytes expected, {self._end - self._at} left")
        self._at += length
        return self._data[self._at - length : self._at]

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def varint(self) -> int:
        """Read a number of at most 64 bits."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and value < 1 << 64:
                return value
        raise self.refuse("a varint longer than 64 bits")

    def zigzag(self) -> int:
        """Read a signed number."""
        value = self.varint()
        return value >> 1 if value % 2 == 0 else -(value >> 1) - 1

    def natural(self) -> int:
        """Read a non-negative int64."""
        value = self.varint()
        if value > INT64_MAX:
            raise self.refuse("a number outside int64")
        return value

    def end(self) -> None:
        """Check that all bytes were read."""
        if self._at < self._end:
            raise self.refuse(f"{self._end - self._at} bytes too many")
