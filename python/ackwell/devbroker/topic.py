"""A topic: its content, its producers and its subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.cursor import Cursor
from ackwell.devbroker.content import TopicContent
from ackwell.devbroker.namespace_policies import (
    DISPATCH_RATE,
    MAX_SUBSCRIPTIONS,
    PUBLISH_RATE,
    RETENTION,
    Retention,
)
from ackwell.devbroker.producers import Producers
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.devbroker.subscriptions import TopicSubscription
from ackwell.devbroker.throttle import Throttle
from ackwell.devbroker.topic_transactions import END_EVENTS, marker
from ackwell.errors import ErrorCode
from ackwell.position import Position
from ackwell.replay.events import Kind
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.entry import LogEntry
    from ackwell.devbroker.loading import LoadedTopic
    from ackwell.devbroker.restarts import SurvivingState
    from ackwell.protocol.command_ack import TransactionId
    from ackwell.protocol.constants import TxnAction


class Topic:
    """One topic. For a partitioned topic, each partition is one `Topic`."""

    def __init__(self, content: TopicContent) -> None:
        self.content = content
        self.name = content.name
        self.producers = Producers(content)
        self.subscriptions: dict[str, TopicSubscription] = {}
        self.messages_in = 0
        self.entries_added = 0
        self.bytes_in = 0
        self.created_ms = content.clock.now_ms()
        """The time at which the topic was created or loaded."""
        self.published_ms = 0
        """The time at which the last message was published. 0 before the first message."""
        self.publish_throttle: Throttle | None = None
        self.apply_policies()

    def apply_policies(self) -> None:
        """Apply the topic's policies for the dispatch rate and the publish rate."""
        content = self.content
        policies = (
            content.shared.policy(self.name, PUBLISH_RATE),
            content.shared.policy(self.name, DISPATCH_RATE),
        )
        self.publish_throttle, content.throttle = (Throttle.of(content.clock, each) for each in policies)

    def publish(self, entry: LogEntry, *, is_open: bool = True) -> Position:
        """Append an entry, wake the subscriptions, and return the entry's position.

        `is_open` is false if the entry was published in a transaction that has already ended.
        """
        content = self.content
        if content.facts:
            self.check_open()
        if not self.name.persistent and not self.subscriptions:
            # A non-persistent topic drops a message if it has no subscription.
            return Position(0, 0)
        size = len(entry.data)
        content.shared.reserve_memory(size)
        position = content.log.append(entry)
        self.entries_added += 1
        self.messages_in += entry.batch_size
        self.bytes_in += size
        self.published_ms = content.clock.now_ms()
        if entry.transaction is not None and not entry.marker:
            content.transactions.published(entry.transaction, position, is_open=is_open)
        content.shared.recorder.record_publish(content.full_name, position, entry.batch_size)
        for each in self.subscriptions.values():
            if each.consumers or not self.name.persistent:
                each.wake()
        if content.log.rolled:
            self.trim()
        return position

    def check_open(self) -> None:
        """Raise `CommandRefusedError` if the topic is terminated."""
        if self.content.terminated:
            raise CommandRefusedError(ErrorCode.TOPIC_TERMINATED_ERROR, f"{self.name} was terminated")

    def subscribe(
        self,
        name: str,
        kind: SubscriptionType,
        start: tuple[int, int],
        *,
        durable: bool,
    ) -> TopicSubscription:
        """Create a subscription. It starts to read at the position `start`."""
        durables = sum(each.durable for each in self.subscriptions.values())
        self.content.shared.check_limit(self.name, MAX_SUBSCRIPTIONS, durables, "subscriptions")
        ledgers, settings = self.content.log.ledgers, self.content.settings.subscription.cursor
        cursor = Cursor(ledgers, mark_delete=ledgers.previous_valid(*start), settings=settings)
        made = self._create_subscription(name, kind, cursor=cursor, durable=durable)
        made.schedule_save()
        made.record(Kind.SEEK, start, detail="made")
        return made

    def _create_subscription(self, name: str, kind: SubscriptionType, **options: Any) -> TopicSubscription:
        made = TopicSubscription(self.content, name, kind, on_delete=self.forget, **options)
        self.subscriptions[name] = made
        return made

    def end_transaction(self, txn: TransactionId, action: TxnAction) -> None:
        """Commit or abort a transaction. Do nothing if the transaction did not publish to this topic."""
        if self.content.transactions.end(txn, action):
            self.content.record(END_EVENTS[action], transaction=str(txn))
            self.publish(marker(txn, action, self.content.clock.now_ms()))
            for each in self.subscriptions.values():
                each.wake()

    def forget(self, subscription: TopicSubscription) -> None:
        """Delete a subscription. It must not have consumers."""
        if self.subscriptions.pop(subscription.name, None) is not None:
            subscription.record(Kind.UNSUBSCRIBE)
            self.content.replicated.pop(subscription.name, None)
            self.content.shared.forget_cursor(subscription.names)

    def trim(self) -> None:
        """Delete the ledgers that all subscriptions have consumed, unless the retention policy keeps them."""
        log, shared = self.content.log, self.content.shared
        needed = log.end.ledger_id
        for each in self.subscriptions.values():
            needed = min(needed, each.first_unacked_ledger)
        needed = log.first_retained(needed, Retention.of(shared.policy(self.name, RETENTION)))
        if log.trim_before(needed):
            self.content.record(Kind.TRIM, (needed, 0))

    def reclaim(self) -> None:
        """Free memory: close the open ledger, then delete ledgers with `trim`."""
        self.content.log.roll()
        self.trim()

    def recover(self, is_open: Callable[[TransactionId], bool]) -> None:
        """Restore the topic from the broker's file. Abort the transactions that are not open."""
        content = self.content
        content.recover(is_open)
        assert content.file is not None
        for saved in content.file.cursors(content.full_name):
            kind = SubscriptionType(saved.type)
            made = self._create_subscription(saved.subscription, kind, info=saved.info, ledger="read-only")
            made.properties = saved.properties
            for transaction in made.subscription.transactions:
                if not is_open(transaction):
                    made.subscription.abort(transaction)

    def load(self, described: LoadedTopic) -> None:
        """Add the loaded subscriptions to the topic. If the loaded topic was terminated, terminate the topic.

        The caller has already added the loaded entries to the log of the topic. If the broker has a file,
        write these entries to the file.
        """
        log, file = self.content.log, self.content.file
        self.content.shared.memory_bytes += log.held_bytes
        log.last_confirmed = described.last_confirmed
        if described.is_terminated:
            self.content.facts["terminated"] = True
        if file is not None:
            for ledger_id, entries in log.entries.items():
                for entry_id, entry in enumerate(entries):
                    file.append(self.content.full_name, ledger_id, entry_id, entry)
        for name, each in described.cursors.items():
            made = self._create_subscription(name, each.type, info=each.info, ledger=each.ledger)
            made.properties = dict(each.properties)
            made.schedule_save()
            position = log.ledgers.next_valid(*made.cursor.mark_delete_position)
            made.record(Kind.SEEK, position, detail="loaded")

    def terminate(self) -> Position:
        """Terminate the topic, so that it refuses new messages. Return the position of the last message.

        Consumers are notified when they have read the last message.
        """
        self.content.facts["terminated"] = True
        # The clients of the producers reconnect. The new PRODUCER command is answered with the reason.
        self.producers.close_all()
        for each in self.subscriptions.values():
            each.wake()
        return self.content.log.last_position

    def close(self) -> None:
        """Close all producers and consumers. Their clients look up the topic again."""
        self.producers.close_all()
        for subscription in list(self.subscriptions.values()):
            for consumer in list(subscription.consumers.values()):
                consumer.connection.close_consumer(consumer)

    def delete(self) -> None:
        """Close the topic. Delete its subscriptions and messages."""
        self.close()
        for each in list(self.subscriptions.values()):
            self.forget(each)
        content = self.content
        content.shared.release_memory(content.log.held_bytes)
        if content.file is not None:
            content.file.forget_topic(content.full_name)

    @classmethod
    def after_restart(cls, before: Topic, survivors: dict[str, SurvivingState]) -> Topic:
        """Return the topic as it is after a restart. The log of this topic has a new open ledger.

        `survivors` maps the name of each durable subscription to its surviving state.
        """
        content = before.content
        ledgers = {ledger_id: entries for ledger_id, entries in content.log.entries.items() if len(entries)}
        topic = cls(TopicContent(content.shared, before.name, ledgers))
        topic.content.facts, topic.content.replicated = content.facts, content.replicated
        topic.content.transactions = content.transactions
        topic.content.compacted = content.compacted
        topic.producers.last_sequence_ids = before.producers.last_sequence_ids
        for name, survivor in survivors.items():
            known = before.subscriptions[name]
            made = topic._create_subscription(name, known.type, info=survivor.info, ledger=survivor.ledger)
            made.properties = known.properties
        return topic
