"""`CommandAck`: the bytes in which a client acknowledges, read and written.

The message of Pulsar's binary protocol, every field of it. What a field means is in the class
docstrings; unknown fields and unknown enum values are kept and written back as they came, so an
acknowledgment of a newer client passes through unharmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.wire import Reader, bytes_field, int_field

if TYPE_CHECKING:
    from ackwell.wire import Field

MAX_CHUNK_DEPTH: Final = 4
"""A first chunk's id names no first chunk of its own; deeper nesting is hostile."""


class AckType(IntEnum):
    """One message, or everything up to it."""

    INDIVIDUAL = 0
    CUMULATIVE = 1


class ValidationError(IntEnum):
    """Why a client threw a message away; it is acknowledged all the same, and counted."""

    UNCOMPRESSED_SIZE_CORRUPTION = 0
    DECOMPRESSION_ERROR = 1
    CHECKSUM_MISMATCH = 2
    BATCH_DESERIALIZE_ERROR = 3
    DECRYPTION_ERROR = 4


class TransactionId(NamedTuple):
    """A transaction: the two halves of its 128-bit id, each as an unsigned integer."""

    most_bits: int
    least_bits: int


@dataclass(frozen=True, slots=True)
class MessageId:
    """Which message: an entry, and in it the batch indexes still owed.

    `ack_set` holds signed 64-bit words, least significant bit first, bit set = not acknowledged; empty
    means the whole entry. A message sent in chunks carries its last chunk's position, and that of its
    first in `first_chunk`.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    ack_set: tuple[int, ...] = ()
    batch_size: int | None = None
    first_chunk: MessageId | None = None
    unknown_fields: bytes = b""

    @property
    def position(self) -> Position:
        """The entry."""
        return Position(self.ledger_id, self.entry_id)

    def encode(self) -> bytes:
        """Write the wire bytes of this `MessageIdData`, in the order of the field numbers."""
        out = int_field(1, self.ledger_id) + int_field(2, self.entry_id)
        if self.partition != -1:
            out += int_field(3, self.partition)
        if self.batch_index != -1:
            out += int_field(4, self.batch_index)
        out += b"".join(int_field(5, word) for word in self.ack_set)
        if self.batch_size is not None:
            out += int_field(6, self.batch_size)
        if self.first_chunk is not None:
            out += bytes_field(7, self.first_chunk.encode())
        return out + self.unknown_fields

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a `MessageIdData`; ids near 2^64 (earliest, latest) read as negative."""
        return cls.read(Reader(data))

    @classmethod
    def read(cls, message: Reader, *, depth: int = 0) -> Self:
        """Read a `MessageIdData` inside another message."""
        start = message.at
        if depth > MAX_CHUNK_DEPTH:
            raise CorruptStateError("chunk ids nested in chunk ids", start)
        ids: dict[int, int] = {}
        ack_set: list[int] = []
        unknown = b""
        first_chunk: MessageId | None = None
        for field in message.fields():
            if field.number in (1, 2):
                ids[field.number] = field.int64()
            elif field.number in (3, 4, 6):
                ids[field.number] = _int32(field)
            elif field.number == 5:
                ack_set.extend(field.int64s())
            elif field.number == 7:
                first_chunk = cls.read(field.message(), depth=depth + 1)
            else:
                unknown += message.raw(field)
        if 1 not in ids or 2 not in ids:
            raise CorruptStateError("a message id without ledger or entry", start)
        return cls(
            ids[1], ids[2], ids.get(3, -1), ids.get(4, -1), tuple(ack_set), ids.get(6), first_chunk, unknown
        )


@dataclass(frozen=True, slots=True)
class CommandAck:
    """One acknowledgment command, as a client sends it.

    >>> ack = CommandAck(consumer_id=1, message_ids=(MessageId(3, 5),))
    >>> CommandAck.decode(ack.encode()) == ack
    True
    """

    consumer_id: int
    ack_type: AckType = AckType.INDIVIDUAL
    message_ids: tuple[MessageId, ...] = ()
    validation_error: ValidationError | None = None
    properties: tuple[tuple[str, int], ...] = ()
    """Names with unsigned 64-bit values: saved with the cursor."""
    transaction: TransactionId | None = None
    request_id: int | None = None
    """Present where the client waits for a receipt."""
    unknown_fields: bytes = b""

    def encode(self) -> bytes:
        """Write the wire bytes, in the order of the field numbers."""
        out = int_field(1, self.consumer_id) + int_field(2, self.ack_type)
        out += b"".join(bytes_field(3, message.encode()) for message in self.message_ids)
        if self.validation_error is not None:
            out += int_field(4, self.validation_error)
        for name, value in self.properties:
            pair = bytes_field(1, name.encode()) + int_field(2, value)
            out += bytes_field(5, pair)
        if self.transaction is not None:
            out += int_field(6, self.transaction.least_bits)
            out += int_field(7, self.transaction.most_bits)
        if self.request_id is not None:
            out += int_field(8, self.request_id)
        return out + self.unknown_fields

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a command; `CorruptStateError` with the offset for bytes that are none.

        The last value of a repeated single field counts, as protobuf has it; a transaction id needs
        both halves, else the acknowledgment is a plain one, as for the broker.
        """
        numbers: dict[int, int] = {}
        message_ids: list[MessageId] = []
        properties: list[tuple[str, int]] = []
        unknown = b""
        command = Reader(data)
        for field in command.fields():
            if field.number in (1, 6, 7, 8):
                numbers[field.number] = field.varint()
            elif field.number == 2 and _int32(field) in (0, 1):
                numbers[2] = _int32(field)
            elif field.number == 4 and 0 <= _int32(field) < len(ValidationError):
                numbers[4] = _int32(field)
            elif field.number == 3:
                message_ids.append(MessageId.read(field.message()))
            elif field.number == 5:
                properties.append(_property(field))
            else:
                unknown += command.raw(field)
        if 1 not in numbers or 2 not in numbers:
            raise CorruptStateError("an acknowledgment without consumer or type", len(data))
        both_halves = 6 in numbers and 7 in numbers
        return cls(
            numbers[1],
            AckType(numbers[2]),
            tuple(message_ids),
            ValidationError(numbers[4]) if 4 in numbers else None,
            tuple(properties),
            TransactionId(most_bits=numbers[7], least_bits=numbers[6]) if both_halves else None,
            numbers.get(8),
            unknown,
        )


def _int32(field: Field) -> int:
    """Read a varint as protobuf reads an int32: its low 32 bits, signed."""
    low = field.varint() & 0xFFFF_FFFF
    return low - 2**32 if low >= 2**31 else low


def _property(field: Field) -> tuple[str, int]:
    name: str | None = None
    value: int | None = None
    for part in field.message().fields():
        if part.number == 1:
            name = part.message().text()
        elif part.number == 2:
            value = part.varint()
    if name is None or value is None:
        raise CorruptStateError("a property without name or value", field.start)
    return name, value
