"""The connected consumers, and their pending entries: those delivered and not yet acknowledged.

Only this module changes pending entries and their counters. A counter changes by the difference between the
old and the new remaining count of an entry that is pending, and never by the number that a client claims to
have acknowledged. So a counter cannot drift or become negative (apache/pulsar#759, #96, #6510: negative
counters stop dispatch).

Two limits stop deliveries. A consumer at its limit is blocked until half of its messages are acknowledged, or
until it returns messages. At the limit of the subscription, no new entry is delivered until the number of
unacknowledged messages is less than half of the limit. A returned entry is redelivered as soon as the number
is below the limit. With `subscription_limit_at_read` the second limit stops only the reading of new entries,
as in the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.position import Position
from ackwell.subscription.ack_timeouts import AckTimeouts
from ackwell.subscription.consumer import Consumer
from ackwell.subscription.draining import DrainingHashes
from ackwell.subscription.in_hand import InHand
from ackwell.subscription.subscription_settings import LostCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackwell.arrays import Int64s
    from ackwell.pending_ack import PendingAck
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.structures import Structures
    from ackwell.subscription.subscription_settings import SubscriptionSettings


NO_LIMIT: Final = 2**62
"""A limit above any number of messages."""


class _ByKey(dict["ConsumerKey", "Consumer"]):
    """A dictionary from key to consumer. Its native lookup finds a connected consumer without Python code."""

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
        self.by_key = _ByKey()
        """Key → connected consumer; an unknown key raises `ProtocolError`."""
        self.unacked = 0
        """The messages pending at all consumers."""
        self.blocked = False
        """Whether the subscription reached its limit, and still has at least half of it."""
        self.draining = DrainingHashes()
        self.reporting = 0
        """The number of consumers that report their entries in hand."""
        self.quarantined = 0
        """The number of consumers whose permits are withheld by the quarantine."""

    def set_limits(self, settings: SubscriptionSettings) -> None:
        """Change the limits. The next acknowledgment updates the blocked flags."""
        self._settings = settings
        self.full_at = settings.max_unacked_per_consumer or NO_LIMIT
        """The limit of one consumer."""
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
        """The entries pending at all consumers."""
        return sum(len(consumer.pending) for consumer in self)

    def join(
        self, key: ConsumerKey, name: str, priority: int, epoch: int, concurrency: int | None = None
    ) -> Consumer:
        """Add a consumer without permits and return it; `ProtocolError` if its key is in use."""
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

    def report(self, consumer: Consumer, concurrency: int | None) -> InHand | None:
        """Start to record the entries that a consumer has in hand (see `in_hand`).

        Return None if the setting `lost_counts` does not need these entries.
        """
        if consumer.in_hand is None and self._settings.lost_counts is LostCounts.IN_HAND:
            consumer.in_hand = InHand(concurrency)
            consumer.watched = True
            self.reporting += 1
        return consumer.in_hand

    def drop(self, consumer: Consumer) -> None:
        """Remove a consumer that has nothing pending."""
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
        """Deliver one entry to a consumer. The entry must not be pending at another consumer."""
        consumer.pending.add(ledger_id, entry_id, remaining, sticky_key_hash)
        consumer.permits -= remaining
        # Does the same as `_grow` without a call, because every message passes here.
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
        """Add delivered messages to the counters of a consumer; `deliver_many` adds the entries."""
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
        """Add delivered entries whose messages `count` has counted.

        Without `remaining`, each entry has 1 remaining message. Without hashes, each hash is 0.
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
        """Store the batch size of an entry for `pending`, unless `partial_ack_lowers_pending` is set."""
        if not self._settings.partial_ack_lowers_pending:
            consumer.as_delivered[position] = batch_size

    def pending(self, consumer: Consumer) -> dict[Position, PendingAck]:
        """Return a consumer's pending entries with the counts that the broker would report."""
        pending = {Position(*position): value for position, value in consumer.pending.items()}
        for position, batch_size in consumer.as_delivered.items():
            if position in pending:
                pending[position] = pending[position]._replace(remaining=batch_size)
        return pending

    def owner(self, ledger_id: int, entry_id: int, guess: Consumer | None = None) -> Consumer | None:
        """Return the consumer that has an entry.

        The search starts at `guess`. O(1) if `guess` has it, else O(consumers).
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
        """Remove a pending entry; return its consumer and its hash, or `None` if it is not pending."""
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
        """Do the same as `remove_pending`, and stop the ack timeout of the entry. O(timeout / tick)."""
        settled = self.remove_pending(ledger_id, entry_id, guess)
        if settled is not None and settled[0].timeouts is not None:
            settled[0].timeouts.stop(ledger_id, entry_id)
        return settled

    def remove_acknowledged(self, ledger_id: int, entry_id: int, guess: Consumer | None) -> None:
        """Remove an acknowledged entry from its consumer. Fast if `guess` has the entry."""
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
        """Remove many acknowledged entries from their consumers; search `guess` first."""
        left = len(ledger_ids)
        others = (consumer for consumer in self if consumer is not guess)
        for consumer in (*(() if guess is None else (guess,)), *others):
            if left <= 0:
                return
            # An entry is pending at one consumer only, so removed entries do not affect the next one.
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
        """Lower the number of remaining messages of a pending entry; 0 removes the entry."""
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
        """Lower the numbers of remaining messages of many pending entries in order.

        Each number is at least 1.
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
        """Remove all pending entries of a consumer.

        Returns ledger ids, entry ids, remaining messages and hashes, in position order.
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
        """Unblock a consumer that returned messages, if it is below its limit or the settings permit it."""
        if self._settings.redelivery_unblocks or consumer.unacked < self.full_at:
            self._unblock(consumer)

    def grant(self, consumer: Consumer, permits: int) -> None:
        """Add permits to a consumer."""
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
        """Give the withheld permits back to a consumer, unless it is blocked."""
        consumer.quarantined = False
        self.quarantined -= 1
        if not consumer.blocked:
            self._unblock(consumer)

    def is_full(self, consumer: Consumer) -> bool:
        """Return whether a consumer has reached its limit of unacknowledged messages."""
        return consumer.unacked >= self.full_at

    def may_take_of_key(self, consumer: Consumer) -> bool:
        """Return whether the limit of a Key_Shared consumer permits one more message."""
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

        The entry that exceeds the limit is still delivered whole, as the broker delivers a batch.
        """
        if consumer.blocked:
            return 0
        allowance = min(consumer.permits, self.room(new=new))
        if self._settings.max_unacked_per_consumer:
            left = self._settings.max_unacked_per_consumer - consumer.unacked
            # A consumer that is full and not blocked has requested redelivery.
            allowance = min(allowance, max(left, 1))
        return max(allowance, 0)

    def all_fit(self, consumers: Sequence[Consumer], messages: Sequence[float], largest: int) -> bool:
        """Return whether the consumers can get messages without reaching a limit, for any split into reads.

        `messages` has the number of messages for each consumer. `largest` is the number of messages in the
        largest entry. Enough permits must remain for the next read to be full.
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
        """The limits and delays."""
        return self._settings

    @property
    def read_max(self) -> int:
        """The maximum number of entries in one read."""
        return self._settings.read_batch_size

    def readable(self) -> int:
        """Return the number of entries that a broker reads at once: one for each permit of all consumers."""
        first = next((each.permits for each in self if each.permits > 0 and not each.blocked), 1)
        return max(first, sum(each.permits for each in self))

    def room(self, *, new: bool = True) -> int:
        """Return how many messages can be delivered before the subscription reaches its limit."""
        limit = self._settings.max_unacked_per_subscription
        if not limit or self._settings.subscription_limit_at_read:
            return NO_LIMIT
        return 0 if new and self.blocked else max(limit - self.unacked, 0)

    @property
    def nbytes(self) -> int:
        """The heap bytes of all pending entries and their deadlines."""
        return sum(
            consumer.pending.nbytes + (consumer.timeouts.nbytes if consumer.timeouts is not None else 0)
            for consumer in self
        )

    def validate(self) -> None:
        """Check the pending entries of every consumer, and that its entries in `as_delivered` are pending."""
        for consumer in self:
            consumer.pending.validate()
            assert all(consumer.pending.contains(*position) for position in consumer.as_delivered)
            assert consumer.unacked >= 0, f"{consumer.key}: {consumer.unacked} unacked"

    def audit(self) -> list[str]:
        """Recompute every counter and flag from the pending entries; return a text for each that differs."""
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
        """Return whether the blocked flag is wrong.

        Between half of the limit and the limit both values are valid.
        """
        settings, limit = self._settings, self._settings.max_unacked_per_consumer
        if limit == 0:
            return consumer.blocked
        if consumer.blocked:
            unblocks = settings.partial_ack_unblocks and settings.transaction_part_unblocks
            return unacked * 2 <= limit and unblocks
        return unacked >= limit and not settings.redelivery_unblocks

    def _take_many(self, consumer: Consumer, ledger_ids: Int64s, entry_ids: Int64s) -> int:
        """Remove those of the entries that are pending at a consumer; return their number."""
        import numpy as np

        one_each = consumer.unacked == len(consumer.pending) and not self._settings.cursor.replace_ack_sets
        if one_each and not self.draining.pending and not consumer.as_delivered:
            # Each entry has at least one message, so here each has exactly one and needs no lookup.
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
    """Return the right value of a blocked flag.

    If the count is between half of the limit and the limit, the flag keeps its value.
    """
    if limit == 0 or unacked * 2 < limit:
        return False
    return True if unacked >= limit else now
