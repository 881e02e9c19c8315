"""The reason why a subscription reads no unread entries.

`stall` explains a subscription of ackwell, `explain_stall` a broker's subscription from its statistics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription.consumers import Consumers
from ackwell.subscription.kinds import policy_of
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.policies.policy import blocking_reason
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.structures import Structures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.subscription.policies import Policy
    from ackwell.subscription.subscription_settings import SubscriptionSettings


def stall(
    policy: Policy,
    consumers: Consumers,
    settings: SubscriptionSettings,
    *,
    waiting: int,
    fixed_delay: bool,
    ranges: int,
) -> NonDelivery | None:
    """Return the reason why no unread entry is read; `None` if reading may continue. O(consumers).

    `waiting` is the number of entries that wait for their key. `ranges` is the number of ranges of
    acknowledged entries in the cursor. `fixed_delay` is true if many messages wait and all have the same
    delay (see `DelayedMessages.waits_for_fixed_delay`). An entry that is read later is then also due later.
    """
    reason = policy.stall(new=True)
    if reason is not None:
        return reason
    if policy.individual and consumers.blocked:
        return NonDelivery.SUBSCRIPTION_BLOCKED
    if policy.by_key and waiting >= _look_ahead(settings, len(consumers)):
        return NonDelivery.LOOK_AHEAD
    if fixed_delay:
        return NonDelivery.FIXED_DELAY
    limit = settings.pause_above_ranges
    return NonDelivery.PAUSED if limit is not None and ranges > limit else None


def _look_ahead(settings: SubscriptionSettings, consumers: int) -> int:
    """Return the limit of `waiting`: reading stops if at least this number of entries wait for their key."""
    limits = []
    if settings.look_ahead_per_consumer:
        limits.append(settings.look_ahead_per_consumer * consumers)
    if settings.look_ahead_per_subscription:
        limits.append(settings.look_ahead_per_subscription)
    return min(limits, default=2**62)


class ConsumerView(NamedTuple):
    """The numbers of a consumer in a broker's statistics."""

    name: str
    permits: int
    unacked: int
    blocked: bool


def explain_stall(
    kind: SubscriptionType,
    views: Sequence[ConsumerView],
    settings: SubscriptionSettings,
    *,
    active: str | None = None,
    blocked: bool = False,
    waiting: int = 0,
    fixed_delay: bool = False,
    ranges: int = 0,
) -> tuple[NonDelivery | None, list[NonDelivery | None]]:
    """Return why a broker's subscription reads no unread entries, and why each of its consumers gets none.

    `views` has the consumers. `active` is the name of the active consumer. `blocked` is true if the
    subscription has reached its limit. The other arguments are those of `stall`.

    >>> from ackwell.subscription.subscription_settings import SubscriptionSettings
    >>> full = ConsumerView("a", 0, 5, False), ConsumerView("b", 9, 50_000, True)
    >>> explain_stall(SubscriptionType.SHARED, full, SubscriptionSettings.pulsar("4.2"))[1]
    [<NonDelivery.NO_PERMITS: 'no consumer that may get it has permits'>, \
<NonDelivery.CONSUMER_BLOCKED: 'the consumer has too many unacknowledged messages'>]
    """
    import ackwell._native as engine

    structures = Structures.of(engine)
    if settings.max_unacked_per_subscription:
        settings = replace(settings, max_unacked_per_subscription=0)
    consumers = Consumers(structures, settings)
    # Statistics can list several consumers of an Exclusive subscription. `Failover` accepts them.
    kind = SubscriptionType.FAILOVER if kind is SubscriptionType.EXCLUSIVE else kind
    replay = ReplayQueue(structures, by_key=True, keeps_places=False)
    # The result does not depend on the owners of the hashes, so any selector can be used.
    policy = policy_of(kind, consumers, replay, settings, selector=None, topic=None, partition=None)
    reasons: list[NonDelivery | None] = []
    for number, each in enumerate(views):
        consumer = consumers.join(number, each.name, 0, 0)
        consumer.permits, consumer.unacked, consumer.blocked = each.permits, each.unacked, each.blocked
        if not policy.by_key:
            policy.join(consumer, ())
    if active is not None and not policy.individual:
        policy.active = next((each for each in consumers if each.name == active), policy.active)
    for consumer in consumers:
        gets = consumers.allowance(consumer) > 0 if policy.individual else consumer.permits > 0
        reasons.append(None if gets else blocking_reason(consumers, [consumer], new=True))
    consumers.blocked = blocked
    found = stall(policy, consumers, settings, waiting=waiting, fixed_delay=fixed_delay, ranges=ranges)
    return found, reasons
