"""What an acknowledgment does: to the cursor, to who has the message, to what waits for it.

The rules are the broker's; the cursor (`ackwell.cursor`) has those of the mark-delete position, this
module those around it. Checks come before changes: an acknowledgment that is refused changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ackwell.ack_sets import WHOLE, complement, from_words, to_words
from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.subscription.transactions import Held, HeldCumulative, Transaction, Transactions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.cursor import Cursor
    from ackwell.subscription.command import MessageId, TransactionId
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.outstanding import Outstanding
    from ackwell.subscription.redelivery import Redelivery
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.unread import Unread

    Int64s = NDArray[np.int64]


class Acknowledgments:
    """Applies acknowledgments, plain ones and those of transactions."""

    def __init__(
        self,
        cursor: Cursor,
        outstanding: Outstanding,
        replay: ReplayQueue,
        redelivery: Redelivery,
        transactions: Transactions,
        unread: Unread,
    ) -> None:
        self._cursor = cursor
        self._outstanding = outstanding
        self._replay = replay
        self._redelivery = redelivery
        self._transactions = transactions
        self._unread = unread

    def exists(self, position: Position) -> bool:
        """Return whether an entry exists or did; `ProtocolError` for one ahead of the last.

        One of a ledger that is unknown, trimmed or shorter is the broker's range that covers nothing:
        ignored.
        """
        ledgers = self._cursor.ledgers
        if ledgers.contains(*position):
            return True
        last = ledgers.last_position
        if last is None or position > last:
            raise ProtocolError(f"acknowledgment of {position}, ahead of the last position {last or 'none'}")
        return False

    def individual(self, consumer: Consumer | None, ledger_id: int, entry_id: int) -> bool:
        """Acknowledge one whole entry; tell whether it was not before."""
        try:
            changed = self._cursor.ack(ledger_id, entry_id)
        except ProtocolError:
            self.exists(Position(ledger_id, entry_id))
            changed = False
        self._outstanding.acknowledged(ledger_id, entry_id, consumer)
        if self._replay.active:
            self._replay.discard(ledger_id, entry_id)
        if self._redelivery.active:
            self._redelivery.forget(ledger_id, entry_id)
        return changed

    def many(self, consumer: Consumer | None, ledger_ids: Int64s, entry_ids: Int64s) -> int:
        """Acknowledge many whole entries; return how many were not before.

        All or nothing where one is ahead of the last position.
        """
        try:
            changed = self._cursor.ack_many(ledger_ids, entry_ids)
        except ProtocolError:
            ledger_ids, entry_ids = self._existing(ledger_ids, entry_ids)
            changed = self._cursor.ack_many(ledger_ids, entry_ids)
        self._outstanding.acknowledged_many(consumer, ledger_ids, entry_ids)
        if self._replay.active or self._redelivery.active:
            for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self._replay.discard(ledger_id, entry_id)
                self._redelivery.forget(ledger_id, entry_id)
        return changed

    def _existing(self, ledger_ids: Int64s, entry_ids: Int64s) -> tuple[Int64s, Int64s]:
        import numpy as np

        pairs = zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)
        existing = np.array([self.exists(Position(*pair)) for pair in pairs], dtype=np.bool_)
        return ledger_ids[existing], entry_ids[existing]

    def batch(self, consumer: Consumer | None, position: Position, ack_set: Iterable[int]) -> bool:
        """Acknowledge the messages of a batch whose bit is clear; tell whether that changed anything."""
        words = tuple(ack_set)
        if not any(words):
            return self.individual(consumer, *position)
        if not self.exists(position):
            return False
        changed = self._cursor.ack_batch(*position, words)
        if self._cursor.is_acked(*position):
            return self.individual(consumer, *position) or changed
        if changed:
            self._lower(position, self.owed_bits(position).bit_count(), consumer)
        return changed

    def cumulative(
        self, position: Position, ack_set: Iterable[int], properties: Mapping[str, int] | None = None
    ) -> bool:
        """Acknowledge everything up to a position, and in it the messages whose bit is clear.

        `properties` as in `Cursor.ack_cumulative`.
        """
        if not self.exists(position):
            return False
        changed = self._cursor.ack_cumulative(*position, ack_set, properties=properties)
        self.forget_acknowledged()
        return changed

    def owed_bits(self, position: Position) -> int:
        """Return the messages of a partly acknowledged entry that are with its consumer; else all."""
        owed = self._cursor.unacked_bits(*position)
        bits = WHOLE if owed is None else owed
        return bits & ~self._transactions.held_bits(position)

    def forget_acknowledged(self) -> None:
        """Drop what stands at or before the mark-delete position, which moved past unacknowledged entries."""
        mark_delete = self._cursor.mark_delete_position
        self._outstanding.forget_up_to(mark_delete)
        self._replay.remove_up_to(mark_delete)
        self._redelivery.forget_up_to(mark_delete)
        self._unread.skip_acknowledged()

    def in_transaction(
        self, consumer: Consumer | None, transaction: TransactionId, messages: Sequence[MessageId]
    ) -> int:
        """Let a transaction hold these messages; return how many entries it holds more of.

        Refused (`ProtocolError`) when one is acknowledged already, or held by an open transaction.
        """
        wanted: dict[Position, Held] = {}
        for message in messages:
            position, bits = message.position, _acked_bits(message)
            if not self._cursor.ledgers.contains(*position):
                self.exists(position)
                raise ProtocolError(f"{position} does not exist, so no transaction can acknowledge it")
            owed = self._cursor.unacked_bits(*position)
            if self._cursor.is_acked(*position) or (owed is not None and bits != WHOLE and bits & ~owed):
                raise ProtocolError(f"{position} is already acknowledged")
            self._transactions.check(position, bits)
            before = wanted[position].acked_bits if position in wanted else 0
            if before & bits:
                raise ProtocolError(f"{position} stands twice in one acknowledgment")
            wanted[position] = Held(before | bits, message.batch_size or 1, 0)
        for position, held in wanted.items():
            self._hold(consumer, transaction, position, held)
        return len(wanted)

    def cumulative_in_transaction(
        self, transaction: TransactionId, position: Position, ack_set: Iterable[int]
    ) -> None:
        """Let a transaction hold everything up to a position."""
        if not self.exists(position) or position <= self._cursor.mark_delete_position:
            raise ProtocolError(f"{position} is already acknowledged")
        self._transactions.check_cumulative(transaction, position)
        self._transactions.hold_cumulative(transaction, HeldCumulative(position, from_words(ack_set)))

    def commit(self, transaction: TransactionId) -> int:
        """Acknowledge what a transaction holds; return the entries that changed."""
        content = self._transactions.end(transaction)
        changed = 0
        for position, held in content.entries.items():
            owed = 0 if held.acked_bits == WHOLE else complement(held.acked_bits, held.batch_size)
            changed += self.batch(None, position, to_words(owed))
        if content.cumulative is not None:
            owed = content.cumulative.owed_bits
            changed += self.cumulative(content.cumulative.position, to_words(owed), {})
        return changed

    def abort(self, transaction: TransactionId, *, redeliver: bool) -> Transaction:
        """Let go of what a transaction holds; with `redeliver` entry by entry, from the replay queue."""
        content = self._transactions.end(transaction)
        for position, held in content.entries.items():
            if redeliver and position < self._unread.position and not self._cursor.is_acked(*position):
                self._outstanding.settle(*position)
                self._redelivery.again(*position, held.sticky_key_hash)
        return content

    def _hold(
        self, consumer: Consumer | None, transaction: TransactionId, position: Position, held: Held
    ) -> None:
        owner = self._outstanding.owner(*position, consumer)
        value = None if owner is None else owner.pending.get(position)
        sticky_key_hash = self._replay.hash_of(position) if value is None else value[1]
        self._transactions.hold(transaction, position, held._replace(sticky_key_hash=sticky_key_hash))
        owed = self.owed_bits(position)
        before = value[0] if value is not None else 0
        # Without an acknowledged index the cursor does not know the batch's size; the entry does.
        remaining = owed.bit_count() if owed >= 0 else before - held.acked_bits.bit_count()
        self._lower(position, remaining, owner)

    def _lower(self, position: Position, remaining: int, consumer: Consumer | None) -> None:
        """Let less of an entry be owed; nothing, where transactions hold all that is not acknowledged."""
        if self._unread.wanted(*position):
            self._outstanding.reduce(position, remaining, consumer)
        else:
            self._outstanding.settle(*position, consumer)
            self._replay.discard(*position)


def _acked_bits(message: MessageId) -> int:
    """Return the messages that an acknowledgment inside a transaction names."""
    if not any(message.ack_set):
        return WHOLE
    if not message.batch_size or message.batch_size < 1:
        raise ProtocolError(f"{message.position}: part of a batch in a transaction needs the batch's size")
    return complement(from_words(message.ack_set), message.batch_size)
