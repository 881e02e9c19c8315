"""A subscription without I/O: consumers, dispatch, acknowledgments and redelivery.

Each name is loaded on first use, so that the commands that only read a broker's statistics start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackwell.protocol.command_ack import AckColumns as AckColumns
    from ackwell.protocol.command_ack import AckType as AckType
    from ackwell.protocol.command_ack import CommandAck as CommandAck
    from ackwell.protocol.command_ack import MessageId as MessageId
    from ackwell.protocol.command_ack import TransactionId as TransactionId
    from ackwell.protocol.command_ack import ValidationError as ValidationError
    from ackwell.protocol.constants import SubscriptionType as SubscriptionType
    from ackwell.subscription.active_changes import ActiveChange as ActiveChange
    from ackwell.subscription.active_changes import Removal as Removal
    from ackwell.subscription.consumer import ConsumerKey as ConsumerKey
    from ackwell.subscription.dispatcher import Delivery as Delivery
    from ackwell.subscription.durability import Receipt as Receipt
    from ackwell.subscription.durability import StagedState as StagedState
    from ackwell.subscription.selectors import AutoSplit as AutoSplit
    from ackwell.subscription.selectors import ConsistentHashing as ConsistentHashing
    from ackwell.subscription.selectors import Selector as Selector
    from ackwell.subscription.selectors import StickyRanges as StickyRanges
    from ackwell.subscription.sticky_key import sticky_key_hash as sticky_key_hash
    from ackwell.subscription.subscription import Subscription as Subscription
    from ackwell.subscription.subscription_settings import LostCounts as LostCounts
    from ackwell.subscription.subscription_settings import RedeliveryBackoff as RedeliveryBackoff
    from ackwell.subscription.subscription_settings import SubscriptionSettings as SubscriptionSettings
    from ackwell.subscription.summary import ConsumerSummary as ConsumerSummary
    from ackwell.subscription.summary import Summary as Summary
    from ackwell.subscription.undelivered import Outcome as Outcome
    from ackwell.subscription.undelivered import Undelivered as Undelivered

_HOMES = {
    "AckColumns": "ackwell.protocol.command_ack",
    "AckType": "ackwell.protocol.command_ack",
    "ActiveChange": "ackwell.subscription.active_changes",
    "AutoSplit": "ackwell.subscription.selectors",
    "CommandAck": "ackwell.protocol.command_ack",
    "ConsistentHashing": "ackwell.subscription.selectors",
    "ConsumerKey": "ackwell.subscription.consumer",
    "ConsumerSummary": "ackwell.subscription.summary",
    "Delivery": "ackwell.subscription.dispatcher",
    "LostCounts": "ackwell.subscription.subscription_settings",
    "MessageId": "ackwell.protocol.command_ack",
    "Outcome": "ackwell.subscription.undelivered",
    "Receipt": "ackwell.subscription.durability",
    "RedeliveryBackoff": "ackwell.subscription.subscription_settings",
    "Removal": "ackwell.subscription.active_changes",
    "Selector": "ackwell.subscription.selectors",
    "StagedState": "ackwell.subscription.durability",
    "StickyRanges": "ackwell.subscription.selectors",
    "Subscription": "ackwell.subscription.subscription",
    "SubscriptionSettings": "ackwell.subscription.subscription_settings",
    "SubscriptionType": "ackwell.protocol.constants",
    "Summary": "ackwell.subscription.summary",
    "TransactionId": "ackwell.protocol.command_ack",
    "Undelivered": "ackwell.subscription.undelivered",
    "ValidationError": "ackwell.protocol.command_ack",
    "sticky_key_hash": "ackwell.subscription.sticky_key",
}
"""The module of each public name."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
