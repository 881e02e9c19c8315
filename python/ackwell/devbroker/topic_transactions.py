"""The transactions that publish to a topic, and the entries that they block.

A topic delivers entries up to the first entry of the oldest open transaction, as a Pulsar broker does.
Entries of an aborted transaction are never delivered. `ackwell.subscription` handles acknowledgments in
transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackwell.devbroker.entry import LogEntry
from ackwell.position import Position
from ackwell.protocol import messages
from ackwell.protocol.constants import TxnAction
from ackwell.protocol.payload import read_metadata, write_payload
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
        """Entries that arrived after their transaction ended; they are never delivered."""
        self.committed = 0
        self.seen = False
        """Whether any transaction published to the topic."""
        self.blocked_from: Position | None = None
        """The first entry of an open transaction; entries from this position on are not delivered."""

    def published(self, txn: TransactionId, position: Position, *, is_open: bool) -> None:
        """Register an entry of a transaction. An open transaction blocks all later entries of the topic."""
        self.seen = True
        if not is_open:
            self._late.add(position)
        elif txn not in self._first:
            self._first[txn] = position
            self.blocked_from = min(self._first.values())

    def recover(self, log: Log, is_open: Callable[[TransactionId], bool]) -> None:
        """Restore the transactions from the log. Abort those that have no end marker and are not open."""
        ended: dict[TransactionId, int] = {}
        for ledger_id, entries in log.entries.items():
            for entry_id, entry in enumerate(entries):
                if entry.transaction is None:
                    continue
                if entry.marker:
                    ended[entry.transaction] = entry.marker
                    self._first.pop(entry.transaction, None)
                else:
                    # A later end marker removes the transaction again.
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
        """The number of open transactions that published to the topic."""
        return len(self._first)

    @property
    def aborted(self) -> int:
        """The number of aborted transactions that published to the topic."""
        return len(self._aborted)

    def first_entry(self, txn: TransactionId) -> Position | None:
        """Return the first entry of an open transaction; None if it has not published to the topic."""
        return self._first.get(txn)

    def is_aborted(self, txn: TransactionId) -> bool:
        """Return whether a transaction that published to the topic was aborted."""
        return txn in self._aborted

    def hides(self, entry: LogEntry, position: tuple[int, int]) -> bool:
        """Return whether an entry is never delivered.

        As in a Pulsar broker, the message metadata must name the aborted transaction. If only the
        `CommandSend` named it, the message is delivered after the abort.
        """
        if entry.transaction in self._aborted:
            return bool(read_metadata(entry.data).HasField("txnid_most_bits"))
        return position in self._late

    def end(self, txn: TransactionId, action: TxnAction) -> bool:
        """End a transaction; return whether it published to the topic."""
        if self._first.pop(txn, None) is None:
            return False
        if action is TxnAction.ABORT:
            self._aborted.add(txn)
        else:
            self.committed += 1
        self.blocked_from = min(self._first.values(), default=None)
        return True


END_EVENTS: Final = {TxnAction.COMMIT: Kind.COMMIT, TxnAction.ABORT: Kind.ABORT}
"""The event kind of a commit and of an abort."""


def marker(txn: TransactionId, action: TxnAction, now_ms: int) -> LogEntry:
    """Return the marker, which is the entry that ends a transaction in a topic's log."""
    metadata = messages.MessageMetadata(
        producer_name="",
        sequence_id=0,
        publish_time=now_ms,
        marker_type=_MARKER_TYPES[action],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return LogEntry(write_payload(metadata, b""), 1, now_ms, transaction=txn, marker=_MARKER_TYPES[action])
