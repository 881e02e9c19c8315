"""Notifications to the consumers of a Failover subscription when the active one changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.consumers import Consumers


class ActiveChange(NamedTuple):
    """The notification of one consumer: the broker's `CommandActiveConsumerChange`."""

    consumer: ConsumerKey
    active: bool


class Removal(NamedTuple):
    """The result of removing a consumer."""

    entries: int
    """The number of entries that the removed consumer had, which will be redelivered."""
    active_changes: list[ActiveChange]
    """On Failover, the notifications for the other consumers."""


def active_changes(
    consumers: Consumers, before: Consumer | None, active: Consumer | None, joined: Consumer | None = None
) -> list[ActiveChange]:
    """Return the notifications: for each consumer if another one is now active, else for the joined one."""
    if active is before:
        return [] if joined is None else [ActiveChange(joined.key, joined is active)]
    return [ActiveChange(each.key, each is active) for each in consumers]
