"""What can be set on a subscription, under Pulsar's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """How long a negatively acknowledged message waits: `min_ms * multiplier ** redelivery_count`.

    Never longer than `max_ms`. The defaults are those of the clients' multiplier back-off.

    >>> backoff = RedeliveryBackoff()
    >>> [backoff.delay_ms(count) for count in (0, 1, 2, 50)]
    [1000, 2000, 4000, 60000]
    """

    min_ms: int = 1_000
    max_ms: int = 60_000
    multiplier: float = 2.0

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
    """The limits and delays of one subscription; 0 switches a limit off."""

    max_unacked_per_consumer: int = 50_000
    """`maxUnackedMessagesPerConsumer`: at this many a consumer gets no more, until half are gone."""

    max_unacked_per_subscription: int = 200_000
    """`maxUnackedMessagesPerSubscription`: at this many nobody gets more, until it is below half."""

    round_robin_batch_size: int = 20
    """`dispatcherMaxRoundRobinBatchSize`: entries a consumer of a Shared subscription gets in a row."""

    look_ahead_per_consumer: int = 2_000
    """`keySharedLookAheadMsgInReplayThresholdPerConsumer`: entries that wait for their key, a consumer."""

    look_ahead_per_subscription: int = 20_000
    """`keySharedLookAheadMsgInReplayThresholdPerSubscription`."""

    nack_backoff: RedeliveryBackoff = field(default=RedeliveryBackoff(60_000, 60_000))
    """The clients' default `negativeAckRedeliveryDelay`: a minute, always."""

    ack_timeout_ms: int = 0
    """A message not acknowledged for so long is delivered again; never, by the clients' default."""

    ack_timeout_tick_ms: int = 1_000
    """How exact the timeout is: up to one tick late, never early."""

    max_redeliver_count: int | None = None
    """After this many redeliveries a message is a dead letter; `None`: never."""

    def __post_init__(self) -> None:
        for name in ("max_unacked_per_consumer", "max_unacked_per_subscription", "ack_timeout_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 0")
        for name in ("round_robin_batch_size", "ack_timeout_tick_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
