"""The transactions of a topic: what it holds back for them.

A topic is delivered up to the first message of the oldest open transaction, as the broker does; what was
published in an aborted one is never delivered. What a subscription's acknowledgments mean in a transaction is
`ackwell.subscription`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.entry import LogEntry
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.constants import TxnAction
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.log import Log
    from ackwell.protocol.command_ack import TransactionId

_MARKER_TYPES = {TxnAction.COMMIT: 21, TxnAction.ABORT: 22}
"""`MarkerType` of Pulsar: the end of a transaction in a topic's log."""


class TopicTransactions:
    """The transactions that published to one topic."""

    def __init__(self) -> None:
        self._first: dict[TransactionId, Position] = {}
        self._aborted: set[TransactionId] = set()
        self._late: set[Position] = set()
        """Messages of transactions that were not open when they came: they are never delivered."""
        self.committed = 0
        self.seen = False
        """Whether any transaction published here."""
        self.blocked_from: Position | None = None
        """The first message of an open transaction: nothing from here on is delivered."""

    def published(self, txn: TransactionId, position: Position, *, is_open: bool) -> None:
        """Take note of a message; what follows one of an open transaction waits for the transaction's end."""
        self.seen = True
        if not is_open:
            self._late.add(position)
        elif txn not in self._first:
            self._first[txn] = position
            self.blocked_from = min(self._first.values())

    def recover(self, log: Log, is_open: Callable[[TransactionId], bool]) -> None:
        """Find in the log what was ended, and what is still open; anything else came too late, or aborted."""
        ended: dict[TransactionId, int] = {}
        for ledger_id, entries in log.entries.items():
            for entry_id, entry in enumerate(entries):
                if entry.transaction is None:
                    continue
                if entry.marker:
                    ended[entry.transaction] = entry.marker
                    self._first.pop(entry.transaction, None)
                else:
                    # One whose end is found behind it leaves with its end.
                    live = entry.transaction not in ended
                    self.published(entry.transaction, Position(ledger_id, entry_id), is_open=live)
        for txn in [txn for txn in self._first if not is_open(txn)]:
            ended[txn] = _MARKER_TYPES[TxnAction.ABORT]
            del self._first[txn]
        self.blocked_from = min(self._first.values(), default=None)
        self._aborted = {txn for txn, kind in ended.items() if kind == _MARKER_TYPES[TxnAction.ABORT]}
        self.committed = len(ended) - len(self._aborted)

    @property
    def ongoing(self) -> int:
        """How many transactions that published here are open."""
        return len(self._first)

    @property
    def aborted(self) -> int:
        """How many that published here were aborted."""
        return len(self._aborted)

    def hides(self, txn: TransactionId, position: tuple[int, int]) -> bool:
        """Return whether a transaction's message is never delivered."""
        return txn in self._aborted or position in self._late

    def end(self, txn: TransactionId, action: TxnAction) -> bool:
        """End a transaction; return whether it published here."""
        if self._first.pop(txn, None) is None:
            return False
        if action is TxnAction.ABORT:
            self._aborted.add(txn)
        else:
            self.committed += 1
        self.blocked_from = min(self._first.values(), default=None)
        return True


END_EVENTS: Final = {TxnAction.COMMIT: Kind.COMMIT, TxnAction.ABORT: Kind.ABORT}
"""The event of each end."""


def marker(txn: TransactionId, action: TxnAction, now_ms: int) -> LogEntry:
    """Return the entry that ends a transaction in a topic's log."""
    metadata = messages.MessageMetadata(
        producer_name="",
        sequence_id=0,
        publish_time=now_ms,
        marker_type=_MARKER_TYPES[action],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return LogEntry(write_payload(metadata, b""), 1, now_ms, transaction=txn, marker=_MARKER_TYPES[action])
