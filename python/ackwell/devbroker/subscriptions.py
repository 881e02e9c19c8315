"""A subscription of a topic: an `ackwell.subscription.Subscription` with its connected consumers.

The `Subscription` makes every decision. This module creates the `Subscription`, passes the commands of
consumers to it, and deletes it. If the first consumer requests another type, this module changes the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ackwell.cursor import Cursor
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.devbroker.broker_file import SavedCursor
from ackwell.devbroker.cursor_writes import CursorWrites
from ackwell.devbroker.keys import key_bytes
from ackwell.devbroker.namespace_policies import (
    DELAYED,
    MAX_CONSUMERS_OF_SUBSCRIPTION,
    PER_CONSUMER,
    PER_SUBSCRIPTION,
    PERSISTENCE,
    SUBSCRIPTION_RATE,
    TYPES,
    rate_of,
    unacked_limits,
)
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.devbroker.throttle import Throttle
from ackwell.devbroker.topic_transactions import END_EVENTS
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.protocol import messages
from ackwell.protocol.command_ack import AckType
from ackwell.protocol.constants import CommandType, TxnAction
from ackwell.protocol.payload import read_payload
from ackwell.replay.events import Kind
from ackwell.subscription import (
    AutoSplit,
    LostCounts,
    StickyRanges,
    Subscription,
    SubscriptionType,
    TransactionId,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackwell._native import PositionInfo
    from ackwell.broker.writes import CursorLedger
    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.content import TopicContent
    from ackwell.devbroker.entry import LogEntry
    from ackwell.position import Position
    from ackwell.protocol.command_ack import AckColumns, TransactionId
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.sticky_key import HashRange


CONCURRENCY: Final = "ackwell.concurrency"
"""The consumer property by which a client declares how many entries it processes at once."""


@dataclass(slots=True, eq=False, kw_only=True)
class ConnectedConsumer:
    """One consumer, which belongs to one connection."""

    connection: ClientConnection
    consumer_id: int
    name: str
    key: int
    """The key of the consumer in the `Subscription`."""
    subscription: TopicSubscription
    priority: int
    epoch: int
    metadata: dict[str, str]
    connected_ms: int
    next_s: float = 0.0
    """The event-loop time at which the next message may be sent, if a fault slows the consumer down."""
    messages_out: int = 0
    messages_per_entry: int = 0
    """The moving average of messages per entry. Each delivery has the weight 0.1, as in a Pulsar broker."""
    bytes_out: int = 0
    flow_ms: int = 0
    """The time at which the client last sent permits. 0 if it has not sent any."""
    consumed_ms: int = 0
    """The time of the last delivery to the consumer. 0 before the first delivery."""
    acked_ms: int = 0
    """The time of the last acknowledgment of the consumer. 0 before the first acknowledgment."""
    redelivered: int = 0
    knows_end: bool = False
    """Whether the client was notified that it has read all messages of a terminated topic."""


class TopicSubscription:
    """One subscription and its consumers.

    `cursor` is the cursor of a new subscription. `info` is the saved state of a restored subscription.
    `on_delete` is called to remove the subscription from its topic.
    """

    def __init__(
        self,
        content: TopicContent,
        name: str,
        kind: SubscriptionType,
        *,
        on_delete: Callable[[TopicSubscription], None],
        cursor: Cursor | None = None,
        info: PositionInfo | None = None,
        durable: bool = True,
        ledger: CursorLedger = "none",
    ) -> None:
        self.content = content
        self.name = name
        self.durable = durable
        self._on_delete = on_delete
        self.consumers: dict[ConsumerKey, ConnectedConsumer] = {}
        self.properties: dict[str, str] = {}
        self.messages_out = 0
        self.bytes_out = 0
        self.key_shared_mode = ""
        self.created_ms = content.clock.now_ms()
        """The time at which the subscription was created or loaded."""
        self.had_consumer = False
        """Whether a consumer has connected since the topic was loaded. Before the first consumer, a Pulsar
        broker reports no type."""
        self.read_compacted = False
        self.trimmed_before = -1
        """The id of the first ledger that the subscription needed when the broker last tried to delete
        ledgers of the topic."""
        self._active: ConsumerKey | None = None
        self._changing = False
        """Whether a Failover subscription waits, after a change of the active consumer, before it delivers
        again."""
        self._reopening = False
        settings = content.settings
        options: dict[str, Any] = {
            "settings": settings.subscription,
            "delayed": DelayedDeliveryTracker(tick_time_ms=settings.delayed_delivery_tick_ms, strict=True),
            "topic": content.full_name,
            "partition": content.partition if content.partition >= 0 else None,
            "durable": durable,
        }
        if info is not None:
            cursor = Cursor.from_position_info(
                info, content.log.ledgers, settings=settings.subscription.cursor
            )
        self.subscription = Subscription(kind, cursor=cursor, **options)
        self.cursor_writes = CursorWrites(self.cursor, content.clock, settings.cursor_flush_ms, ledger)
        self._throttle: Throttle | None = None
        self.apply_policies()

    @property
    def cursor(self) -> Cursor:
        """The cursor of the subscription, which contains the acknowledgments."""
        return self.subscription.cursor

    @property
    def first_unacked_ledger(self) -> int:
        """The id of the ledger that contains the first unacknowledged entry."""
        return self.content.log.ledgers.next_valid(*self.cursor.mark_delete_position).ledger_id

    @property
    def backlog_bytes(self) -> int:
        """The size in bytes of all entries after the mark-delete position, as Pulsar estimates it.

        In the ledger of the mark-delete position, the size is an estimate: the number of entries after this
        position times the mean size of the ledger's entries.
        """
        ledger_id, entry_id = self.cursor.mark_delete_position
        log = self.content.log
        beyond = sum(size for each, size in log.sizes.items() if each > ledger_id)
        entries = len(log.entries.get(ledger_id, ()))
        return beyond + (log.sizes[ledger_id] * max(entries - entry_id - 1, 0) // entries if entries else 0)

    @property
    def type(self) -> SubscriptionType:
        """The subscription type that the consumers requested."""
        return self.subscription.type

    @property
    def is_replicated(self) -> bool:
        """Whether a consumer requested the replication of the subscription's state.

        The dev broker only reports this flag.
        """
        return self.content.replicated.get(self.name, False)

    @is_replicated.setter
    def is_replicated(self, value: bool) -> None:
        if value != self.is_replicated:
            self.content.replicated[self.name] = value

    def apply_policies(self) -> None:
        """Apply the policies of the topic: the limits of unacknowledged messages, and the rates."""
        shared, name = self.content.shared, self.content.name
        limits = (shared.policy(name, each) for each in (PER_CONSUMER, PER_SUBSCRIPTION))
        self.subscription.limit_unacked(*unacked_limits(self.content.settings.subscription, *limits))
        own = shared.of_topic(name).get(rate_of(self.name))
        self._throttle = Throttle.of(self.content.clock, own or shared.policy(name, SUBSCRIPTION_RATE))
        self.cursor_writes.limit_rate(shared.policy(name, PERSISTENCE))

    @property
    def throttles(self) -> list[Throttle]:
        """The dispatch rate of the topic and the dispatch rate of the subscription, if they are limited."""
        return [each for each in (self.content.throttle, self._throttle) if each is not None]

    # Consumers

    def join(
        self,
        consumer: ConnectedConsumer,
        kind: SubscriptionType,
        *,
        sticky: bool = False,
        hash_ranges: Sequence[HashRange] = (),
    ) -> None:
        """Add a consumer. `CommandRefusedError` if a Pulsar broker refuses the consumer."""
        shared, topic = self.content.shared, self.content.name
        enabled = shared.policy(topic, TYPES)
        if enabled and str(kind) not in enabled:
            raise CommandRefusedError(
                ErrorCode.NOT_ALLOWED_ERROR, f"Topic[{topic}] doesn't support {kind} sub type!"
            )
        shared.check_limit(
            topic, MAX_CONSUMERS_OF_SUBSCRIPTION, len(self.consumers), "consumers of a subscription"
        )
        mode = "" if kind is not SubscriptionType.KEY_SHARED else "sticky" if sticky else "auto"
        if not self.consumers:
            if kind is not self.type or mode != self.key_shared_mode:
                self.subscription.change_type(kind, selector=self._selector(mode))
                self._changing, self._active = False, None
            self.key_shared_mode = mode
        elif kind is not self.type:
            raise CommandRefusedError(
                ErrorCode.CONSUMER_BUSY,
                f"Subscription is of different type: {self.type} has consumers, {kind} was requested",
            )
        elif mode != self.key_shared_mode:
            raise CommandRefusedError(ErrorCode.CONSUMER_BUSY, "Subscription is of different key-shared mode")
        try:
            self.subscription.add_consumer(
                consumer.name,
                consumer_id=consumer.key,
                priority=consumer.priority,
                hash_ranges=hash_ranges,
                epoch=consumer.epoch,
                concurrency=self._concurrency(consumer),
            )
        except ProtocolError as error:
            raise CommandRefusedError(error.code, str(error)) from None
        except ValueError as error:
            raise CommandRefusedError(ErrorCode.CONSUMER_ASSIGN_ERROR, str(error)) from None
        self.consumers[consumer.key] = consumer
        self.had_consumer = True
        self.record(Kind.CONSUMER_OPEN, consumer=consumer.name, detail=str(kind))

    def _concurrency(self, consumer: ConnectedConsumer) -> int | None:
        """Return the number of entries that a client processes at once, as its consumer's property states it.

        Return None if the consumer does not have this property. Also return None if the setting `lost_counts`
        does not need the number.
        """
        declared = consumer.metadata.get(CONCURRENCY)
        if declared is None or self.subscription.settings.lost_counts is not LostCounts.IN_HAND:
            return None
        if not (declared.isdecimal() and len(declared) < 10 and int(declared)):
            raise ValueError(f"the property {CONCURRENCY} is {declared[:20]!r}; expected a number from 1 on")
        return int(declared)

    def _selector(self, mode: str) -> Selector | None:
        """Return the consumer selector for a Key_Shared mode. None means the default selector."""
        if mode == "sticky":
            return StickyRanges()
        if mode == "auto" and not self.content.settings.key_shared_consistent_hashing:
            return AutoSplit()
        return None

    def leave(self, consumer: ConnectedConsumer, *, lost: bool = True) -> None:
        """Remove a consumer. Its unacknowledged entries are redelivered.

        `lost` is false if the client closed the consumer itself.
        """
        if self.consumers.pop(consumer.key, None) is None:
            return
        if not lost and self.subscription.settings.lost_counts is not LostCounts.NEVER:
            self.subscription.redeliver(consumer.key, counted=False)
        self.subscription.remove_consumer(consumer.key)
        self.schedule_save()
        self.record(Kind.CONSUMER_CLOSE, consumer=consumer.name)
        if not self.consumers and not self.durable and not self._reopening:
            self.delete()
        else:
            self.notify_active()
            self.wake()

    def delete(self) -> None:
        """Delete the subscription. It must not have consumers."""
        self._on_delete(self)

    def notify_active(self, newcomer: ConnectedConsumer | None = None) -> None:
        """Notify the consumers of a Failover subscription about which one is active.

        If the active consumer is unchanged, only `newcomer` is notified.
        """
        if self.type is not SubscriptionType.FAILOVER:
            return
        active = self.subscription.active_consumer
        if active != self._active:
            self._active = active
            delay_ms = self.content.settings.failover_delay_ms
            if not delay_ms:
                self._changed_active()
            elif active is not None and not self._changing:
                # The subscription waits, because acknowledgments of the previous active consumer may still
                # arrive.
                self._changing = True
                self.content.clock.call_at(self.content.clock.now_ms() + delay_ms, self._delay_over)
        elif newcomer is not None:
            newcomer.connection.send_active(newcomer.consumer_id, active=newcomer.key == active)

    def _changed_active(self) -> None:
        for each in self.consumers.values():
            each.connection.send_active(each.consumer_id, active=each.key == self._active)

    def _delay_over(self) -> None:
        if not self._changing:
            # The type of the subscription changed while it waited.
            return
        self._changing = False
        self._changed_active()
        self.wake()
        self.content.shared.run_woken()

    # Delivery

    def notify_end(self) -> None:
        """Notify the consumers of a terminated topic that they have read all messages.

        Each consumer is notified only once. The method does nothing while the subscription has an
        unacknowledged entry.
        """
        if not self.cursor.backlog_entries:
            for each in self.consumers.values():
                if not each.knows_end:
                    each.knows_end = True
                    end = messages.CommandReachedEndOfTopic(consumer_id=each.consumer_id)
                    each.connection.send(CommandType.REACHED_END_OF_TOPIC, end)

    @property
    def is_in_failover_delay(self) -> bool:
        """Whether the delivery is paused because the active consumer changed a short time ago."""
        return self._changing

    @property
    def has_delivered_backlog(self) -> bool:
        """Whether consumers may have received messages that they have not acknowledged."""
        if self.type in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER):
            # A subscription of these types does not count the unacknowledged messages of a consumer, as in a
            # Pulsar broker.
            return any(each.messages_out for each in self.consumers.values()) and (
                self.cursor.backlog_entries > 0
            )
        return self.subscription.summary(0).unacked > 0

    def wake(self) -> None:
        """Schedule a delivery. It runs before the broker waits for input again."""
        self.content.shared.wake(self)

    @property
    def reads_compacted(self) -> bool:
        """Whether the consumers read the compacted view of the topic."""
        return self.read_compacted and self.content.compacted is not None

    def undeliverable(
        self, positions: list[tuple[int, int]], entries: list[LogEntry]
    ) -> list[tuple[int, int]]:
        """Return the positions of those `entries` that are never delivered.

        These entries are markers, entries of aborted transactions, and entries whose transaction was not open
        when they were published.
        """
        content = self.content
        if not content.transactions.seen:
            return []
        return [
            position
            for position, entry in zip(positions, entries, strict=True)
            if entry.marker or (entry.transaction is not None and content.transactions.hides(entry, position))
        ]

    def ack_undeliverable(self, position: tuple[int, int]) -> None:
        """Acknowledge an entry that is never delivered."""
        self.subscription.ack(None, *position)
        self.acknowledged(whole=True)
        self.record(Kind.ACK, position)

    def key_hashes(self, entries: list[LogEntry]) -> list[int] | None:
        """Return the sticky-key hashes of entries. None if the type is not Key_Shared."""
        if self.type is not SubscriptionType.KEY_SHARED:
            return None
        mode = self.key_shared_mode
        for entry in entries:
            if entry.key_mode != mode:
                entry.key_mode = mode
                entry.key_hash = self.subscription.sticky_key_hash(
                    key_bytes(read_payload(entry.data).metadata)
                )
        return [entry.key_hash for entry in entries]

    def delivery_times(self, entries: list[LogEntry]) -> list[int] | None:
        """Return the delivery times of entries.

        None if none of them is delayed, or if a policy disables delays.
        """
        if not self.content.log.delays:
            return None
        if not any(entry.deliver_at_ms for entry in entries):
            return None
        delayed = self.content.shared.policy(self.content.name, DELAYED)
        if delayed and not delayed["active"]:
            return None
        return [entry.deliver_at_ms for entry in entries]

    # Commands of consumers and operators

    def redeliver(
        self,
        consumer: ConnectedConsumer,
        positions: Sequence[tuple[int, int]] | None,
        epoch: int | None = None,
    ) -> int:
        """Redeliver entries of a consumer. Return the number of redelivered entries.

        `positions` are the entries to redeliver. If it is None, all unacknowledged entries of the consumer
        are redelivered.
        """
        taken = self.subscription.redeliver(consumer.key, positions, epoch=epoch)
        self.schedule_save()
        if positions is None:
            self.record(Kind.REDELIVER_UNACKED, consumer=consumer.name)
        else:
            for position in positions:
                self.record(Kind.NACK, position, consumer=consumer.name)
        self.wake()
        return taken

    def seek(self, position: tuple[int, int], ack_set: Sequence[int] = ()) -> None:
        """Seek the subscription to a position, and close its consumers, as a Pulsar broker does."""
        for consumer in list(self.consumers.values()):
            self.reopen(consumer)
        self.subscription.seek(*position, ack_set)
        self.acknowledged(whole=True)
        self.record(Kind.SEEK, position, ack_set=tuple(ack_set) or None)

    def reopen(self, consumer: ConnectedConsumer) -> None:
        """Close a consumer. Its client drops its unread messages and subscribes again."""
        # A non-durable subscription must not be deleted now, because its reader subscribes again.
        self._reopening = True
        consumer.connection.close_consumer(consumer)
        self._reopening = False

    def end_transaction(self, txn: TransactionId, action: TxnAction) -> None:
        """Commit or abort the acknowledgments that were sent in a transaction."""
        if action is TxnAction.COMMIT:
            self.subscription.commit(txn)
            self.acknowledged(whole=True)
        else:
            self.subscription.abort(txn)
        self.schedule_save()
        self.record(END_EVENTS[action], transaction=str(txn))
        self.wake()

    def skip(self, entries: int) -> None:
        """Acknowledge the first `entries` unacknowledged entries."""
        self.subscription.skip(entries)
        self._moved(Kind.SKIP, self.cursor.mark_delete_position)

    def expire(self, position: Position) -> None:
        """Acknowledge all entries up to a position, because they are expired."""
        self.subscription.expire(*position)
        # The search of a Pulsar broker may end before the position, so record the actual mark-delete
        # position.
        self._moved(Kind.EXPIRE, self.cursor.mark_delete_position)

    def expire_older_than(self, seconds: int) -> bool:
        """Acknowledge the entries that were published more than `seconds` ago.

        Returns whether any entry was acknowledged.
        """
        log = self.content.log
        last = log.ledgers.previous_valid(
            *log.first_published_at(self.content.clock.now_ms() - 1000 * seconds)
        )
        if last.entry_id < 0 or last <= self.cursor.mark_delete_position:
            return False
        self.expire(last)
        return True

    def clear_backlog(self) -> None:
        """Acknowledge all entries of the topic."""
        self.subscription.clear_backlog()
        self._moved(Kind.CLEAR_BACKLOG, self.content.log.last_position)

    def _moved(self, kind: Kind, position: Position) -> None:
        self.acknowledged(whole=True)
        if position.entry_id >= 0:
            self.record(kind, position)
        self.wake()

    # Persistence and events

    @property
    def names(self) -> tuple[str, str]:
        """The name of the topic and the name of the subscription."""
        return self.content.full_name, self.name

    def schedule_save(self) -> None:
        """Schedule a save of the subscription's state with the next commit."""
        if self.durable and self.content.file is not None:
            self.content.shared.schedule_save(self.names, self._save)

    def _save(self, file: BrokerFile) -> None:
        info = self.subscription.stage().info
        file.cursor(self.content.full_name, SavedCursor(self.name, str(self.type), self.properties, info))

    def acknowledged(self, *, whole: bool) -> None:
        """Write the cursor after an acknowledgment, now or later, and schedule a save of the state.

        `whole` is true if a whole entry was acknowledged, and false if only parts of batches were.
        """
        self.cursor_writes.write_or_schedule(whole=whole)
        self.schedule_save()

    def record_acks(self, consumer: ConnectedConsumer, columns: AckColumns) -> None:
        """Record an acknowledgment command in `broker.events`. Each message id is one event."""
        kind = Kind.ACK_CUMULATIVE if columns.ack_type is AckType.CUMULATIVE else Kind.ACK
        ledger_ids, entry_ids = columns.ledger_ids.tolist(), columns.entry_ids.tolist()
        transaction = None if columns.transaction is None else str(columns.transaction)
        exist = min(ledger_ids) >= 0 <= min(entry_ids)
        if exist and len(ledger_ids) > 1 and columns.ack_set_starts is None and transaction is None:
            self.record_run(kind, consumer, ledger_ids, entry_ids)
            return
        for row, position in enumerate(zip(ledger_ids, entry_ids, strict=True)):
            if exist or min(position) >= 0:
                ack_set = columns.ack_set(row) or None
                self.record(kind, position, consumer=consumer.name, ack_set=ack_set, transaction=transaction)

    def record_run(self, kind: Kind, consumer: ConnectedConsumer, *columns: Sequence[int]) -> None:
        """Record one event for each of many entries. All events have the same kind.

        `columns` are the columns of an `EventRun`.
        """
        self.content.shared.recorder.record_run(
            self.content.full_name, self.name, kind, consumer.name, columns
        )

    def record(self, kind: Kind, position: tuple[int, int] | None = None, **fields: Any) -> None:
        """Record one event of the subscription for `broker.events`."""
        self.content.shared.recorder.record(self.content.full_name, self.name, kind, position, **fields)
