"""Everything that a subscription knows, in one place that its parts share.

Every existing entry is in exactly one of these places: acknowledged (`cursor`), held whole by an open
transaction (`transactions`), pending at a consumer (`consumers`), queued to be delivered again
(`replay`), waiting for its time (`delayed`), a dead letter (`counts`), or unread (`unread`). Where one
consumer is active, what it was sent is not tracked: an entry before the read position is with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackwell.position import Position
from ackwell.protocol.codes import SubscriptionType
from ackwell.subscription.backoffs import Backoffs
from ackwell.subscription.consumers import Consumers
from ackwell.subscription.kinds import policy_of
from ackwell.subscription.redelivery_counts import RedeliveryCounts
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.transactions import Transactions
from ackwell.subscription.unread import Unread

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.cursor import Cursor
    from ackwell.subscription.delayed_messages import DelayedMessages
    from ackwell.subscription.policies import Policy
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.settings import SubscriptionSettings
    from ackwell.subscription.structures import Structures


@dataclass(slots=True, kw_only=True)
class State:
    """The state that dispatch, acknowledgment, redelivery and seeks work on."""

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
    unread: Unread
    policy: Policy
    tracker: DelayedMessages | None
    """What the subscription was given to hold delayed messages."""
    delayed: DelayedMessages | None
    """The same, where the type delays messages."""
    held_hashes: set[int] = field(default_factory=set)
    """The hashes that had to wait in this round of dispatch; none of them goes out before the next."""

    def become(self, kind: SubscriptionType, selector: Selector | None) -> None:
        """Change to another type, with everything unacknowledged unread. No consumer is connected."""
        replay = ReplayQueue(self.structures, by_key=kind is SubscriptionType.KEY_SHARED)
        policy = policy_of(kind, self.consumers, replay, self.settings, selector, self.topic, self.partition)
        self.start_over()
        self.kind, self.replay, self.policy = kind, replay, policy
        self.delayed = self.tracker if self.policy.individual else None

    def limit(self, settings: SubscriptionSettings) -> None:
        """Take other limits."""
        self.settings = settings
        self.consumers.limit(settings)

    def forget(self, ledger_id: int, entry_id: int) -> None:
        """Drop what is known of an entry that is acknowledged, its consumer apart."""
        if self.replay.active:
            self.replay.discard(ledger_id, entry_id)
        self.counts.reset(ledger_id, entry_id)
        self.backoffs.stop(ledger_id, entry_id)
        self.transactions.forget_plain(Position(ledger_id, entry_id))

    def forget_many(self, ledger_ids: Int64s, entry_ids: Int64s) -> None:
        """Drop what is known of many entries that are acknowledged, their consumers apart."""
        if self.replay.active:
            self.replay.discard_many(ledger_ids, entry_ids)
        self.counts.reset_many(ledger_ids, entry_ids)
        self.backoffs.stop_many(ledger_ids, entry_ids)
        self.transactions.forget_plain_many(ledger_ids, entry_ids)

    def forget_acknowledged(self) -> None:
        """Drop what is at or before the mark-delete position, which moved past unacknowledged entries."""
        mark_delete = self.cursor.mark_delete_position
        self.consumers.forget_up_to(mark_delete)
        self.transactions.forget_plain_up_to(mark_delete)
        self._forget_up_to(mark_delete)
        self.unread.skip_acknowledged()

    def forget_trimmed(self) -> None:
        """Drop the entries of trimmed ledgers from what is to be delivered again."""
        trimmed_before = self.cursor.ledgers.trimmed_before
        if trimmed_before > 0 and (self.replay.active or self.counts.active):
            self._forget_up_to(Position(trimmed_before - 1, 2**63 - 1))

    def start_over(self) -> None:
        """Take back everything pending and read everything unacknowledged again; counts stay."""
        for consumer in self.consumers:
            self.consumers.take_all(consumer)
        self.replay.clear()
        self.backoffs.clear()
        if self.delayed is not None:
            self.delayed.clear()
        self.unread.rewind()

    def validate(self) -> None:
        """Check each part, and that each existing entry is in exactly one place. O(entries)."""
        self.cursor.validate()
        self.consumers.validate()
        self.replay.validate()
        self.counts.validate()
        self.backoffs.validate()
        self.transactions.validate()

    def _forget_up_to(self, position: Position) -> None:
        self.replay.remove_up_to(position)
        self.counts.forget_up_to(position)
        self.backoffs.forget_up_to(position)


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
    """Return the state of a subscription without consumers, everything unacknowledged unread."""
    consumers = Consumers(structures, settings)
    replay = ReplayQueue(structures, by_key=kind is SubscriptionType.KEY_SHARED)
    transactions = Transactions()
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
        transactions=transactions,
        unread=Unread(cursor, transactions),
        policy=policy,
        tracker=tracker,
        delayed=tracker if policy.individual else None,
    )
