"""Backlog quotas: limits of the size and the age of a topic's unacknowledged entries.

Like a Pulsar broker, the dev broker checks the backlogs every `backlogQuotaCheckIntervalInSeconds`. If a
backlog exceeds a limit, the policy of the quota decides: the broker acknowledges entries of the slowest
subscription, or it closes the producers of the topic and refuses new producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.namespace_policies import (
    BACKLOG_QUOTA,
    EVICTION,
    EXCEPTION,
    HOLD,
    QUOTA_OF_AGE,
    QUOTA_OF_SIZE,
)
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.position import Position

if TYPE_CHECKING:
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic

REDUCED_TO: Final = 0.9
"""To enforce a size limit, an eviction reduces the backlog to this fraction of the limit."""

_REFUSALS: Final = {
    HOLD: ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR,
    EXCEPTION: ErrorCode.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
}
"""Maps the policy of a quota to the error that a refused producer gets. With `producer_request_hold`, the
client keeps its messages until they time out."""


def quota(topic: Topic, kind: str) -> dict[str, Any] | None:
    """Return the topic's quota of type `kind`, or that of its namespace. None if neither has such a quota."""
    stored = topic.content.shared.stored(topic.name, BACKLOG_QUOTA)
    return next((quotas[kind] for quotas in stored if quotas is not None and kind in quotas), None)


def exceeded(topic: Topic) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the limits of a quota that the topic exceeds. None if it exceeds no quota."""
    slowest = _slowest(topic)
    if slowest is None:
        return None
    by_size, by_age = quota(topic, QUOTA_OF_SIZE), quota(topic, QUOTA_OF_AGE)
    if by_size is not None and 0 <= by_size["limitSize"] <= slowest.backlog_bytes:
        return QUOTA_OF_SIZE, by_size
    if by_age is not None and by_age["limitTime"] > 0 and _age_ms(slowest) > 1_000 * by_age["limitTime"]:
        return QUOTA_OF_AGE, by_age
    return None


def check_producer(topic: Topic) -> None:
    """Raise `CommandRefusedError` if the topic exceeds a quota whose policy refuses producers."""
    found = exceeded(topic)
    if found is not None and found[1]["policy"] != EVICTION:
        kind, limits = found
        raise CommandRefusedError(
            _REFUSALS[limits["policy"]],
            f"Cannot create producer on topic with backlog quota exceeded: {kind} of {topic.name}",
        )


def enforce(topic: Topic) -> None:
    """Apply the policy of a quota to a topic, if the topic exceeds the quota."""
    found = exceeded(topic)
    if found is None:
        return
    kind, limits = found
    if limits["policy"] != EVICTION:
        topic.producers.close_all()
    elif kind == QUOTA_OF_SIZE:
        _evict_bytes(topic, limits["limitSize"])
    else:
        _evict_ledgers(topic, 1_000 * limits["limitTime"])


def _slowest(topic: Topic) -> TopicSubscription | None:
    durable = [each for each in topic.subscriptions.values() if each.durable]
    return min(durable, key=lambda each: each.cursor.mark_delete_position, default=None)


def _age_ms(subscription: TopicSubscription) -> int:
    """Return the age of a backlog in milliseconds.

    The age is the time since the ledger of the oldest unacknowledged entry was closed. It is 0 while this
    ledger is open.

    A Pulsar broker without `preciseTimeBasedBacklogQuotaCheck` measures the age in the same way. Such a
    broker does not read the publish time of the entry.
    """
    log = subscription.content.log
    closed_ms = log.closed_ms(subscription.first_unacked_ledger)
    return 0 if closed_ms is None else subscription.content.clock.now_ms() - closed_ms


def _evict_bytes(topic: Topic, limit_bytes: int) -> None:
    """Acknowledge entries of the slowest subscription until its backlog is at most 90% of the limit."""
    target = REDUCED_TO * limit_bytes
    while (slowest := _slowest(topic)) is not None and slowest.backlog_bytes > target:
        backlog = slowest.cursor.backlog_entries
        entries = int(backlog * (1 - target / slowest.backlog_bytes))
        if not entries:
            return
        slowest.skip(entries)


def _evict_ledgers(topic: Topic, limit_ms: int) -> None:
    """Acknowledge the slowest subscription's entries in ledgers that were closed more than `limit_ms` ago."""
    while (slowest := _slowest(topic)) is not None and _age_ms(slowest) > limit_ms:
        ledger_id = slowest.first_unacked_ledger
        entries = len(slowest.content.log.entries[ledger_id])
        slowest.expire(Position(ledger_id, entries - 1))
