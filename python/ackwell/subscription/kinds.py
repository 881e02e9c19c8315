"""The dispatch policy of each subscription type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription.policies import ByKeyPolicy, OneActivePolicy, Policy, RoundRobinPolicy
from ackwell.subscription.selectors import ConsistentHashing, Selector

if TYPE_CHECKING:
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.subscription_settings import SubscriptionSettings


def policy_of(
    kind: SubscriptionType,
    consumers: Consumers,
    replay: ReplayQueue,
    settings: SubscriptionSettings,
    selector: Selector | None,
    topic: str | None,
    partition: int | None,
) -> Policy:
    """Return a new dispatch policy for a subscription type."""
    if not (selector is None or isinstance(selector, Selector)):
        raise TypeError(f"selector is {selector!r}; expected an object with the methods of Selector")
    if kind is SubscriptionType.SHARED:
        return RoundRobinPolicy(consumers, settings.round_robin_batch_size)
    if kind is SubscriptionType.KEY_SHARED:
        in_key_order = not settings.allow_out_of_order_delivery
        return ByKeyPolicy(consumers, replay, selector or ConsistentHashing(), in_key_order=in_key_order)
    exclusive = kind is SubscriptionType.EXCLUSIVE
    read_max = settings.read_batch_size if settings.reads_by_permits else None
    return OneActivePolicy(
        consumers, exclusive=exclusive, partition=partition, topic=topic, read_max=read_max
    )
