"""The saved state: the cursor, the redelivery counts and the open transactions, in one `PositionInfo`.

Counts have their place in the `compact` form. Open transactions stand in one field of their own among
the unknown fields, which every form and every reader keeps: number 20,601, far from what Pulsar will
number. Who has which message is not saved: after a restart nobody is connected, and what is not
acknowledged is delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.ack_sets import from_words, to_words
from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.subscription.command import TransactionId
from ackwell.subscription.transactions import Held, HeldCumulative, Transactions
from ackwell.wire import Field, Reader, bytes_field, int_field

if TYPE_CHECKING:
    from ackwell._native import PositionInfo
    from ackwell.cursor import Cursor
    from ackwell.subscription.redelivery_counts import RedeliveryCounts

TRANSACTION_FIELD: Final = 20_601
"""`Transaction {most=1, least=2, repeated Entry=3, Cumulative=4}`.

`Entry {ledger=1, entry=2, batch_size=3, hash=4, repeated acked words=5}`, no words for the whole entry;
`Cumulative {ledger=1, entry=2, repeated owed words=5}`.
"""


def position_info(
    cursor: Cursor, redelivery: RedeliveryCounts, transactions: Transactions, unknown_fields: bytes
) -> PositionInfo:
    """Gather the state to be saved; `unknown_fields` are those of others."""
    return cursor.to_position_info(
        redelivery_counts=dict(redelivery.counts()),
        unknown_fields=unknown_fields + encode_transactions(transactions),
    )


def encode_transactions(transactions: Transactions) -> bytes:
    """Write the open transactions, one field each."""
    out = b""
    for transaction, content in transactions.open.items():
        body = int_field(1, transaction.most_bits) + int_field(2, transaction.least_bits)
        for position, held in content.entries.items():
            words = () if held.acked_bits < 0 else to_words(held.acked_bits)
            entry = _place(position) + int_field(3, held.batch_size)
            body += bytes_field(3, entry + int_field(4, held.sticky_key_hash) + _words(words))
        if content.cumulative is not None:
            owed = to_words(content.cumulative.owed_bits)
            body += bytes_field(4, _place(content.cumulative.position) + _words(owed))
        out += bytes_field(TRANSACTION_FIELD, body)
    return out


def decode_transactions(unknown_fields: bytes, transactions: Transactions) -> None:
    """Open the transactions that stand among a saved state's unknown fields."""
    for field in Reader(unknown_fields).fields():
        if field.number == TRANSACTION_FIELD:
            _read_transaction(field.message(), transactions)


def without_transactions(unknown_fields: bytes) -> bytes:
    """Return the unknown fields that are not ours."""
    message = Reader(unknown_fields)
    return b"".join(message.raw(field) for field in message.fields() if field.number != TRANSACTION_FIELD)


def _place(position: Position) -> bytes:
    return int_field(1, position.ledger_id) + int_field(2, position.entry_id)


def _words(words: tuple[int, ...]) -> bytes:
    return b"".join(int_field(5, word) for word in words)


def _read_transaction(message: Reader, transactions: Transactions) -> None:
    halves = {1: 0, 2: 0}
    bodies: list[Field] = []
    for field in message.fields():
        if field.number in halves:
            halves[field.number] = field.varint()
        elif field.number in (3, 4):
            bodies.append(field)
    transaction = TransactionId(halves[1], halves[2])
    for field in bodies:
        numbers, words = _read_entry(field)
        position = Position(numbers[1], numbers[2])
        bits = from_words(words)
        if field.number == 4:
            transactions.hold_cumulative(transaction, HeldCumulative(position, bits))
        else:
            transactions.hold(transaction, position, Held(bits if words else -1, numbers[3], numbers[4]))


def _read_entry(field: Field) -> tuple[dict[int, int], list[int]]:
    numbers = {3: 1, 4: 0}
    words: list[int] = []
    for part in field.message().fields():
        if part.number == 5:
            words.extend(part.int64s())
        else:
            numbers[part.number] = part.int64()
    if 1 not in numbers or 2 not in numbers or min(numbers[1], numbers[2]) < 0:
        raise CorruptStateError("a transaction's acknowledgment without position", field.start)
    return numbers, words
