"""Redelivery: return messages from their consumers to the replay queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.state import State


class Redelivery:
    """Handles consumers that leave, requests, negative acknowledgments, timeouts and ends of delays."""

    def __init__(self, state: State) -> None:
        self._state = state

    def remove_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer; return the number of its entries, which keep their redelivery counts."""
        state = self._state
        ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
        state.consumers.drop(consumer)
        state.give_back_many(ledger_ids, entry_ids, hashes)
        if state.policy.leave(consumer):
            state.unread.rewind()
        if not len(state.consumers):
            if state.settings.idle_clears_counts:
                state.counts.clear()
            if state.settings.idle_reads_again and state.policy.individual:
                state.start_over()
        return len(ledger_ids)

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None, *, counted: bool) -> int:
        """Return a consumer's entries, all or the listed ones, to the queue; return their number."""
        state = self._state
        if not state.policy.individual:
            if state.policy.active is consumer:
                state.unread.rewind()
            return 0
        if positions is not None:
            returned = sum(self._release(position, consumer, counted=counted) for position in positions)
        else:
            ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
            if counted:
                state.counts.increment_many(ledger_ids, entry_ids)
            state.give_back_many(ledger_ids, entry_ids, hashes)
            returned = len(ledger_ids)
        if returned or positions is None or state.settings.empty_redelivery_unblocks:
            state.consumers.unblock_returning(consumer)
        return returned

    def nack(self, consumer: Consumer, position: Position, now_ms: int) -> bool:
        """Start the back-off of an entry; return whether it was pending at this consumer."""
        state = self._state
        if state.policy.individual:
            value = consumer.pending.get(position)
            has = value is not None
            if value is not None and (state.holds_waiting or state.holds_until_acked):
                state.retrying.add(*position, value[1])
        else:
            has = position < state.unread.position and not state.cursor.is_acked(*position)
        if has:
            state.backoffs.start(position, now_ms, state.counts.count(*position))
        return has

    def extend(self, consumer: Consumer, positions: Iterable[Position] | None, now_ms: int) -> int:
        """Restart the ack timeout of a consumer's entries, all or the listed ones; return their number."""
        if consumer.timeouts is None:
            return 0
        if positions is None:
            positions = [Position(*position) for position in consumer.pending]
        pending = [position for position in positions if position in consumer.pending]
        for position in pending:
            consumer.timeouts.extend(position, now_ms)
        return len(pending)

    def advance(self, now_ms: int) -> int:
        """Queue the entries whose time has come; return their number."""
        state = self._state
        returned = self._end_delays(now_ms)
        for position in state.backoffs.pop_due(now_ms):
            if state.policy.individual:
                returned += self._release(position)
            else:
                state.unread.rewind()
        for consumer in state.consumers:
            if consumer.timeouts is not None:
                due = consumer.timeouts.pop_due(now_ms)
                returned += sum(self._release(position, consumer) for position in due)
        return returned

    def next_due_ms(self) -> int | None:
        """Return the time at which `advance` next has work. O(consumers), amortised O(log waiting)."""
        state = self._state
        times = [state.backoffs.next_due_ms()]
        if state.delayed is not None:
            times.append(state.delayed.next_wakeup_ms())
        times += [each.timeouts.next_due_ms() for each in state.consumers if each.timeouts is not None]
        return min((time for time in times if time is not None), default=None)

    def later_of_key(self, consumer: Consumer, position: Position) -> list[Position]:
        """Return a consumer's later entries of the same hash as one of its entries."""
        value = consumer.pending.get(position)
        if value is None or not self._state.policy.by_key:
            return []
        ledger_ids, entry_ids, _, hashes = consumer.pending.to_arrays()
        mine = hashes == value[1]
        pairs = zip(ledger_ids[mine].tolist(), entry_ids[mine].tolist(), strict=True)
        return [later for later in (Position(*pair) for pair in pairs) if later > position]

    def _release(self, position: Position, consumer: Consumer | None = None, *, counted: bool = True) -> bool:
        """Return an entry from its consumer to the queue; return whether it was pending.

        If a consumer is given, only its own entry is returned.
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
        state.give_back(*position, sticky_key_hash)
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
