"""Check a client's acknowledgment command as a whole, then apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ackwell.cursor.ack_sets import check_word_count, from_words, words_of_rows
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.integers import INT64_MIN, UINT64_MAX
from ackwell.protocol.command_ack import AckColumns, AckType, CommandAck, MessageId
from ackwell.subscription.arguments import integer, transaction
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.acknowledge import Acknowledgments
    from ackwell.subscription.consumer import Consumer

ChunkEntries = Callable[["Position", "Position"], Iterable["Position"]]
"""A function that takes the first and the last entry of a chunked message and returns all its entries."""


def apply_cumulative(acks: Acknowledgments, command: AckColumns) -> int:
    """Apply a cumulative acknowledgment command; return the number of entries that it changed."""
    if len(command.ledger_ids) != 1:
        raise ProtocolError(
            f"a cumulative acknowledgment of {len(command.ledger_ids)} messages; expected one",
            code=ErrorCode.NOT_ALLOWED_ERROR,
        )
    position, ack_set = command.position(0), command.ack_set(0)
    if command.transaction is not None:
        acks.hold_cumulative(command.transaction, position, from_words(ack_set))
        return 0
    return int(acks.ack_cumulative(position, ack_set, signed(command.properties)))


def apply_individual(
    acks: Acknowledgments, who: Consumer | None, command: AckColumns, chunk_entries: ChunkEntries | None
) -> int:
    """Apply an individual acknowledgment command; return the number of entries that it changed."""
    if chunk_entries is not None and any(each.first_chunk is not None for each in command.others.values()):
        parts = (part for message in command.message_ids() for part in _parts(message, chunk_entries))
        command = command.with_message_ids(list(parts))
    if command.transaction is not None:
        return acks.hold(who, command.transaction, command.message_ids())
    ledger_ids, entry_ids = command.ledger_ids, command.entry_ids
    if len(ledger_ids) == 1:
        position = command.position(0)
        return int(min(position) >= 0 and acks.ack_part(who, *position, command.ack_set(0)))
    in_part, ack_sets = command.parts()
    if ack_sets is None:
        try:
            return acks.ack_many(who, ledger_ids, entry_ids)
        except ValueError:
            pass  # An id is negative.
    else:
        acks.check_existing(ledger_ids[in_part], entry_ids[in_part])
    # Ids with a negative number (earliest, latest) do not name an entry.
    whole = (ledger_ids >= 0) & (entry_ids >= 0) & ~in_part
    if ack_sets is None or not acks.partial_ack_keeps_blocked():
        changed = acks.ack_many(who, ledger_ids[whole], entry_ids[whole]) if whole.any() else 0
        if ack_sets is not None:
            changed += acks.ack_parts(who, ledger_ids[in_part], entry_ids[in_part], ack_sets)
        return changed
    # The rows are applied in order, because the order determines whether a consumer is unblocked. Before the
    # first row, check the positions of all whole entries, so that no later row raises an error.
    acks.check_existing(ledger_ids[whole], entry_ids[whole])
    changed, start = 0, 0
    for row, words in zip(in_part.nonzero()[0].tolist(), words_of_rows(*ack_sets), strict=True):
        before = slice(start, row)
        changed += acks.ack_many(who, ledger_ids[before][whole[before]], entry_ids[before][whole[before]])
        changed += acks.ack_part(who, *command.position(row), words)
        start = row + 1
    return changed + acks.ack_many(who, ledger_ids[start:][whole[start:]], entry_ids[start:][whole[start:]])


def accepted_part(acks: Acknowledgments, command: AckColumns) -> AckColumns:
    """Return the rows of a command before the first invalid row.

    A broker applies these rows even if it refuses the command.
    """
    if command.ack_type is AckType.CUMULATIVE:
        return command.first(0)
    last, rows = acks.last_position, range(len(command.ledger_ids))
    return command.first(
        next((row for row in rows if last is None or command.position(row) > last), len(rows))
    )


def signed(properties: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Convert the property values of a command from unsigned to signed 64-bit integers."""
    return {name: signed64(value) for name, value in properties}


def check(command: CommandAck) -> None:
    """Raise `TypeError` or `ValueError` if a value of the command cannot be encoded in Pulsar's protocol.

    Raises `LimitError` for an ack set with more words than a batch can have.
    """
    if not isinstance(command, CommandAck):
        raise TypeError(f"command is {command!r}; expected a CommandAck or its bytes")
    for message in command.message_ids:
        integer("ledger_id", message.ledger_id)
        integer("entry_id", message.entry_id)
        check_word_count(len(message.ack_set))
    for name, value in command.properties:
        if not isinstance(name, str):
            raise TypeError(f"a property's name is {name!r}; expected text")
        integer("a property", value, INT64_MIN, UINT64_MAX)
    if command.transaction is not None:
        transaction(command.transaction)
    if command.request_id is not None:
        integer("request_id", command.request_id, 0, UINT64_MAX)
    AckType(command.ack_type)


def _parts(message: MessageId, chunk_entries: ChunkEntries) -> Iterable[MessageId]:
    if message.first_chunk is None:
        return (message,)
    first, last = message.first_chunk.position, message.position
    if first > last:
        raise ProtocolError(f"a chunked message has its last chunk {last} before its first {first}")
    return [MessageId(*position) for position in chunk_entries(first, last)]
