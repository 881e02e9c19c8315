"""The state that a subscription keeps for one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from ackwell._native import PendingAcks
    from ackwell.position import Position
    from ackwell.subscription.ack_timeouts import AckTimeouts
    from ackwell.subscription.in_hand import DeliveryTracker

ConsumerKey: TypeAlias = str | int
"""The key that identifies a consumer in every call: its `consumer_id` if it was added with one, else its
name."""

NO_EPOCH: Final = -1
"""The epoch of a consumer whose client sends no epoch. Pulsar's protocol defines the value
(`DEFAULT_CONSUMER_EPOCH`)."""


class Consumer(EqualByState):
    """The permits and the pending entries of one consumer.

    Pending entries are delivered and not acknowledged. `unacked` is the sum of their remaining messages. Only
    `Consumers` changes `pending` and `unacked`.
    """

    __slots__ = (
        "as_delivered",
        "blocked",
        "epoch",
        "in_hand",
        "key",
        "mean_batch_size",
        "name",
        "pending",
        "permits",
        "priority",
        "quarantined",
        "timeouts",
        "unacked",
        "watched",
        "withheld",
    )

    def __init__(
        self,
        key: ConsumerKey,
        name: str,
        priority: int,
        epoch: int,
        pending: PendingAcks,
        timeouts: AckTimeouts | None,
        in_hand: DeliveryTracker | None,
    ) -> None:
        self.key = key
        self.name = name
        self.priority = priority
        """The priority level. Level 0 is served first."""
        self.epoch = epoch
        """The number of redelivery requests that the client has sent. The client drops deliveries of an older
        epoch."""
        self.permits = 0
        """The number of further messages that the consumer may get. A batch can make it negative, as in the
        broker."""
        self.withheld = 0
        """Permits that the client sent while the consumer was blocked. They become usable when it is
        unblocked.

        The broker does the same. While the consumer is quarantined, all of its permits are withheld.
        """
        self.mean_batch_size = 0.0
        """The moving average of the number of messages in a delivered entry; 0 before the first delivery (see
        `reads`)."""
        self.pending = pending
        """The pending entries: position → (number of remaining messages, sticky-key hash)."""
        self.as_delivered: dict[Position, int] = {}
        """Position → batch size. A broker of 4.0 reports the batch size of a pending entry instead of the
        number of its remaining messages."""
        self.unacked = 0
        self.blocked = False
        """Whether the consumer reached its limit of unacknowledged messages and still has more than half of
        the limit."""
        self.quarantined = False
        """Whether the consumer has a suspect entry, or gets no entries until a suspect can be delivered to it
        alone (see `quarantine`)."""
        self.timeouts = timeouts
        self.in_hand = in_hand
        """The tracker of the entries that the consumer works on; `None` if the consumer does not report
        them."""
        self.watched = timeouts is not None or in_hand is not None
        """Whether deliveries to the consumer must be recorded in `timeouts` or `in_hand`."""

    def __repr__(self) -> str:
        return f"<Consumer {self.key!r}: {self.permits} permits, {self.unacked} unacked>"
