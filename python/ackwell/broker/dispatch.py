"""The state of delivery that a broker reports: consumers, their permits, and the reads of the cursor.

One half is in `stats`, the other in `stats-internal`. A value that neither shows is None, never a guess;
older versions show less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ackwell.protocol.constants import SubscriptionType

_TYPES: Final = {kind.value: kind for kind in SubscriptionType}

THROTTLED: Final = tuple(
    f"dispatchThrottled{what}EventsBy{whose}Limit"
    for what in ("Msg", "Bytes")
    for whose in ("Subscription", "Topic", "Broker")
)
"""Counters of the times that a dispatch rate made the dispatcher wait."""

HOLD: Final[dict[str, Any]] = {
    "dispatchThrottlingRateInMsg": 1,
    "dispatchThrottlingRateInByte": 1,
    "ratePeriodInSecond": 3_600,
}
"""The dispatch rate with which `ackwell rescue` holds a subscription while a restart is rescued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    """One connected consumer."""

    name: str
    permits: int
    unacked: int
    blocked: bool
    """Whether the consumer has reached its limit of unacknowledged messages."""
    messages_out: int | None
    draining_hashes: int
    """Hashes that another consumer owns now while this one still has messages of them."""
    slots: int | None
    """The number of sticky-key hashes that the consumer owns."""
    connected_since: str | None
    last_acked_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchStats:
    """The delivery of one subscription at one moment."""

    kind: SubscriptionType | None
    consumers: tuple[ConsumerStats, ...]
    active: str | None
    """The active consumer of an Exclusive or Failover subscription."""
    backlog_messages: int | None
    in_replay: int | None
    """Entries that were read and wait for delivery."""
    delayed: int
    unacked: int
    blocked: bool
    """Whether all consumers together have reached the limit of unacknowledged messages."""
    messages_out: int | None
    rate_out: float
    """Messages per second over the last minute."""
    total_permits: int | None
    out_of_order: bool
    sticky: bool
    """Whether each consumer of Key_Shared names the hashes that it owns."""
    open_transactions: int
    throttled: int | None
    """The times that a dispatch rate made the dispatcher wait; None if the broker does not count them."""
    rate_limit: Mapping[str, Any] | None
    """The dispatch rate of the subscription, if the broker was asked for it."""
    last_delivered_ms: int | None
    last_acked_ms: int | None
    oldest_age_seconds: int | None

    pending_read: bool | None
    """Whether the dispatcher reports a pending read of new entries."""
    pending_replay_read: bool | None
    """Whether the dispatcher reports a pending read of entries that were read before."""
    cursor_reads: bool | None
    """Whether the cursor has a read in progress, or waits for the next entry."""
    consumed: int | None
    """The acknowledged entries that the cursor has counted since it was loaded."""
    cursor_state: str | None

    @property
    def held(self) -> bool:
        """Whether a hold of `ackwell rescue` stops delivery, also one that was not released."""
        return self.rate_limit is not None and self.rate_limit.items() >= HOLD.items()

    @property
    def draining(self) -> int:
        """The number of draining hashes."""
        return sum(consumer.draining_hashes for consumer in self.consumers)

    @property
    def holders(self) -> list[ConsumerStats]:
        """The consumers with unacknowledged messages, most messages first."""
        holding = (consumer for consumer in self.consumers if consumer.unacked > 0)
        return sorted(holding, key=lambda consumer: -consumer.unacked)


IntegerReader = Callable[[Mapping[str, Any], str, int], int]
"""Read an int64 of an answer, or return the third argument if it is missing; else raise `ValueError`."""


def dispatch_of(
    shown: Mapping[str, Any],
    cursor: Mapping[str, Any],
    topic: Mapping[str, Any],
    policies: Mapping[str, Any],
    integer: IntegerReader,
) -> DispatchStats:
    """Read a subscription's part of `stats` and of `stats-internal` (empty without such an answer)."""

    def optional(values: Mapping[str, Any], name: str) -> int | None:
        return None if values.get(name) is None else integer(values, name, 0)

    listed = shown.get("consumers") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise TypeError("consumers: expected an array of objects")
    throttled = [integer(shown, name, 0) for name in THROTTLED if name in shown]
    reads = None
    if "waitingReadOp" in cursor or "pendingReadOps" in cursor:
        reads = bool(cursor.get("waitingReadOp")) or integer(cursor, "pendingReadOps", 0) > 0
    rate = policies.get("dispatchRate")
    return DispatchStats(
        kind=_TYPES.get(str(shown.get("type"))),
        consumers=tuple(_consumer(each, integer, optional) for each in listed),
        active=_text(shown.get("activeConsumerName")),
        backlog_messages=optional(shown, "msgBacklog"),
        in_replay=optional(shown, "msgInReplay"),
        delayed=integer(shown, "msgDelayed", 0),
        unacked=integer(shown, "unackedMessages", 0),
        blocked=shown.get("blockedSubscriptionOnUnackedMsgs") is True,
        messages_out=optional(shown, "msgOutCounter"),
        rate_out=_rate(shown.get("msgRateOut")),
        total_permits=optional(shown, "availablePermits"),
        out_of_order=shown.get("allowOutOfOrderDelivery") is True,
        sticky=shown.get("keySharedMode") == "STICKY",
        open_transactions=integer(topic, "ongoingTxnCount", 0),
        throttled=sum(throttled) if throttled else None,
        rate_limit=rate if isinstance(rate, dict) else None,
        last_delivered_ms=integer(shown, "lastConsumedTimestamp", 0) or None,
        last_acked_ms=optional(shown, "lastAckedTimestamp"),
        oldest_age_seconds=_positive(optional(shown, "oldestBacklogMessageAgeSeconds")),
        pending_read=_flag(cursor.get("subscriptionHavePendingRead")),
        pending_replay_read=_flag(cursor.get("subscriptionHavePendingReplayRead")),
        cursor_reads=reads,
        consumed=optional(cursor, "messagesConsumedCounter"),
        cursor_state=_text(cursor.get("state")),
    )


def _consumer(
    shown: Mapping[str, Any], integer: IntegerReader, optional: Callable[[Mapping[str, Any], str], int | None]
) -> ConsumerStats:
    ranges = shown.get("keyHashRangeArrays")
    slots = sum(high - low + 1 for low, high in ranges) if isinstance(ranges, list) and ranges else None
    return ConsumerStats(
        name=_text(shown.get("consumerName")) or "",
        permits=integer(shown, "availablePermits", 0),
        unacked=integer(shown, "unackedMessages", 0),
        blocked=shown.get("blockedConsumerOnUnackedMsgs") is True,
        messages_out=optional(shown, "msgOutCounter"),
        draining_hashes=integer(shown, "drainingHashesCount", 0),
        slots=slots,
        connected_since=_text(shown.get("connectedSince")),
        last_acked_ms=optional(shown, "lastAckedTimestamp"),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _rate(value: Any) -> float:
    # Not converted: an integer may be larger than any float.
    return value if isinstance(value, int | float) else 0.0


def _positive(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None
