"""All sections except the acknowledged entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.position import Position
from ackwell.wire import signed64
from tests.reference.position_info.compact.column import put_rows, take_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.reference.position_info.compact.bits import BitReader, BitWriter

COUNT_MAX = 1 << 20
UNSIGNED = (1 << 64) - 1


def position_numbers(positions: Iterable[Position]) -> list[tuple[int, int]]:
    """Differences of ledgers, and in each ledger differences of entries minus 1."""
    numbers = []
    before = Position(0, -1)
    first = True
    for position in positions:
        ledger = position.ledger_id - before.ledger_id
        entry = position.entry_id
        if not first and ledger == 0:
            entry -= before.entry_id + 1
        numbers.append((ledger, entry))
        before, first = position, False
    return numbers


def positions_of(bits: BitReader, rows: Iterable[tuple[int, ...]]) -> list[Position]:
    """Return the positions whose numbers begin the rows."""
    positions: list[Position] = []
    for ledger, entry, *_ in rows:
        before = positions[-1] if positions else Position(0, -1)
        first = before.entry_id + 1 if positions and ledger == 0 else 0
        position = Position(before.ledger_id + ledger, first + entry)
        if position.ledger_id >> 63 or position.entry_id >> 63:
            raise bits.refuse("a position of more than 63 bits")
        positions.append(position)
    return positions


def put_batches(bits: BitWriter, batches: Mapping[Position, tuple[int, ...]]) -> None:
    """Rows of positions and word counts, then all words as one column."""
    numbers = position_numbers(batches)
    lengths = [len(words) for words in batches.values()]
    rows = [(*number, length) for number, length in zip(numbers, lengths, strict=True)]
    put_rows(bits, rows, 3)
    put_rows(bits, [(word & UNSIGNED,) for words in batches.values() for word in words], 1)


def take_batches(bits: BitReader) -> dict[Position, tuple[int, ...]]:
    """Read partly acknowledged entries."""
    rows = take_rows(bits, 3, COUNT_MAX)
    positions = positions_of(bits, rows)
    words = [signed64(word) for (word,) in take_rows(bits, 1, COUNT_MAX)]
    batches = {}
    at = 0
    for position, (_, _, length) in zip(positions, rows, strict=True):
        batches[position] = tuple(words[at : at + length])
        if length and (len(batches[position]) < length or batches[position][-1] == 0):
            raise bits.refuse("words are missing or end in zeros")
        at += length
    if at != len(words):
        raise bits.refuse("words of no position")
    return batches


def put_counts(bits: BitWriter, counts: Mapping[Position, int]) -> None:
    """Redelivery counts."""
    numbers = position_numbers(counts)
    put_rows(bits, [(*n, count) for n, count in zip(numbers, counts.values(), strict=True)], 3)


def take_counts(bits: BitReader) -> dict[Position, int]:
    """Read redelivery counts."""
    rows = take_rows(bits, 3, COUNT_MAX)
    if any(count >> 63 for _, _, count in rows):
        raise bits.refuse("a count of more than 63 bits")
    counts = (count for _, _, count in rows)
    return dict(zip(positions_of(bits, rows), counts, strict=True))


def put_spanning(bits: BitWriter, ranges: Iterable[tuple[Position, Position]]) -> None:
    """Ranges over ledgers' ends; entries count from -1."""
    rows = [
        (low.ledger_id, low.entry_id + 1, up.ledger_id - low.ledger_id, up.entry_id + 1) for low, up in ranges
    ]
    put_rows(bits, rows, 4)


def take_spanning(bits: BitReader) -> tuple[tuple[Position, Position], ...]:
    """Read ranges over ledgers' ends."""
    ranges = []
    for ledger, lower, ledgers, upper in take_rows(bits, 4, COUNT_MAX):
        if not ledgers or ledger + ledgers >> 63 or max(lower, upper) > 1 << 63:
            raise bits.refuse("a range that spans no ledgers")
        ranges.append((Position(ledger, lower - 1), Position(ledger + ledgers, upper - 1)))
    return tuple(ranges)


def put_bytes(bits: BitWriter, data: bytes) -> None:
    """Write a length and the bytes."""
    bits.put_varint(len(data))
    bits.put_bytes(data)


def take_bytes(bits: BitReader) -> bytes:
    """Read a length and the bytes."""
    return bits.take_bytes(bits.take_varint())


def put_int(bits: BitWriter, value: int) -> None:
    """Write an int64; small ones of either sign take few bytes."""
    bits.put_varint((value << 1 ^ value >> 63) & UNSIGNED)


def take_int(bits: BitReader) -> int:
    """Read an int64."""
    number = bits.take_varint()
    return number >> 1 ^ -(number & 1)


def put_properties(bits: BitWriter, properties: Mapping[str, int]) -> None:
    """Write the client's properties in the order of their names."""
    bits.put_varint(len(properties))
    for name, value in sorted(properties.items()):
        put_bytes(bits, name.encode())
        put_int(bits, value)


def take_properties(bits: BitReader) -> dict[str, int]:
    """Read the client's properties."""
    properties = {}
    for _ in range(bits.take_varint()):
        try:
            name = take_bytes(bits).decode()
        except UnicodeDecodeError:
            raise bits.refuse("a name that is not UTF-8") from None
        properties[name] = take_int(bits)
    return properties
