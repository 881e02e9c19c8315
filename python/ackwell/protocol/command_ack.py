"""`CommandAck`: encodes and decodes the acknowledgment commands of clients.

`CommandAck` has all fields of the message in Pulsar's binary protocol. Decoding keeps unknown fields and
unknown enum values, and encoding writes them back unchanged. The acknowledgments of newer clients are
therefore preserved.

A command has two representations. `AckColumns` stores the message ids as arrays, so that a subscription
applies hundreds of ids at once. `CommandAck` has one `MessageId` object for each id.
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
    """The type of an acknowledgment: individual messages, or all messages up to a message id."""

    INDIVIDUAL = 0
    CUMULATIVE = 1


class ValidationError(IntEnum):
    """The reason why a client discarded a message.

    The broker counts the reason, and treats the message as acknowledged.
    """

    UNCOMPRESSED_SIZE_CORRUPTION = 0
    DECOMPRESSION_ERROR = 1
    CHECKSUM_MISMATCH = 2
    BATCH_DESERIALIZE_ERROR = 3
    DECRYPTION_ERROR = 4


class TransactionId(NamedTuple):
    """The 128-bit id of a transaction, as two unsigned integers of 64 bits.

    >>> str(TransactionId(0, 3)), TransactionId.parse("0:3") == (0, 3)
    ('0:3', True)
    """

    most_bits: int
    least_bits: int

    def __str__(self) -> str:
        return f"{self.most_bits}:{self.least_bits}"

    @classmethod
    def of(cls, message: Any) -> TransactionId:
        """Return the transaction id in a command or in the metadata of a message."""
        return TransactionId(message.txnid_most_bits, message.txnid_least_bits)

    @classmethod
    def parse(cls, text: str) -> TransactionId:
        """Parse the text of a transaction id; `ValueError` if the text is invalid."""
        most_bits, _, least_bits = text.partition(":")
        return TransactionId(int(most_bits), int(least_bits))


@dataclass(frozen=True, slots=True)
class MessageId:
    """One message id of an acknowledgment.

    It has the position of an entry. If only a part of a batch is acknowledged, it also has an ack set.

    `ack_set` contains signed 64-bit words. Batch index 0 is the least significant bit of the first word. A
    set bit is a message that stays unacknowledged. Without words, the whole entry is acknowledged. For a
    chunked message, the position is that of the last chunk, and `first_chunk` is the id of the first chunk.
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
        """Return the id encoded as a `MessageIdData`. The fields are in the order of their numbers."""
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
    """Pairs of a name and an unsigned 64-bit value. They are saved with the cursor."""
    transaction: TransactionId | None = None
    request_id: int | None = None
    """The id with which the broker sends a receipt; None if the client requests no receipt."""
    unknown_fields: bytes = b""

    def encode(self) -> bytes:
        """Return the encoded command. The fields are in the order of their numbers."""
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
        """Decode a command. Raises the same errors as `AckColumns.decode`."""
        return AckColumns.decode(data).command()


class AckColumns(NamedTuple):
    """An acknowledgment command whose message ids are stored in columns.

    Row i of all columns is message id i.

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
    """The ledger id of each message id."""
    entry_ids: NDArray[np.int64]
    ack_set_starts: NDArray[np.int64] | None
    """The offset of each id's first word in `ack_set_words`. The last element is the number of all words.
    None if no id has an ack set."""
    ack_set_words: NDArray[np.int64] | None
    """The words of the ack sets of all ids, one ack set after the other."""
    others: Mapping[int, MessageId] = {}
    """Maps a row to its `MessageId`, if the id has further fields than the position and the ack set."""
    validation_error: ValidationError | None = None
    properties: tuple[tuple[str, int], ...] = ()
    transaction: TransactionId | None = None
    request_id: int | None = None
    unknown_fields: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a command. O(bytes).

        If a field that is not repeated occurs twice, the last value is used, as in protobuf. If one half of
        the transaction id is missing, the acknowledgment is not part of a transaction, as in a Pulsar broker.
        Ids from 2^63 on, which clients use for `earliest` and `latest`, are read as negative. Raises
        `CorruptStateError` with the offset of the error if the bytes are not a command. Raises `LimitError`
        for a batch of more than `ack_sets.BATCH_SIZE_MAX` messages.
        """
        (
            consumer_id,
            is_cumulative,
            ledger_ids,
            entry_ids,
            starts,
            words,
            others,
            error,
            properties,
            transaction,
            request_id,
            unknown_fields,
        ) = decode_command_ack(data)
        return cls(
            consumer_id,
            AckType.CUMULATIVE if is_cumulative else AckType.INDIVIDUAL,
            ledger_ids,
            entry_ids,
            starts,
            words,
            {row: _message_id(each) for row, each in others} if others else {},
            None if error is None else ValidationError(error),
            properties=properties,
            transaction=None if transaction is None else TransactionId(*transaction),
            request_id=request_id,
            unknown_fields=unknown_fields,
        )

    @classmethod
    def of_parts(
        cls,
        ledger_ids: NDArray[np.int64],
        entry_ids: NDArray[np.int64],
        starts: NDArray[np.int64],
        words: NDArray[np.int64],
    ) -> Self:
        """Return an individual acknowledgment that has these columns. Its other fields are empty."""
        return cls(0, AckType.INDIVIDUAL, ledger_ids, entry_ids, starts, words)

    @classmethod
    def of(cls, command: CommandAck) -> Self:
        """Convert a `CommandAck` to columns. O(message ids)."""
        return cls(
            command.consumer_id,
            AckType(command.ack_type),
            *_columns(command.message_ids),
            command.validation_error,
            properties=command.properties,
            transaction=command.transaction,
            request_id=command.request_id,
            unknown_fields=command.unknown_fields,
        )

    def with_message_ids(self, messages: Sequence[MessageId]) -> Self:
        """Return this command with other message ids and the same other fields. O(message ids)."""
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
        """Return the position of the message id in a row."""
        return Position(int(self.ledger_ids[row]), int(self.entry_ids[row]))

    @property
    def whole_entries(self) -> bool:
        """Whether every message id acknowledges a whole entry and has no field besides its position."""
        return self.ack_set_starts is None and not self.others

    @property
    def any_whole_entry(self) -> bool:
        """Whether at least one message id acknowledges a whole entry."""
        return self.ack_set_starts is None or len(self.rows_in_part()) < len(self.ledger_ids)

    def rows_in_part(self) -> list[int]:
        """Return the rows whose message id has an ack set. These ids acknowledge a part of a batch."""
        import numpy as np

        return [] if self.ack_set_starts is None else np.flatnonzero(np.diff(self.ack_set_starts)).tolist()

    def parts(self) -> tuple[NDArray[np.bool_], tuple[NDArray[np.int64], NDArray[np.int64]] | None]:
        """Return which rows have an ack set, and the ack sets of these rows.

        The first value is a mask with one element per row. The second value has the offsets of the ack sets
        and their words, as in `ack_set_starts` and `ack_set_words`, but without the rows that have no ack
        set. The second value is None if no row has an ack set.
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
        """Return the words of the ack set in a row. They are empty if the id acknowledges a whole entry."""
        if self.ack_set_starts is None or self.ack_set_words is None:
            return ()
        start, end = self.ack_set_starts[row : row + 2].tolist()
        return tuple(self.ack_set_words[start:end].tolist())

    def command(self) -> CommandAck:
        """Convert the columns to a `CommandAck` with one `MessageId` for each row."""
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
    """Convert message ids to the five columns of `AckColumns`, from `ledger_ids` to `others`."""
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
    """Return a `MessageId` for the fields that the native core decoded."""
    first_chunk = fields["first_chunk"]
    values: dict[str, Any] = {
        **fields,
        "first_chunk": None if first_chunk is None else _message_id(first_chunk),
    }
    return MessageId(**values)
