"""The result of dispatching an entry."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from ackwell.subscription.consumer import ConsumerKey


@final
class NonDelivery(Enum):
    """The reason why no consumer gets an entry now. The value is a text that describes the reason."""

    NO_CONSUMER = "no consumer is connected, or none owns the hash"
    NO_PERMITS = "no consumer that may get it has permits"
    CONSUMER_BLOCKED = "the consumer has too many unacknowledged messages"
    SUBSCRIPTION_BLOCKED = "all consumers together have too many unacknowledged messages"
    KEY_WAITS = "an older message of its key waits, or is with another consumer"
    QUARANTINE = "a consumer was lost with it or with another message, which is delivered alone"
    DELAYED = "its delivery time has not come"
    DEAD_LETTER = "it was redelivered too often"
    ACKNOWLEDGED = "it is acknowledged, or an open transaction holds it"
    NOT_NEXT = "it is neither the next unread entry nor queued for redelivery"
    LOOK_AHEAD = "too many messages wait for their key to read on"
    FIXED_DELAY = "the look-ahead limit of messages with one fixed delay is reached"
    PAUSED = "the cursor has more ranges than can be saved"


class Outcome(NamedTuple):
    """The answer of `dispatch`: the consumer that gets the entry, or the reason why none gets it now.

    As a boolean, an outcome is true if the entry was delivered.

    >>> bool(Outcome("a")), bool(Outcome(0)), bool(Outcome(reason=NonDelivery.NO_PERMITS))
    (True, True, False)
    """

    consumer: ConsumerKey | None = None
    """The key of the consumer that gets the entry; `None` if no consumer gets it."""
    reason: NonDelivery | None = None
    """The reason why no consumer gets the entry; `None` if it was delivered."""

    def __bool__(self) -> bool:
        return self.reason is None
