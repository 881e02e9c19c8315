"""Redelivery: remove pending messages from their consumers, and queue them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.subscription.in_hand import count_tries, in_hand_of, outstanding

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.state import State


class Redelivery:
    """Queues entries for redelivery: when a consumer is lost or returns them, or when a wait ends.

    The wait is a back-off, an ack timeout, or the time until the delivery time. On Exclusive and Failover,
    the entries become unread instead.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def remove_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer and queue its pending entries; return their number.

        The redelivery count of each entry that the consumer had in hand increases by one.
        """
        state = self._state
        count_tries(state, consumer)
        ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
        state.consumers.drop(consumer)
        state.give_back_many(ledger_ids, entry_ids, hashes)
        if state.policy.leave(consumer):
            state.change_active()
        if not len(state.consumers):
            if state.settings.idle_clears_counts:
                state.counts.clear()
            if state.settings.idle_reads_again and state.policy.individual:
                state.start_over()
        return len(ledger_ids)

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None, *, counted: bool) -> int:
        """Queue the pending entries of a consumer; return their number.

        `positions` selects entries; None means all. If `counted`, each redelivery count increases by one.
        """
        state = self._state
        if not state.policy.individual:
            if state.policy.active is consumer:
                state.counts.clear_suspicion_of(outstanding(state) if state.counts.suspecting else ())
                if consumer.in_hand is not None:
                    consumer.in_hand.clear()
                state.read_again()
            return 0
        if positions is not None:
            returned = sum(self._hand_back(position, consumer, counted=counted) for position in positions)
        else:
            ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
            if counted:
                state.counts.increment_many(ledger_ids, entry_ids)
            if state.counts.suspecting:
                state.counts.clear_suspicion_of(zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True))
            if state.settings.redelivery_drops_hash:
                for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                    state.give_back(*pair, None)
            else:
                state.give_back_many(ledger_ids, entry_ids, hashes)
            returned = len(ledger_ids)
        if returned or positions is None or state.settings.empty_redelivery_unblocks:
            state.consumers.unblock_returning(consumer)
        return returned

    def nack(self, consumer: Consumer, position: Position, now_ms: int) -> bool:
        """Start the back-off of an entry; return whether the consumer has the entry."""
        state = self._state
        if state.policy.individual:
            value = consumer.pending.get(position)
            has = value is not None
            if value is not None and (state.holds_waiting or state.holds_until_acked):
                state.retrying.add(*position, value[1])
        else:
            has = position < state.unread.position and not state.cursor.is_acked(*position)
        if has:
            state.counts.clear_suspicion(*position)
            if consumer.in_hand is not None:
                consumer.in_hand.finish(position)
            state.backoffs.start(position, now_ms, state.counts.count(*position))
        return has

    def start(self, consumer: Consumer, position: Position) -> bool:
        """Record that a consumer started to work on an entry; return whether the consumer has the entry."""
        state = self._state
        in_hand = state.consumers.report(consumer, None)
        if in_hand is not None and in_hand.concurrency is not None:
            raise ProtocolError(
                f"consumer {consumer.key!r} has a concurrency, which determines its entries in hand",
                code=ErrorCode.NOT_ALLOWED_ERROR,
            )
        if state.policy.individual:
            has = consumer.pending.contains(*position)
        else:
            read = position < state.unread.position and state.cursor.ledgers.contains(*position)
            has = read and consumer is state.policy.active and state.unread.needs_delivery(*position)
        if has and in_hand is not None and position not in state.backoffs.due_ms:
            in_hand.start(position)
        return has

    def extend(self, consumer: Consumer, positions: Iterable[Position] | None, now_ms: int) -> int:
        """Restart the ack timeouts of pending entries of a consumer; return the number of these entries.

        `positions` selects entries; None means all.
        """
        if consumer.timeouts is None:
            return 0
        if positions is None:
            positions = [Position(*position) for position in consumer.pending]
        pending = [position for position in positions if position in consumer.pending]
        for position in pending:
            consumer.timeouts.extend(position, now_ms)
        return len(pending)

    def advance(self, now_ms: int) -> int:
        """Queue the entries whose delay, back-off or ack timeout has ended; return their number."""
        state = self._state
        returned = self._end_delays(now_ms)
        for position in state.backoffs.pop_due(now_ms):
            if state.policy.individual:
                returned += self._release(position)
            else:
                state.read_again()
        for consumer in state.consumers:
            if consumer.timeouts is not None:
                returned += self._time_out(consumer, consumer.timeouts.pop_due(now_ms))
        return returned

    def next_due_ms(self) -> int | None:
        """Return the next time at which `advance` has work. O(consumers), amortised O(log entries)."""
        state = self._state
        times = [state.backoffs.next_due_ms()]
        if state.delayed is not None:
            times.append(state.delayed.next_wakeup_ms())
        times += [each.timeouts.next_due_ms() for each in state.consumers if each.timeouts is not None]
        return min((time for time in times if time is not None), default=None)

    def later_of_key(self, consumer: Consumer, position: Position) -> list[Position]:
        """Return a consumer's later pending entries that have the same hash as the entry at `position`."""
        value = consumer.pending.get(position)
        if value is None or not self._state.policy.by_key:
            return []
        ledger_ids, entry_ids, _, hashes = consumer.pending.to_arrays()
        mine = hashes == value[1]
        pairs = zip(ledger_ids[mine].tolist(), entry_ids[mine].tolist(), strict=True)
        return [later for later in (Position(*pair) for pair in pairs) if later > position]

    def _hand_back(self, position: Position, consumer: Consumer, *, counted: bool) -> bool:
        """Queue an entry whose consumer requested the redelivery; return whether the entry was pending.

        The entry is then no longer a suspect.
        """
        released = self._release(position, consumer, counted=counted)
        if released:
            self._state.counts.clear_suspicion(*position)
        return released

    def _time_out(self, consumer: Consumer, due: Sequence[Position]) -> int:
        """Queue the timed-out entries `due` of a consumer; return the number of queued entries.

        If the consumer reports its entries in hand, the redelivery counts increase only for entries in hand
        and for entries in their back-off.
        """
        if not due or consumer.in_hand is None:
            return sum(self._release(position, consumer) for position in due)
        consumer.in_hand.drop_removed(consumer.pending)
        state, in_hand = self._state, {*in_hand_of(self._state, consumer)}
        returned = 0
        for position in due:
            is_held, waits = position in in_hand, position in state.backoffs.due_ms
            if self._release(position, consumer, counted=waits):
                returned += 1
                if is_held:
                    consumer.in_hand.time_out(position)
                    state.counts.suspect([position])
                else:
                    consumer.in_hand.put_down(position)
        return returned

    def _release(self, position: Position, consumer: Consumer | None = None, *, counted: bool = True) -> bool:
        """Move an entry from its consumer to the replay queue; return whether the entry was pending.

        If `consumer` is given, an entry that is pending at another consumer is not moved.
        """
        state = self._state
        if consumer is not None and not consumer.pending.contains(*position):
            return False
        taken = state.consumers.take_back(*position, consumer)
        if taken is None:
            return False
        owner, sticky_key_hash = taken
        state.consumers.unblock_returning(owner)
        if counted:
            state.counts.increment(*position)
        state.give_back(*position, None if state.settings.redelivery_drops_hash else sticky_key_hash)
        return True

    def _end_delays(self, now_ms: int) -> int:
        state = self._state
        if state.delayed is None:
            return 0
        returned = 0
        while state.delayed.has_due(now_ms):
            _, ledger_ids, entry_ids = state.delayed.pop_due(now_ms, 10_000)
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                if state.unread.needs_delivery(*pair) and state.cursor.ledgers.contains(*pair):
                    state.replay.add(*pair)
                    returned += 1
        return returned
