"""What a dev broker is set to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ackwell.broker.settings import BrokerSettings
from ackwell.protocol.constants import MAX_MESSAGE_BYTES
from ackwell.subscription import SubscriptionSettings

VERSION: Final = "4.2"


@dataclass(frozen=True, kw_only=True)
class DevBrokerSettings:
    """The behaviour of a broker of one version, and the limits of this one."""

    version: str = VERSION
    """The version of Pulsar that it behaves as."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Fields of `SubscriptionSettings` that are to differ from those of the version."""
    broker_conf: tuple[str, ...] = ()
    """What decides what a restart forgets, as `name=value` of `broker.conf`: give those of the cluster whose
    incident is loaded."""
    delayed_delivery_tick_ms: int = 1_000
    """`delayedDeliveryTickTimeMillis`: the times of the messages of one tick are kept together. No message is
    delivered before its time."""
    failover_delay_ms: int = 1_000
    """`activeConsumerFailoverDelayTimeMillis`: how long a Failover subscription waits before it delivers to
    another consumer than before."""
    entries_per_ledger: int = 50_000
    """`managedLedgerMaxEntriesPerLedger`: after so many entries a topic begins its next ledger."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """`maxMessageSize`: a larger message is refused."""
    namespaces: tuple[str, ...] = ("public/default",)
    """Those that are there from the start; others are made through the admin API, as with a real broker."""
    auto_create_topics: bool = True
    """`allowAutoTopicCreation`: a topic that a client names is made if it is not there."""
    auto_create_partitions: int = 0
    """`defaultNumPartitions`: partitions of topics made on use; 0 for topics without partitions."""
    deduplication: bool = False
    """`brokerDeduplicationEnabled`: a message is written once a producer and sequence id."""
    cursor_flush_ms: int = 60_000
    """`managedLedgerCursorPositionFlushSeconds`: what was not written at once is written within this time."""
    max_connections: int = 1_000
    """Connections beyond these are closed as they come."""
    handshake_s: float = 30.0
    """A connection that has not said who it is by then is closed."""
    max_memory_bytes: int = 1 << 30
    """Messages that would take more are refused, and connections closed whose unfinished frames would."""
    max_events: int = 1_000_000
    """Events kept in `broker.events`; the oldest go first."""
    max_pending_write_bytes: int = 16 << 20
    """A connection that does not read as much as this gets no more messages until it does."""

    def __post_init__(self) -> None:
        """Refuse a version that nobody has the behaviour of; `ValueError`."""
        _ = self.broker, self.subscription

    @cached_property
    def subscription(self) -> SubscriptionSettings:
        """The rules and limits of this version's subscriptions."""
        return SubscriptionSettings.pulsar(self.version, **self.limits)

    @cached_property
    def broker(self) -> BrokerSettings:
        """What of a cursor this version writes, as far as it decides what a restart forgets."""
        return BrokerSettings.of(self.version).with_values(self.broker_conf)
