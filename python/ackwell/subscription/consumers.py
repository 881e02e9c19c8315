"""The connected consumers and their pending entries: entries that were delivered and are not acknowledged.

Only this module changes pending entries and their counters. When the remaining messages of a pending entry
change, the counters change by the difference between the old and the new number. The number of messages that
a client claims to have acknowledged is not used. So a counter cannot drift or become negative
(apache/pulsar#759, #96, #6510: negative counters stop dispatch).

Two limits of unacknowledged messages stop deliveries. A consumer that reaches its own limit is blocked until
half of its messages are acknowledged, or until it returns messages. When the subscription reaches its limit,
no new entry is delivered until the number of unacknowledged messages is less than half of the limit. A
returned entry is redelivered as soon as this number is below the limit. With `subscription_limit_at_read` the
limit of the subscription stops only the reading of new entries, as in the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.subscription.ack_timeouts import AckTimeouts
from ackwell.subscription.consumer import Consumer
from ackwell.subscription.draining import DrainingHashes
from ackwell.subscription.in_hand import DeliveryTracker
from ackwell.subscription.subscription_settings import LostCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackwell.arrays import Int64s
    from ackwell.pending_ack import PendingAck
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.structures import Structures
    from ackwell.subscription.subscription_settings import SubscriptionSettings


NO_LIMIT: Final = 2**62
"""A number that is greater than any number of messages. It is used as a limit if there is no limit."""


class _ConsumersByKey(dict["ConsumerKey", "Consumer"]):
    """A dictionary from key to consumer that raises `ProtocolError` for an unknown key.

    The lookup of a connected consumer is native and runs no Python code.
    """

    __slots__ = ()

    def __missing__(self, key: ConsumerKey) -> Consumer:
        raise ProtocolError(
            f"no consumer {key!r}; it never joined, or has left", code=ErrorCode.CONSUMER_NOT_FOUND
        )


class Consumers(EqualByState):
    """The consumers of a subscription, in the order in which they joined."""

    __slots__ = (
        "_blocked_at",
        "_settings",
        "_structures",
        "blocked",
        "by_key",
        "draining",
        "full_at",
        "quarantined",
        "reporting",
        "unacked",
    )

    def __init__(self, structures: Structures, settings: SubscriptionSettings) -> None:
        self._structures = structures
        self.set_limits(settings)
        self.by_key = _ConsumersByKey()
        """Key → connected consumer. An unknown key raises `ProtocolError`."""
        self.unacked = 0
        """The number of unacknowledged messages at all consumers."""
        self.blocked = False
        """Whether the subscription reached its limit of unacknowledged messages and still has at least half
        of the limit."""
        self.draining = DrainingHashes()
        self.reporting = 0
        """The number of consumers that report which entries they have in hand."""
        self.quarantined = 0
        """The number of consumers whose permits the quarantine withholds."""

    def set_limits(self, settings: SubscriptionSettings) -> None:
        """Change the limits. The blocked flags are updated by the next delivery or acknowledgment."""
        self._settings = settings
        self.full_at = settings.max_unacked_per_consumer or NO_LIMIT
        """The limit of unacknowledged messages of one consumer."""
        self._blocked_at = settings.max_unacked_per_subscription or NO_LIMIT

    def __getitem__(self, key: ConsumerKey) -> Consumer:
        return self.by_key[key]

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.by_key.values())

    def __len__(self) -> int:
        return len(self.by_key)

    def keys(self) -> list[ConsumerKey]:
        """Return the key of each consumer."""
        return list(self.by_key)

    @property
    def entries(self) -> int:
        """The number of pending entries at all consumers."""
        return sum(len(consumer.pending) for consumer in self)

    def join(
        self, key: ConsumerKey, name: str, priority: int, epoch: int, concurrency: int | None = None
    ) -> Consumer:
        """Add a consumer without permits, and return it; raise `ProtocolError` if its key is in use."""
        if key in self.by_key:
            raise ProtocolError(f"consumer {key!r} is already connected", code=ErrorCode.CONSUMER_BUSY)
        settings, timeouts = self._settings, None
        if settings.ack_timeout_ms:
            timeouts = AckTimeouts(self._structures, settings.ack_timeout_ms, settings.ack_timeout_tick_ms)
        consumer = Consumer(key, name, priority, epoch, self._structures.pending_acks(), timeouts, None)
        self.by_key[key] = consumer
        if concurrency is not None:
            self.report(consumer, concurrency)
        return consumer

    def report(self, consumer: Consumer, concurrency: int | None) -> DeliveryTracker | None:
        """Start to record which entries a consumer has in hand; return the tracker (see `in_hand`).

        If the setting `lost_counts` does not use these entries, record nothing and return None.
        """
        if consumer.in_hand is None and self._settings.lost_counts is LostCounts.IN_HAND:
            consumer.in_hand = DeliveryTracker(concurrency)
            consumer.watched = True
            self.reporting += 1
        return consumer.in_hand

    def drop(self, consumer: Consumer) -> None:
        """Remove a consumer that has no pending entries."""
        del self.by_key[consumer.key]
        self.reporting -= consumer.in_hand is not None
        self.quarantined -= consumer.quarantined

    def deliver(
        self,
        consumer: Consumer,
        ledger_id: int,
        entry_id: int,
        remaining: int,
        sticky_key_hash: int,
        now_ms: int,
    ) -> None:
        """Make one entry pending at a consumer. The entry must not be pending at another consumer."""
        consumer.pending.add(ledger_id, entry_id, remaining, sticky_key_hash)
        consumer.permits -= remaining
        # The lines of `_grow` are repeated here to save a call for every message.
        consumer.unacked += remaining
        self.unacked += remaining
        if consumer.unacked >= self.full_at:
            consumer.blocked = True
        if self.unacked >= self._blocked_at:
            self.blocked = True
        if consumer.watched:
            self._watch(consumer, ledger_id, entry_id, now_ms)
        if self.draining.pending:
            self.draining.count_delivered(consumer.key, sticky_key_hash)

    def count(self, consumer: Consumer, messages: int) -> None:
        """Count messages that are delivered to a consumer.

        The permits of the consumer decrease by `messages`, and its number of unacknowledged messages
        increases by `messages`. The entries of these messages are added by `deliver_many`.
        """
        consumer.permits -= messages
        self._grow(consumer, messages)

    def deliver_many(
        self,
        consumer: Consumer,
        ledger_ids: Int64s,
        entry_ids: Int64s,
        remaining: Int64s | None,
        sticky_key_hashes: Int64s | None,
        now_ms: int,
    ) -> None:
        """Make many entries pending at a consumer. The caller counts their messages by `count`.

        If `remaining` is None, each entry has 1 remaining message. If `sticky_key_hashes` is None, each hash
        is 0.
        """
        import numpy as np

        if remaining is None:
            remaining = np.ones(len(ledger_ids), dtype=np.int64)
        if sticky_key_hashes is None:
            sticky_key_hashes = np.zeros(len(ledger_ids), dtype=np.int64)
        consumer.pending.add_many(ledger_ids, entry_ids, remaining, sticky_key_hashes)
        if consumer.timeouts is not None:
            consumer.timeouts.start_many(ledger_ids, entry_ids, now_ms)
        if consumer.in_hand is not None:
            consumer.in_hand.deliver_many(ledger_ids, entry_ids, consumer.pending)
        if self.draining.pending:
            for sticky_key_hash in sticky_key_hashes.tolist():
                self.draining.count_delivered(consumer.key, sticky_key_hash)

    def report_batch_size(self, consumer: Consumer, position: Position, batch_size: int) -> None:
        """Store the batch size of a pending entry if the setting `partial_ack_lowers_pending` is off.

        The method `pending` then returns this size. If the setting is on, nothing is stored.
        """
        if not self._settings.partial_ack_lowers_pending:
            consumer.as_delivered[position] = batch_size

    def pending(self, consumer: Consumer) -> dict[Position, PendingAck]:
        """Return the pending entries of a consumer.

        Each entry has the number of messages that a broker reports. This is the number of remaining messages,
        or the batch size if `partial_ack_lowers_pending` is off.
        """
        pending = {Position(*position): value for position, value in consumer.pending.items()}
        for position, batch_size in consumer.as_delivered.items():
            if position in pending:
                pending[position] = pending[position]._replace(remaining=batch_size)
        return pending

    def owner(self, ledger_id: int, entry_id: int, guess: Consumer | None = None) -> Consumer | None:
        """Return the consumer at which an entry is pending, or `None`.

        The search starts at the consumer `guess`. O(1) if the entry is pending there, else O(consumers).
        """
        if guess is not None and guess.pending.contains(ledger_id, entry_id):
            return guess
        for consumer in self:
            if consumer.pending.contains(ledger_id, entry_id):
                return consumer
        return None

    def remove_pending(
        self, ledger_id: int, entry_id: int, guess: Consumer | None = None
    ) -> tuple[Consumer, int] | None:
        """Remove a pending entry; return its consumer and its hash, or `None` if the entry is not pending."""
        consumer = self.owner(ledger_id, entry_id, guess)
        value = None if consumer is None else consumer.pending.remove_and_get(ledger_id, entry_id)
        if consumer is None or value is None:
            return None
        remaining, sticky_key_hash = value
        self._shrink(consumer, remaining)
        if consumer.as_delivered:
            consumer.as_delivered.pop(Position(ledger_id, entry_id), None)
        if self.draining.pending:
            self.draining.count_removed(consumer.key, sticky_key_hash)
        return consumer, sticky_key_hash

    def take_back(
        self, ledger_id: int, entry_id: int, guess: Consumer | None = None
    ) -> tuple[Consumer, int] | None:
        """Remove a pending entry as `remove_pending` does, and stop its ack timeout. O(timeout / tick)."""
        removed = self.remove_pending(ledger_id, entry_id, guess)
        if removed is not None and removed[0].timeouts is not None:
            removed[0].timeouts.stop(ledger_id, entry_id)
        return removed

    def remove_acknowledged(self, ledger_id: int, entry_id: int, guess: Consumer | None) -> None:
        """Remove an acknowledged entry from its consumer. Fast if this consumer is `guess`."""
        if guess is not None and not self.draining.pending:
            remaining = guess.pending.get_remaining(ledger_id, entry_id)
            if remaining is not None:
                guess.pending.remove(ledger_id, entry_id)
                self._shrink(guess, remaining)
                if guess.as_delivered:
                    guess.as_delivered.pop(Position(ledger_id, entry_id), None)
                return
        self.remove_pending(ledger_id, entry_id)

    def remove_acknowledged_many(self, guess: Consumer | None, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Remove acknowledged entries from the consumers at which they are pending; search `guess` first."""
        left = len(ledger_ids)
        others = (consumer for consumer in self if consumer is not guess)
        for consumer in (*(() if guess is None else (guess,)), *others):
            if left <= 0:
                return
            # An entry is pending at one consumer only, so an entry removed here is not found at the next
            # consumer.
            if len(consumer.pending):
                left -= self._take_many(consumer, ledger_ids, entry_ids)

    def reduce(
        self,
        ledger_id: int,
        entry_id: int,
        remaining: int,
        guess: Consumer | None = None,
        *,
        unblocks: bool,
    ) -> None:
        """Lower the number of remaining messages of a pending entry to `remaining`; 0 removes the entry."""
        consumer = guess
        before = None if consumer is None else consumer.pending.get_remaining(ledger_id, entry_id)
        if before is None:
            consumer = self.owner(ledger_id, entry_id)
            before = None if consumer is None else consumer.pending.get_remaining(ledger_id, entry_id)
        if consumer is None or before is None:
            return
        if remaining <= 0:
            self.remove_pending(ledger_id, entry_id, consumer)
        elif remaining < before:
            if not self._settings.partial_ack_lowers_pending:
                consumer.as_delivered.setdefault(Position(ledger_id, entry_id), before)
            consumer.pending.update_remaining(ledger_id, entry_id, before - remaining)
            self._shrink(consumer, before - remaining, unblocks=unblocks)

    def reduce_many(
        self,
        ledger_ids: Int64s,
        entry_ids: Int64s,
        remaining: Int64s,
        guess: Consumer | None,
        *,
        unblocks: bool,
    ) -> None:
        """Lower the numbers of remaining messages of many pending entries.

        `remaining` has the new number for each entry. Each new number is at least 1.
        """
        if guess is not None:
            lowered = guess.pending.lower_many(ledger_ids, entry_ids, remaining)
            here = lowered >= 0
            self._shrink(guess, int(lowered.sum(where=here)), unblocks=unblocks)
            if here.all():
                return
            ledger_ids, entry_ids, remaining = ledger_ids[~here], entry_ids[~here], remaining[~here]
        for row in zip(ledger_ids.tolist(), entry_ids.tolist(), remaining.tolist(), strict=True):
            self.reduce(*row, unblocks=unblocks)

    def take_all(self, consumer: Consumer) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Remove and return all pending entries of a consumer.

        The four arrays are ledger ids, entry ids, remaining messages and hashes, in position order.
        """
        pending = consumer.pending.to_arrays()
        consumer.pending.clear()
        consumer.as_delivered.clear()
        self._shrink(consumer, consumer.unacked)
        if consumer.timeouts is not None:
            consumer.timeouts.clear()
        if consumer.in_hand is not None:
            consumer.in_hand.clear()
        if self.draining.pending:
            self.draining.forget_consumer(consumer.key)
        return pending

    def unblock_returning(self, consumer: Consumer) -> None:
        """Unblock a consumer that returned messages, if it is below its limit.

        With `redelivery_unblocks`, unblock it in any case.
        """
        if self._settings.redelivery_unblocks or consumer.unacked < self.full_at:
            self._unblock(consumer)

    def grant(self, consumer: Consumer, permits: int) -> None:
        """Add permits to a consumer.

        The permits are withheld if the consumer is quarantined. With `reads_by_permits`, they are also
        withheld if it is blocked.
        """
        if self.is_full(consumer):
            consumer.blocked = True
        if consumer.quarantined or (consumer.blocked and self._settings.reads_by_permits):
            consumer.withheld += permits
        else:
            consumer.permits += permits

    def withhold(self, consumer: Consumer) -> None:
        """Withhold the permits of a consumer, so that no policy chooses it."""
        if not consumer.quarantined:
            consumer.quarantined = True
            self.quarantined += 1
            consumer.withheld += consumer.permits
            consumer.permits = 0

    def release(self, consumer: Consumer) -> None:
        """End the quarantine of a consumer. Its withheld permits become usable unless it is blocked."""
        consumer.quarantined = False
        self.quarantined -= 1
        if not consumer.blocked:
            self._unblock(consumer)

    def is_full(self, consumer: Consumer) -> bool:
        """Return whether a consumer has reached its limit of unacknowledged messages."""
        return consumer.unacked >= self.full_at

    def may_take_of_key(self, consumer: Consumer) -> bool:
        """Return whether the limit of a Key_Shared consumer allows a further message."""
        if consumer.blocked and not self._settings.key_shared_ignores_blocked:
            return False
        return consumer.unacked < self.full_at

    def forget_up_to(self, position: Position) -> None:
        """Remove all pending entries up to and including a position from their consumers."""
        for consumer in self:
            gone = consumer.pending.take_all_up_to(*position)
            for entry in [each for each in consumer.as_delivered if each <= position]:
                del consumer.as_delivered[entry]
            if len(gone[0]):
                self._shrink(consumer, int(gone[2].sum()))
                if self.draining.pending:
                    for sticky_key_hash in gone[3].tolist():
                        self.draining.count_removed(consumer.key, sticky_key_hash)

    def allowance(self, consumer: Consumer, *, new: bool = True) -> int:
        """Return the number of messages that a consumer can get before its permits or a limit stop it.

        An entry whose batch exceeds this number is still delivered whole if the number is at least 1, as in
        the broker.
        """
        if consumer.blocked:
            return 0
        allowance = min(consumer.permits, self.room(new=new))
        if self._settings.max_unacked_per_consumer:
            left = self._settings.max_unacked_per_consumer - consumer.unacked
            # A full consumer that is not blocked was unblocked by its request for redelivery.
            allowance = min(allowance, max(left, 1))
        return max(allowance, 0)

    def all_fit(self, consumers: Sequence[Consumer], messages: Sequence[float], largest: int) -> bool:
        """Return whether the consumers can get `messages` without reaching a limit.

        The result does not depend on the division of the messages into reads. `messages` has the number of
        messages for each consumer. `largest` is the number of messages in the largest entry. The result is
        also False if the permits that remain afterwards do not suffice for one more full read.
        """
        at_once = self.read_max
        total = sum(messages)
        left = sum(each.permits for each in consumers) - total
        if left < at_once or self.room() < NO_LIMIT or self.reach_limit(total):
            return False
        return all(
            not each.blocked
            and number <= each.permits
            and each.unacked + number + at_once * max(each.mean_batch_size + 1, largest) <= self.full_at
            for each, number in zip(consumers, messages, strict=True)
            if number
        )

    def reach_limit(self, messages: float) -> bool:
        """Return whether `messages` more unacknowledged messages reach the limit of the subscription."""
        return self.unacked + messages >= self._blocked_at

    @property
    def settings(self) -> SubscriptionSettings:
        """The settings of the subscription."""
        return self._settings

    @property
    def read_max(self) -> int:
        """The maximum number of entries in one read."""
        return self._settings.read_batch_size

    def readable(self) -> int:
        """Return the number of entries that a broker reads at once; at least 1.

        This is the greater of two numbers: the sum of the permits of all consumers, and the permits of the
        first unblocked consumer that has permits. The sum can be the smaller number, because permits can be
        negative.
        """
        first = next((each.permits for each in self if each.permits > 0 and not each.blocked), 1)
        return max(first, sum(each.permits for each in self))

    def room(self, *, new: bool = True) -> int:
        """Return how many messages can be delivered before the subscription reaches its limit.

        `new` is true for messages that were not delivered before.
        """
        limit = self._settings.max_unacked_per_subscription
        if not limit or self._settings.subscription_limit_at_read:
            return NO_LIMIT
        return 0 if new and self.blocked else max(limit - self.unacked, 0)

    @property
    def nbytes(self) -> int:
        """The heap bytes of the pending entries and of their ack-timeout deadlines."""
        return sum(
            consumer.pending.nbytes + (consumer.timeouts.nbytes if consumer.timeouts is not None else 0)
            for consumer in self
        )

    def validate(self) -> None:
        """Check the pending entries of every consumer. Check that each entry of `as_delivered` is pending."""
        for consumer in self:
            consumer.pending.validate()
            assert all(consumer.pending.contains(*position) for position in consumer.as_delivered)
            assert consumer.unacked >= 0, f"{consumer.key}: {consumer.unacked} unacked"

    def audit(self) -> list[str]:
        """Recompute every counter and flag from the pending entries; return a text for each wrong one."""
        found = []
        total = 0
        for consumer in self:
            unacked = sum(remaining for remaining, _ in consumer.pending.values())
            total += unacked
            if consumer.unacked != unacked:
                found.append(f"{consumer.key}: unacked is {consumer.unacked}, its entries sum to {unacked}")
            if self._wrongly_blocked(consumer, unacked):
                found.append(f"{consumer.key}: blocked is {consumer.blocked} at {unacked} unacked")
        if self.unacked != total:
            found.append(f"unacked is {self.unacked}, the consumers' entries sum to {total}")
        limit = self._settings.max_unacked_per_subscription
        if self.blocked != _blocked(self.blocked, total, limit):
            found.append(f"blocked is {self.blocked} at {total} unacked")
        return found

    def _wrongly_blocked(self, consumer: Consumer, unacked: int) -> bool:
        """Return whether a consumer's blocked flag contradicts its number of unacknowledged messages.

        If this number is between half of the limit and the limit, the flag can have either value.
        """
        settings, limit = self._settings, self._settings.max_unacked_per_consumer
        if limit == 0:
            return consumer.blocked
        if consumer.blocked:
            unblocks = settings.partial_ack_unblocks and settings.transaction_part_unblocks
            return unacked * 2 <= limit and unblocks
        return unacked >= limit and not settings.redelivery_unblocks

    def _take_many(self, consumer: Consumer, ledger_ids: Int64s, entry_ids: Int64s) -> int:
        """Remove those of the given entries that are pending at a consumer; return their number."""
        import numpy as np

        one_each = consumer.unacked == len(consumer.pending) and not self._settings.cursor.replace_ack_sets
        if one_each and not self.draining.pending and not consumer.as_delivered:
            # There are as many messages as entries, and each entry has at least one. So each has exactly one,
            # and no lookup is needed.
            removed = consumer.pending.remove_many(ledger_ids, entry_ids)
            self._shrink(consumer, removed)
            return removed
        remaining, hashes = consumer.pending.get_many(ledger_ids, entry_ids)
        pending = remaining >= 0
        removed = consumer.pending.remove_many(ledger_ids, entry_ids)
        if consumer.as_delivered:
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                consumer.as_delivered.pop(Position(*pair), None)
        if removed:
            if removed < np.count_nonzero(pending):
                # A position that is listed twice counts once.
                rows = np.stack([ledger_ids, entry_ids], axis=1)
                first = np.zeros(len(pending), dtype=np.bool_)
                first[np.unique(rows, axis=0, return_index=True)[1]] = True
                taken = pending & first
            else:
                taken = pending
            self._shrink(consumer, int(remaining.sum(where=taken)))
            if self.draining.pending:
                for sticky_key_hash in hashes[taken].tolist():
                    self.draining.count_removed(consumer.key, sticky_key_hash)
        return removed

    def _watch(self, consumer: Consumer, ledger_id: int, entry_id: int, now_ms: int) -> None:
        if consumer.timeouts is not None:
            consumer.timeouts.start(ledger_id, entry_id, now_ms)
        if consumer.in_hand is not None:
            consumer.in_hand.deliver(Position(ledger_id, entry_id), consumer.pending)

    def _grow(self, consumer: Consumer, messages: int) -> None:
        consumer.unacked += messages
        self.unacked += messages
        if consumer.unacked >= self.full_at:
            consumer.blocked = True
        if self.unacked >= self._blocked_at:
            self.blocked = True

    def _shrink(self, consumer: Consumer, messages: int, *, unblocks: bool = True) -> None:
        # Every decrease checks the flags (apache/pulsar#22657: some did not).
        consumer.unacked -= messages
        self.unacked -= messages
        if consumer.blocked and unblocks and consumer.unacked * 2 <= self.full_at:
            self._unblock(consumer)
        if self.blocked and self.unacked * 2 < self._blocked_at:
            self.blocked = False

    def _unblock(self, consumer: Consumer) -> None:
        consumer.blocked = False
        if not consumer.quarantined:
            consumer.permits += consumer.withheld
            consumer.withheld = 0


def _blocked(now: bool, unacked: int, limit: int) -> bool:
    """Return the value that a blocked flag must have. `now` is its present value.

    If the number of unacknowledged messages is between half of the limit and the limit, the flag keeps its
    value.
    """
    if limit == 0 or unacked * 2 < limit:
        return False
    return True if unacked >= limit else now
