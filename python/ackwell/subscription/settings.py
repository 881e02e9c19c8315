"""What can be set on a subscription.

The defaults are the limits and delays of Pulsar 4.2, with ackwell's own choice wherever a broker loses,
repeats or forgets something. `SubscriptionSettings.pulsar` makes every one of these choices as a broker of
a given version does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from ackwell.cursor.settings import CursorSettings, minor_version


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """How long a negatively acknowledged message waits: `min_ms * multiplier ** redelivery_count`.

    Never longer than `max_ms`. The defaults are those of the clients' multiplier back-off.

    >>> backoff = RedeliveryBackoff()
    >>> [backoff.delay_ms(count) for count in (0, 1, 2, 50)]
    [1000, 2000, 4000, 60000]
    """

    min_ms: int = 1_000
    """The wait before the first redelivery."""
    max_ms: int = 60_000
    """The longest wait."""
    multiplier: float = 2.0
    """How much longer each wait is than the one before; at least 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_ms <= self.max_ms:
            raise ValueError(f"expected 0 <= min_ms <= max_ms, got {self.min_ms} and {self.max_ms}")
        if self.multiplier < 1:
            raise ValueError(f"multiplier {self.multiplier}; a back-off does not get shorter")

    def delay_ms(self, redelivery_count: int) -> int:
        """Return the wait before the next delivery of a message redelivered this often before."""
        try:
            delay = self.min_ms * self.multiplier ** max(redelivery_count, 0)
        except OverflowError:
            return self.max_ms
        return int(min(delay, self.max_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """The limits and delays of one subscription; 0 switches a limit off.

    >>> SubscriptionSettings.pulsar("4.2").subscription_limit_at_read
    True
    """

    cursor: CursorSettings = field(default=CursorSettings())
    """How the cursor treats acknowledgments."""

    max_unacked_per_consumer: int = 50_000
    """`maxUnackedMessagesPerConsumer`: at this many a consumer gets no more, until half are gone or it
    gives some back."""

    max_unacked_per_subscription: int = 200_000
    """`maxUnackedMessagesPerSubscription`: at this many no new entry is delivered, until it is below half;
    entries given back are delivered again as soon as it is below the limit."""

    round_robin_batch_size: int = 20
    """`dispatcherMaxRoundRobinBatchSize`: entries a consumer of a Shared subscription gets in a row."""

    allow_out_of_order_delivery: bool = False
    """`KeySharedMeta.allowOutOfOrderDelivery`: a message may overtake an older one of its key."""

    waiting_holds_key: bool = True
    """On Key_Shared a message that waits to be delivered again holds back the later ones of its hash,
    whatever made it wait, from its negative acknowledgment on. Off: only from when it is queued again."""

    nack_holds_until_acked: bool = False
    """`keySharedNegativeAckOrderingEnabled`: on Key_Shared a message that was negatively acknowledged holds
    back the later ones of its hash until it is acknowledged (PIP-493)."""

    look_ahead_per_consumer: int = 2_000
    """`keySharedLookAheadMsgInReplayThresholdPerConsumer`: nothing new is read while as many entries of each
    consumer wait for their key."""

    look_ahead_per_subscription: int = 20_000
    """`keySharedLookAheadMsgInReplayThresholdPerSubscription`: the same for all consumers together."""

    nack_backoff: RedeliveryBackoff = field(default=RedeliveryBackoff(60_000, 60_000))
    """The clients' default `negativeAckRedeliveryDelay`: a minute, always."""

    ack_timeout_ms: int = 0
    """A message not acknowledged for so long is delivered again; never, by the clients' default."""

    ack_timeout_tick_ms: int = 1_000
    """How exact the timeout is: up to one tick late, never early."""

    max_redeliver_count: int | None = None
    """After this many redeliveries a message is a dead letter; `None`: never."""

    pause_above_ranges: int | None = None
    """`managedLedgerMaxUnackedRangesToPersist`: nothing new is read while there are more ranges, as on a
    broker with `dispatcherPauseOnAckStatePersistentEnabled`. `None`: never paused."""

    subscription_limit_at_read: bool = False
    """The limit of the subscription only stops the reading of new entries: what was read, and what was
    given back, is delivered beyond it."""

    reads_by_permits: bool = False
    """Permits say how many entries are read at once, at most `read_batch_size`, and a read is decided on as a
    whole: on Exclusive and Failover all of it is delivered, on Key_Shared as many entries as a consumer has
    permits, on Shared a share by the mean size of the entries. So batches take permits far below 0. What of
    a read nobody gets waits as if it was given back, and permits that come while a consumer is blocked wait
    until it is not. Otherwise permits count messages, entry by entry. On Shared and Key_Shared a read is
    what `dispatch_many` is given; `dispatch` decides by messages."""

    read_batch_size: int = 100
    """`dispatcherMaxReadBatchSize`: the most entries that a broker reads at once."""

    partial_ack_resets_count: bool = False
    """The acknowledgment of a part of a batch sets its redelivery count to 0."""

    idle_clears_counts: bool = False
    """All redelivery counts are dropped when the last consumer leaves."""

    idle_reads_again: bool = False
    """On Shared and Key_Shared everything unacknowledged is read again when the last consumer leaves, as if
    nothing of it waited to be delivered again."""

    partial_ack_lowers_pending: bool = True
    """The pending count of an entry goes down with each acknowledged part; else it is its batch size."""

    partial_ack_unblocks: bool = True
    """The acknowledgment of a part of a batch unblocks a consumer that is down to half of its limit; else
    it stays blocked until it acknowledges a whole entry or gives one back."""

    transaction_part_unblocks: bool = True
    """The same for a part that is acknowledged in a transaction."""

    redelivery_unblocks: bool = False
    """A consumer that asks for redelivery is unblocked however many messages it still has, until it grants
    permits. On Shared it then gets at least one entry more."""

    key_shared_ignores_blocked: bool = False
    """On Key_Shared a consumer that is blocked, and below its limit, gets its messages as soon as another
    one that has permits and is not blocked lets the broker read."""

    cumulative_abort_rewinds: bool = True
    """The abort of a cumulative acknowledgment in a transaction reads everything unacknowledged again, as
    that of an individual one does on Exclusive and Failover."""

    cumulative_hides_individual: bool = False
    """While a transaction with a cumulative acknowledgment is open, the end of a transaction leaves what
    was acknowledged individually held."""

    plain_acks_conflict: bool = False
    """A batch that was acknowledged in part, outside of transactions or in one that is committed, conflicts
    with the acknowledgment of the whole entry in a transaction."""

    transactions_keep_parts: bool = False
    """A delivery leaves out what was acknowledged of a batch, in a transaction or on Shared and Key_Shared,
    also if the cursor dropped it (without `CursorSettings.batch_index_acks`) or a cumulative acknowledgment
    in that batch replaced it: a broker with `transactionCoordinatorEnabled` keeps it apart from the cursor. A
    setting of the broker, not a property of its version, so every preset has it off."""

    expires_by_search: bool = False
    """Expiry in the open ledger ends early if the newest entries are acknowledged: see `expiry`."""

    def __post_init__(self) -> None:
        for name in ("max_unacked_per_consumer", "max_unacked_per_subscription", "ack_timeout_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 0")
        for name in ("round_robin_batch_size", "read_batch_size", "ack_timeout_tick_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")

    @classmethod
    def pulsar(cls, version: str, **settings: Any) -> Self:
        """Return the settings under which a subscription does what a broker of `version` does.

        `version` is "4.0", "4.2", "5.0" or a release of one of them, such as "4.0.7" or "5.0.0-M1";
        `ValueError` for any other. `settings` replace single ones.
        """
        cursor = CursorSettings.pulsar(version)
        name = minor_version(version)
        return cls(**{"cursor": cursor, **_PULSAR, **_PULSAR_OF_VERSION.get(name, {}), **settings})


_PULSAR: dict[str, Any] = {
    "subscription_limit_at_read": True,
    "reads_by_permits": True,
    "partial_ack_resets_count": True,
    "idle_clears_counts": True,
    "idle_reads_again": True,
    "partial_ack_unblocks": False,
    "transaction_part_unblocks": False,
    "redelivery_unblocks": True,
    "key_shared_ignores_blocked": True,
    "waiting_holds_key": False,
    "cumulative_abort_rewinds": False,
    "cumulative_hides_individual": True,
    "plain_acks_conflict": True,
    "expires_by_search": True,
}
_PULSAR_OF_VERSION: dict[str, dict[str, Any]] = {
    "4.0": {"partial_ack_lowers_pending": False},
    "5.0": {"partial_ack_unblocks": True},
}
