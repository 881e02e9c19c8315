"""The notifications to the consumers of a Failover subscription after a change of the active consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.consumers import Consumers


class ActiveChange(NamedTuple):
    """The broker's `CommandActiveConsumerChange` to one consumer: whether this consumer is now active."""

    consumer: ConsumerKey
    active: bool


class Removal(NamedTuple):
    """The result of removing a consumer."""

    entries: int
    """The number of entries that were pending at the removed consumer. They will be redelivered."""
    active_changes: list[ActiveChange]
    """The notifications to send to the other consumers of a Failover subscription."""


def active_changes(
    consumers: Consumers, before: Consumer | None, active: Consumer | None, joined: Consumer | None = None
) -> list[ActiveChange]:
    """Return the notifications after a change of the consumers.

    If the active consumer changed, each consumer gets a notification. Otherwise only the consumer that joined
    gets one.
    """
    if active is before:
        return [] if joined is None else [ActiveChange(joined.key, joined is active)]
    return [ActiveChange(each.key, each is active) for each in consumers]
