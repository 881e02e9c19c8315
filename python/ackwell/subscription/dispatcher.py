"""Dispatch: which positions to read, and who gets each entry that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ackwell.ack_sets import all_messages
from ackwell.position import Position

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.cursor import Cursor
    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.offered import Offered
    from ackwell.subscription.outstanding import Outstanding
    from ackwell.subscription.policies import Policy
    from ackwell.subscription.redelivery import Redelivery
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.settings import SubscriptionSettings
    from ackwell.subscription.transactions import Transactions
    from ackwell.subscription.unread import Unread

    Int64s = NDArray[np.int64]


class Delivery(NamedTuple):
    """A run of entries for one consumer, in the order in which it is to get them."""

    consumer: str
    ledger_ids: Int64s
    entry_ids: Int64s
    redelivery_counts: Int64s | None
    """`None` where no entry of the subscription was ever redelivered."""


class Dispatcher:
    """Hands out what is owed again and what is unread, as the subscription's policy says.

    An entry that nobody gets stays where it was: unread, or in the replay queue; so does one that is
    offered ahead of an unread one, for nothing may be skipped. Only where order per
    key rules is an unread one passed over, into the queue, so that those of other keys can go on; the
    hash of an entry that had to wait is *held* until the next round, so that no later entry of it
    slips by when permits arrive in mid-round.
    """

    def __init__(
        self,
        cursor: Cursor,
        settings: SubscriptionSettings,
        policy: Policy,
        outstanding: Outstanding,
        replay: ReplayQueue,
        redelivery: Redelivery,
        transactions: Transactions,
        unread: Unread,
        delayed: DelayedMessages | None,
    ) -> None:
        self._cursor = cursor
        self._settings = settings
        self._policy = policy
        self._outstanding = outstanding
        self._replay = replay
        self._redelivery = redelivery
        self._transactions = transactions
        self._unread = unread
        self._delayed = delayed
        self._held: set[int] = set()

    def next_reads(self, limit: int) -> tuple[Int64s, Int64s]:
        """Name the positions to read next, ledger ids and entry ids."""
        import numpy as np

        self._held.clear()
        empty = np.empty(0, dtype=np.int64)
        if limit <= 0 or not self._policy.available():
            return empty, empty
        again = self._owed_again(limit)
        ledger_ids, entry_ids = empty, empty
        if len(again) < limit and self._may_look_ahead():
            ledger_ids, entry_ids = self._unread.first(limit - len(again))
        if not again:
            return ledger_ids, entry_ids
        columns = np.array(again, dtype=np.int64).T
        return np.concatenate([columns[0], ledger_ids]), np.concatenate([columns[1], entry_ids])

    def dispatch(
        self,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        batch_size: int,
        sticky_key_hash: int,
        deliver_at_ms: int,
    ) -> str | None:
        """Decide who gets one entry, and hand it over."""
        if batch_size < 1:
            raise ValueError(f"batch size {batch_size}; an entry holds at least one message")
        unread = self._unread
        new = unread.position <= (ledger_id, entry_id)
        if new:
            if unread.position != (ledger_id, entry_id) and not unread.is_next(ledger_id, entry_id):
                return None
        elif not self._replay.contains(ledger_id, entry_id):
            return None
        consumer = None
        if not self._stops(ledger_id, entry_id, now_ms, deliver_at_ms if new else now_ms):
            consumer = self._choose(new, sticky_key_hash)
            if consumer is None:
                self._wait(new, ledger_id, entry_id, sticky_key_hash)
                return None
        if new:
            unread.position = ledger_id, entry_id + 1
        else:
            self._replay.discard(ledger_id, entry_id)
        if consumer is None:
            return None
        remaining = 1 if batch_size == 1 else self._remaining(ledger_id, entry_id, batch_size)
        if self._policy.individual:
            self._outstanding.deliver(consumer, ledger_id, entry_id, remaining, sticky_key_hash, now_ms)
        else:
            consumer.permits -= remaining
        return consumer.name

    def dispatch_many(self, offered: Offered, now_ms: int) -> list[Delivery]:
        """Decide for many entries, whole runs at once where nothing is out of the ordinary."""
        import numpy as np

        again, new = offered.split(self._unread.position)
        deliveries = self._one_by_one(again, now_ms)
        if not new.entries:
            return deliveries
        consumers = list(self._outstanding.consumers.values())
        owners = None
        if new.follows(*self._unread.first(new.entries)) and not self._needs_a_look(new, now_ms):
            owners = self._policy.choose_many(consumers, new.sizes, new.hashes, new.entries)
        if owners is None:
            return deliveries + self._one_by_one(new, now_ms)
        # Those that nobody gets are the last ones; they stay unread.
        served = int(np.count_nonzero(owners >= 0))
        if served:
            self._unread.position = int(new.ledger_ids[served - 1]), int(new.entry_ids[served - 1]) + 1
        groups = [new.pick(slice(served))] if len(consumers) == 1 else new.grouped(owners, len(consumers))
        for consumer, mine in zip(consumers, groups, strict=True):
            if mine.entries:
                deliveries.append(self._hand_over(consumer, mine, now_ms))
        return deliveries

    def delivered(
        self, consumer: Consumer, position: Position, now_ms: int, batch_size: int, sticky_key_hash: int
    ) -> None:
        """Hand an entry over as somebody else decided."""
        if position >= self._unread.position:
            if position != self._unread.position:
                for skipped in self._unread.before(position):
                    self._replay.add(*skipped)
            self._unread.position = position.ledger_id, position.entry_id + 1
        else:
            self._replay.discard(*position)
        remaining = 1 if batch_size == 1 else self._remaining(*position, batch_size)
        if self._policy.individual and self._unread.wanted(*position):
            self._outstanding.settle(*position, consumer)
            self._outstanding.deliver(consumer, *position, remaining, sticky_key_hash, now_ms)
        else:
            consumer.permits -= remaining

    def _owed_again(self, limit: int) -> list[Position]:
        if not self._replay.active:
            return []
        if not self._policy.by_key:
            return self._replay.first(limit)
        found: list[Position] = []
        blocked: set[int] = set()
        for position in self._replay.positions():
            if len(found) == limit:
                break
            sticky_key_hash = self._replay.hash_of(position)
            if sticky_key_hash in blocked:
                continue
            if sticky_key_hash and self._policy.choose(sticky_key_hash) is None:
                blocked.add(sticky_key_hash)
            else:
                found.append(position)
        return found

    def _may_look_ahead(self) -> bool:
        """Return whether more may be read while so much waits for its key."""
        if not self._policy.by_key:
            return True
        settings, limits = self._settings, []
        if settings.look_ahead_per_consumer:
            limits.append(settings.look_ahead_per_consumer * len(self._outstanding.consumers))
        if settings.look_ahead_per_subscription:
            limits.append(settings.look_ahead_per_subscription)
        return len(self._replay) < min(limits, default=2**62)

    def _stops(self, ledger_id: int, entry_id: int, now_ms: int, deliver_at_ms: int) -> bool:
        """Return whether an entry goes to no consumer at all: acknowledged, dead, or delayed.

        Only a new entry is delayed: one that the tracker let go is not given back to it.
        """
        if not self._unread.wanted(ledger_id, entry_id):
            return True
        if self._redelivery.active and self._redelivery.is_dead(ledger_id, entry_id):
            return True
        return (
            deliver_at_ms > now_ms
            and self._delayed is not None
            and self._delayed.add(deliver_at_ms, ledger_id, entry_id, now_ms)
        )

    def _choose(self, new: bool, sticky_key_hash: int) -> Consumer | None:
        if self._policy.by_key and (
            sticky_key_hash in self._held or (new and self._replay.waits(sticky_key_hash))
        ):
            return None
        return self._policy.choose(sticky_key_hash)

    def _wait(self, new: bool, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        if self._policy.by_key:
            self._held.add(sticky_key_hash)
            self._replay.add(ledger_id, entry_id, sticky_key_hash)
            if new:
                self._unread.position = ledger_id, entry_id + 1

    def _remaining(self, ledger_id: int, entry_id: int, batch_size: int) -> int:
        """Count the messages of a batch that are neither acknowledged nor held by a transaction."""
        unacked = self._cursor.unacked_bits(ledger_id, entry_id)
        bits = all_messages(batch_size) if unacked is None else unacked
        return (bits & ~self._transactions.held_bits(Position(ledger_id, entry_id))).bit_count()

    def _needs_a_look(self, new: Offered, now_ms: int) -> bool:
        """Return whether one of these entries may be other than plainly next: delayed, in part, dead."""
        return (
            (self._delayed is not None and new.asks_for_delay(now_ms))
            or (new.sizes is not None and (bool(self._transactions.open) or self._cursor.partly_acked > 0))
            or (self._settings.max_redeliver_count is not None and self._redelivery.active)
        )

    def _one_by_one(self, offered: Offered, now_ms: int) -> list[Delivery]:
        rows: dict[str, list[int]] = {}
        for index, row in enumerate(offered.rows()):
            ledger_id, entry_id, batch_size, sticky_key_hash, deliver_at_ms = row
            name = self.dispatch(ledger_id, entry_id, now_ms, batch_size, sticky_key_hash, deliver_at_ms)
            if name is not None:
                rows.setdefault(name, []).append(index)
        return [self._delivery(name, offered.at(indexes)) for name, indexes in rows.items()]

    def _hand_over(self, consumer: Consumer, mine: Offered, now_ms: int) -> Delivery:
        sizes: Int64s | int = 1 if mine.sizes is None else mine.sizes
        if self._policy.individual:
            hashes: Int64s | int = 0 if mine.hashes is None else mine.hashes
            self._outstanding.deliver_many(consumer, mine.ledger_ids, mine.entry_ids, sizes, hashes, now_ms)
        else:
            consumer.permits -= mine.entries if isinstance(sizes, int) else int(sizes.sum())
        return self._delivery(consumer.name, mine)

    def _delivery(self, name: str, offered: Offered) -> Delivery:
        counts = self._redelivery.counts_of(offered.ledger_ids, offered.entry_ids)
        return Delivery(name, offered.ledger_ids, offered.entry_ids, counts)
