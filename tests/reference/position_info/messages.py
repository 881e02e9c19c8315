"""The messages that `PositionInfo` and `ManagedCursorInfo` number differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.wire import BYTES, VARINT, Field, Reader, bytes_field, int_field, signed64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Words = tuple[int, ...]


def scalars(message: Reader) -> dict[tuple[int, int], int | Reader]:
    """Return the last value of each field, by number and wire type."""
    return {
        (field.number, field.wire_type): field.value for field in message.fields() if field.value is not None
    }


def integer(values: Mapping[tuple[int, int], int | Reader], number: int) -> int | None:
    """Return the int64 field of this number."""
    value = values.get((number, VARINT))
    return signed64(value) if isinstance(value, int) else None


def message(values: Mapping[tuple[int, int], int | Reader], number: int) -> Reader | None:
    """Return the message, string or bytes field of this number."""
    value = values.get((number, BYTES))
    return value if isinstance(value, Reader) else None


def position_of(offset: int, ledger_id: int | None, entry_id: int | None, least: int) -> Position:
    """Return a position with valid ids."""
    if ledger_id is None or entry_id is None:
        raise CorruptStateError("a position without ledgerId or entryId", offset)
    if ledger_id < 0 or entry_id < least:
        raise CorruptStateError(f"position {ledger_id}:{entry_id} cannot exist", offset)
    return Position(ledger_id, entry_id)


def nested_position(reader: Reader, least: int) -> Position:
    """`NestedPositionInfo{ledgerId=1, entryId=2}`."""
    offset = reader.at
    values = scalars(reader)
    return position_of(offset, integer(values, 1), integer(values, 2), least)


def put_position(position: Position) -> bytes:
    """`NestedPositionInfo`."""
    return int_field(1, position.ledger_id) + int_field(2, position.entry_id)


def message_range(reader: Reader) -> tuple[Position, Position]:
    """`MessageRange{lowerEndpoint=1, upperEndpoint=2}`, open-closed."""
    offset = reader.at
    ends: dict[int, Position] = {}
    for field in reader.fields():
        if field.number in (1, 2) and isinstance(field.value, Reader):
            ends[field.number] = nested_position(field.value, -1)
    if len(ends) < 2:
        raise CorruptStateError("a range without lowerEndpoint or upperEndpoint", offset)
    if ends[1] > ends[2]:
        raise CorruptStateError(f"range ({ends[1]}..{ends[2]}] ends before it begins", offset)
    return ends[1], ends[2]


def put_range(number: int, lower: Position, upper: Position) -> bytes:
    """Write a `MessageRange` as field `number`."""
    ends = bytes_field(1, put_position(lower)) + bytes_field(2, put_position(upper))
    return bytes_field(number, ends)


def long_property(reader: Reader) -> tuple[str, int]:
    """`LongProperty{name=1, value=2}`."""
    offset = reader.at
    values = scalars(reader)
    name, value = message(values, 1), integer(values, 2)
    if name is None or value is None:
        raise CorruptStateError("a property without name or value", offset)
    return name.text(), value


def put_long_properties(number: int, properties: Mapping[str, int]) -> bytes:
    """`LongProperty`s as fields `number`, in the order of their names."""
    return b"".join(
        bytes_field(number, bytes_field(1, name.encode()) + int_field(2, value))
        for name, value in sorted(properties.items())
    )


def string_property(reader: Reader) -> tuple[str, str]:
    """`StringProperty{name=1, value=2}`."""
    offset = reader.at
    values = scalars(reader)
    name, value = message(values, 1), message(values, 2)
    if name is None or value is None:
        raise CorruptStateError("a cursor property without name or value", offset)
    return name.text(), value.text()


def put_string_properties(number: int, properties: Mapping[str, str]) -> bytes:
    """`StringProperty`s as fields `number`, in the order of their names."""
    return b"".join(
        bytes_field(number, bytes_field(1, name.encode()) + bytes_field(2, value.encode()))
        for name, value in sorted(properties.items())
    )


def ints(field: Field) -> Iterator[int]:
    """Return the elements of a repeated int64 field, packed or not; other wire types give none."""
    return iter(()) if field.value is None else field.int64s()


def trimmed(words: Iterable[int]) -> Words:
    """Return words without trailing zeros, as Java's `BitSet.toLongArray` returns them."""
    kept = list(words)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)


def batch(reader: Reader) -> tuple[Position, Words]:
    """`BatchedEntryDeletionIndexInfo{position=1, deleteSet=2}`."""
    offset = reader.at
    position = None
    words: list[int] = []
    for field in reader.fields():
        if field.number == 1 and isinstance(field.value, Reader):
            position = nested_position(field.value, 0)
        elif field.number == 2:
            words.extend(ints(field))
    if position is None:
        raise CorruptStateError("batch indexes without a position", offset)
    return position, trimmed(words)


def put_batches(number: int, batch_deleted: Mapping[Position, Words]) -> bytes:
    """Batch-index sets as fields `number`, in the order of their positions."""
    return b"".join(
        bytes_field(number, bytes_field(1, put_position(position)) + put_words(words))
        for position, words in sorted(batch_deleted.items())
    )


def put_words(words: Iterable[int]) -> bytes:
    """Write words as unpacked field 2."""
    return b"".join(int_field(2, word) for word in words)


def long_list(reader: Reader) -> tuple[int, Words]:
    """`LongListMap{key=1, values=2}`."""
    offset = reader.at
    key = None
    words: list[int] = []
    for field in reader.fields():
        if field.number == 1 and isinstance(field.value, int):
            key = signed64(field.value)
        elif field.number == 2:
            words.extend(ints(field))
    if key is None or key < 0:
        raise CorruptStateError(f"a long array of ledger {key}", offset)
    return key, trimmed(words)
