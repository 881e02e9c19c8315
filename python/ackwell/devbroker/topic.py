"""A topic: its content, its producers and its subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.cursor import Cursor
from ackwell.devbroker.content import TopicContent
from ackwell.devbroker.producers import Producers
from ackwell.devbroker.refusals import RefusedError
from ackwell.devbroker.subscriptions import TopicSubscription
from ackwell.devbroker.transactions import KINDS, marker
from ackwell.errors import ErrorCode
from ackwell.position import Position
from ackwell.replay.events import Kind
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from ackwell.devbroker.core import BrokerCore
    from ackwell.devbroker.disk import SavedCursor
    from ackwell.devbroker.entries import Entry
    from ackwell.devbroker.restarts import Survivor
    from ackwell.protocol.codes import TxnAction
    from ackwell.protocol.command_ack import TransactionId
    from ackwell.protocol.topic_name import TopicName


class Topic(TopicContent):
    """One topic, or one partition of a partitioned topic."""

    def __init__(
        self, broker: BrokerCore, name: TopicName, ledgers: dict[int, list[Entry]] | None = None
    ) -> None:
        super().__init__(broker, name, ledgers)
        self.producers = Producers(self)
        self.subscriptions: dict[str, TopicSubscription] = {}
        self.terminated = False
        self.messages_in = 0
        self.entries_added = 0
        self.bytes_in = 0

    def publish(self, entry: Entry, **fields: Any) -> Position:
        """Add an entry, and let the subscriptions have it; `fields` go to its event."""
        self.check_open()
        if not self.name.persistent and not self.subscriptions:
            # There is no consumer to get it now or to hear of it later.
            return Position(0, 0)
        size = len(entry.data)
        self.broker.take_memory(size)
        position = self.log.append(entry)
        self.entries_added += 1
        self.messages_in += entry.batch_size
        self.bytes_in += size
        if entry.transaction is not None and not entry.marker:
            self.transactions.published(entry.transaction, position)
        self.broker.recorder.record(
            self.full_name, "", Kind.PUBLISH, position, None, entry.batch_size, **fields
        )
        for each in self.subscriptions.values():
            if each.consumers or not self.name.persistent:
                each.wake()
        if self.log.rolled:
            self.trim()
        return position

    def check_open(self) -> None:
        """Refuse to take messages when the topic was terminated."""
        if self.terminated:
            raise RefusedError(ErrorCode.TOPIC_TERMINATED_ERROR, f"{self.name} was terminated")

    def subscribe(
        self,
        name: str,
        kind: SubscriptionType,
        start: tuple[int, int],
        *,
        durable: bool,
    ) -> TopicSubscription:
        """Make a subscription whose next position to be read is `start`."""
        mark_delete = self.log.ledgers.previous_valid(*start)
        cursor = Cursor(self.log.ledgers, mark_delete=mark_delete, settings=self.settings.subscription.cursor)
        made = self._made(name, kind, cursor=cursor, durable=durable)
        self.broker.changed(made)
        made.record(Kind.SEEK, start, detail="made")
        return made

    def _made(self, name: str, kind: SubscriptionType, **options: Any) -> TopicSubscription:
        made = TopicSubscription(self, name, kind, on_delete=self.forget, **options)
        self.subscriptions[name] = made
        return made

    def end_transaction(self, txn: TransactionId, action: TxnAction) -> None:
        """End a transaction, which may have published here."""
        if self.transactions.end(txn, action):
            self.record(KINDS[action], transaction=str(txn))
            self.publish(marker(txn, action, self.clock.now_ms()))
            for each in self.subscriptions.values():
                each.wake()

    def forget(self, subscription: TopicSubscription) -> None:
        """Delete a subscription; its consumers are gone."""
        if self.subscriptions.pop(subscription.name, None) is not None:
            subscription.record(Kind.UNSUBSCRIBE)
            self.broker.forget_cursor(subscription)

    def trim(self) -> None:
        """Delete the ledgers that every subscription has consumed, as a broker without retention does."""
        cursors = [each.cursor for each in self.subscriptions.values()]
        needed = self.log.end.ledger_id
        for cursor in cursors:
            needed = min(needed, self.log.ledgers.next_valid(*cursor.mark_delete_position).ledger_id)
        before = self.log.nbytes
        if self.log.trim_before(needed):
            self.broker.memory_bytes += self.log.nbytes - before
            self.record(Kind.TRIM, (needed, 0))

    def recover(self, saved: SavedCursor) -> None:
        """Take up a subscription as it is in the broker's file; transactions that were open are aborted."""
        kind = SubscriptionType(saved.type)
        made = self._made(saved.subscription, kind, info=saved.info, ledger="read-only")
        made.properties = saved.properties
        for transaction in made.subscription.transactions:
            made.subscription.abort(transaction)

    def terminate(self) -> Position:
        """Take no more messages; consumers are notified when they have read the last one."""
        self.terminated = True
        if self.broker.disk is not None:
            self.broker.disk.topic(self.full_name, terminated=True)
        # Their clients come back, and get the reason why they may not.
        self.producers.close_all()
        for each in self.subscriptions.values():
            each.wake()
        return self.log.last_position

    def close(self) -> None:
        """Close producers and consumers; clients look the topic up again."""
        self.producers.close_all()
        for subscription in list(self.subscriptions.values()):
            for consumer in list(subscription.consumers.values()):
                consumer.connection.close_consumer(consumer)

    @classmethod
    def loaded(cls, broker: BrokerCore, before: Topic, survivors: dict[str, Survivor]) -> Topic:
        """Return a topic as it is after a restart: its log with a new open ledger, and its subscriptions."""
        ledgers = {ledger_id: entries for ledger_id, entries in before.log.entries.items() if entries}
        topic = cls(broker, before.name, ledgers)
        topic.producers.last_sequence_ids = before.producers.last_sequence_ids
        topic.producers.topic_epoch = before.producers.topic_epoch
        topic.transactions = before.transactions
        topic.compacted, topic.terminated = before.compacted, before.terminated
        for name, survivor in survivors.items():
            known = before.subscriptions[name]
            made = topic._made(name, known.type, info=survivor.info, ledger=survivor.ledger)
            made.properties = known.properties
        return topic
