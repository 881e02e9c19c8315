"""The state that a subscription keeps for one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from ackwell._native import PendingAcks
    from ackwell.position import Position
    from ackwell.subscription.ack_timeouts import AckTimeouts
    from ackwell.subscription.in_hand import InHand

ConsumerKey: TypeAlias = str | int
"""The identity of a consumer in every call: its `consumer_id` if it was added with one, else its name."""

NO_EPOCH: Final = -1
"""The epoch of a consumer whose client sends no epoch, as on the wire (`DEFAULT_CONSUMER_EPOCH`)."""


class Consumer(EqualByState):
    """The permits of one consumer, and its delivered, unacknowledged entries.

    `unacked` is the sum of the remaining messages in `pending`. Only `Consumers` changes both.
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
        in_hand: InHand | None,
    ) -> None:
        self.key = key
        self.name = name
        self.priority = priority
        """The priority; consumers with priority 0 are served first."""
        self.epoch = epoch
        """The number of redelivery requests of the client. A delivery of an older epoch is out of date."""
        self.permits = 0
        """The number of messages that it may still get. A batch may take it below 0, as in the broker."""
        self.withheld = 0
        """Permits that a blocked consumer has sent. As in a broker, they are granted when it is unblocked.

        While the consumer is quarantined, all of its permits are withheld.
        """
        self.mean_batch_size = 0.0
        """The moving average of the messages per delivered entry; 0 before the first entry (see `reads`)."""
        self.pending = pending
        """Position → (remaining messages, sticky-key hash)."""
        self.as_delivered: dict[Position, int] = {}
        """Position → batch size, which a broker of 4.0 reports instead of the remaining messages."""
        self.unacked = 0
        self.blocked = False
        """Whether the consumer reached its message limit, and still has more than half of that number."""
        self.quarantined = False
        """Whether the consumer has a suspect entry, or makes room for one (see `quarantine`)."""
        self.timeouts = timeouts
        self.in_hand = in_hand
        """The entries on which the consumer works; `None` if it does not report them."""
        self.watched = timeouts is not None or in_hand is not None
        """Whether `timeouts` or `in_hand` records its deliveries."""

    def __repr__(self) -> str:
        return f"<Consumer {self.key!r}: {self.permits} permits, {self.unacked} unacked>"
