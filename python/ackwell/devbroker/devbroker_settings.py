"""The settings of a dev broker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from ackwell.broker.broker_settings import BrokerSettings, require_texts
from ackwell.protocol.constants import MAX_MESSAGE_BYTES
from ackwell.releases import known_release, release_number
from ackwell.subscription import SubscriptionSettings

VERSION: Final = "4.2"


@dataclass(frozen=True, kw_only=True)
class DevBrokerSettings:
    """The emulated Pulsar version, and the limits of the dev broker."""

    version: str = VERSION
    """The emulated version of Pulsar."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Fields of `SubscriptionSettings` that override the defaults of the version, such as
    `{"lost_counts": "in hand", "idle_clears_counts": False}`. For `lost_counts`, a client declares the number
    of entries on which it works at once, in the consumer property `ackwell.concurrency`."""
    broker_conf: tuple[str, ...] = ()
    """Settings of `broker.conf`, as `name=value`, that determine the loss of a restart. To reproduce an
    incident, use the settings of the cluster in which it happened."""
    delayed_delivery_tick_ms: int = 1_000
    """`delayedDeliveryTickTimeMillis`: the tick time that the policy `delayedDelivery` shows. It has no other
    effect: the dev broker delivers each message at its exact time."""
    failover_delay_ms: int = 1_000
    """`activeConsumerFailoverDelayTimeMillis`: the wait of a Failover subscription before it delivers to a
    new active consumer."""
    key_shared_consistent_hashing: bool = True
    """`subscriptionKeySharedUseConsistentHashing`: the hashes of a Key_Shared consumer depend on its name. If
    off, a consumer that joins gets half of the widest range of hashes."""
    entries_per_ledger: int = 50_000
    """`managedLedgerMaxEntriesPerLedger`: the number of entries after which a topic begins a new ledger."""
    ledger_rollover_ms: int = 240 * 60_000
    """`managedLedgerMaxLedgerRolloverTimeMinutes`: the age of a ledger, checked every five minutes, at which
    its topic begins the next ledger."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """`maxMessageSize`: larger messages are refused."""
    namespaces: tuple[str, ...] = ("public/default",)
    """The initial namespaces. A client creates others through the admin API, as with a real broker."""
    auto_create_topics: bool = True
    """`allowAutoTopicCreation`: create a missing topic when a client uses it."""
    auto_create_partitions: int = 0
    """`defaultNumPartitions`: the number of partitions of automatically created topics; 0 creates topics
    without partitions."""
    deduplication: bool = False
    """`brokerDeduplicationEnabled`: store only one message per producer and sequence id."""
    super_users: tuple[str, ...] | None = None
    """`superUserRoles`: the roles that may use every topic. With `authorizationEnabled`, other roles need a
    permission that was granted through the admin API. `None` permits every role."""
    backlog_quota_check_ms: int = 60_000
    """`backlogQuotaCheckIntervalInSeconds`: the time between two comparisons of the backlogs with their
    quotas."""
    cursor_flush_ms: int = 60_000
    """`managedLedgerCursorPositionFlushSeconds`: the time within which postponed changes of a cursor are
    written."""
    max_connections: int = 1_000
    """The maximum number of connections; further connections are refused."""
    handshake_s: float = 30.0
    """The seconds after which a connection without a CONNECT is closed."""
    max_memory_bytes: int = 1 << 30
    """The maximum number of bytes of all messages in memory. A message that does not fit is refused. A topic
    begins its next ledger when its open ledger takes 1/16 of the free memory."""
    max_events: int = 1_000_000
    """The number of events kept in `broker.events`; the oldest are dropped first."""
    max_pending_write_bytes: int = 16 << 20
    """If the client has not read this many bytes of the output of its connection, the broker stops sending
    messages to it."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an unknown version, and `TypeError` for a text instead of a list."""
        require_texts("namespaces", self.namespaces, "public/default")
        if self.super_users is not None:
            require_texts("super_users", self.super_users, "admin")
        _ = self.broker, self.subscription

    @cached_property
    def release(self) -> str:
        """The known release whose defaults apply to the emulated version."""
        return known_release(self.version) or self.version

    @cached_property
    def is_5(self) -> bool:
        """Whether the version is 5.0 or later, whose admin API has other fields."""
        return release_number(self.version) >= (5,)

    @cached_property
    def subscription(self) -> SubscriptionSettings:
        """The subscription rules and limits of the emulated version.

        If `acknowledgmentAtBatchIndexLevelEnabled` is false, as by default in 4.0, a broker ignores the
        acknowledgment of a part of a batch.
        """
        preset = SubscriptionSettings.pulsar(self.version, **self.limits)
        cursor = replace(
            preset.cursor, batch_index_acks=self.broker.acknowledgment_at_batch_index_level_enabled
        )
        return replace(preset, cursor=cursor)

    @cached_property
    def broker(self) -> BrokerSettings:
        """The settings of the version that determine the loss of a restart."""
        return BrokerSettings.of(self.version).with_values(self.broker_conf)
