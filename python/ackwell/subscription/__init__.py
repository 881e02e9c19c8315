"""A subscription without I/O: consumers, dispatch, acknowledgments and redelivery."""

from ackwell.protocol.command_ack import (
    AckColumns,
    AckType,
    CommandAck,
    MessageId,
    TransactionId,
    ValidationError,
)
from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription.active_changes import ActiveChange, Removal
from ackwell.subscription.consumer import ConsumerKey
from ackwell.subscription.dispatcher import Delivery
from ackwell.subscription.durability import Receipt, StagedState
from ackwell.subscription.selectors import AutoSplit, ConsistentHashing, Selector, StickyRanges
from ackwell.subscription.sticky_key import sticky_key_hash
from ackwell.subscription.subscription import Subscription
from ackwell.subscription.subscription_settings import LostCounts, RedeliveryBackoff, SubscriptionSettings
from ackwell.subscription.summary import ConsumerSummary, Summary
from ackwell.subscription.undelivered import Outcome, Undelivered

__all__ = [
    "AckColumns",
    "AckType",
    "ActiveChange",
    "AutoSplit",
    "CommandAck",
    "ConsistentHashing",
    "ConsumerKey",
    "ConsumerSummary",
    "Delivery",
    "LostCounts",
    "MessageId",
    "Outcome",
    "Receipt",
    "RedeliveryBackoff",
    "Removal",
    "Selector",
    "StagedState",
    "StickyRanges",
    "Subscription",
    "SubscriptionSettings",
    "SubscriptionType",
    "Summary",
    "TransactionId",
    "Undelivered",
    "ValidationError",
    "sticky_key_hash",
]
