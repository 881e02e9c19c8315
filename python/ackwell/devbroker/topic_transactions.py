"""The transactions that publish to a topic. An open transaction blocks the delivery of later entries.

A topic delivers only the entries before the first entry of any open transaction, as a Pulsar broker does.
Entries of an aborted transaction are never delivered. This module does not handle acknowledgments in
transactions; `ackwell.subscription` does.
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
"""Pulsar's `MarkerType` of the entry that ends a transaction in the log of a topic."""


class TopicTransactions:
    """The transactions that published to one topic."""

    def __init__(self) -> None:
        self._first: dict[TransactionId, Position] = {}
        self._aborted: set[TransactionId] = set()
        self._late: set[Position] = set()
        """The entries that were published after their transaction had ended. They are never delivered."""
        self.committed = 0
        self.seen = False
        """Whether any transaction has published to the topic."""
        self.blocked_from: Position | None = None
        """The first entry of all open transactions. This entry and all later entries are not delivered. None
        without an open transaction."""

    def published(self, txn: TransactionId, position: Position, *, is_open: bool) -> None:
        """Register an entry that was published in a transaction.

        An open transaction blocks this entry and all later entries of the topic.
        """
        self.seen = True
        if not is_open:
            self._late.add(position)
        elif txn not in self._first:
            self._first[txn] = position
            self.blocked_from = min(self._first.values())

    def recover(self, log: Log, is_open: Callable[[TransactionId], bool]) -> None:
        """Restore the transactions from the log. Abort each one that has no end marker, unless it is open."""
        ended: dict[TransactionId, int] = {}
        for ledger_id, entries in log.entries.items():
            for entry_id, entry in enumerate(entries):
                if entry.transaction is None:
                    continue
                if entry.marker:
                    ended[entry.transaction] = entry.marker
                    self._first.pop(entry.transaction, None)
                else:
                    # If an end marker follows later in the log, the transaction is removed again.
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
        """Return the position of the first entry that an open transaction published to the topic.

        None if there is none.
        """
        return self._first.get(txn)

    def is_aborted(self, txn: TransactionId) -> bool:
        """Return whether a transaction published to the topic and was then aborted."""
        return txn in self._aborted

    def hides(self, entry: LogEntry, position: tuple[int, int]) -> bool:
        """Return whether an entry is never delivered.

        An entry of an aborted transaction is not delivered if its message metadata contains the id of the
        transaction. If only the `CommandSend` contained the id, the entry is delivered after the abort. A
        Pulsar broker does the same. An entry of any other transaction is not delivered if the transaction was
        not open when the entry was published.
        """
        if entry.transaction in self._aborted:
            return bool(read_metadata(entry.data).HasField("txnid_most_bits"))
        return position in self._late

    def end(self, txn: TransactionId, action: TxnAction) -> bool:
        """End a transaction. Return whether the transaction published to the topic."""
        if self._first.pop(txn, None) is None:
            return False
        if action is TxnAction.ABORT:
            self._aborted.add(txn)
        else:
            self.committed += 1
        self.blocked_from = min(self._first.values(), default=None)
        return True


END_EVENTS: Final = {TxnAction.COMMIT: Kind.COMMIT, TxnAction.ABORT: Kind.ABORT}
"""Maps the end of a transaction to the event kind that is recorded for it."""


def marker(txn: TransactionId, action: TxnAction, now_ms: int) -> LogEntry:
    """Return the entry that ends a transaction in the log of a topic."""
    metadata = messages.MessageMetadata(
        producer_name="",
        sequence_id=0,
        publish_time=now_ms,
        marker_type=_MARKER_TYPES[action],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return LogEntry(write_payload(metadata, b""), 1, now_ms, transaction=txn, marker=_MARKER_TYPES[action])
