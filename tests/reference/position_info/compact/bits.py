"""Bits, lowest first, in bytes."""

from __future__ import annotations

from ackwell.errors import CorruptStateError


class BitWriter:
    """Appends bits."""

    def __init__(self) -> None:
        self._bits: list[str] = []
        self._count = 0

    def put(self, value: int, width: int) -> None:
        """Write `value` in `width` bits."""
        assert value >> width == 0
        if width:
            self._bits.append(f"{value:0{width}b}"[::-1])
            self._count += width

    def put_unary(self, zeros: int) -> None:
        """`zeros` zeros and a one."""
        self.put(1 << zeros, zeros + 1)

    def align(self) -> None:
        """Write zeros up to the next byte."""
        self.put(0, -self._count % 8)

    def put_bytes(self, data: bytes) -> None:
        """Whole bytes, from a byte boundary."""
        self.align()
        self.put(int.from_bytes(data, "little"), 8 * len(data))

    def put_varint(self, value: int) -> None:
        """Write seven bits in each byte, lowest first, from any bit offset."""
        while value >= 0x80:
            self.put(value & 0x7F | 0x80, 8)
            value >>= 7
        self.put(value, 8)

    def finish(self) -> bytes:
        """Return the bytes."""
        self.align()
        bits = "".join(self._bits)
        return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


class BitReader:
    """Reads bits; reading past the end is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def refuse(self, message: str) -> CorruptStateError:
        """Return an error at the next byte."""
        return CorruptStateError(message, self.at // 8)

    def take(self, width: int) -> int:
        """Read the next `width` bits."""
        end = self.at + width
        if end > 8 * len(self.data):
            raise self.refuse("the input ends inside a number")
        chunk = int.from_bytes(self.data[self.at // 8 : (end + 7) // 8], "little")
        value = chunk >> self.at % 8 & ((1 << width) - 1)
        self.at = end
        return value

    def take_unary(self) -> int:
        """Read zeros and the following one; return the number of zeros."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return zeros

    def align(self) -> None:
        """Skip to the next byte; the skipped bits must be zero."""
        if self.take(-self.at % 8):
            raise self.refuse("bits behind the end of a section")

    def take_bytes(self, count: int) -> bytes:
        """`count` whole bytes, from a byte boundary."""
        self.align()
        start = self.at // 8
        if count > len(self.data) - start:
            raise self.refuse(f"{count} bytes announced")
        self.at += 8 * count
        return self.data[start : start + count]

    def take_varint(self) -> int:
        """Read a number that `put_varint` wrote."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(8)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise self.refuse("a number of more than 64 bits")
        if value >> 64:
            raise self.refuse("a number of more than 64 bits")
        return value

    def finish(self) -> None:
        """Check that no bytes follow the last number."""
        self.align()
        if self.at < 8 * len(self.data):
            raise self.refuse("bytes behind the end")
