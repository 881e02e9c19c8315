"""Consumers, dispatch, acknowledgments and redelivery: a subscription's decisions, without any I/O."""

from ackwell.subscription.command import (
    AckType,
    CommandAck,
    MessageId,
    TransactionId,
    ValidationError,
)
from ackwell.subscription.dispatcher import Delivery
from ackwell.subscription.durability import Receipt, Staged
from ackwell.subscription.selectors import AutoSplit, ConsistentHashing, Selector, StickyRanges
from ackwell.subscription.settings import RedeliveryBackoff, SubscriptionSettings
from ackwell.subscription.sticky_key import sticky_key_hash
from ackwell.subscription.subscription import Subscription, SubscriptionType
from ackwell.subscription.summary import ConsumerSummary, Summary

__all__ = [
    "AckType",
    "AutoSplit",
    "CommandAck",
    "ConsistentHashing",
    "ConsumerSummary",
    "Delivery",
    "MessageId",
    "Receipt",
    "RedeliveryBackoff",
    "Selector",
    "Staged",
    "StickyRanges",
    "Subscription",
    "SubscriptionSettings",
    "SubscriptionType",
    "Summary",
    "TransactionId",
    "ValidationError",
    "sticky_key_hash",
]
