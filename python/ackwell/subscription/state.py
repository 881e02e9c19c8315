"""The state of a subscription. Dispatch, acknowledgments, redelivery and moves share it.

Every existing entry is in exactly one of these places: acknowledged (`cursor`), held whole by an open
transaction (`transactions`), pending at a consumer (`consumers`), queued for redelivery (`replay`), waiting
for its delivery time (`delayed`), a dead letter (`counts`), or unread (`unread`). On Exclusive and Failover
the pending entries are not tracked, because the active consumer has every entry before the read position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackwell.integers import INT64_MAX
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription.backoffs import Backoffs
from ackwell.subscription.consumers import Consumers
from ackwell.subscription.kinds import policy_of
from ackwell.subscription.positions_by_hash import PositionsByHash
from ackwell.subscription.redelivery_counts import RedeliveryCounts
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.transactions import Transactions
from ackwell.subscription.unread import UnreadEntries

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.cursor import Cursor
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.policies import Policy
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.structures import Structures
    from ackwell.subscription.subscription_settings import SubscriptionSettings


@dataclass(slots=True, kw_only=True)
class State:
    """The parts of a subscription's state."""

    kind: SubscriptionType
    topic: str | None
    partition: int | None
    settings: SubscriptionSettings
    structures: Structures
    cursor: Cursor
    consumers: Consumers
    replay: ReplayQueue
    counts: RedeliveryCounts
    backoffs: Backoffs
    transactions: Transactions
    unread: UnreadEntries
    policy: Policy
    tracker: DelayedMessages | None
    """The tracker of delayed messages that was passed to the subscription, or `None`."""
    delayed: DelayedMessages | None
    """The same tracker if the subscription type delays messages (Shared and Key_Shared); else `None`."""
    retrying: PositionsByHash
    """The messages that are not queued for redelivery and block later messages of their hash.

    Such a message is in its back-off. Or an open transaction acknowledged it while it waited for redelivery.
    With `nack_holds_until_acked`, a negatively acknowledged message stays here until it is acknowledged.
    """

    def change_type(self, kind: SubscriptionType, selector: Selector | None) -> None:
        """Change the subscription type, and make all unacknowledged messages unread.

        No consumer may be connected.
        """
        replay = ReplayQueue(
            self.structures,
            by_key=kind is SubscriptionType.KEY_SHARED,
            keeps_places=self.settings.reads_by_permits,
        )
        policy = policy_of(kind, self.consumers, replay, self.settings, selector, self.topic, self.partition)
        self.kind, self.replay, self.policy = kind, replay, policy
        # Which messages block their hash depends on the new type.
        self.start_over()
        self.delayed = self.tracker if self.policy.individual else None

    def set_limits(self, settings: SubscriptionSettings) -> None:
        """Replace the settings, and update the limits of the consumers."""
        self.settings = settings
        self.consumers.set_limits(settings)

    @property
    def holds_waiting(self) -> bool:
        """Whether a message blocks later messages of its hash while it waits for redelivery."""
        return self.policy.in_key_order and self.settings.waiting_holds_key

    @property
    def holds_until_acked(self) -> bool:
        """Whether a negatively acknowledged message blocks later messages of its hash until acknowledged."""
        return self.policy.in_key_order and self.settings.nack_holds_until_acked

    def give_back(self, ledger_id: int, entry_id: int, sticky_key_hash: int | None) -> None:
        """Queue an entry that was pending at a consumer. If its hash is known, the entry blocks its hash."""
        self.backoffs.stop(ledger_id, entry_id)
        self.replay.add(ledger_id, entry_id, sticky_key_hash)
        self.stop_retrying(ledger_id, entry_id)

    def give_back_many(self, ledger_ids: Int64s, entry_ids: Int64s, sticky_key_hashes: Int64s) -> None:
        """Queue many entries that were pending at consumers."""
        self.backoffs.stop_many(ledger_ids, entry_ids)
        self.replay.add_many(ledger_ids, entry_ids, sticky_key_hashes)
        if self.retrying.active:
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.stop_retrying(*pair)

    def stop_retrying(self, ledger_id: int, entry_id: int) -> None:
        """Remove an entry from `retrying`, because it is queued or unread again.

        With `nack_holds_until_acked`, the entry stays in `retrying` until it is acknowledged.
        """
        if self.retrying.active and not self.settings.nack_holds_until_acked:
            self.retrying.discard(ledger_id, entry_id)

    def block_held_hashes(self) -> None:
        """Block the key hashes of waiting messages that an open transaction acknowledged."""
        if self.holds_waiting:
            for position, sticky_key_hash in self._held_waiting().items():
                self.retrying.add(*position, sticky_key_hash)

    def forget(self, ledger_id: int, entry_id: int) -> None:
        """Remove an acknowledged entry from all parts of the state except its consumer."""
        if self.replay.active:
            self.replay.acknowledge(ledger_id, entry_id)
        self.counts.reset(ledger_id, entry_id)
        self.backoffs.stop(ledger_id, entry_id)
        if self.retrying.active:
            self.retrying.discard(ledger_id, entry_id)
        self.transactions.forget_plain(Position(ledger_id, entry_id))

    def forget_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Remove many acknowledged entries from all parts of the state except their consumers."""
        if self.replay.active:
            self.replay.acknowledge_many(ledger_ids, entry_ids)
        self.counts.reset_many(ledger_ids, entry_ids)
        self.backoffs.stop_many(ledger_ids, entry_ids)
        if self.retrying.active:
            for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
                self.retrying.discard(*pair)
        self.transactions.forget_plain_many(ledger_ids, entry_ids)

    def forget_acknowledged(self) -> None:
        """Remove all entries up to the mark-delete position from all parts of the state.

        Call this method after the mark-delete position has moved past unacknowledged entries.
        """
        mark_delete = self.cursor.mark_delete_position
        self.consumers.forget_up_to(mark_delete)
        self.transactions.forget_plain_up_to(mark_delete)
        self.backoffs.forget_up_to(mark_delete)
        self._forget_waiting_up_to(mark_delete)
        self.unread.skip_acknowledged()

    def forget_trimmed(self) -> None:
        """Remove the entries of trimmed ledgers from the queue, the redelivery counts and `retrying`.

        This method runs before each read. Without a trimmed ledger it costs nothing. An entry in its back-off
        is dropped when the back-off ends.
        """
        trimmed_before = self.cursor.ledgers.trimmed_before
        if trimmed_before > 0 and (self.replay.active or self.counts.active or self.retrying.active):
            self._forget_waiting_up_to(Position(trimmed_before - 1, INT64_MAX))

    def read_again(self) -> None:
        """Make all unacknowledged entries unread, on Exclusive and Failover.

        All back-offs end. The set of dead letters is cleared. When a dead letter is read again, it is added
        again.
        """
        self.unread.rewind()
        self.backoffs.clear()
        self.counts.forget_dead()

    def change_active(self) -> None:
        """Make all unacknowledged entries unread, because another consumer becomes active.

        No consumer has entries in hand afterwards.
        """
        for consumer in self.consumers:
            if consumer.in_hand is not None:
                consumer.in_hand.clear()
        self.read_again()

    def key_waits(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        """Return whether an earlier message of this hash must be delivered before the given entry."""
        if self.retrying.active and self.retrying.has_earlier(ledger_id, entry_id, sticky_key_hash):
            return True
        if not self.replay.active:
            return False
        if self.replay.has_earlier(ledger_id, entry_id, sticky_key_hash):
            return True
        return self.settings.waiting_holds_key and self.replay.has_earlier_unknown(ledger_id, entry_id)

    def start_over(self) -> None:
        """Remove all pending entries from the consumers, and make all unacknowledged entries unread.

        The redelivery counts do not change.
        """
        for consumer in self.consumers:
            self.consumers.take_all(consumer)
        self.replay.clear()
        self.retrying.clear()
        if self.delayed is not None:
            self.delayed.clear()
        self.read_again()
        self.block_held_hashes()

    def validate(self) -> None:
        """Check each part. O(entries)."""
        self.cursor.validate()
        self.consumers.validate()
        self.replay.validate()
        self.counts.validate()
        self.backoffs.validate()
        self.retrying.validate()
        self.transactions.validate()

    def audit_retrying(self) -> list[str]:
        """Recompute `retrying`: the messages that are not queued and block later messages of their hash.

        Return a text if the stored messages differ from the recomputed ones.
        """
        found: dict[Position, int] = {}
        if self.holds_waiting:
            for consumer in self.consumers:
                waiting = (p for p in self.backoffs.due_ms if p in consumer.pending)
                found.update((p, consumer.pending[p].sticky_key_hash) for p in waiting)
            found |= self._held_waiting()
        # Entries of trimmed ledgers are not compared, because the next read drops them.
        before = self.cursor.ledgers.trimmed_before
        found = {p: sticky_key_hash for p, sticky_key_hash in found.items() if p.ledger_id >= before}
        everything = self.retrying.positions().items()
        retrying = {p: sticky_key_hash for p, sticky_key_hash in everything if p.ledger_id >= before}
        if self.holds_until_acked:
            lost = found.items() - retrying.items() | {p for p in retrying if self.cursor.is_acked(*p)}
            return [f"retrying is {retrying}, which contradicts {lost}"] if lost else []
        return [] if found == retrying else [f"retrying is {retrying}, expected {found}"]

    def _held_waiting(self) -> dict[Position, int]:
        """Return the held entries that waited for redelivery, as a map from position to hash.

        Open transactions hold all unacknowledged messages of each of these entries.
        """
        return {
            position: sticky_key_hash
            for position, sticky_key_hash in self.transactions.waited()
            if not self.unread.needs_delivery(*position) and not self.cursor.is_acked(*position)
        }

    def _forget_waiting_up_to(self, position: Position) -> None:
        self.replay.remove_up_to(position)
        self.counts.forget_up_to(position)
        if self.retrying.active:
            self.retrying.remove_up_to(position)


def new_state(
    kind: SubscriptionType,
    cursor: Cursor,
    settings: SubscriptionSettings,
    selector: Selector | None,
    tracker: DelayedMessages | None,
    topic: str | None,
    partition: int | None,
    structures: Structures,
) -> State:
    """Return the state of a new subscription without consumers. All unacknowledged entries are unread."""
    consumers = Consumers(structures, settings)
    replay = ReplayQueue(
        structures,
        by_key=kind is SubscriptionType.KEY_SHARED,
        keeps_places=settings.reads_by_permits,
    )
    transactions = Transactions(keeps_parts=settings.transactions_keep_parts)
    policy = policy_of(kind, consumers, replay, settings, selector, topic, partition)
    return State(
        kind=kind,
        topic=topic,
        partition=partition,
        settings=settings,
        structures=structures,
        cursor=cursor,
        consumers=consumers,
        replay=replay,
        counts=RedeliveryCounts(structures, settings.max_redeliver_count),
        backoffs=Backoffs(structures, settings.nack_backoff),
        retrying=PositionsByHash(structures),
        transactions=transactions,
        unread=UnreadEntries(cursor, transactions),
        policy=policy,
        tracker=tracker,
        delayed=tracker if policy.individual else None,
    )
