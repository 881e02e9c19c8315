"""Apply acknowledgments to the cursor, the consumers and the waiting messages.

A message that an open transaction acknowledged is *held*: it is not delivered before the transaction ends.

The rules are those of the broker. `ackwell.cursor` implements the rules of the mark-delete position, and this
module all other rules. Every check comes before the first change, so a refused acknowledgment has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ackwell.cursor.ack_sets import WHOLE, complement, from_words, to_words, words_of_rows
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.subscription.transactions import HeldCumulativeAck, HeldEntry, Transaction

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.protocol.command_ack import MessageId, TransactionId
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.state import State


BEFORE_ALL: Final = Position(0, -1)


class Acknowledgments:
    """Applies acknowledgments, in a transaction or without one, to the state of a subscription."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def last_position(self) -> Position | None:
        """The position of the topic's last entry. No entry with a greater position was ever published."""
        return self._state.cursor.ledgers.last_position

    def check_exists(self, position: Position) -> bool:
        """Return whether an entry exists; raise `ProtocolError` if it is after the topic's last entry.

        Return False for an entry of an unknown or trimmed ledger, and for an entry after the end of its
        ledger. A broker ignores the acknowledgment of such an entry.
        """
        ledgers = self._state.cursor.ledgers
        if ledgers.contains(*position):
            return True
        last = self.last_position
        if last is None or position > last:
            raise ProtocolError(
                f"acknowledgment of {position}, ahead of the last position {last or 'none'}",
                code=ErrorCode.NOT_ALLOWED_ERROR,
            )
        return False

    def ack(self, consumer: Consumer | None, ledger_id: int, entry_id: int) -> bool:
        """Acknowledge one whole entry; return whether the call changed anything."""
        state = self._state
        try:
            changed = state.cursor.ack(ledger_id, entry_id)
        except ProtocolError:
            self.check_exists(Position(ledger_id, entry_id))
            changed = False
        if state.policy.individual:
            state.consumers.remove_acknowledged(ledger_id, entry_id, consumer)
        if (
            state.replay.active
            or state.counts.active
            or state.backoffs.due_ms
            or state.transactions.plain
            or state.retrying.active
        ):
            state.forget(ledger_id, entry_id)
        return changed

    def ack_many(self, consumer: Consumer | None, ledger_ids: Int64s, entry_ids: Int64s) -> int:
        """Acknowledge many whole entries; return the number of newly acknowledged entries.

        Nothing changes if a position is negative (`ValueError`) or after the topic's last entry
        (`ProtocolError`).
        """
        state = self._state
        try:
            changed = state.cursor.ack_many(ledger_ids, entry_ids)
        except ProtocolError:
            ledger_ids, entry_ids = self._existing(ledger_ids, entry_ids)
            changed = state.cursor.ack_many(ledger_ids, entry_ids)
        self._forget_acked(consumer, ledger_ids, entry_ids)
        return changed

    def _forget_acked(self, consumer: Consumer | None, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Remove acknowledged entries from the consumers, the queue, the redelivery counts and back-offs."""
        state = self._state
        if state.policy.individual:
            state.consumers.remove_acknowledged_many(consumer, ledger_ids, entry_ids)
        state.forget_many(ledger_ids, entry_ids)

    def check_existing(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Raise `ProtocolError` if an entry is after the topic's last entry."""
        if not self._state.cursor.ledgers.contains_all(ledger_ids, entry_ids, BEFORE_ALL):
            self._existing(ledger_ids, entry_ids)

    def partial_ack_keeps_blocked(self) -> bool:
        """Return whether a consumer is blocked and stays blocked when it acknowledges part of a batch."""
        state = self._state
        return not state.settings.partial_ack_unblocks and any(each.blocked for each in state.consumers)

    def _existing(self, ledger_ids: Int64s, entry_ids: Int64s) -> tuple[Int64s, Int64s]:
        import numpy as np

        pairs = zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)
        existing = np.array([self.check_exists(Position(*pair)) for pair in pairs], dtype=np.bool_)
        return ledger_ids[existing], entry_ids[existing]

    def ack_part(
        self, consumer: Consumer | None, ledger_id: int, entry_id: int, ack_set: Sequence[int]
    ) -> bool:
        """Acknowledge those messages of a batch whose bit in `ack_set` is clear.

        Return whether anything changed.
        """
        if not ack_set:
            return self.ack(consumer, ledger_id, entry_id)
        state = self._state
        cursor, settings = state.cursor, state.settings
        if not cursor.ledgers.contains(ledger_id, entry_id):
            if any(ack_set):
                return self.check_exists(Position(ledger_id, entry_id))
            return self.ack(consumer, ledger_id, entry_id)
        left = cursor.ack_part(ledger_id, entry_id, ack_set)
        if left <= 0 and cursor.is_acked(ledger_id, entry_id):
            return self.ack(consumer, ledger_id, entry_id) or left == 0
        if settings.partial_ack_resets_count:
            state.counts.reset(ledger_id, entry_id)
        if settings.plain_acks_conflict and state.policy.individual:
            self._note_plain_ack(consumer, Position(ledger_id, entry_id), ~from_words(ack_set))
        if left < 0:
            return False
        if state.transactions.leaves_out:
            position = Position(ledger_id, entry_id)
            left = self.unacked_bits(position).bit_count()
            self._lower(position, left, consumer, unblocks=settings.partial_ack_unblocks)
        else:
            state.consumers.reduce(
                ledger_id, entry_id, left, consumer, unblocks=settings.partial_ack_unblocks
            )
        return True

    def ack_parts(
        self,
        consumer: Consumer | None,
        ledger_ids: Int64s,
        entry_ids: Int64s,
        ack_sets: tuple[Int64s, Int64s],
    ) -> int:
        """Acknowledge parts of many batches; return the number of batches that changed.

        `ack_sets` has the form that `Cursor.ack_many` accepts. The effect is that of one `ack_part` for each
        row, in order.
        """
        state = self._state
        cursor, settings = state.cursor, state.settings
        if (
            not cursor.ledgers.contains_all(ledger_ids, entry_ids, BEFORE_ALL)
            or state.transactions.leaves_out
            or settings.transactions_keep_parts
            or not settings.partial_ack_lowers_pending
            or not cursor.settings.batch_index_acks
        ):
            rows = zip(ledger_ids.tolist(), entry_ids.tolist(), words_of_rows(*ack_sets), strict=True)
            return sum([self.ack_part(consumer, *row) for row in rows])
        left = cursor.ack_parts(ledger_ids, entry_ids, *ack_sets)
        in_part = left > 0
        state.consumers.reduce_many(
            ledger_ids[in_part],
            entry_ids[in_part],
            left[in_part],
            consumer,
            unblocks=settings.partial_ack_unblocks,
        )
        unacked = in_part if in_part.all() else ~cursor.acked_rows(ledger_ids, entry_ids)
        if not unacked.all():
            self._forget_acked(consumer, ledger_ids[~unacked], entry_ids[~unacked])
        if settings.partial_ack_resets_count:
            state.counts.reset_many(ledger_ids, entry_ids)
        if settings.plain_acks_conflict and state.policy.individual:
            rows = zip(ledger_ids.tolist(), entry_ids.tolist(), words_of_rows(*ack_sets), strict=True)
            for row, (ledger_id, entry_id, words) in enumerate(rows):
                if unacked[row]:
                    self._note_plain_ack(consumer, Position(ledger_id, entry_id), ~from_words(words))
        return int((left >= 0).sum())

    def _note_plain_ack(self, consumer: Consumer | None, position: Position, acked_bits: int) -> None:
        """Record messages of a batch that were acknowledged without a transaction or by a commit.

        A later acknowledgment of these messages in a transaction is refused.
        """
        state = self._state
        state.transactions.note_plain_ack(position, acked_bits)
        if state.transactions.kept.get(position) == WHOLE:
            # The entry is never delivered again, although the cursor does not count it as acknowledged.
            state.consumers.remove_pending(*position, consumer)
            state.replay.discard(*position)

    def ack_cumulative(
        self, position: Position, ack_set: Sequence[int], properties: Mapping[str, int] | None = None
    ) -> bool:
        """Acknowledge all entries before a position, and a part of the entry at the position.

        This part consists of the messages whose bit in `ack_set` is clear. Without an `ack_set` it is the
        whole entry. Return whether anything changed. `Cursor.ack_cumulative` documents `properties`.
        """
        if not self.check_exists(position):
            if self._state.cursor.settings.refuse_cumulative_behind:
                raise ProtocolError(f"cumulative acknowledgment of {position}, which is trimmed")
            return False
        changed = self._state.cursor.ack_cumulative(*position, ack_set, properties=properties)
        self._state.forget_acknowledged()
        return changed

    def unacked_bits(self, position: Position) -> int:
        """Return the messages of an entry that are neither acknowledged nor held in a transaction, as bits.

        `WHOLE` means all messages of the entry.
        """
        unacked = self._state.cursor.unacked_bits(*position)
        bits = WHOLE if unacked is None else unacked
        return bits & ~self._state.transactions.held_bits(position)

    def hold(
        self, consumer: Consumer | None, transaction: TransactionId, messages: Sequence[MessageId]
    ) -> int:
        """Hold the messages that a transaction acknowledges; return the number of entries with such messages.

        Raises `ProtocolError` if a message is already acknowledged or held by an open transaction.
        """
        cursor, transactions = self._state.cursor, self._state.transactions
        held_entries: dict[Position, HeldEntry] = {}
        for message in messages:
            position, bits = message.position, _acked_bits(message)
            if not cursor.ledgers.contains(*position):
                self.check_exists(position)
                raise _refused(f"{position} does not exist, so no transaction can acknowledge it")
            unacked = cursor.unacked_bits(*position)
            if cursor.is_acked(*position) or (unacked is not None and bits != WHOLE and bits & ~unacked):
                raise _refused(f"{position} is already acknowledged")
            transactions.check(position, bits)
            before = held_entries[position].acked_bits if position in held_entries else 0
            if before & bits:
                raise _refused(f"{position} is listed twice in one acknowledgment")
            held_entries[position] = HeldEntry(before | bits, message.batch_size or 1, 0)
        for position, held in held_entries.items():
            self._hold(consumer, transaction, position, held)
        return len(held_entries)

    def hold_cumulative(self, transaction: TransactionId, position: Position, unacked_bits: int) -> None:
        """Hold all messages up to a position for a cumulative acknowledgment of a transaction."""
        if not self.check_exists(position) or position <= self._state.cursor.mark_delete_position:
            raise _refused(f"{position} is already acknowledged")
        self._state.transactions.check_cumulative(transaction, position, unacked_bits)
        self._state.transactions.hold_cumulative(transaction, HeldCumulativeAck(position, unacked_bits))

    def commit(self, transaction: TransactionId) -> int:
        """Acknowledge the messages that a transaction holds; return the number of entries that changed."""
        state = self._state
        content = self._end(transaction)
        changed = 0
        for position, held in content.entries.items():
            unacked = 0 if held.acked_bits == WHOLE else complement(held.acked_bits, held.batch_size)
            changed += self.ack_part(None, *position, to_words(unacked))
            if unacked and state.settings.plain_acks_conflict and not state.cursor.is_acked(*position):
                state.transactions.note_plain_ack(position, ~unacked)
        if content.cumulative is not None:
            words = to_words(content.cumulative.unacked_bits)
            changed += self._commit_cumulative(content.cumulative.position, words)
        return changed

    def abort(self, transaction: TransactionId) -> int:
        """Release the messages that a transaction holds; return the number of entries with such messages.

        On Shared and Key_Shared each of these entries is queued. On Exclusive and Failover all unacknowledged
        entries become unread.
        """
        state = self._state
        content = self._end(transaction)
        if not state.policy.individual:
            if content.entries or (content.cumulative and state.settings.cumulative_abort_rewinds):
                state.read_again()
            return len(content.entries)
        for position, held in content.entries.items():
            if state.delayed is not None and state.delayed.contains(*position):
                continue
            # The entry may be acknowledged by now, or another transaction may hold the rest of it.
            if not state.unread.needs_delivery(*position):
                continue
            if position < state.unread.position:
                state.consumers.take_back(*position)
                state.backoffs.stop(*position)
                state.counts.increment(*position)
                # Reading may have passed the held entry without checking its delivery time.
                state.replay.add_unseen(position, held.sticky_key_hash or None)
            elif state.settings.idle_reads_again:
                # A broker increases the count, although it delivers the entry for the first time.
                state.counts.increment(*position)
            state.transactions.clear_waiting(position)
            state.stop_retrying(*position)
        return len(content.entries)

    def _commit_cumulative(self, position: Position, ack_set: Sequence[int]) -> bool:
        """Acknowledge all messages up to a position.

        Return False if the mark-delete position is already at or after the given position.
        """
        if position <= self._state.cursor.mark_delete_position:
            return False
        return self.ack_cumulative(position, ack_set, {})

    def _end(self, transaction: TransactionId) -> Transaction:
        """Close a transaction and return its content.

        There is one exception: `cumulative_hides_individual` is on, and any open transaction has a cumulative
        acknowledgment. Then only the cumulative acknowledgment of the given transaction ends and is returned.
        Its individual acknowledgments stay open.
        """
        transactions = self._state.transactions
        if self._state.settings.cumulative_hides_individual and transactions.cumulative:
            return transactions.end_cumulative(transaction)
        return transactions.end(transaction)

    def _hold(
        self, consumer: Consumer | None, transaction: TransactionId, position: Position, held: HeldEntry
    ) -> None:
        state = self._state
        owner = state.consumers.owner(*position, consumer)
        value = None if owner is None else owner.pending.get(position)
        sticky_key_hash = (state.replay.hash_of(position) or 0) if value is None else value[1]
        state.transactions.hold(transaction, position, held._replace(sticky_key_hash=sticky_key_hash))
        unacked = self.unacked_bits(position)
        before = value[0] if value is not None else 0
        # While no message of the batch is acknowledged, the batch size is stored only in the pending entry.
        # The client may have sent a wrong batch size. At least one message must remain, because no other
        # event would deliver the other messages.
        remaining = unacked.bit_count() if unacked >= 0 else max(before - held.acked_bits.bit_count(), 1)
        self._lower(position, remaining, owner, unblocks=state.settings.transaction_part_unblocks)

    def _lower(
        self, position: Position, remaining: int, consumer: Consumer | None, *, unblocks: bool
    ) -> None:
        """Set the number of remaining messages of a pending entry.

        If no message of the entry needs delivery, remove the entry from its consumer.
        """
        state = self._state
        if state.unread.needs_delivery(*position):
            state.consumers.reduce(*position, remaining, consumer, unblocks=unblocks)
        else:
            self._keep_waiting(position)
            state.consumers.take_back(*position, consumer)
            active = state.policy.active
            if active is not None and active.in_hand is not None:
                active.in_hand.finish(position)
            state.backoffs.stop(*position)
            state.replay.discard(*position)

    def _keep_waiting(self, position: Position) -> None:
        """Block the hash of a held entry if the entry waits for redelivery.

        The hash stays blocked while open transactions hold the entry.
        """
        state = self._state
        if not state.holds_waiting:
            return
        queued = state.replay.hash_of(position)
        if queued is not None:
            state.retrying.add(*position, queued)
        waiting = state.retrying.hash_of(position)
        if waiting is not None:
            state.transactions.set_waiting(position, waiting)


def _acked_bits(message: MessageId) -> int:
    """Convert the ack set of a message id in a transaction to bits: bit set = acknowledged.

    `WHOLE` means that the whole entry is acknowledged.
    """
    unacked = from_words(message.ack_set)
    sized = message.batch_size is not None and message.batch_size >= 1
    if not unacked and not (message.ack_set and sized):
        return WHOLE
    if not sized:
        raise ProtocolError(
            f"{message.position}: part of a batch in a transaction needs the batch's size",
            code=ErrorCode.NOT_ALLOWED_ERROR,
        )
    assert message.batch_size is not None
    return complement(unacked, message.batch_size)


def _refused(message: str) -> ProtocolError:
    return ProtocolError(message, code=ErrorCode.TRANSACTION_CONFLICT)
