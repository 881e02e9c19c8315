"""Who gets the next message: one policy for each way in which a subscription type distributes messages."""

from ackwell.subscription.policies.by_key import ByKey
from ackwell.subscription.policies.one_active import OneActive
from ackwell.subscription.policies.policy import Policy
from ackwell.subscription.policies.round_robin import RoundRobin

__all__ = ["ByKey", "OneActive", "Policy", "RoundRobin"]
