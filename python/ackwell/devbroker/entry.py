"""An entry of a topic: its published bytes, and the values that the broker needs to dispatch it."""

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
        """The sticky-key hash of the entry; -1 until a Key_Shared subscription needs it."""
        self.key_mode = ""
        """The Key_Shared mode for which `key_hash` was computed. Each mode has a different range of
        hashes."""
        self.transaction = transaction
        self.marker = marker
        """The marker type, if the entry is a marker that ends a transaction. 0 for an entry with messages."""
