"""Replay of events in order: the pending acknowledgments and redeliveries of each consumer.

Pending acknowledgments and redeliveries depend on the order of events. The set of acknowledged messages does
not, so `ackwell.replay.in_order` folds it separately. `SubscriptionReplay` applies the events of one
subscription by the rules of `ackwell.subscription.Subscription`. `TopicReplay` passes a topic's events to all
its subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from ackwell import Ledgers
from ackwell.cursor.ack_sets import mask_after, mask_to_size, mask_without, to_words
from ackwell.errors import AckwellError, ProtocolError
from ackwell.position import Position
from ackwell.replay.events import EFFECTS, IN_TRANSACTION, Action, Event, Kind
from ackwell.subscription import (
    AckType,
    CommandAck,
    ConsumerKey,
    MessageId,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    Summary,
    TransactionId,
    sticky_key_hash,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell._native import PositionInfo
    from ackwell.cursor import Cursor

NO_LIMITS: Final = SubscriptionSettings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)
"""Settings without limits. The recorded deliveries already follow the limits of the broker."""

_ACK_TYPES: Final = {Kind.ACK: AckType.INDIVIDUAL, Kind.ACK_CUMULATIVE: AckType.CUMULATIVE}
_IN_ORDER: Final = (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)
_OF_ENTRIES: Final = {Action.EXISTS, Action.DELIVERED, Action.ACK, Action.UP_TO, Action.CLEAR}
"""The actions of events that prove that their entry exists."""


class SubscriptionReplay:
    """The consumers of one subscription during a replay of its events."""

    def __init__(self, ledgers: Ledgers, sizes: dict[Position, int]) -> None:
        """Use the `ledgers` and batch `sizes` of the topic. The caller adds new entries to both objects."""
        self.redeliveries = 0
        """The number of deliveries with a redelivery count above 0."""
        self._ledgers, self._sizes = ledgers, sizes
        self._subscription = Subscription("Shared", ledgers, settings=NO_LIMITS)
        self._is_dispatched = False
        """Whether a `dispatch` event was applied. If so, `receive` events do not count as deliveries."""
        self._open: dict[str, list[Event]] = {}
        """Maps each open transaction to its acknowledgments that `Subscription` refuses. They are applied at
        the commit."""
        self._committed_names: set[str] = set()
        self._early: list[Event] = []
        """The deliveries of entries that an open transaction has acknowledged. They are applied at the abort,
        because the recording has such redeliveries before the event of the abort."""

    def saved_info(self, cursor: Cursor) -> PositionInfo:
        """Return the `PositionInfo` of `cursor`, with the redelivery counts and open transactions added."""
        staged = self._subscription.stage().info
        return cursor.to_position_info().replace(
            redelivery_counts=staged.redelivery_counts, unknown_fields=staged.unknown_fields
        )

    def summary(self, now_ms: int) -> Summary:
        """Return the state of the consumers at the time `now_ms`."""
        return self._subscription.summary(now_ms)

    def feed(self, event: Event) -> None:
        """Apply one event of this subscription, or of its topic as a whole."""
        follow = self.HANDLERS.get(event.kind)
        if follow is None:
            return
        name = event.transaction
        if name and event.kind in IN_TRANSACTION and name not in self._committed_names:
            self._hold(event, name)
        else:
            follow(self, event)

    def _dispatched(self, event: Event) -> None:
        self._is_dispatched = True
        self._delivered(event)

    def _received(self, event: Event) -> None:
        # A batch has a `receive` event for each message. The first one counts as the delivery of the entry.
        if not event.batch_index and not self._is_dispatched:
            self._delivered(event)

    def _delivered(self, event: Event) -> None:
        position, consumer = _position(event), event.consumer or ""
        self._connect(consumer)
        if self._subscription.cursor.is_acked(*position):
            return
        self.redeliveries += bool(event.redelivery_count)
        key_hash = event.sticky_key_hash
        if key_hash is None:
            key_hash = 0 if event.key is None else sticky_key_hash(event.key)
        size = self._sizes.get(position, 1)
        self._subscription.delivered(
            consumer, *position, now_ms=event.time_ms or 0, batch_size=size, sticky_key_hash=key_hash
        )
        if self._subscription.type not in _IN_ORDER and position not in self._subscription.pending(consumer):
            self._early.append(event)

    def _acknowledged(self, event: Event) -> None:
        consumer = self._connected(event.consumer)
        self._subscription.ack(consumer, *_position(event), self._ack_set(event))

    def _acknowledged_up_to(self, event: Event) -> None:
        position, ack_set = _position(event), self._ack_set(event)
        if self._subscription.type in _IN_ORDER:
            self._subscription.ack_cumulative(self._connected(event.consumer), *position, ack_set)
        elif not ack_set:
            self._subscription.expire(*position)
        else:
            self._expire(self._ledgers.previous_valid(*position))
            self._subscription.ack(None, *position, ack_set)

    def _ack_set(self, event: Event) -> tuple[int, ...]:
        """Return the ack set of an acknowledgment event. It is empty if the whole entry is acknowledged."""
        index = event.batch_index
        if event.ack_set is not None or index is None:
            return event.ack_set or ()
        size = self._batch_size(event)
        if size <= index:
            # The batch size is unknown, so assume that the batch fills the words of the set.
            size = (index // 64 + 1) * 64
        mask = mask_without(index) if event.kind is Kind.ACK else mask_after(index)
        return to_words(mask_to_size(mask, size))

    def _batch_size(self, event: Event) -> int:
        """Return the batch size of the entry of an event; 0 if it is unknown."""
        return max(self._sizes.get(_position(event), 0), event.batch_size or 0)

    def _hold(self, event: Event, name: str) -> None:
        """Add an acknowledgment to the open transaction `name`.

        The subscription does not deliver the acknowledged message before the transaction ends.
        """
        transaction, consumer = _transaction(name), self._connected(event.consumer)
        kind = _ACK_TYPES.get(event.kind)
        try:
            if transaction is None or consumer is None or kind is None:
                raise ProtocolError(f"{name} is not a client's transaction")
            size = self._batch_size(event) or None
            message = MessageId(*_position(event), ack_set=self._ack_set(event), batch_size=size)
            self._subscription.handle(consumer, CommandAck(0, kind, (message,), transaction=transaction))
        except ProtocolError:
            # Either the broker refused the acknowledgment, too, or the recording lacks an earlier event.
            self._open.setdefault(name, []).append(event._replace(transaction=None))

    def _committed(self, event: Event) -> None:
        if not event.subscription or event.transaction is None:
            return
        self._committed_names.add(event.transaction)
        transaction = _transaction(event.transaction)
        if transaction is not None:
            self._subscription.commit(transaction)
        for held in self._open.pop(event.transaction, []):
            self.feed(held)

    def _aborted(self, event: Event) -> None:
        if not event.subscription or event.transaction is None:
            return
        transaction = _transaction(event.transaction)
        if transaction is not None:
            self._subscription.abort(transaction)
        self._open.pop(event.transaction, None)
        # A broker redelivers the entries of an aborted transaction before it answers the abort. The recording
        # therefore has these deliveries before the event of the abort.
        early, self._early = self._early, []
        for delivery in early:
            if self._connected(delivery.consumer) is not None:
                self.redeliveries -= bool(delivery.redelivery_count)
                self._delivered(delivery)

    def _requested(self, event: Event) -> None:
        consumer = self._connected(event.consumer)
        if consumer is not None:
            listed = [_position(event)] if event.kind is Kind.NACK else None
            self._subscription.redeliver(consumer, listed)

    def _opened(self, event: Event) -> None:
        kind = event.detail
        if kind and not self._subscription.consumers and kind != self._subscription.type:
            self._subscription.change_type(SubscriptionType(kind))
        self._connect(event.consumer or "")

    def _closed(self, event: Event) -> None:
        self._disconnect(event.consumer or "")

    def _all_closed(self, _: Event) -> None:
        self._early.clear()
        for name in self._subscription.consumers:
            self._disconnect(name)

    def _moved(self, event: Event) -> None:
        """Apply a seek. A seek disconnects all consumers and clears their pending acknowledgments."""
        self._all_closed(event)
        self._subscription.seek(*_position(event), event.ack_set or ())

    def _cleared(self, event: Event) -> None:
        if event.ledger_id is not None:
            self._expired(event)
        else:
            self._subscription.clear_backlog()

    def _expired(self, event: Event) -> None:
        self._expire(_position(event))

    def _trimmed(self, event: Event) -> None:
        # Before a broker deletes a ledger with unacknowledged entries, it moves the cursors past the ledger.
        self._expire(self._ledgers.previous_valid(_position(event).ledger_id, 0))

    def _expire(self, position: Position) -> None:
        if position.entry_id >= 0:
            self._subscription.expire(*position)

    def _deleted(self, event: Event) -> None:
        self._all_closed(event)
        self._subscription = Subscription("Shared", self._ledgers, settings=NO_LIMITS)
        self._open.clear()

    def _connected(self, consumer: str | None) -> str | None:
        return consumer if consumer in self._subscription.consumers else None

    def _connect(self, consumer: str) -> None:
        if consumer in self._subscription.consumers:
            return
        if self._subscription.type == SubscriptionType.EXCLUSIVE:
            # A broker refuses a second consumer, so the first one was closed. The recording lacks this event.
            for name in self._subscription.consumers:
                self._disconnect(name)
        self._subscription.add_consumer(consumer)

    def _disconnect(self, consumer: ConsumerKey) -> None:
        if consumer in self._subscription.consumers:
            self._subscription.remove_consumer(consumer)

    HANDLERS: ClassVar[dict[Kind, Callable[[SubscriptionReplay, Event], None]]] = {
        Kind.DISPATCH: _dispatched,
        Kind.RECEIVE: _received,
        Kind.ACK: _acknowledged,
        Kind.ACK_CUMULATIVE: _acknowledged_up_to,
        Kind.NACK: _requested,
        Kind.REDELIVER_UNACKED: _requested,
        Kind.CONSUMER_OPEN: _opened,
        Kind.CONSUMER_CLOSE: _closed,
        Kind.CLIENT_CLOSED: _all_closed,
        Kind.SEEK: _moved,
        Kind.CLEAR_BACKLOG: _cleared,
        Kind.SKIP: _expired,
        Kind.EXPIRE: _expired,
        Kind.TRIM: _trimmed,
        Kind.UNSUBSCRIBE: _deleted,
        Kind.COMMIT: _committed,
        Kind.ABORT: _aborted,
        Kind.UNLOAD: _all_closed,
        Kind.BROKER_RESTART: _all_closed,
    }
    """Maps each kind to its handler. Kinds without a handler do not change the state of consumers."""


class TopicReplay:
    """The consumers of all subscriptions of a topic.

    An event of the topic applies to each subscription. An error in a subscription stops only the replay of
    this subscription.

    >>> topic = TopicReplay()
    >>> at = {"ledger_id": 3, "entry_id": 0, "consumer": "c"}
    >>> for number, kind in enumerate((Kind.PUBLISH, Kind.DISPATCH)):
    ...     topic.feed(Event("t", "s", number, kind, **at))
    >>> [each.pending_entries for each in topic.subscriptions["s"].summary(0).consumers]
    [1]
    """

    def __init__(self) -> None:
        self.subscriptions: dict[str, SubscriptionReplay] = {}
        self.errors: dict[str, str] = {}
        """Maps each subscription whose replay has stopped to its error."""
        self._ledgers = Ledgers()
        self._sizes: dict[Position, int] = {}

    def feed(self, event: Event) -> None:
        """Apply one event of the topic or of one of its subscriptions."""
        names = [event.subscription] if event.subscription else list(self.subscriptions)
        self._note_entry(event)
        for name in names:
            if name not in self.errors:
                try:
                    self._subscription(name).feed(event)
                except (AckwellError, ValueError) as error:
                    where = f"{event.file}, sequence" if event.file else "sequence"
                    self.fail(name, f"{where} {event.sequence}: {error}")
        last = self._ledgers.last_position
        if event.kind is Kind.TRIM and last is not None:
            self._ledgers.trim_before(min(_position(event).ledger_id, last.ledger_id))

    def _note_entry(self, event: Event) -> None:
        """Add the entry of an event to the topic's ledgers and batch sizes.

        Only events that prove that their entry exists have an effect.
        """
        if event.ledger_id is None or EFFECTS[event.kind].action not in _OF_ENTRIES:
            return
        position = _position(event)
        is_trimmed = position.ledger_id < self._ledgers.trimmed_before
        if not (is_trimmed or self._ledgers.contains(*position)):
            self._ledgers.grow(position.ledger_id, position.entry_id + 1)
        size = event.batch_size or (0 if event.batch_index is None else event.batch_index + 1)
        if EFFECTS[event.kind].exists and size > self._sizes.get(position, 0):
            self._sizes[position] = size

    def fail(self, name: str, error: str) -> None:
        """Stop the replay of a subscription, and store the error."""
        self._subscription(name)
        self.errors.setdefault(name, error)

    def ledgers(self) -> dict[int, int]:
        """Return the number of entries of each ledger.

        The last entry of a ledger is the entry with the greatest id that the events contain.
        """
        return dict(self._ledgers)

    def sizes(self) -> dict[Position, int]:
        """Return the batch size of each entry that is a batch according to an event."""
        return dict(self._sizes)

    def _subscription(self, name: str) -> SubscriptionReplay:
        if name not in self.subscriptions:
            self.subscriptions[name] = SubscriptionReplay(self._ledgers, self._sizes)
        return self.subscriptions[name]


def _position(event: Event) -> Position:
    assert event.ledger_id is not None
    assert event.entry_id is not None
    return Position(event.ledger_id, event.entry_id)


def _transaction(name: str) -> TransactionId | None:
    """Parse the name of a transaction, `most:least` (two integers). Return `None` for another form."""
    try:
        return TransactionId.parse(name)
    except ValueError:
        return None
