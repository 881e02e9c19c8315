"""The saved state of a subscription in a `PositionInfo`: cursor, redelivery counts, open transactions.

The form `compact` has a field for the counts. The open transactions, the entries in hand and the subscription
type are stored in Protocol Buffers fields that Pulsar does not define. Every form and every reader preserves
these fields. Their numbers are far from Pulsar's field numbers. Pending entries that are not in hand are not
saved. After a restart no consumer is connected, so unacknowledged messages are redelivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.cursor.ack_sets import BATCH_SIZE_MAX, WHOLE, from_words, to_words
from ackwell.errors import CorruptStateError
from ackwell.position import Position
from ackwell.protocol.command_ack import TransactionId
from ackwell.saving.recovery import SAVED_AS_FIELD
from ackwell.subscription.in_hand import IN_HAND_FIELD, encode_in_hand, restore_in_hand
from ackwell.subscription.transactions import HeldCumulativeAck, HeldEntry, Transactions
from ackwell.wire import Field, Reader, bytes_field, int_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.cursor.changes import ChangedPositions
    from ackwell.subscription.state import State

TRANSACTION_FIELD: Final = 20_601
"""The field of the saved state with one open transaction.

Its message is `Transaction {most=1, least=2, repeated Entry=3, Cumulative=4}`. `Entry {ledger=1, entry=2,
batch_size=3, hash=4, repeated acked words=5, waited=6}` has no words if the whole entry is held, and has
`waited` only if it is true. `Cumulative` is `{ledger=1, entry=2, repeated unacked words=5}`.
"""
OUR_FIELDS: Final = (TRANSACTION_FIELD, SAVED_AS_FIELD, IN_HAND_FIELD)
INT32_END: Final = 1 << 31
"""The first integer above int32. Redelivery counts and sticky-key hashes are int32 in Pulsar's protocol."""


class SavedPart:
    """The state that a subscription saves together with its cursor. The cursor stores it in `carried`."""

    def __init__(self, state: State, idle_since: int | None, others: bytes) -> None:
        self._state = state
        self.idle_since = idle_since
        self._others = others
        """The encoded unknown fields that other programs wrote."""

    @property
    def unknown_fields(self) -> bytes:
        """The fields of a `PositionInfo` that Pulsar does not define, encoded.

        They are the subscription type, the open transactions, the entries in hand, and the unknown fields of
        other programs.
        """
        name, transactions = bytes_field(SAVED_AS_FIELD, self._state.kind.encode()), self._state.transactions
        return self._others + name + encode_transactions(transactions) + encode_in_hand(self._state)

    @property
    def changed_counts(self) -> ChangedPositions:
        """The positions whose redelivery count changed since the last save."""
        return self._state.counts.changed

    def count_of(self, position: Position) -> int | None:
        """Return the redelivery count of an entry; `None` if it has none."""
        return self._state.counts.get(position)

    def counts(self, _: Callable[[int, int], bool]) -> Mapping[Position, int]:
        """Return the redelivery count of each entry that has one. Acknowledged entries have none."""
        return dict(self._state.counts.counts())

    def clear_counts(self) -> None:
        """Remove all redelivery counts."""
        self._state.counts.clear()


def restore_carried(state: State) -> bytes:
    """Restore the state of a subscription from its cursor; return the unknown fields of other programs.

    The restored state consists of the redelivery counts, the suspects and the open transactions. Each later
    save of the cursor includes their current values. Raises `CorruptStateError` for a state that a
    subscription cannot have saved.
    """
    cursor, carried = state.cursor, state.cursor.carried
    counts = carried.counts(cursor.is_acked)
    _check_counts(counts)
    fields = carried.unknown_fields
    transactions = decode_transactions(fields)
    for position in [position for position, _ in transactions.held_entries() if cursor.is_acked(*position)]:
        transactions.forget(position)
    for position, count in counts.items():
        state.counts.restore(Position(*position), count)
    restore_in_hand(state, fields)
    state.transactions.restore(transactions)
    state.block_held_hashes()
    others = _without_ours(fields)
    cursor.carried = SavedPart(state, carried.idle_since, others)
    return others


def encode_transactions(transactions: Transactions) -> bytes:
    """Encode the open transactions as fields, one for each transaction."""
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
    """Decode the transactions in the unknown fields of a state; `CorruptStateError` if two conflict."""
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
        raise CorruptStateError(f"transaction {tuple(transaction)} is listed twice", field.start)
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
        transactions.hold_cumulative(transaction, HeldCumulativeAck(position, bits))
        return
    size, sticky_key_hash = numbers[3], numbers[4]
    in_range = 0 < size <= BATCH_SIZE_MAX and 0 <= sticky_key_hash < INT32_END
    if not in_range or bits.bit_length() > size or (words and not bits):
        raise CorruptStateError(f"a transaction holds {position} with numbers out of range", field.start)
    held = HeldEntry(bits if words else WHOLE, size, sticky_key_hash, bool(numbers[6]))
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
        raise CorruptStateError("an acknowledgment in a transaction has no position", field.start)
    return numbers, words
