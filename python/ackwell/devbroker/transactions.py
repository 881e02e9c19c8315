"""The transactions of a topic: what it holds back for them.

A topic is delivered up to the first message of the oldest open transaction, as the broker does; what was
published in an aborted one is never delivered. What a subscription's acknowledgments mean in a transaction is
`ackwell.subscription`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.entries import Entry
from ackwell.protocol import messages
from ackwell.protocol.codes import TxnAction
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.devbroker.log import Log
    from ackwell.position import Position
    from ackwell.protocol.command_ack import TransactionId

_MARKER_TYPES = {TxnAction.COMMIT: 21, TxnAction.ABORT: 22}
"""`MarkerType` of Pulsar: the end of a transaction in a topic's log."""


class TopicTransactions:
    """The transactions that published to one topic."""

    def __init__(self) -> None:
        self._first: dict[TransactionId, Position] = {}
        self._aborted: set[TransactionId] = set()
        self.committed = 0
        self.seen = False
        """Whether any transaction published here."""
        self.held_from: Position | None = None
        """The first message of an open transaction: nothing from here on is delivered."""

    def published(self, txn: TransactionId, position: Position) -> None:
        """Take note of a message; what follows it waits for the transaction's end."""
        self.seen = True
        self._first.setdefault(txn, position)
        self.held_from = min(self._first.values())

    def recover(self, log: Log) -> None:
        """Find what was ended in the log; what was not is aborted, for its coordinator is gone."""
        published: set[TransactionId] = set()
        committed: set[TransactionId] = set()
        for entries in log.entries.values():
            for entry in entries:
                if entry.transaction is not None and not entry.marker:
                    published.add(entry.transaction)
                elif entry.transaction is not None and entry.marker == _MARKER_TYPES[TxnAction.COMMIT]:
                    committed.add(entry.transaction)
        self.seen = bool(published)
        self.committed = len(committed)
        self._aborted = published - committed

    @property
    def ongoing(self) -> int:
        """How many transactions that published here are open."""
        return len(self._first)

    @property
    def aborted(self) -> int:
        """How many that published here were aborted."""
        return len(self._aborted)

    def was_aborted(self, txn: TransactionId) -> bool:
        """Return whether the messages of a transaction are to be skipped."""
        return txn in self._aborted

    def end(self, txn: TransactionId, action: TxnAction) -> bool:
        """End a transaction; return whether it published here."""
        if self._first.pop(txn, None) is None:
            return False
        if action is TxnAction.ABORT:
            self._aborted.add(txn)
        else:
            self.committed += 1
        self.held_from = min(self._first.values(), default=None)
        return True


KINDS: Final = {TxnAction.COMMIT: Kind.COMMIT, TxnAction.ABORT: Kind.ABORT}
"""The event of each end."""


def marker(txn: TransactionId, action: TxnAction, now_ms: int) -> Entry:
    """Return the entry that ends a transaction in a topic's log."""
    metadata = messages.MessageMetadata(
        producer_name="",
        sequence_id=0,
        publish_time=now_ms,
        marker_type=_MARKER_TYPES[action],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return Entry(write_payload(metadata, b""), 1, now_ms, transaction=txn, marker=_MARKER_TYPES[action])
