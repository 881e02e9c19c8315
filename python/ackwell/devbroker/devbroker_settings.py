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
    """Values for fields of `SubscriptionSettings`, which replace the defaults of the emulated version.
    Example: `{"lost_counts": "in hand", "idle_clears_counts": False}`. If `lost_counts` is `"in hand"`, the
    consumer property `ackwell.concurrency` declares how many entries the client processes at once."""
    broker_conf: tuple[str, ...] = ()
    """Settings of `broker.conf`, as `name=value`. They determine which acknowledgments a restart loses. To
    reproduce an incident, use the settings of the affected cluster."""
    delayed_delivery_tick_ms: int = 1_000
    """`delayedDeliveryTickTimeMillis`: the tick time that the policy `delayedDelivery` returns. It has no
    other effect, because the dev broker delivers each message at its exact delivery time."""
    failover_delay_ms: int = 1_000
    """`activeConsumerFailoverDelayTimeMillis`: the time that a Failover subscription waits before it delivers
    messages to a new active consumer."""
    key_shared_consistent_hashing: bool = True
    """`subscriptionKeySharedUseConsistentHashing`: whether the name of a Key_Shared consumer determines its
    hash ranges. If false, a new consumer gets half of the widest hash range."""
    entries_per_ledger: int = 50_000
    """`managedLedgerMaxEntriesPerLedger`: the maximum number of entries in a ledger. The next entry starts a
    new ledger."""
    ledger_rollover_ms: int = 240 * 60_000
    """`managedLedgerMaxLedgerRolloverTimeMinutes`: the maximum age of an open ledger. The broker checks the
    age every five minutes, and closes an older ledger."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """`maxMessageSize`: larger messages are refused."""
    namespaces: tuple[str, ...] = ("public/default",)
    """The namespaces that exist at the start. Clients create further namespaces through the admin API, as
    with a real broker."""
    auto_create_topics: bool = True
    """`allowAutoTopicCreation`: whether a missing topic is created when a client uses it."""
    auto_create_partitions: int = 0
    """`defaultNumPartitions`: the number of partitions of automatically created topics; 0 creates topics
    without partitions."""
    deduplication: bool = False
    """`brokerDeduplicationEnabled`: whether the broker drops messages whose sequence id is not higher than
    the last sequence id of their producer."""
    super_users: tuple[str, ...] | None = None
    """`superUserRoles`: the roles that may use every topic. With `authorizationEnabled`, other roles need a
    permission that was granted through the admin API. `None` permits every role."""
    backlog_quota_check_ms: int = 60_000
    """`backlogQuotaCheckIntervalInSeconds`: the time between two checks of the backlog quotas."""
    cursor_flush_ms: int = 60_000
    """`managedLedgerCursorPositionFlushSeconds`: the maximum time before a postponed write of a cursor."""
    max_connections: int = 1_000
    """The maximum number of connections; further connections are refused."""
    handshake_s: float = 30.0
    """The time in seconds after which a connection without a CONNECT command is closed."""
    max_memory_bytes: int = 1 << 30
    """The maximum size in bytes of all messages in memory. A message that does not fit is refused. A topic
    starts a new ledger when its open ledger takes 1/16 of the free memory."""
    max_events: int = 1_000_000
    """The maximum number of events in `broker.events`. The oldest events are dropped first."""
    max_pending_write_bytes: int = 16 << 20
    """The maximum number of output bytes that a client has not read. Above it, the broker stops sending
    messages to the client."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an unknown version, and `TypeError` for a text instead of a list."""
        require_texts("namespaces", self.namespaces, "public/default")
        if self.super_users is not None:
            require_texts("super_users", self.super_users, "admin")
        _ = self.broker, self.subscription

    @cached_property
    def release(self) -> str:
        """The known Pulsar release whose defaults apply to the emulated version."""
        return known_release(self.version) or self.version

    @cached_property
    def is_5(self) -> bool:
        """Whether the emulated version is 5.0 or later. From 5.0 on, the admin API has other fields."""
        return release_number(self.version) >= (5,)

    @cached_property
    def subscription(self) -> SubscriptionSettings:
        """The subscription rules and limits of the emulated version.

        If `acknowledgmentAtBatchIndexLevelEnabled` is false, a broker ignores acknowledgments of parts of
        batches. False is the default of 4.0.
        """
        preset = SubscriptionSettings.pulsar(self.version, **self.limits)
        cursor = replace(
            preset.cursor, batch_index_acks=self.broker.acknowledgment_at_batch_index_level_enabled
        )
        return replace(preset, cursor=cursor)

    @cached_property
    def broker(self) -> BrokerSettings:
        """The settings of the emulated version that determine which acknowledgments a restart loses."""
        return BrokerSettings.of(self.version).with_values(self.broker_conf)
