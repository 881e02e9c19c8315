"""Dispatch policies: the rules by which each subscription type chooses the consumer of a message."""

from ackwell.subscription.policies.by_key import ByKeyPolicy
from ackwell.subscription.policies.one_active import OneActivePolicy
from ackwell.subscription.policies.policy import Policy
from ackwell.subscription.policies.round_robin import RoundRobinPolicy
from ackwell.subscription.policies.run import Run

__all__ = ["ByKeyPolicy", "OneActivePolicy", "Policy", "RoundRobinPolicy", "Run"]
