"""Transactions: the coordinator that opens and ends them, and what a topic holds back for them.

A topic is delivered up to the first message of the oldest open transaction, as the broker does; what was
published in an aborted one is never delivered. What a subscription's acknowledgments mean in a transaction is
`ackwell.subscription`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackwell.devbroker.log import Entry
from ackwell.devbroker.refusals import RefusedError
from ackwell.protocol import messages
from ackwell.protocol.codes import ServerError, TxnAction
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Kind
from ackwell.subscription import TransactionId

if TYPE_CHECKING:
    from ackwell.devbroker.state import State
    from ackwell.devbroker.topic import Topic
    from ackwell.position import Position

Txn = tuple[int, int]
"""The most and the least significant bits of a transaction's id."""

_MARKER_TYPES = {TxnAction.COMMIT: 21, TxnAction.ABORT: 22}
"""`MarkerType` of Pulsar: the end of a transaction in a topic's log."""


class TopicTransactions:
    """The transactions that published to one topic."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._first: dict[Txn, Position] = {}
        self._aborted: set[Txn] = set()
        self.committed = 0
        self.seen = False
        """Whether any transaction published here."""
        self.held_from: Position | None = None
        """The first message of an open transaction: nothing from here on is delivered."""

    def published(self, txn: Txn, position: Position) -> None:
        """Take note of a message; what follows it waits for the transaction's end."""
        self.seen = True
        self._first.setdefault(txn, position)
        self.held_from = min(self._first.values())

    def recover(self) -> None:
        """Find what was ended in the log; what was not is aborted, for its coordinator is gone."""
        published: set[Txn] = set()
        committed: set[Txn] = set()
        for entries in self._topic.log.entries.values():
            for entry in entries:
                if entry.transaction is not None and not entry.marker:
                    published.add(entry.transaction)
                elif entry.transaction is not None and entry.marker == _MARKER_TYPES[TxnAction.COMMIT]:
                    committed.add(entry.transaction)
        self.seen = bool(published)
        self.committed = len(committed)
        self._aborted = published - committed

    def moved_to(self, topic: Topic) -> TopicTransactions:
        """Return what a topic that was loaded again holds back."""
        moved = TopicTransactions(topic)
        moved._first, moved._aborted = self._first, self._aborted
        moved.held_from, moved.committed = self.held_from, self.committed
        moved.seen = self.seen
        return moved

    @property
    def ongoing(self) -> int:
        """How many transactions that published here are open."""
        return len(self._first)

    @property
    def aborted(self) -> int:
        """How many that published here were aborted."""
        return len(self._aborted)

    def was_aborted(self, txn: Txn) -> bool:
        """Return whether the messages of a transaction are to be skipped."""
        return txn in self._aborted

    def end(self, txn: Txn, action: TxnAction) -> None:
        """End a transaction that published here."""
        if self._first.pop(txn, None) is None:
            return
        if action is TxnAction.ABORT:
            self._aborted.add(txn)
        else:
            self.committed += 1
        self.held_from = min(self._first.values(), default=None)
        self._topic.record(_KINDS[action], transaction=f"{txn[0]}:{txn[1]}")
        self._topic.publish(_marker(txn, action, self._topic.clock.now_ms()))
        for each in self._topic.subscriptions.values():
            each.wake()


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that was not ended: the topics and subscriptions that take part."""

    topics: set[str] = field(default_factory=set)
    subscriptions: set[tuple[str, str]] = field(default_factory=set)


class Coordinator:
    """Opens transactions and ends them, after their time too."""

    def __init__(self) -> None:
        self.open: dict[Txn, OpenTransaction] = {}
        self._next = 0

    def begin(self, coordinator_id: int, ttl_ms: int, state: State) -> Txn:
        """Open a transaction that is aborted after `ttl_ms` unless it ended; 0 for never."""
        txn = coordinator_id, self._next
        self._next += 1
        self.open[txn] = OpenTransaction()
        if ttl_ms:
            state.clock.call_at(state.clock.now_ms() + ttl_ms, lambda: self._expire(txn, state))
        return txn

    def get(self, txn: Txn) -> OpenTransaction:
        """Return an open transaction; `RefusedError` for any other."""
        if txn not in self.open:
            raise RefusedError(ServerError.TRANSACTION_NOT_FOUND, f"transaction {txn} is not open")
        return self.open[txn]

    def end(self, txn: Txn, action: TxnAction, state: State) -> None:
        """Commit or abort a transaction, in every topic and subscription that takes part."""
        content = self.get(txn)
        del self.open[txn]
        for name in sorted(content.topics):
            if (topic := state.topics.get(name)) is not None:
                topic.transactions.end(txn, action)
        for name, subscription_name in sorted(content.subscriptions):
            topic = state.topics.get(name)
            found = topic.subscriptions.get(subscription_name) if topic else None
            if found is None:
                continue
            ended = TransactionId(*txn)
            if action is TxnAction.COMMIT:
                found.subscription.commit(ended)
                found.acknowledged(whole=True)
            else:
                found.subscription.abort(ended)
            state.changed(found)
            found.record(_KINDS[action], transaction=f"{txn[0]}:{txn[1]}")
            found.wake()

    def _expire(self, txn: Txn, state: State) -> None:
        if txn in self.open:
            self.end(txn, TxnAction.ABORT, state)
            state.run_woken()


_KINDS = {TxnAction.COMMIT: Kind.COMMIT, TxnAction.ABORT: Kind.ABORT}


def _marker(txn: Txn, action: TxnAction, now_ms: int) -> Entry:
    metadata = messages.MessageMetadata(
        producer_name="",
        sequence_id=0,
        publish_time=now_ms,
        marker_type=_MARKER_TYPES[action],
        txnid_most_bits=txn[0],
        txnid_least_bits=txn[1],
    )
    return Entry(write_payload(metadata, b""), 1, now_ms, transaction=txn, marker=_MARKER_TYPES[action])
