"""Dispatch policies: the rules by which each subscription type chooses the consumer of a message."""

from ackwell.subscription.policies.by_key import ByKey
from ackwell.subscription.policies.one_active import OneActive
from ackwell.subscription.policies.policy import Policy
from ackwell.subscription.policies.round_robin import RoundRobin
from ackwell.subscription.policies.run import Run

__all__ = ["ByKey", "OneActive", "Policy", "RoundRobin", "Run"]
