"""The settings of a subscription.

The defaults are the limits and delays of Pulsar 4.2. Other behaviour differs from Pulsar's only in cases in
which a broker loses or repeats messages, or forgets redelivery counts. `SubscriptionSettings.pulsar` returns
settings with which a subscription behaves like a broker of a given version in all cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.releases import known_release
from ackwell.subscription.arguments import integer


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """The wait of a negatively acknowledged message, in ms: `min_ms * multiplier ** redelivery_count`.

    The wait is at most `max_ms`. The defaults are those of `MultiplierRedeliveryBackoff` in Pulsar's clients.

    >>> backoff = RedeliveryBackoff()
    >>> [backoff.delay_ms(count) for count in (0, 1, 2, 50)]
    [1000, 2000, 4000, 60000]
    """

    min_ms: int = 1_000
    """The wait before the first redelivery, in ms."""
    max_ms: int = 60_000
    """The longest wait, in ms."""
    multiplier: float = 2.0
    """Each wait is this many times the previous wait; at least 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_ms <= self.max_ms:
            raise ValueError(f"expected 0 <= min_ms <= max_ms, got {self.min_ms} and {self.max_ms}")
        if self.multiplier < 1:
            raise ValueError(f"multiplier is {self.multiplier}; expected at least 1")

    def delay_ms(self, redelivery_count: int) -> int:
        """Return the wait before the next redelivery of a message with this redelivery count, in ms."""
        try:
            delay = self.min_ms * self.multiplier ** max(redelivery_count, 0)
        except OverflowError:
            return self.max_ms
        return int(min(delay, self.max_ms))


class LostCounts(StrEnum):
    """The deliveries that count as a redelivery if their consumer is lost.

    A consumer is lost if it leaves or if the process dies.
    """

    NEVER = "never"
    """No delivery counts, as on Pulsar. A message that kills its consumers is redelivered for ever."""
    IN_HAND = "in hand"
    """The entries that the consumer worked on count. The consumer must report them (see `in_hand`)."""
    EVERY_DELIVERY = "every delivery"
    """All entries of the consumer count, also prefetched ones, as in Kafka's share groups.

    If the process dies, none counts, because pending entries are not saved.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """The limits and delays of one subscription. A limit of 0 means no limit.

    >>> SubscriptionSettings.pulsar("4.2").subscription_limit_at_read
    True
    """

    cursor: CursorSettings = field(default=CursorSettings())
    """The settings of the cursor."""

    max_unacked_per_consumer: int = 50_000
    """`maxUnackedMessagesPerConsumer`: a consumer with this many unacknowledged messages is blocked. It is
    unblocked when it has acknowledged half of them, or when it returns messages."""

    max_unacked_per_subscription: int = 200_000
    """`maxUnackedMessagesPerSubscription`: if this many messages are unacknowledged, no new entry is
    delivered until less than half of them remain. A returned entry is redelivered as soon as the number is
    below this limit."""

    round_robin_batch_size: int = 20
    """`dispatcherMaxRoundRobinBatchSize`: the number of entries that a Shared consumer gets in one turn."""

    allow_out_of_order_delivery: bool = False
    """`KeySharedMeta.allowOutOfOrderDelivery`: a message may overtake an older message with the same key."""

    waiting_holds_key: bool = True
    """On Key_Shared, a negatively acknowledged message blocks later messages with the same key hash until it
    is redelivered. The block begins with the negative acknowledgment. If off, it begins only at the end of
    the wait of `nack_backoff`."""

    nack_holds_until_acked: bool = False
    """`keySharedNegativeAckOrderingEnabled`: on Key_Shared, a negatively acknowledged message blocks
    later messages of its hash until it is acknowledged (PIP-493)."""

    look_ahead_per_consumer: int = 2_000
    """`keySharedLookAheadMsgInReplayThresholdPerConsumer`: the limit of the entries that wait for their key,
    for each consumer. No new entry is read while `consumers × look_ahead_per_consumer` entries wait."""

    look_ahead_per_subscription: int = 20_000
    """`keySharedLookAheadMsgInReplayThresholdPerSubscription`: no new entry is read while at least this many
    entries of the subscription wait for their key."""

    nack_backoff: RedeliveryBackoff = field(default=RedeliveryBackoff(60_000, 60_000))
    """The wait after a negative acknowledgment.

    By default the wait is always one minute (`min_ms` and `max_ms` are 60000), like the default of the
    clients' `negativeAckRedeliveryDelay`.
    """

    ack_timeout_ms: int = 0
    """The time after which a message that is not acknowledged is redelivered. The default 0 means never, like
    the default of Pulsar's clients."""

    ack_timeout_tick_ms: int = 1_000
    """The precision of `ack_timeout_ms`. A message is redelivered up to one tick late, and never early."""

    max_redeliver_count: int | None = None
    """The maximum redelivery count. A message with a greater count becomes a dead letter. `None` means no
    limit."""

    lost_counts: LostCounts = LostCounts.IN_HAND
    """The unacknowledged messages whose redelivery count increases if their consumer is lost: none
    (`"never"`), the messages that the consumer reported as in work (`"in hand"`), or all (`"every
    delivery"`)."""

    pause_above_ranges: int | None = None
    """`managedLedgerMaxUnackedRangesToPersist`: no new entries are read while the cursor has more ranges of
    acknowledged entries than this number, as on a broker with `dispatcherPauseOnAckStatePersistentEnabled`.
    With `None`, reading never pauses."""

    subscription_limit_at_read: bool = False
    """The limit `max_unacked_per_subscription` stops only the reading of new entries.

    Entries that were already read, and returned entries, are delivered even if the limit is reached.
    """

    reads_by_permits: bool = False
    """As in a broker, permits limit the number of entries in a read, in addition to `read_batch_size`. If
    off, permits limit the number of messages. The page "ackwell and Pulsar's broker" lists the effects on
    each type of subscription."""

    read_batch_size: int = 100
    """`dispatcherMaxReadBatchSize`: the maximum number of entries that a broker reads at once."""

    partial_ack_resets_count: bool = False
    """An acknowledgment of part of a batch resets the redelivery count of the entry to 0."""

    idle_clears_counts: bool = False
    """All redelivery counts are dropped when the last consumer leaves."""

    idle_reads_again: bool = False
    """On Shared and Key_Shared, all unacknowledged entries become unread when the last consumer leaves,
    including entries that were queued for redelivery."""

    partial_ack_lowers_pending: bool = True
    """An acknowledgment of part of a batch lowers the number of messages that is reported for the pending
    entry. If off, this number stays the size of the batch."""

    partial_ack_unblocks: bool = True
    """An acknowledgment of part of a batch unblocks a consumer if its unacknowledged messages are then at
    most half of its limit.

    If off, the consumer stays blocked until it acknowledges a whole entry or returns one.
    """

    transaction_part_unblocks: bool = True
    """An acknowledgment of part of a batch in a transaction can unblock a consumer, like
    `partial_ack_unblocks`."""

    redelivery_unblocks: bool = False
    """A request for redelivery unblocks a consumer even if the consumer still has too many messages.

    The broker checks the consumer's limit again when the consumer next sends permits. On Shared the
    unblocked consumer gets at least one more entry.
    """

    empty_redelivery_unblocks: bool = True
    """A consumer's request to redeliver certain entries unblocks this consumer, even if none of these entries
    is pending at the consumer."""

    redelivery_drops_hash: bool = False
    """On Key_Shared, a request for redelivery queues entries without their hash.

    The next read restores the hash. Each of these entries takes a place in the read, even if its consumer
    cannot get the entry. If the read delivers nothing, new entries are read next. A new entry may then
    overtake a returned entry with the same hash.
    """

    key_shared_ignores_blocked: bool = False
    """On Key_Shared, a blocked consumer that is below its limit can get messages when the broker reads for
    another consumer."""

    cumulative_abort_rewinds: bool = True
    """After the abort of a transaction with a cumulative acknowledgment, all unacknowledged messages are read
    again. (On Exclusive and Failover, the abort of individual acknowledgments always causes such a read.)"""

    cumulative_hides_individual: bool = False
    """If the ending transaction or an open one has a cumulative acknowledgment, the individual
    acknowledgments of the ending transaction are neither applied nor released. They stay pending."""

    plain_acks_conflict: bool = False
    """If part of a batch was acknowledged without a transaction, or in a committed transaction, another
    transaction cannot acknowledge the whole entry."""

    transactions_keep_parts: bool = False
    """Store the acknowledged parts of batches also outside the cursor, as a broker with
    `transactionCoordinatorEnabled` does. Deliveries then leave out these messages even if the cursor has lost
    their acknowledgments. All presets disable this setting, because it depends on a setting of the broker and
    not on its version."""

    expires_by_search: bool = False
    """The method `expire` searches for the last entry to expire, as a broker does. If the given entry is in
    the open ledger and the newest entries are acknowledged, the search may end before the given entry."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lost_counts", LostCounts(self.lost_counts))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                integer(name, value)
                if value < least:
                    raise ValueError(f"{name} is {value}; expected at least {least}")

    @classmethod
    def pulsar(cls, version: str, **settings: Any) -> Self:
        """Return the settings with which a subscription behaves like a broker of `version`.

        `version` is "4.0", "4.2", "5.0" or a release of one of them, such as "4.0.7" or "5.0.0-M1"; "5.0"
        means 5.0.1. Any other version raises `ValueError`. `settings` replace single values.
        """
        cursor = CursorSettings.pulsar(version)
        release = known_release(version) or ""
        return cls(**{"cursor": cursor, **_PULSAR, **_PULSAR_OF_RELEASE.get(release, {}), **settings})


_LEAST: dict[str, int] = {
    "max_unacked_per_consumer": 0,
    "max_unacked_per_subscription": 0,
    "round_robin_batch_size": 1,
    "look_ahead_per_consumer": 0,
    "look_ahead_per_subscription": 0,
    "ack_timeout_ms": 0,
    "ack_timeout_tick_ms": 1,
    "max_redeliver_count": 0,
    "pause_above_ranges": 0,
    "read_batch_size": 1,
}
"""The settings that are integers, with the minimum of each."""
_OPTIONAL = {"max_redeliver_count", "pause_above_ranges"}

_PULSAR: dict[str, Any] = {
    "subscription_limit_at_read": True,
    "reads_by_permits": True,
    "partial_ack_resets_count": True,
    "idle_clears_counts": True,
    "idle_reads_again": True,
    "partial_ack_unblocks": False,
    "transaction_part_unblocks": False,
    "redelivery_unblocks": True,
    "redelivery_drops_hash": True,
    "key_shared_ignores_blocked": True,
    "waiting_holds_key": False,
    "cumulative_abort_rewinds": False,
    "cumulative_hides_individual": True,
    "plain_acks_conflict": True,
    "expires_by_search": True,
    "lost_counts": LostCounts.NEVER,
}
_PULSAR_5: dict[str, Any] = {
    "partial_ack_unblocks": True,
    "look_ahead_per_consumer": 4_000,
    "look_ahead_per_subscription": 40_000,
}
_PULSAR_OF_RELEASE: dict[str, dict[str, Any]] = {
    "4.0.7": {"partial_ack_lowers_pending": False},
    "5.0.0-M1": _PULSAR_5,
    "5.0.1": {
        **_PULSAR_5,
        "read_batch_size": 500,
        "transaction_part_unblocks": True,
        "empty_redelivery_unblocks": False,
    },
}
