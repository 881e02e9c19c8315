"""A subscription without I/O: consumers, dispatch, acknowledgments and redelivery.

Each name is loaded on first use, so that the commands that only read a broker's statistics start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.lazy_names import lazy_names

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
    from ackwell.subscription.outcome import NonDelivery as NonDelivery
    from ackwell.subscription.outcome import Outcome as Outcome
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

_HOMES = {
    "AckColumns": "ackwell.protocol.command_ack",
    "AckType": "ackwell.protocol.command_ack",
    "ActiveChange": ".active_changes",
    "AutoSplit": ".selectors",
    "CommandAck": "ackwell.protocol.command_ack",
    "ConsistentHashing": ".selectors",
    "ConsumerKey": ".consumer",
    "ConsumerSummary": ".summary",
    "Delivery": ".dispatcher",
    "LostCounts": ".subscription_settings",
    "MessageId": "ackwell.protocol.command_ack",
    "NonDelivery": ".outcome",
    "Outcome": ".outcome",
    "Receipt": ".durability",
    "RedeliveryBackoff": ".subscription_settings",
    "Removal": ".active_changes",
    "Selector": ".selectors",
    "StagedState": ".durability",
    "StickyRanges": ".selectors",
    "Subscription": ".subscription",
    "SubscriptionSettings": ".subscription_settings",
    "SubscriptionType": "ackwell.protocol.constants",
    "Summary": ".summary",
    "TransactionId": "ackwell.protocol.command_ack",
    "ValidationError": "ackwell.protocol.command_ack",
    "sticky_key_hash": ".sticky_key",
}
"""Public name → the module that defines it."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
