"""What takes a message back from its consumer, to be delivered again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.position import Position
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.state import State


class Redelivery:
    """Consumers that leave, requests, negative acknowledgments, timeouts, ends of delays."""

    def __init__(self, state: State) -> None:
        self._state = state

    def left(self, consumer: Consumer) -> int:
        """Remove a consumer; its entries go back with their counts as they are. Return how many."""
        state = self._state
        ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
        state.consumers.drop(consumer)
        state.backoffs.stop_many(ledger_ids, entry_ids)
        state.replay.add_many(ledger_ids, entry_ids, hashes)
        if state.policy.leave(consumer):
            state.unread.rewind()
        if not len(state.consumers) and state.settings.idle_clears_counts:
            state.counts.clear()
        return len(ledger_ids)

    def requested(self, consumer: Consumer, positions: Iterable[Position] | None) -> int:
        """Take back all that a consumer has, or the listed entries; return how many."""
        state = self._state
        if not state.policy.individual:
            if state.policy.active is consumer:
                state.unread.rewind()
            return 0
        if positions is not None:
            returned = sum(self._release(position, consumer) for position in positions)
        else:
            ledger_ids, entry_ids, _, hashes = state.consumers.take_all(consumer)
            state.counts.increment_many(ledger_ids, entry_ids)
            state.backoffs.stop_many(ledger_ids, entry_ids)
            state.replay.add_many(ledger_ids, entry_ids, hashes)
            returned = len(ledger_ids)
        state.consumers.given_back(consumer)
        return returned

    def negative(self, consumer: Consumer, position: Position, now_ms: int) -> bool:
        """Let an entry wait out its back-off; return whether it was pending at this consumer."""
        state = self._state
        if state.policy.individual:
            has = consumer.pending.contains(*position)
        else:
            has = position < state.unread.position and not state.cursor.is_acked(*position)
        if has:
            state.backoffs.start(position, now_ms, state.counts.count(*position))
        return has

    def advance(self, now_ms: int) -> int:
        """Take back what is due; return how many entries are to be delivered again."""
        state = self._state
        returned = self._end_delays(now_ms)
        for position in state.backoffs.due(now_ms):
            if state.policy.individual:
                returned += self._release(position)
            else:
                state.unread.rewind()
        for consumer in state.consumers:
            if consumer.timeouts is not None:
                due = consumer.timeouts.due(now_ms)
                returned += sum(self._release(position, consumer) for position in due)
        return returned

    def next_due_ms(self) -> int | None:
        """Return when `advance` has something to do next. O(consumers), amortised O(log waiting)."""
        state = self._state
        times = [state.backoffs.next_due_ms()]
        if state.delayed is not None:
            times.append(state.delayed.next_wakeup())
        times += [each.timeouts.next_due_ms() for each in state.consumers if each.timeouts is not None]
        return min((time for time in times if time is not None), default=None)

    def _release(self, position: Position, consumer: Consumer | None = None) -> bool:
        """Take an entry from its consumer (from this one only, if one is given); return whether it had it."""
        state = self._state
        if consumer is not None and not consumer.pending.contains(*position):
            return False
        settled = state.consumers.settle(*position, consumer)
        if settled is None:
            return False
        owner, sticky_key_hash = settled
        if owner.timeouts is not None:
            owner.timeouts.returned(*position)
        state.consumers.given_back(owner)
        state.counts.increment(*position)
        state.backoffs.stop(*position)
        state.replay.add(*position, sticky_key_hash)
        return True

    def _end_delays(self, now_ms: int) -> int:
        state = self._state
        if state.delayed is None:
            return 0
        returned = 0
        while state.delayed.has_due(now_ms):
            _, ledger_ids, entry_ids = state.delayed.pop_due(now_ms, 10_000)
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                if state.unread.wanted(*pair) and state.cursor.ledgers.contains(*pair):
                    state.replay.add(*pair)
                    returned += 1
        return returned
