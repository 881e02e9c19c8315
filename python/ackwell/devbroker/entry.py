"""An entry of a topic: its published bytes, and the values that are needed to dispatch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackwell.protocol.command_ack import TransactionId


class LogEntry:
    """One entry of a topic's log."""

    __slots__ = (
        "batch_size",
        "data",
        "deliver_at_ms",
        "key_hash",
        "key_mode",
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
        """The sticky-key hash, computed when a Key_Shared subscription needs it."""
        self.key_mode = ""
        """The mode of the subscription that computed `key_hash`: each mode has its own range of hashes."""
        self.transaction = transaction
        self.marker = marker
        """The type of a marker, an entry that ends a transaction; 0 for a message."""
