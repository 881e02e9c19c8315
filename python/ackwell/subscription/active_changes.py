"""What the consumers of a Failover subscription learn when the active one changes."""

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
    """What the removal of a consumer led to."""

    entries: int
    """How many of its entries go back to be delivered again."""
    active_changes: list[ActiveChange]
    """On Failover, the notifications of the others."""


def active_changes(
    consumers: Consumers, before: Consumer | None, active: Consumer | None, joined: Consumer | None = None
) -> list[ActiveChange]:
    """Return the notifications to send: to all if the active one changed, else to the one that joined."""
    if active is before:
        return [] if joined is None else [ActiveChange(joined.key, joined is active)]
    return [ActiveChange(each.key, each is active) for each in consumers]
