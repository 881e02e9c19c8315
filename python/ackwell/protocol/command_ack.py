"""`CommandAck`: encode and decode the acknowledgments of clients.

This is the message of Pulsar's binary protocol with all of its fields. Unknown fields and unknown enum values
are kept and written back unchanged, so the acknowledgments of newer clients are preserved.

A command has two representations. `AckColumns` stores the positions as arrays, so that a command with
hundreds of ids is applied at once. `CommandAck` has one `MessageId` for each id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ackwell._native import decode_command_ack
from ackwell.position import Position
from ackwell.wire import bytes_field, int_field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.engine import MessageIdFields


class AckType(IntEnum):
    """The type of an acknowledgment: of single messages, or of all messages up to one."""

    INDIVIDUAL = 0
    CUMULATIVE = 1


class ValidationError(IntEnum):
    """The reason why a client discarded a message. The message is acknowledged and counted nevertheless."""

    UNCOMPRESSED_SIZE_CORRUPTION = 0
    DECOMPRESSION_ERROR = 1
    CHECKSUM_MISMATCH = 2
    BATCH_DESERIALIZE_ERROR = 3
    DECRYPTION_ERROR = 4


class TransactionId(NamedTuple):
    """A transaction: the two halves of its 128-bit id, each as an unsigned integer.

    >>> str(TransactionId(0, 3)), TransactionId.parse("0:3") == (0, 3)
    ('0:3', True)
    """

    most_bits: int
    least_bits: int

    def __str__(self) -> str:
        return f"{self.most_bits}:{self.least_bits}"

    @classmethod
    def of(cls, message: Any) -> TransactionId:
        """Return the transaction of a command or of a message's metadata."""
        return TransactionId(message.txnid_most_bits, message.txnid_least_bits)

    @classmethod
    def parse(cls, text: str) -> TransactionId:
        """Parse a transaction; `ValueError` if the text is invalid."""
        most_bits, _, least_bits = text.partition(":")
        return TransactionId(int(most_bits), int(least_bits))


@dataclass(frozen=True, slots=True)
class MessageId:
    """The id of a message: an entry, and the batch indexes in it that are not acknowledged.

    `ack_set` contains signed 64-bit words, least significant bit first. A set bit is a message that is not
    acknowledged. Without words, the id means the whole entry. The id of a chunked message is the position of
    its last chunk; `first_chunk` is the position of its first chunk.
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
        """The position of the entry."""
        return Position(self.ledger_id, self.entry_id)

    def encode(self) -> bytes:
        """Return the wire bytes of this `MessageIdData`, in the order of the field numbers."""
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
    """Names with unsigned 64-bit values, which are saved with the cursor."""
    transaction: TransactionId | None = None
    request_id: int | None = None
    """Present if the client requests a receipt."""
    unknown_fields: bytes = b""

    def encode(self) -> bytes:
        """Return the wire bytes, in the order of the field numbers."""
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

    @staticmethod
    def decode(data: bytes) -> CommandAck:
        """Decode a command; raises the errors of `AckColumns.decode`."""
        return AckColumns.decode(data).command()


class AckColumns(NamedTuple):
    """An acknowledgment command with its message ids as columns.

    >>> ack = CommandAck(1, message_ids=(MessageId(3, 5), MessageId(3, 6, ack_set=(6,))))
    >>> columns = AckColumns.decode(ack.encode())
    >>> columns.ledger_ids, columns.entry_ids, columns.whole_entries
    (array([3, 3]), array([5, 6]), False)
    >>> columns.ack_set(0), columns.ack_set(1)
    ((), (6,))
    """

    consumer_id: int
    ack_type: AckType
    ledger_ids: NDArray[np.int64]
    """The ledger ids, one row per message id."""
    entry_ids: NDArray[np.int64]
    ack_set_starts: NDArray[np.int64] | None
    """The index of each id's first word, then the number of all words; `None` if no id has an ack set."""
    ack_set_words: NDArray[np.int64] | None
    """The words of all ack sets."""
    others: Mapping[int, MessageId]
    """Maps a row to its message id, for each id with more fields than a position and an ack set."""
    validation_error: ValidationError | None
    properties: tuple[tuple[str, int], ...]
    transaction: TransactionId | None
    request_id: int | None
    unknown_fields: bytes

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a command. O(bytes).

        If a field that is not repeated occurs twice, the last value counts, as in protobuf. Without both
        halves of the transaction id, the acknowledgment is not part of a transaction, as in the broker. Ids
        near 2^64 (earliest, latest) are read as negative. Raises `CorruptStateError` with the offset for
        bytes that are not a command, `LimitError` for a batch of more than `ack_sets.BATCH_SIZE_MAX`
        messages.
        """
        fields = decode_command_ack(data)
        error, transaction = fields.validation_error, fields.transaction
        return cls(
            fields.consumer_id,
            AckType.CUMULATIVE if fields.cumulative else AckType.INDIVIDUAL,
            *fields[2:6],
            {row: _message_id(each) for row, each in fields.others} if fields.others else {},
            None if error is None else ValidationError(error),
            tuple(fields.properties),
            None if transaction is None else TransactionId(*transaction),
            fields.request_id,
            fields.unknown_fields,
        )

    @classmethod
    def of_parts(
        cls,
        ledger_ids: NDArray[np.int64],
        entry_ids: NDArray[np.int64],
        starts: NDArray[np.int64],
        words: NDArray[np.int64],
    ) -> Self:
        """Return an individual acknowledgment with these columns and no other fields."""
        individual = AckType.INDIVIDUAL
        return cls(0, individual, ledger_ids, entry_ids, starts, words, {}, None, (), None, None, b"")

    @classmethod
    def of(cls, command: CommandAck) -> Self:
        """Return the columns of a command. O(message ids)."""
        return cls(
            command.consumer_id,
            AckType(command.ack_type),
            *_columns(command.message_ids),
            command.validation_error,
            command.properties,
            command.transaction,
            command.request_id,
            command.unknown_fields,
        )

    def with_message_ids(self, messages: Sequence[MessageId]) -> Self:
        """Return the command with other message ids. O(message ids)."""
        ledger_ids, entry_ids, starts, words, others = _columns(messages)
        return self._replace(
            ledger_ids=ledger_ids,
            entry_ids=entry_ids,
            ack_set_starts=starts,
            ack_set_words=words,
            others=others,
        )

    def first(self, rows: int) -> Self:
        """Return the command with only its first `rows` message ids."""
        return self.with_message_ids(self.message_ids()[:rows])

    def position(self, row: int) -> Position:
        """Return the position of the entry in one row."""
        return Position(int(self.ledger_ids[row]), int(self.entry_ids[row]))

    @property
    def whole_entries(self) -> bool:
        """Whether every id means a whole entry and has only the fields of its position."""
        return self.ack_set_starts is None and not self.others

    @property
    def any_whole_entry(self) -> bool:
        """Whether any id is a whole entry."""
        return self.ack_set_starts is None or len(self.rows_in_part()) < len(self.ledger_ids)

    def rows_in_part(self) -> list[int]:
        """Return the rows that have an ack set."""
        import numpy as np

        return [] if self.ack_set_starts is None else np.flatnonzero(np.diff(self.ack_set_starts)).tolist()

    def parts(self) -> tuple[NDArray[np.bool_], tuple[NDArray[np.int64], NDArray[np.int64]] | None]:
        """Return a mask of the rows with an ack set, and the starts and words of the ack sets.

        The second value is None if no row has an ack set.
        """
        import numpy as np

        starts, words = self.ack_set_starts, self.ack_set_words
        if starts is None or words is None:
            return np.zeros(len(self.ledger_ids), dtype=np.bool_), None
        in_part = np.diff(starts) > 0
        if in_part.all():
            return in_part, (starts, words)
        return in_part, (np.append(starts[:-1][in_part], starts[-1]), words)

    def ack_set(self, row: int) -> tuple[int, ...]:
        """Return the words of the ack set in one row; empty for a whole entry."""
        if self.ack_set_starts is None or self.ack_set_words is None:
            return ()
        start, end = self.ack_set_starts[row : row + 2].tolist()
        return tuple(self.ack_set_words[start:end].tolist())

    def command(self) -> CommandAck:
        """Return the command with one `MessageId` for each row."""
        return CommandAck(
            self.consumer_id,
            self.ack_type,
            self.message_ids(),
            self.validation_error,
            self.properties,
            self.transaction,
            self.request_id,
            self.unknown_fields,
        )

    def message_ids(self) -> tuple[MessageId, ...]:
        """Return one `MessageId` for each row."""
        pairs = zip(self.ledger_ids.tolist(), self.entry_ids.tolist(), strict=True)
        return tuple(
            self.others[row] if row in self.others else MessageId(*pair, ack_set=self.ack_set(row))
            for row, pair in enumerate(pairs)
        )


def _columns(messages: Sequence[MessageId]) -> tuple[Any, Any, Any, Any, dict[int, MessageId]]:
    """Convert message ids to the five columns of `AckColumns`."""
    from ackwell.arrays import as_int64

    words = [message.ack_set for message in messages]
    starts = [0, *accumulate(map(len, words))]
    return (
        as_int64([message.ledger_id for message in messages]),
        as_int64([message.entry_id for message in messages]),
        as_int64(starts) if starts[-1] else None,
        as_int64([word for each in words for word in each]) if starts[-1] else None,
        {
            row: message
            for row, message in enumerate(messages)
            if message != MessageId(*message.position, ack_set=message.ack_set)
        },
    )


def _message_id(fields: MessageIdFields) -> MessageId:
    """Return the message id for the fields that an engine decoded."""
    first_chunk = fields["first_chunk"]
    values: dict[str, Any] = {
        **fields,
        "first_chunk": None if first_chunk is None else _message_id(first_chunk),
    }
    return MessageId(**values)
