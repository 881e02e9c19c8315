"""`ManagedCursorInfo`: the record of a cursor in the metadata store, possibly compressed."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ackwell.errors import CorruptStateError
from ackwell.wire import Reader, int_field, signed64
from tests.reference.position_info.compression import NAMES, compress, decompress
from tests.reference.position_info.info import RESULT_BYTES_MAX, PositionInfo, int64
from tests.reference.position_info.messages import (
    batch,
    integer,
    long_property,
    message_range,
    position_of,
    put_batches,
    put_long_properties,
    put_string_properties,
    scalars,
    string_property,
)
from tests.reference.position_info.pulsar import Acks, put_ranges
from tests.reference.position_info.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC = b"\x47\x78"


class ManagedCursorInfo:
    """A cursor's record in the metadata store; a value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        cursors_ledger_id: int,
        position_info: PositionInfo | None = None,
        *,
        last_active: int | None = None,
        cursor_properties: Mapping[str, str] | None = None,
        unknown_fields: bytes | None = None,
    ) -> None:
        self._cursors_ledger_id = int64(cursors_ledger_id)
        if position_info and (
            position_info.redelivery_counts
            or position_info.idle_since is not None
            or position_info.unknown_fields
        ):
            raise ValueError("a ManagedCursorInfo holds no such part of a PositionInfo")
        self._position_info = position_info
        self._last_active = None if last_active is None else int64(last_active)
        self._cursor_properties = dict(sorted((cursor_properties or {}).items()))
        self._unknown_fields = unknown_fields or b""
        self._compression: str | None = None
        self._original: bytes | None = None
        if self.unknown_fields:
            self._check_unknown()

    def _check_unknown(self) -> None:
        try:
            probe = decode_message(bytes((1 << 3, 0)) + self.unknown_fields)
        except CorruptStateError:
            raise ValueError("unknown_fields: expected whole fields") from None
        if probe.unknown_fields != self.unknown_fields:
            raise ValueError("unknown_fields: expected other numbers")

    @property
    def cursors_ledger_id(self) -> int:
        """The BookKeeper ledger with the cursor's newer states, or -1."""
        return self._cursors_ledger_id

    @property
    def position_info(self) -> PositionInfo | None:
        """The state in this record, or None."""
        return self._position_info

    @property
    def last_active(self) -> int | None:
        """When the cursor was last active, in ms since the epoch, or None."""
        return self._last_active

    @property
    def cursor_properties(self) -> dict[str, str]:
        """Properties of the subscription; a copy."""
        return dict(self._cursor_properties)

    @property
    def unknown_fields(self) -> bytes:
        """The unknown Protocol Buffers fields."""
        return self._unknown_fields

    @property
    def compression(self) -> str | None:
        """The compression of the decoded bytes, or None without a header."""
        return self._compression

    @classmethod
    def decode(cls, data: bytes, *, max_bytes: int = RESULT_BYTES_MAX) -> Self:
        """Read a value of the metadata store, with or without a compression header."""
        message, compression = data, None
        if data.startswith(MAGIC):
            compression, size, stored = read_header(data)
            message = decompress(data[stored:], compression, size, max_bytes)
        record = decode_message(message)
        record._original = data
        record._compression = compression
        assert isinstance(record, cls)
        return record

    def encode(self, compression: str | None = None) -> bytes:
        """Write the value; a compression type, including NONE, adds a header."""
        if compression is None:
            return self._original or encode_message(self)
        message = encode_message(self)
        stored = compress(message, compression)
        metadata = int_field(1, NAMES.index(compression)) + int_field(2, len(message))
        return MAGIC + len(metadata).to_bytes(4, "big") + metadata + stored

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ManagedCursorInfo):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[Any, ...]:
        return (
            self.cursors_ledger_id,
            self.position_info,
            self.last_active,
            self.cursor_properties,
            self.unknown_fields,
        )

    def __repr__(self) -> str:
        state = f"state at {self.position_info.position}" if self.position_info else "no state"
        return f"<ManagedCursorInfo of cursor ledger {self.cursors_ledger_id}, {state}>"

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        # The record comes from this process, so it has no size limit.
        return partial(type(self).decode, max_bytes=sys.maxsize), (self.encode(),)


def read_header(data: bytes) -> tuple[str, int, int]:
    """Return the compression, the decompressed size, and the offset of the compressed bytes."""
    reader = Reader(data, len(MAGIC))
    length = int.from_bytes(reader.take(4).rest(), "big", signed=True)
    if length < 0:
        raise CorruptStateError("a header of negative length", len(MAGIC))
    values = scalars(reader.take(length))
    number, size = integer(values, 1), integer(values, 2)
    if number is None or size is None:
        raise CorruptStateError("a header without compressionType or uncompressedSize", len(MAGIC))
    if not 0 <= number < len(NAMES) or not 0 <= size < 1 << 31:
        raise CorruptStateError(f"compression type {number}, {size} bytes", len(MAGIC))
    return NAMES[number], size, reader.at


def decode_message(data: bytes) -> ManagedCursorInfo:
    """Read a `ManagedCursorInfo`."""
    state, acks = State(), Acks()
    numbers: dict[int, int] = {}
    properties: dict[str, str] = {}
    unknown = b""
    for field in Reader(data).fields():
        match field.number, field.value:
            case (1 | 2 | 3 | 6) as number, int(value):
                numbers[number] = signed64(value)
            case 4, Reader() as message:
                acks.add_range(*message_range(message))
            case 5, Reader() as message:
                name, value = long_property(message)
                state.properties[name] = value
            case 7, Reader() as message:
                position, words = batch(message)
                state.batch_deleted[position] = words
            case 8, Reader() as message:
                name, text = string_property(message)
                properties[name] = text
            case _:
                unknown += data[field.start : field.end]
    if 1 not in numbers:
        raise CorruptStateError("a ManagedCursorInfo without cursorsLedgerId", len(data))
    acks.give(state)
    info = None
    if 2 in numbers or 3 in numbers or state != State():
        state.mark_delete = position_of(len(data), numbers.get(2), numbers.get(3), -1)
        info = PositionInfo._of(state, None)
    record = ManagedCursorInfo(numbers[1], info, last_active=numbers.get(6), cursor_properties=properties)
    record._unknown_fields = unknown
    return record


def encode_message(record: ManagedCursorInfo) -> bytes:
    """Write a `ManagedCursorInfo`."""
    state = record.position_info._state if record.position_info else None
    parts = [int_field(1, record.cursors_ledger_id)]
    if state:
        parts.append(int_field(2, state.mark_delete.ledger_id))
        parts.append(int_field(3, state.mark_delete.entry_id))
        parts.append(put_ranges(4, state))
        parts.append(put_long_properties(5, state.properties))
    if record.last_active is not None:
        parts.append(int_field(6, record.last_active))
    if state:
        parts.append(put_batches(7, state.batch_deleted))
    parts.append(put_string_properties(8, record.cursor_properties))
    return b"".join(parts) + record.unknown_fields
