"""An entry of a topic, as it was published, and what dispatch must know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.protocol.command_ack import TransactionId


class LogEntry:
    """One entry."""

    __slots__ = (
        "batch_size",
        "data",
        "deliver_at_ms",
        "key_hash",
        "marker",
        "publish_ms",
        "transaction",
    )

    def __init__(
        self,
        data: bytes,
        batch_size: int,
        publish_ms: int,
        deliver_at_ms: int = 0,
        transaction: TransactionId | None = None,
        *,
        marker: int = 0,
    ) -> None:
        self.data = data
        self.batch_size = batch_size
        self.publish_ms = publish_ms
        self.deliver_at_ms = deliver_at_ms
        self.key_hash = -1
        """The key's slot, worked out when a Key_Shared subscription first asks."""
        self.transaction = transaction
        self.marker = marker
        """The type of a marker, which is not a message but the end of its transaction; 0 for a message."""
