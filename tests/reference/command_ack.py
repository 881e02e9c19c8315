"""A `CommandAck` decoded field by field into the columns of the core's decoder."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ackwell.cursor.ack_sets import BATCH_SIZE_MAX, WORDS_MAX
from ackwell.engine import AckFields, MessageIdFields
from ackwell.errors import CorruptStateError, LimitError
from ackwell.wire import Reader

if TYPE_CHECKING:
    from ackwell.wire import Field

CHUNK_DEPTH_MAX = 4
"""The maximum nesting of first chunks. Clients nest once; deeper nesting is hostile."""

VALIDATION_ERRORS = 5


def decode_command_ack(data: bytes) -> AckFields:
    """Return the fields of a command, its message ids as columns."""
    import numpy as np

    numbers: dict[int, int] = {}
    messages: list[MessageIdFields] = []
    properties: list[tuple[str, int]] = []
    unknown = b""
    command = Reader(data)
    for field in command.fields():
        if field.number in (1, 6, 7, 8):
            numbers[field.number] = field.varint()
        elif (field.number == 2 and _int32(field) in (0, 1)) or (
            field.number == 4 and 0 <= _int32(field) < VALIDATION_ERRORS
        ):
            numbers[field.number] = _int32(field)
        elif field.number == 3:
            messages.append(_message_id(field.message(), 0))
        elif field.number == 5:
            properties.append(_property(field))
        else:
            unknown += command.raw(field)
    if 1 not in numbers or 2 not in numbers:
        raise CorruptStateError("an acknowledgment without consumer or type", len(data))
    words = [message["ack_set"] for message in messages]
    starts = [0]
    for each in words:
        starts.append(starts[-1] + len(each))
    any_set = starts[-1] > 0
    flat = [word for each in words for word in each]
    return AckFields(
        consumer_id=numbers[1],
        cumulative=numbers[2] == 1,
        ledger_ids=np.array([message["ledger_id"] for message in messages], dtype=np.int64),
        entry_ids=np.array([message["entry_id"] for message in messages], dtype=np.int64),
        ack_set_starts=np.array(starts, dtype=np.int64) if any_set else None,
        ack_set_words=np.array(flat, dtype=np.int64) if any_set else None,
        others=[(row, message) for row, message in enumerate(messages) if not _is_plain(message)],
        validation_error=numbers.get(4),
        properties=properties,
        transaction=(numbers[7], numbers[6]) if 6 in numbers and 7 in numbers else None,
        request_id=numbers.get(8),
        unknown_fields=unknown,
    )


_PLAIN = {"partition": -1, "batch_index": -1, "batch_size": None, "first_chunk": None, "unknown_fields": b""}


def _is_plain(message: MessageIdFields) -> bool:
    """Return whether the id has no fields other than a position and an ack set."""
    return message.items() >= _PLAIN.items()


def _message_id(message: Reader, depth: int) -> MessageIdFields:
    start = message.at
    if depth > CHUNK_DEPTH_MAX:
        raise CorruptStateError("chunk ids nested in chunk ids", start)
    ids: dict[int, int] = {}
    words: list[int] = []
    unknown = b""
    first_chunk: MessageIdFields | None = None
    for field in message.fields():
        if field.number in (1, 2):
            ids[field.number] = field.int64()
        elif field.number in (3, 4, 6):
            ids[field.number] = _int32(field)
        elif field.number == 5:
            words.extend(_words(field, WORDS_MAX - len(words)))
        elif field.number == 7:
            first_chunk = _message_id(field.message(), depth + 1)
        else:
            unknown += message.raw(field)
    if 1 not in ids or 2 not in ids:
        raise CorruptStateError("a message id without ledger or entry", start)
    if ids.get(6, 0) > BATCH_SIZE_MAX:
        raise LimitError(f"batch size {ids[6]}; a batch holds at most {BATCH_SIZE_MAX} messages")
    return {
        "ledger_id": ids[1],
        "entry_id": ids[2],
        "partition": ids.get(3, -1),
        "batch_index": ids.get(4, -1),
        "ack_set": tuple(words),
        "batch_size": ids.get(6),
        "first_chunk": first_chunk,
        "unknown_fields": unknown,
    }


def _words(field: Field, count_max: int) -> list[int]:
    words = list(islice(field.int64s(), count_max + 1))
    if len(words) > count_max:
        raise LimitError(f"an ack set of more than {WORDS_MAX} words")
    return words


def _int32(field: Field) -> int:
    """Convert a varint to an int32 like protobuf: its low 32 bits, signed."""
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
