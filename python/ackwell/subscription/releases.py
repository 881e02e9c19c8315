"""What takes a message back from its consumer, to be delivered again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.cursor import Cursor
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.outstanding import Outstanding
    from ackwell.subscription.policies import Policy
    from ackwell.subscription.redelivery import Redelivery
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.unread import Unread


class Releases:
    """Requests for redelivery, negative acknowledgments, timeouts, ends of delays."""

    def __init__(
        self,
        cursor: Cursor,
        policy: Policy,
        outstanding: Outstanding,
        replay: ReplayQueue,
        redelivery: Redelivery,
        unread: Unread,
        delayed: DelayedMessages | None,
    ) -> None:
        self._cursor = cursor
        self._policy = policy
        self._outstanding = outstanding
        self._replay = replay
        self._redelivery = redelivery
        self._unread = unread
        self._delayed = delayed

    def left(self, consumer: Consumer) -> int:
        """Let a consumer go; its entries go back as they are. Return how many."""
        ledger_ids, entry_ids, _, hashes = self._outstanding.leave(consumer.name)
        self._redelivery.back_many(ledger_ids, entry_ids, hashes)
        if self._policy.leave(consumer):
            self._unread.rewind()
        return len(ledger_ids)

    def requested(self, consumer: Consumer, positions: Iterable[tuple[int, int]] | None) -> int:
        """Take back all that a consumer has, or the listed entries; return how many."""
        if not self._policy.individual:
            if self._policy.active is consumer:
                self._unread.rewind()
            return 0
        if positions is not None:
            return sum(self._release(Position(*position), consumer) for position in positions)
        ledger_ids, entry_ids, _, hashes = self._outstanding.take_all(consumer)
        self._redelivery.again_many(ledger_ids, entry_ids, hashes)
        return len(ledger_ids)

    def negative(self, consumer: Consumer, position: Position, now_ms: int) -> bool:
        """Let an entry wait out its back-off; tell whether this consumer has it."""
        if self._policy.individual:
            has = consumer.pending.contains(*position)
        else:
            has = position < self._unread.position and not self._cursor.is_acked(*position)
        if has:
            self._redelivery.later(position, now_ms)
        return has

    def advance(self, now_ms: int) -> int:
        """Take back what is due; return how many entries are owed again."""
        owed = self._end_delays(now_ms)
        for position in self._redelivery.due(now_ms):
            if self._policy.individual:
                owed += self._release(position)
            else:
                self._unread.rewind()
        for consumer in self._outstanding.consumers.values():
            if consumer.timeouts is not None:
                owed += sum(self._release(position, consumer) for position in consumer.timeouts.due(now_ms))
        return owed

    def next_due_ms(self) -> int | None:
        """Return when `advance` has something to do next."""
        times = [self._redelivery.next_due_ms()]
        if self._delayed is not None:
            times.append(self._delayed.next_wakeup())
        times += [
            consumer.timeouts.next_due_ms()
            for consumer in self._outstanding.consumers.values()
            if consumer.timeouts is not None
        ]
        return min((time for time in times if time is not None), default=None)

    def _release(self, position: Position, consumer: Consumer | None = None) -> bool:
        """Take an entry off its consumer (off this one only, if one is given); tell whether it had it."""
        if consumer is not None and not consumer.pending.contains(*position):
            return False
        settled = self._outstanding.settle(*position, consumer)
        if settled is None:
            return False
        owner, _, sticky_key_hash = settled
        if owner.timeouts is not None:
            owner.timeouts.returned(*position)
        self._redelivery.again(*position, sticky_key_hash)
        return True

    def _end_delays(self, now_ms: int) -> int:
        if self._delayed is None:
            return 0
        owed = 0
        while self._delayed.has_due(now_ms):
            _, ledger_ids, entry_ids = self._delayed.pop_due(now_ms, 10_000)
            for position in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                if self._unread.wanted(*position):
                    self._replay.add(*position)
                    owed += 1
        return owed
