"""One consumer, as its subscription sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from ackwell._native import PendingAcks
    from ackwell.position import Position
    from ackwell.subscription.ack_timeouts import AckTimeouts

ConsumerKey: TypeAlias = str | int
"""What identifies a consumer in every call: its `consumer_id` if it was added with one, else its name."""

NO_EPOCH: Final = -1
"""The epoch of a consumer whose client has none, as on the wire (`DEFAULT_CONSUMER_EPOCH`)."""


class Consumer(EqualByState):
    """What one consumer may still get, and what it received and has not acknowledged.

    `unacked` is the sum of the remaining messages in `pending`; only `Consumers` changes both.
    """

    __slots__ = (
        "as_delivered",
        "blocked",
        "epoch",
        "key",
        "mean_batch_size",
        "name",
        "pending",
        "permits",
        "priority",
        "timeouts",
        "unacked",
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
    ) -> None:
        self.key = key
        self.name = name
        self.priority = priority
        """0 is served first."""
        self.epoch = epoch
        """How often the client asked for redelivery; a delivery of an older epoch is out of date."""
        self.permits = 0
        """Messages that it asked for and did not get; a batch may take it below 0, as in the broker."""
        self.withheld = 0
        """Permits that came while it was blocked, which a broker grants when it is not any more."""
        self.mean_batch_size = 0.0
        """Messages in an entry that it got, the newest reads first; 0 before the first (see `reads`)."""
        self.pending = pending
        """Position → (remaining messages, sticky-key hash)."""
        self.as_delivered: dict[Position, int] = {}
        """Position → batch size, if a broker of 4.0 reports that and not what remains."""
        self.unacked = 0
        self.blocked = False
        """It reached its limit of unacknowledged messages, and is not yet down to half of it."""
        self.timeouts = timeouts

    def __repr__(self) -> str:
        return f"<Consumer {self.key!r}: {self.permits} permits, {self.unacked} unacked>"
