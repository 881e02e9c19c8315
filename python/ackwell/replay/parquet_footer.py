"""Read the column chunks in the footer of a Parquet file, without PyArrow.

PyArrow's `RowGroupMetaData.column` and `statistics` end the process for some damaged footers: those whose
level histograms or statistics have wrong sizes. The footer is a struct of Thrift's compact protocol.
Parquet's `parquet.thrift` defines the fields of the footer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_BOOLS: Final = (1, 2)
_BYTE, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 3, 5, 6, 7, 8, 9, 10, 11, 12
_INTEGERS: Final = (4, _INT32, _INT64)
_SIZES: Final = {**dict.fromkeys(_BOOLS, 0), _BYTE: 1, _DOUBLE: 8}
"""Maps each Thrift type of a fixed size to the number of bytes that a field of this type takes."""

_SHIFT_MAX: Final = 56
"""The shift in bits of the ninth byte of an integer. An integer of 64 bits has at most ten bytes, so only one
more byte may follow the ninth byte."""

_PHYSICAL_INTEGERS: Final = (1, 2)
_PHYSICAL_TEXT: Final = 6
_DICTIONARY_ENCODINGS: Final = frozenset([0, 2, 3, 4, 8])
"""The encodings of a chunk that PyArrow can read as a dictionary: PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED
and RLE_DICTIONARY."""

_CODES: Final = frozenset([2, 8])
"""The encodings of values that a dictionary contains: PLAIN_DICTIONARY and RLE_DICTIONARY."""


class Chunk(NamedTuple):
    """One column of a row group, and its statistics. A missing or unusable statistic is None."""

    values: int
    uncompressed_bytes: int
    is_dictionary: bool
    """Whether PyArrow can read the values as a dictionary."""
    has_dictionary: bool
    """Whether the writer stored a dictionary. If the dictionary became too large, the writer stored the other
    values without it."""
    nulls: int | None
    least: str | int | None
    greatest: str | int | None


RowGroup = dict[str, Chunk]
"""Maps the path of each column (`ack_set.list.element`) to its chunk."""


class FooterError(ValueError):
    """The error for a damaged footer."""


def row_groups_of(footer: bytes) -> list[RowGroup]:
    """Return the column chunks of each row group."""
    try:
        groups: list[RowGroup] = _struct(footer, 0, _FILE)[0]
    except (LookupError, RecursionError):
        raise FooterError("the footer of the Parquet file is damaged") from None
    return groups


Fields = dict[int, Any]
"""Maps the number of each field to its value."""


class _Form(NamedTuple):
    """How to read a struct: the fields with their Thrift types, and a function that converts the fields."""

    kinds: Mapping[int, int]
    forms: Mapping[int, _Form | int]
    """Maps each field that is a struct to the form of the struct. Maps each field that is a list to the form
    of its elements, or to their type."""
    build: Callable[[Fields], Any]


def _struct(data: bytes, at: int, form: _Form) -> tuple[Any, int]:
    """Read the struct at the offset `at`. Return its converted fields, and the offset of its end.

    Fields whose type is not the one in `form` are ignored.
    """
    fields: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if form.kinds.get(number) == kind:
            fields[number], at = _value(data, at, kind, form.forms.get(number))
        else:
            at = _skip(data, at, kind)
    return form.build(fields), at + 1


def _value(data: bytes, at: int, kind: int, form: _Form | int | None) -> tuple[Any, int]:
    if isinstance(form, _Form) and kind == _STRUCT:
        return _struct(data, at, form)
    if kind == _LIST:
        # Like Arrow, ignore the element type that the list declares, and use that of the specification.
        count, _, at = _list_head(data, at)
        kind, inner = (_STRUCT, form) if isinstance(form, _Form) else (form or _BYTE, None)
        elements = []
        for _ in range(count):
            element, at = _value(data, at, kind, inner)
            elements.append(element)
        return elements, at
    if kind == _BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], _within(data, at + size)
    return _integer(data, at)


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return the offset of the end of the value of type `kind` at the offset `at`."""
    if kind in _INTEGERS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _varint(data, at)
        return _within(data, at + size)
    if kind == _STRUCT:
        return _struct(data, at, _IGNORED)[1]
    if kind in (_LIST, _SET):
        count, kind, at = _list_head(data, at)
        return _skip_elements(data, at, count, (kind,))
    if kind == _MAP:
        count, at = _varint(data, at)
        return _skip_elements(data, at + 1, count, (data[at] >> 4, data[at] & 15)) if count else at
    return _within(data, at + _SIZES[kind])


def _skip_elements(data: bytes, at: int, count: int, kinds: tuple[int, ...]) -> int:
    """Return the offset of the end of `count` elements of a list or a map.

    A boolean takes one byte as an element. As a field it takes no byte, because its type contains its value.
    """
    kinds = tuple(_BYTE if kind in _BOOLS else kind for kind in kinds)
    for _ in range(count):
        for kind in kinds:
            at = _skip(data, at, kind)
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Read the head of a list. Return the number of elements, their type, and the offset of the first."""
    head = data[at]
    if head >> 4 < 15:
        return head >> 4, head & 15, at + 1
    count, at = _varint(data, at + 1)
    return count, head & 15, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    while (byte := data[at]) > 127:
        if shift > _SHIFT_MAX:
            raise IndexError("an integer of more than 64 bits")
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _within(data: bytes, at: int) -> int:
    """Check that the end of a value, at the offset `at`, is inside the footer. Return `at`."""
    if at > len(data):
        raise IndexError
    return at


def _chunk(fields: Fields) -> tuple[str, Chunk] | None:
    """Convert the fields of a `ColumnMetaData` to the path of the column and a `Chunk`."""
    statistics = fields.get(12, {})
    least, greatest = (_bound(fields.get(1), statistics.get(number)) for number in (6, 5))
    if 3 not in fields:
        return None
    return ".".join(each.decode(errors="replace") for each in fields[3]), Chunk(
        values=fields.get(5, -1),
        uncompressed_bytes=max(0, fields.get(6, 0)),
        is_dictionary=_DICTIONARY_ENCODINGS.issuperset(fields.get(2, [-1])),
        has_dictionary=not _CODES.isdisjoint(fields.get(2, ())),
        nulls=statistics.get(3),
        least=least,
        greatest=greatest,
    )


def _bound(physical: int | None, value: bytes | None) -> str | int | None:
    """Convert the bytes of a column's least or greatest value to an integer or a text.

    Return None if `value` is None, if `physical` is another type, or if the bytes do not fit the type.
    """
    if value is None:
        return None
    if physical in _PHYSICAL_INTEGERS:
        return int.from_bytes(value, "little", signed=True) if len(value) == 4 * physical else None
    if physical == _PHYSICAL_TEXT:
        try:
            return value.decode()
        except UnicodeDecodeError:
            # When the column is read, the error is reported with its place.
            return None
    return None


_IGNORED: Final = _Form({}, {}, dict)
_STATISTICS: Final = _Form({3: _INT64, 5: _BINARY, 6: _BINARY}, {}, dict)
_COLUMN: Final = _Form(
    {1: _INT32, 2: _LIST, 3: _LIST, 5: _INT64, 6: _INT64, 12: _STRUCT},
    {2: _INT32, 3: _BINARY, 12: _STATISTICS},
    _chunk,
)
_CHUNK: Final = _Form({3: _STRUCT}, {3: _COLUMN}, lambda fields: fields.get(3))
_GROUP: Final = _Form({1: _LIST}, {1: _CHUNK}, lambda fields: dict(filter(None, fields.get(1, []))))
_FILE: Final = _Form({4: _LIST}, {4: _GROUP}, lambda fields: fields.get(4, []))
