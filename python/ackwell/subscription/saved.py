"""The saved state of a subscription: cursor, redelivery counts, open transactions in a `PositionInfo`.

Counts have their place in the `compact` form. Open transactions and the type of the subscription are
among the unknown fields, which every form and every reader keeps, under numbers far from those of
Pulsar. Who has which message is not saved: after a restart no consumer is connected, and what is not
acknowledged is delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.ack_sets import BATCH_SIZE_MAX, WHOLE, from_words, to_words
from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.protocol.command_ack import TransactionId
from ackwell.saving.recovery import SAVED_AS_FIELD
from ackwell.subscription.transactions import Held, HeldCumulative, Transactions
from ackwell.wire import Field, Reader, bytes_field, int_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell._native import PositionInfo
    from ackwell.subscription.state import State

TRANSACTION_FIELD: Final = 20_601
"""`Transaction {most=1, least=2, repeated Entry=3, Cumulative=4}`.

`Entry {ledger=1, entry=2, batch_size=3, hash=4, repeated acked words=5, waited=6}`, no words for the whole
entry, 6 only if it is set;
`Cumulative {ledger=1, entry=2, repeated unacked words=5}`.
"""
OUR_FIELDS: Final = (TRANSACTION_FIELD, SAVED_AS_FIELD)
INT32_END: Final = 1 << 31
"""Redelivery counts and sticky-key hashes are int32, as in Pulsar's protocol."""


def check(info: PositionInfo) -> None:
    """Raise `CorruptStateError` if the state is none that a subscription saves."""
    _check_counts(info.redelivery_counts)
    decode_transactions(info.unknown_fields)


def take_over(state: State) -> bytes:
    """Restore what a loaded cursor carries, counts and transactions; return the fields of others.

    From now on the subscription saves the cursor.
    """
    cursor, counts, carried = state.cursor, state.counts, state.cursor.carried
    _check_counts(carried.redelivery_counts)
    transactions = decode_transactions(carried.unknown_fields)
    for position in [position for position, _ in transactions.held() if cursor.is_acked(*position)]:
        transactions.forget(position)
    for position, count in carried.redelivery_counts.items():
        if not cursor.is_acked(*position):
            counts.restore(Position(*position), count)
    others = _without_ours(carried.unknown_fields)
    carried.redelivery_counts.clear()
    carried.unknown_fields, carried.taken = b"", True
    state.transactions.restore(transactions)
    state.hold_what_waited()
    return others


def fields(type_name: str, transactions: Transactions, others: bytes) -> bytes:
    """Return the unknown fields of the state to be saved; `others` are those that are not ours."""
    return others + bytes_field(SAVED_AS_FIELD, type_name.encode()) + encode_transactions(transactions)


def encode_transactions(transactions: Transactions) -> bytes:
    """Write the open transactions, one field each."""
    out = b""
    for transaction, content in transactions.open.items():
        body = int_field(1, transaction.most_bits) + int_field(2, transaction.least_bits)
        for position, held in content.entries.items():
            words = () if held.acked_bits < 0 else to_words(held.acked_bits)
            entry = _place(position) + int_field(3, held.batch_size)
            entry += int_field(4, held.sticky_key_hash) + _words(words)
            body += bytes_field(3, entry + (int_field(6, 1) if held.waited else b""))
        if content.cumulative is not None:
            unacked = to_words(content.cumulative.unacked_bits)
            body += bytes_field(4, _place(content.cumulative.position) + _words(unacked))
        out += bytes_field(TRANSACTION_FIELD, body)
    return out


def decode_transactions(unknown_fields: bytes) -> Transactions:
    """Return the transactions among a state's unknown fields; `CorruptStateError` if they contradict."""
    transactions = Transactions()
    for field in Reader(unknown_fields).fields():
        if field.number == TRANSACTION_FIELD:
            _read_transaction(field, transactions)
    return transactions


def _without_ours(unknown_fields: bytes) -> bytes:
    message = Reader(unknown_fields)
    return b"".join(message.raw(field) for field in message.fields() if field.number not in OUR_FIELDS)


def _check_counts(counts: Mapping[Position, int]) -> None:
    for position, count in counts.items():
        if count >= INT32_END:
            raise CorruptStateError(f"redelivery count {count} of {Position(*position)}", 0)


def _place(position: Position) -> bytes:
    return int_field(1, position.ledger_id) + int_field(2, position.entry_id)


def _words(words: tuple[int, ...]) -> bytes:
    return b"".join(int_field(5, word) for word in words)


def _read_transaction(field: Field, transactions: Transactions) -> None:
    halves = {1: 0, 2: 0}
    bodies: list[Field] = []
    for part in field.message().fields():
        if part.number in halves:
            halves[part.number] = part.varint()
        elif part.number in (3, 4):
            bodies.append(part)
    transaction = TransactionId(halves[1], halves[2])
    if transaction in transactions.open:
        raise CorruptStateError(f"transaction {tuple(transaction)} is there twice", field.start)
    transactions.begin(transaction)
    for body in bodies:
        _read_held(body, transaction, transactions)


def _read_held(field: Field, transaction: TransactionId, transactions: Transactions) -> None:
    numbers, words = _read_entry(field)
    position = Position(numbers[1], numbers[2])
    bits = from_words(words)
    if field.number == 4:
        if any(content.cumulative is not None for content in transactions.open.values()):
            raise CorruptStateError("two cumulative acknowledgments in open transactions", field.start)
        transactions.hold_cumulative(transaction, HeldCumulative(position, bits))
        return
    size, sticky_key_hash = numbers[3], numbers[4]
    in_range = 0 < size <= BATCH_SIZE_MAX and 0 <= sticky_key_hash < INT32_END
    if not in_range or bits.bit_length() > size or (words and not bits):
        raise CorruptStateError(f"a transaction holds {position} with numbers out of range", field.start)
    held = Held(bits if words else WHOLE, size, sticky_key_hash, bool(numbers[6]))
    if (
        transactions.held_bits(position) & held.acked_bits
        or position in transactions.open[transaction].entries
    ):
        raise CorruptStateError(f"open transactions hold {position} twice", field.start)
    transactions.hold(transaction, position, held)


def _read_entry(field: Field) -> tuple[dict[int, int], list[int]]:
    numbers = {3: 1, 4: 0, 6: 0}
    words: list[int] = []
    for part in field.message().fields():
        if part.number == 5:
            words.extend(part.int64s())
        else:
            numbers[part.number] = part.int64()
    if 1 not in numbers or 2 not in numbers or min(numbers[1], numbers[2]) < 0:
        raise CorruptStateError("an acknowledgment of a transaction without a position", field.start)
    return numbers, words
