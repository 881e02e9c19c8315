"""One consumer, as its subscription sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell._native import PendingAcks
    from ackwell.subscription.ack_timeouts import AckTimeouts


class Consumer:
    """What one consumer may still get, and what it has got and not acknowledged.

    `unacked` is the sum of the remaining messages in `pending`; `Outstanding` alone changes both.
    """

    __slots__ = (
        "blocked",
        "name",
        "pending",
        "permits",
        "priority",
        "timeouts",
        "unacked",
    )

    def __init__(self, name: str, priority: int, pending: PendingAcks, timeouts: AckTimeouts | None) -> None:
        self.name = name
        self.priority = priority
        """0 is served first."""
        self.permits = 0
        """Messages it has asked for and not got; a batch may take it below 0, as in the broker."""
        self.pending = pending
        """Position → (remaining messages, sticky-key hash)."""
        self.unacked = 0
        self.blocked = False
        """It reached its limit of unacknowledged messages, and is not yet down to half of it."""
        self.timeouts = timeouts

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r}: {self.permits} permits, {self.unacked} unacked>"
