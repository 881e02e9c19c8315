"""Acknowledgments in transactions. They apply at the commit, and an abort drops them. A conflict is refused.

An open transaction *holds* the messages that it acknowledged. A held message is not pending at a consumer. It
is neither redelivered nor acknowledged. Two open transactions never hold the same message, so they can be
committed in any order. For a held entry the batch size and the hash are stored, because an abort needs them
to redeliver the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell.cursor.ack_sets import WHOLE, all_messages, first_unacked
from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.integers import INT64_MAX
from ackwell.position import Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.protocol.command_ack import TransactionId


class HeldEntry(NamedTuple):
    """The messages of one entry that a transaction holds."""

    acked_bits: int
    """A bit is set if the transaction holds the message; `WHOLE` if it holds the whole entry."""
    batch_size: int
    sticky_key_hash: int
    waited: bool = False
    """Whether the entry waited for redelivery when the transaction acknowledged it. Such an entry still
    blocks later messages of its hash."""


class HeldCumulativeAck(NamedTuple):
    """A cumulative acknowledgment: all entries before `position`, and part of the entry at `position`.

    A bit of `unacked_bits` is set if that message of the entry at `position` is not acknowledged. 0 means
    that the whole entry is acknowledged.
    """

    position: Position
    unacked_bits: int


@dataclass(slots=True)
class Transaction:
    """The messages that one open transaction holds."""

    entries: dict[Position, HeldEntry] = field(default_factory=dict)
    cumulative: HeldCumulativeAck | None = None


class Transactions(EqualByState):
    """The open transactions of a subscription.

    >>> from ackwell import Position
    >>> from ackwell.subscription import TransactionId
    >>> transactions = Transactions()
    >>> transactions.hold(TransactionId(1, 1), Position(3, 5), HeldEntry(WHOLE, 1, 0))
    >>> transactions.held_bits(Position(3, 5)) == WHOLE
    True
    """

    def __init__(self, *, keeps_parts: bool = False) -> None:
        self.open: dict[TransactionId, Transaction] = {}
        self._bits: dict[Position, int] = {}
        self.plain: dict[Position, int] = {}
        """Position → the messages, as bits, that were acknowledged without a transaction or by a commit. A
        transaction that acknowledges one of these messages conflicts."""
        self.kept = self.plain if keeps_parts else {}
        """With `keeps_parts` the map `plain`, else an empty map. Deliveries leave out the messages in this
        map even if the cursor has dropped their acknowledgment."""

    @property
    def entries(self) -> int:
        """The number of entries that open transactions hold, as a whole or in part."""
        return len(self._bits)

    @property
    def leaves_out(self) -> bool:
        """Whether deliveries may leave out messages that the cursor has not acknowledged."""
        return bool(self.open or self.kept)

    @property
    def cumulative(self) -> bool:
        """Whether an open transaction has acknowledged cumulatively."""
        return any(content.cumulative is not None for content in self.open.values())

    def held_bits(self, position: Position) -> int:
        """Return the messages of an entry that open transactions hold, as bits; 0 if there are none."""
        return self._bits.get(position, 0)

    def left_out(self, position: Position) -> int:
        """Return the messages of an entry that deliveries leave out because of transactions, as bits.

        These are the messages that open transactions hold, and with `keeps_parts` also those of `plain`.
        """
        return self._bits.get(position, 0) | self.kept.get(position, 0)

    def holds_all(self, position: Position, unacked_bits: int | None) -> bool:
        """Return whether deliveries leave out all messages of an entry.

        `unacked_bits` are the messages that the cursor has not acknowledged; None means all messages.
        """
        bits = self.left_out(position)
        if bits in (0, WHOLE):
            return bits == WHOLE
        if unacked_bits is None:
            if position not in self._bits:
                return False
            unacked_bits = all_messages(self.batch_size(position))
        return unacked_bits & ~bits == 0

    def batch_size(self, position: Position) -> int:
        """Return the batch size of a held entry, as the client sent it in the acknowledgment."""
        return next(
            content.entries[position].batch_size
            for content in self.open.values()
            if position in content.entries
        )

    def held_entries(self) -> Iterator[tuple[Position, int]]:
        """Yield the position of each held entry, and its held messages as bits."""
        return iter(self._bits.items())

    def check(self, position: Position, acked_bits: int) -> None:
        """Raise `ProtocolError` if an acknowledgment in a transaction conflicts with earlier ones.

        `acked_bits` are the messages of the entry that the new acknowledgment includes. It conflicts if an
        open transaction, even the same one, already holds any of these messages. It also conflicts if any of
        these messages was acknowledged without a transaction or by a commit. As in the broker, `WHOLE`
        conflicts even with a transaction that holds no message of the entry but lists the entry.
        """
        if position in self._bits:
            for transaction, content in self.open.items():
                held = content.entries.get(position)
                if held is not None and (acked_bits == WHOLE or held.acked_bits & acked_bits):
                    raise _conflict(f"{position} is acknowledged in {_name(transaction)}, which is open")
        if self.plain.get(position, 0) & acked_bits:
            raise _conflict(f"{position} was acknowledged in part outside of the transaction")

    def check_cumulative(self, transaction: TransactionId, position: Position, unacked_bits: int) -> None:
        """Raise `ProtocolError` if a cumulative acknowledgment in a transaction conflicts.

        It conflicts if another open transaction has acknowledged cumulatively, or if the same transaction has
        already acknowledged up to the same or a later message.
        """
        for other, content in self.open.items():
            held = content.cumulative
            if held is None:
                continue
            if other != transaction:
                raise _conflict(f"{_name(other)}, which is open, has acknowledged cumulatively")
            if (position, _reach(unacked_bits)) <= (held.position, _reach(held.unacked_bits)):
                raise _conflict(f"{_name(transaction)} has already acknowledged up to {position}")

    def set_waiting(self, position: Position, sticky_key_hash: int) -> None:
        """Record that a held entry waited for redelivery when it was acknowledged, and set its hash.

        The hash can be unknown before this call, because a transaction can acknowledge part of an entry
        before the first delivery of the entry.
        """
        self._replace(position, waited=True, sticky_key_hash=sticky_key_hash)

    def clear_waiting(self, position: Position) -> None:
        """Remove the waiting mark of an entry, because the entry is redelivered."""
        self._replace(position, waited=False)

    def waited(self) -> Iterator[tuple[Position, int]]:
        """Yield the position and the hash of each held entry that has a waiting mark."""
        for content in self.open.values():
            for position, held in content.entries.items():
                if held.waited:
                    yield position, held.sticky_key_hash

    def restore(self, other: Transactions) -> None:
        """Take over the transactions of `other`. No transaction may be open in this object."""
        self.open, self._bits = other.open, other._bits

    def begin(self, transaction: TransactionId) -> None:
        """Open a transaction, unless it is open. A new transaction holds no messages."""
        self.open.setdefault(transaction, Transaction())

    def forget(self, position: Position) -> None:
        """Remove an entry from every transaction, because the whole entry is acknowledged."""
        for content in self.open.values():
            content.entries.pop(position, None)
        self._bits.pop(position, None)

    def hold(self, transaction: TransactionId, position: Position, held: HeldEntry) -> None:
        """Hold messages of an entry in a transaction. `check` must have accepted them."""
        entries = self.open.setdefault(transaction, Transaction()).entries
        before = entries.get(position)
        entries[position] = (
            held if before is None else before._replace(acked_bits=before.acked_bits | held.acked_bits)
        )
        self._bits[position] = self.held_bits(position) | held.acked_bits

    def hold_cumulative(self, transaction: TransactionId, held: HeldCumulativeAck) -> None:
        """Hold a cumulative acknowledgment in a transaction. `check_cumulative` must have accepted it."""
        self.open.setdefault(transaction, Transaction()).cumulative = held

    def _replace(self, position: Position, **values: Any) -> None:
        for content in self.open.values():
            held = content.entries.get(position)
            if held is not None:
                content.entries[position] = held._replace(**values)

    def end(self, transaction: TransactionId) -> Transaction:
        """Close a transaction and return its content. If it was not open, return an empty content."""
        content = self.open.pop(transaction, None) or Transaction()
        for position in content.entries:
            others = [other.entries[position] for other in self.open.values() if position in other.entries]
            if others:
                self._bits[position] = reduce(or_, (other.acked_bits for other in others))
            else:
                del self._bits[position]
        return content

    def end_cumulative(self, transaction: TransactionId) -> Transaction:
        """Remove and return the cumulative acknowledgment of a transaction.

        The transaction stays open if it has individual acknowledgments.
        """
        content = self.open.get(transaction)
        if content is None or content.cumulative is None:
            return Transaction()
        if not content.entries:
            return self.end(transaction)
        ended = Transaction(cumulative=content.cumulative)
        content.cumulative = None
        return ended

    def note_plain_ack(self, position: Position, acked_bits: int) -> None:
        """Record messages of a batch that were acknowledged without a transaction or by a commit."""
        self.plain[position] = self.plain.get(position, 0) | acked_bits

    def forget_plain(self, position: Position) -> None:
        """Drop the record of `note_plain_ack` for an entry, because the whole entry is acknowledged."""
        if self.plain:
            self.plain.pop(position, None)

    def forget_plain_many(self, ledger_ids: NDArray[np.int64], entry_ids: NDArray[np.int64]) -> None:
        """Drop the records of `note_plain_ack` for many entries."""
        if self.plain:
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.plain.pop(Position(*pair), None)

    def forget_plain_up_to(self, position: Position) -> None:
        """Drop the records of `note_plain_ack` for all entries up to and including a position."""
        for entry in [each for each in self.plain if each <= position]:
            del self.plain[entry]

    def validate(self) -> None:
        """Check that no message is held twice.

        Also check the stored bits of each entry: the messages that any open transaction holds.
        """
        union: dict[Position, int] = {}
        for content in self.open.values():
            for position, held in content.entries.items():
                assert union.get(position, 0) & held.acked_bits == 0, f"{position} is held twice"
                union[position] = union.get(position, 0) | held.acked_bits
        assert union == self._bits, "the bits held are not those of the open transactions"


def _reach(unacked_bits: int) -> int:
    """Return the batch index of the first message that a cumulative acknowledgment does not include.

    The index refers to the entry at the position of the acknowledgment. If the whole entry is included,
    return a number that is greater than any batch index.
    """
    return first_unacked(unacked_bits) if unacked_bits else INT64_MAX


def _conflict(message: str) -> ProtocolError:
    return ProtocolError(message, code=ErrorCode.TRANSACTION_CONFLICT)


def _name(transaction: TransactionId) -> str:
    return f"transaction {transaction}"
