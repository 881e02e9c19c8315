"""A code for a column of numbers: the least one plus rests of one width, or Rice coded rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.position_info.compact.bits import BitReader, BitWriter

HEADER_BITS = 15


class Code(NamedTuple):
    """How the numbers of one column are written."""

    base: int = 0
    width: int = 0
    rice: bool = False

    @classmethod
    def cheapest(cls, numbers: Sequence[int]) -> tuple[Self, int]:
        """Return the code with the fewest bits for these numbers, and the number of bits."""
        if not numbers:
            return cls(), HEADER_BITS
        base = min(numbers)
        rests = [number - base for number in numbers]
        code = cls(base, max(rests).bit_length())
        cost = len(rests) * code.width
        middle = max((sum(rests) // len(rests)).bit_length() - 1, 0)
        if code.width:
            for width in (max(middle - 1, 0), middle, min(middle + 1, 63)):
                rice = sum(rest >> width for rest in rests) + len(rests) * (width + 1)
                if rice < cost:
                    code, cost = cls(base, width, rice=True), rice
        return code, cost + HEADER_BITS + base.bit_length()

    def put_header(self, bits: BitWriter) -> None:
        """Write the code itself."""
        bits.put(self.rice, 1)
        bits.put(self.width, 7)
        bits.put(self.base.bit_length(), 7)
        bits.put(self.base, self.base.bit_length())

    @classmethod
    def take_header(cls, bits: BitReader) -> Self:
        """Read a code."""
        rice, width, base_width = bool(bits.take(1)), bits.take(7), bits.take(7)
        if width > 64 - rice or base_width > 64:
            raise bits.refuse("a column of more than 64 bits")
        return cls(bits.take(base_width), width, rice)

    def put(self, bits: BitWriter, number: int) -> None:
        """Write a number of the column."""
        rest = number - self.base
        if self.rice:
            bits.put_unary(rest >> self.width)
            rest &= (1 << self.width) - 1
        bits.put(rest, self.width)

    def take(self, bits: BitReader) -> int:
        """Read a number of the column."""
        high = bits.take_unary() if self.rice else 0
        number = self.base + (high << self.width | bits.take(self.width))
        if number >> 64:
            raise bits.refuse("a number of more than 64 bits")
        return number


def put_rows(bits: BitWriter, rows: Sequence[Sequence[int]], columns: int) -> None:
    """Write rows of numbers with one code for each column, row after row."""
    bits.put_varint(len(rows))
    codes = [Code.cheapest([row[column] for row in rows])[0] for column in range(columns)]
    for code in codes:
        code.put_header(bits)
    for row in rows:
        for code, number in zip(codes, row, strict=True):
            code.put(bits, number)
    bits.align()


def take_rows(bits: BitReader, columns: int, count_max: int) -> list[tuple[int, ...]]:
    """Read the rows of `put_rows`."""
    count = bits.take_varint()
    if count > count_max:
        raise bits.refuse(f"{count} rows")
    codes = [Code.take_header(bits) for _ in range(columns)]
    rows = [tuple(code.take(bits) for code in codes) for _ in range(count)]
    bits.align()
    return rows
