"""Dispatch policies: for each group of subscription types, the rule that chooses a message's consumer."""

from ackwell.subscription.policies.by_key import ByKey
from ackwell.subscription.policies.one_active import OneActive
from ackwell.subscription.policies.policy import Policy
from ackwell.subscription.policies.round_robin import RoundRobin
from ackwell.subscription.policies.run import Run

__all__ = ["ByKey", "OneActive", "Policy", "RoundRobin", "Run"]
