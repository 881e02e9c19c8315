"""Acknowledgments inside transactions: pending until commit, gone on abort, refused on conflict.

An open transaction *holds* what it acknowledged: the message is with nobody, and is neither delivered
again nor gone. Two open transactions never hold the same message, so commits need no order. Each held
entry remembers the batch size and hash it was delivered with, which an abort needs to give it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ackwell.ack_sets import WHOLE, all_messages
from ackwell.errors import ProtocolError

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.command import TransactionId


class Held(NamedTuple):
    """What a transaction holds of one entry."""

    acked_bits: int
    """Bit set = held; `WHOLE` for the entry."""
    batch_size: int
    sticky_key_hash: int


class HeldCumulative(NamedTuple):
    """A cumulative acknowledgment: everything before `position`, and of it all but `owed_bits`."""

    position: Position
    owed_bits: int


@dataclass(slots=True)
class Transaction:
    """One open transaction."""

    entries: dict[Position, Held] = field(default_factory=dict)
    cumulative: HeldCumulative | None = None


class Transactions:
    """The open transactions of a subscription.

    >>> from ackwell import Position
    >>> from ackwell.subscription import TransactionId
    >>> transactions = Transactions()
    >>> transactions.hold(TransactionId(1, 1), Position(3, 5), Held(WHOLE, 1, 0))
    >>> transactions.held_bits(Position(3, 5)) == WHOLE
    True
    """

    def __init__(self) -> None:
        self.open: dict[TransactionId, Transaction] = {}
        self._bits: dict[Position, int] = {}

    @property
    def entries(self) -> int:
        """How many entries open transactions hold, wholly or in part."""
        return len(self._bits)

    def held_bits(self, position: Position) -> int:
        """Return what open transactions hold of an entry; 0 for nothing."""
        return self._bits.get(position, 0)

    def holds_all(self, position: Position, owed_bits: int | None) -> bool:
        """Return whether nothing of an entry is left outside; `owed_bits` if some of it was acknowledged."""
        bits = self._bits.get(position, 0)
        if bits in (0, WHOLE):
            return bits == WHOLE
        if owed_bits is None:
            size = next(
                content.entries[position].batch_size
                for content in self.open.values()
                if position in content.entries
            )
            owed_bits = all_messages(size)
        return owed_bits & ~bits == 0

    def held(self) -> Iterator[tuple[Position, int]]:
        """Iterate the entries held, with their bits."""
        return iter(self._bits.items())

    def check(self, position: Position, acked_bits: int) -> None:
        """Raise `ProtocolError` if an open transaction, the same one included, holds any of these bits."""
        if self.held_bits(position) & acked_bits:
            owner = next(
                transaction
                for transaction, content in self.open.items()
                if position in content.entries and content.entries[position].acked_bits & acked_bits
            )
            raise ProtocolError(f"{position} is acknowledged in {_name(owner)}, which is open")

    def check_cumulative(self, transaction: TransactionId, position: Position) -> None:
        """Raise `ProtocolError` if another transaction has acknowledged cumulatively, or this one further."""
        for other, content in self.open.items():
            if content.cumulative is None:
                continue
            if other != transaction:
                raise ProtocolError(f"{_name(other)}, which is open, has acknowledged cumulatively")
            if position <= content.cumulative.position:
                raise ProtocolError(f"{_name(transaction)} has already acknowledged up to {position}")

    def hold(self, transaction: TransactionId, position: Position, held: Held) -> None:
        """Hold these bits of an entry, which `check` found free."""
        entries = self.open.setdefault(transaction, Transaction()).entries
        before = entries.get(position)
        entries[position] = (
            held if before is None else before._replace(acked_bits=before.acked_bits | held.acked_bits)
        )
        self._bits[position] = self.held_bits(position) | held.acked_bits

    def hold_cumulative(self, transaction: TransactionId, held: HeldCumulative) -> None:
        """Hold everything up to a position, which `check_cumulative` found free."""
        self.open.setdefault(transaction, Transaction()).cumulative = held

    def end(self, transaction: TransactionId) -> Transaction:
        """Close a transaction and give what it held; nothing if it is not open."""
        content = self.open.pop(transaction, None) or Transaction()
        for position in content.entries:
            left = 0
            for other in self.open.values():
                if position in other.entries:
                    left |= other.entries[position].acked_bits
            if left:
                self._bits[position] = left
            else:
                del self._bits[position]
        return content

    def validate(self) -> None:
        """Check that no message is held twice and that the union is the sum."""
        union: dict[Position, int] = {}
        for content in self.open.values():
            for position, held in content.entries.items():
                assert union.get(position, 0) & held.acked_bits == 0, f"{position} is held twice"
                union[position] = union.get(position, 0) | held.acked_bits
        assert union == self._bits


def _name(transaction: TransactionId) -> str:
    return f"transaction ({transaction.most_bits}, {transaction.least_bits})"
