"""The state of delivery that a broker reports: consumers, their permits, and the reads of the cursor.

The answer of `stats` contains a part of this state, and the answer of `stats-internal` contains the rest. A
value that neither answer contains is None, never a guess. Older versions report fewer values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ackwell.broker import fields
from ackwell.protocol.constants import SubscriptionType

_TYPES: Final = {kind.value: kind for kind in SubscriptionType}

THROTTLED: Final = tuple(
    f"dispatchThrottled{unit}EventsBy{scope}Limit"
    for unit in ("Msg", "Bytes")
    for scope in ("Subscription", "Topic", "Broker")
)
"""The fields that count how often a dispatch rate made the dispatcher wait."""

CONSUMER_LIMIT: Final = "maxUnackedMessagesOnConsumer"
SUBSCRIPTION_LIMIT: Final = "maxUnackedMessagesOnSubscription"
PAUSES: Final = "dispatcherPauseOnAckStatePersistent"
"""`CONSUMER_LIMIT`, `SUBSCRIPTION_LIMIT` and `PAUSES` are policy names in the admin API and in a dump."""

HOLD: Final[dict[str, Any]] = {
    "dispatchThrottlingRateInMsg": 1,
    "dispatchThrottlingRateInByte": 1,
    "ratePeriodInSecond": 3_600,
}
"""The very low dispatch rate that `ackwell rescue` sets to hold back a subscription's messages during a
restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    """One connected consumer."""

    name: str
    permits: int
    unacked: int
    blocked: bool
    """Whether the consumer has reached its limit of unacknowledged messages."""
    messages_out: int | None
    draining_hashes: int | None
    """The number of sticky-key hashes that moved to another consumer, while this consumer still has
    unacknowledged messages with these hashes."""
    slots: int | None
    """The number of sticky-key hashes that the consumer owns."""
    connected_since: str | None
    last_acked_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchStats:
    """The state of delivery of one subscription at one moment."""

    kind: SubscriptionType | None
    consumers: tuple[ConsumerStats, ...]
    active: str | None
    """The active consumer of an Exclusive or Failover subscription."""
    backlog_messages: int | None
    in_replay: int | None
    """The number of entries that the dispatcher has read and that wait for delivery."""
    delayed: int
    unacked: int
    blocked: bool
    """Whether all consumers together have reached the subscription's limit of unacknowledged messages."""
    messages_out: int | None
    rate_out: float
    """Messages per second over the last minute."""
    total_permits: int | None
    out_of_order: bool
    sticky: bool
    """Whether each consumer of Key_Shared selects its own hashes (the mode `STICKY`)."""
    open_transactions: int
    throttled: int | None
    """How often a dispatch rate made the dispatcher wait; None if the broker does not count it."""
    rate_limit: Mapping[str, Any] | None
    """The dispatch rate of the subscription; None if it was not requested."""
    consumer_limit: int | None
    """The effective limit of unacknowledged messages of a consumer; None if it was not requested."""
    subscription_limit: int | None
    """The effective limit of unacknowledged messages of the subscription; None if it was not requested."""
    pauses: bool | None
    """Whether `dispatcherPauseOnAckStatePersistent` applies; None if it was not requested."""
    last_delivered_ms: int | None
    last_acked_ms: int | None
    oldest_age_seconds: int | None

    pending_read: bool | None
    """Whether the dispatcher reports a pending read of new entries."""
    pending_replay_read: bool | None
    """Whether the dispatcher reports a pending read of entries that it has already read once."""
    cursor_reads: bool | None
    """Whether the cursor has a read in progress, or waits for the next entry."""
    consumed: int | None
    """The number of acknowledged entries that the broker has counted since it loaded the cursor."""
    cursor_state: str | None

    @property
    def held(self) -> bool:
        """Whether a hold of `ackwell rescue` stops the delivery.

        An interrupted run may have left the hold.
        """
        return self.rate_limit is not None and self.rate_limit.items() >= HOLD.items()

    @property
    def draining(self) -> int:
        """The sum of the draining hashes of all consumers."""
        return sum(consumer.draining_hashes or 0 for consumer in self.consumers)

    @property
    def holders(self) -> list[ConsumerStats]:
        """The consumers with unacknowledged messages; the consumer with the most messages is first."""
        holding = (consumer for consumer in self.consumers if consumer.unacked > 0)
        return sorted(holding, key=lambda consumer: -consumer.unacked)


def dispatch_of(
    shown: Mapping[str, Any],
    cursor: Mapping[str, Any],
    topic: Mapping[str, Any],
    policies: Mapping[str, Any],
) -> DispatchStats:
    """Return the state of delivery from the answers of `stats` and `stats-internal`.

    `shown` is the subscription in `stats`, and `cursor` the one in `stats-internal`; each is empty if the
    answer is missing. Raises `TypeError` or `ValueError` for a field of a wrong type.
    """
    throttled = [fields.integer(shown, name) for name in THROTTLED if name in shown]
    return DispatchStats(
        kind=_TYPES.get(fields.text(shown, "type") or ""),
        consumers=tuple(_consumer(each) for each in fields.objects(shown, "consumers")),
        active=fields.text(shown, "activeConsumerName"),
        backlog_messages=fields.known_count(shown, "msgBacklog"),
        in_replay=fields.known_count(shown, "msgInReplay"),
        delayed=fields.count(shown, "msgDelayed", 0),
        unacked=fields.integer(shown, "unackedMessages", 0),
        blocked=fields.flag(shown, "blockedSubscriptionOnUnackedMsgs") is True,
        messages_out=fields.known_count(shown, "msgOutCounter"),
        rate_out=fields.rate(shown, "msgRateOut"),
        total_permits=fields.known_integer(shown, "availablePermits"),
        out_of_order=fields.flag(shown, "allowOutOfOrderDelivery") is True,
        sticky=fields.text(shown, "keySharedMode") == "STICKY",
        open_transactions=fields.count(topic, "ongoingTxnCount", 0),
        throttled=sum(throttled) if throttled else None,
        rate_limit=fields.object_of(policies, "dispatchRate") if policies.get("dispatchRate") else None,
        consumer_limit=fields.known_count(policies, CONSUMER_LIMIT),
        subscription_limit=fields.known_count(policies, SUBSCRIPTION_LIMIT),
        pauses=fields.flag(policies, PAUSES),
        last_delivered_ms=fields.integer(shown, "lastConsumedTimestamp", 0) or None,
        last_acked_ms=fields.known_integer(shown, "lastAckedTimestamp"),
        oldest_age_seconds=_positive(fields.known_integer(shown, "oldestBacklogMessageAgeSeconds")),
        pending_read=fields.flag(cursor, "subscriptionHavePendingRead"),
        pending_replay_read=fields.flag(cursor, "subscriptionHavePendingReplayRead"),
        cursor_reads=_cursor_reads(cursor),
        consumed=fields.known_integer(cursor, "messagesConsumedCounter"),
        cursor_state=fields.text(cursor, "state"),
    )


def _cursor_reads(cursor: Mapping[str, Any]) -> bool | None:
    waiting, pending = fields.flag(cursor, "waitingReadOp"), fields.known_integer(cursor, "pendingReadOps")
    return None if waiting is None and pending is None else bool(waiting) or (pending or 0) > 0


def _consumer(shown: Mapping[str, Any]) -> ConsumerStats:
    return ConsumerStats(
        name=fields.text(shown, "consumerName") or "",
        permits=fields.integer(shown, "availablePermits", 0),
        unacked=fields.integer(shown, "unackedMessages", 0),
        blocked=fields.flag(shown, "blockedConsumerOnUnackedMsgs") is True,
        messages_out=fields.known_count(shown, "msgOutCounter"),
        draining_hashes=fields.known_count(shown, "drainingHashesCount"),
        slots=_slots(shown.get("keyHashRangeArrays")),
        connected_since=fields.text(shown, "connectedSince"),
        last_acked_ms=fields.known_integer(shown, "lastAckedTimestamp"),
    )


def _slots(ranges: Any) -> int | None:
    """Count the hashes in an array of ranges `[first, last]`; None if the array is missing or empty."""
    if ranges is None:
        return None
    if not isinstance(ranges, list) or not all(
        isinstance(each, list) and len(each) == 2 and all(type(end) is int for end in each) for each in ranges
    ):
        raise TypeError(
            f"keyHashRangeArrays is {fields.shortened(ranges)}; expected an array of pairs of integers"
        )
    return sum(last - first + 1 for first, last in ranges) if ranges else None


def _positive(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None
