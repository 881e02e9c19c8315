"""Events in their order: who had what, and when.

Acknowledgments are a set, which `ackwell.replay.fold` joins in any order; pending acknowledgments and
redeliveries are a story. `Followed` leads one subscription through its events by the rules of
`ackwell.subscription.Subscription`, and `FollowedTopic` hands the events of a topic to all its subscriptions.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar, Final

from ackwell import Ledgers
from ackwell.ack_sets import after, to_words, within, without
from ackwell.errors import AckwellError, ProtocolError
from ackwell.position import Position
from ackwell.replay.events import IN_TRANSACTION, Event, Kind
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
"""The broker has decided already, so no limit of ours holds anything back."""

_ACK_TYPES: Final = {Kind.ACK: AckType.INDIVIDUAL, Kind.ACK_CUMULATIVE: AckType.CUMULATIVE}
_IN_ORDER: Final = (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)


class Followed:
    """A subscription that follows its recorded events.

    >>> followed = Followed()
    >>> at = {"ledger_id": 3, "entry_id": 0, "consumer": "c"}
    >>> for number, kind in enumerate((Kind.PUBLISH, Kind.DISPATCH, Kind.ACK)):
    ...     followed.feed(Event("t", "s", number, kind, **at))
    >>> followed.cursor.mark_delete_position
    Position(ledger_id=3, entry_id=0)
    """

    def __init__(self, topic: Followed | None = None) -> None:
        """`topic` follows the events of the topic as a whole, as a subscription that nobody reads."""
        self.redeliveries = 0
        """How many deliveries were repetitions."""
        self.is_deleted = False
        self.ledgers: Ledgers = Ledgers() if topic is None else copy.copy(topic.ledgers)
        self._subscription = Subscription("Shared", self.ledgers, settings=NO_LIMITS)
        self.sizes: dict[Position, int] = {}
        self._topic_sizes = {} if topic is None else topic.sizes
        self.first_published: int | None = None if topic is None else topic.first_published
        self._sought: tuple[Position, tuple[int, ...]] | None = None
        """A seek to what was not published yet."""
        self._is_dispatched = False
        """Whether deliveries are recorded by the broker; then `receive` is not one."""
        self._open: dict[str, list[Event]] = {}
        """Acknowledgments in open transactions that the subscription's own rules refuse to hold."""
        self._committed_names: set[str] = set()

    @property
    def cursor(self) -> Cursor:
        """What is acknowledged."""
        return self._subscription.cursor

    def info(self) -> PositionInfo:
        """Return what a save would write: acknowledgments, redelivery counts, open transactions."""
        return self._subscription.stage().info

    def summary(self, now_ms: int) -> Summary:
        """Return what consumers have."""
        return self._subscription.summary(now_ms)

    def feed(self, event: Event) -> None:
        """Take one event, of this subscription or of its topic as a whole.

        Raises `ProtocolError` for an acknowledgment of what was never published, and for a batch index beyond
        its batch or in one of unknown size.
        """
        follow = self.HANDLERS.get(event.kind)
        if follow is None or (self.is_deleted and event.subscription and event.kind is not Kind.SEEK):
            return
        name = event.transaction
        if name and event.kind in IN_TRANSACTION and name not in self._committed_names:
            self._hold(event, name)
        else:
            follow(self, event)

    def _exists(self, event: Event) -> None:
        position = _position(event)
        if self.first_published is None and self._sought is None and self.ledgers.last_position is None:
            # The subscription is as old as the first ledger that an event names.
            self._subscription.seek(position.ledger_id, 0)
        self.ledgers.grow(position.ledger_id, position.entry_id + 1)
        if self.first_published is None:
            self.first_published = position.ledger_id
        if self._sought is not None:
            sought, ack_set = self._sought
            self._subscription.seek(*sought, ack_set)
            if position >= sought:
                self._sought = None
        size = event.batch_size
        if size is None and event.batch_index is not None:
            size = event.batch_index + 1
        if size is not None and size > (self._size(position) or 0):
            self.sizes[position] = size

    def _dispatched(self, event: Event) -> None:
        self._is_dispatched = True
        self._exists(event)
        self._delivered(event)

    def _received(self, event: Event) -> None:
        self._exists(event)
        # Only the first message of a batch is the delivery; those after it come with it.
        if not event.batch_index and not self._is_dispatched:
            self._delivered(event)

    def _delivered(self, event: Event) -> None:
        position, consumer = _position(event), event.consumer or ""
        self._connect(consumer)
        if self.cursor.is_acked(*position):
            return
        self.redeliveries += bool(event.redelivery_count)
        key_hash = event.sticky_key_hash
        if key_hash is None:
            key_hash = 0 if event.key is None else sticky_key_hash(event.key)
        size = self._size(position, event.batch_size)
        self._subscription.delivered(
            consumer, *position, event.time_ms or 0, batch_size=size or 1, sticky_key_hash=key_hash
        )

    def _acknowledged(self, event: Event) -> None:
        position, consumer = self._acknowledgeable(event), self._connected(event.consumer)
        self._subscription.ack(consumer, *position, self._ack_set(event))

    def _acknowledged_up_to(self, event: Event) -> None:
        position, ack_set = self._acknowledgeable(event), self._ack_set(event)
        if self._subscription.type in _IN_ORDER:
            self._subscription.ack_cumulative(self._connected(event.consumer), *position, ack_set)
        elif not ack_set:
            self._subscription.expire(*position)
        else:
            before = self.ledgers.previous_valid(*position)
            if before.entry_id >= 0:
                self._subscription.expire(*before)
            self._subscription.ack(None, *position, ack_set)

    def _acknowledgeable(self, event: Event) -> Position:
        """Return an event's position; `ProtocolError` if it was never published.

        A recording begins in the middle of a topic's life: what was acknowledged in ledgers before the first
        one that something was published in, existed.
        """
        position = _position(event)
        if self.first_published is None or position.ledger_id < self.first_published:
            if position.ledger_id not in dict(self.ledgers) and self.ledgers.last_position is None:
                self._subscription.seek(position.ledger_id, 0)
            self.ledgers.grow(position.ledger_id, position.entry_id + 1)
        last = self.ledgers.last_position
        if not self.ledgers.contains(*position) and position.ledger_id >= self.ledgers.trimmed_before:
            raise ProtocolError(
                f"acknowledgment of {position}, which was never published; last position: {last or 'none'}",
                position,
            )
        return position

    def _ack_set(self, event: Event) -> tuple[int, ...]:
        """Return what an acknowledgment leaves of its entry; nothing for the whole."""
        if event.ack_set is not None or event.batch_index is None:
            return event.ack_set or ()
        position, index = _position(event), event.batch_index
        size = self._size(position, event.batch_size)
        if size is None and self._is_before_recording(position):
            # It holds one message more at least, so the set is filled up to whole words.
            size = (index // 64 + 1) * 64
        if size is None:
            message = f"acknowledgment of a part of {position}, but no event says how many messages it holds"
            raise ProtocolError(message, position)
        if index >= size:
            message = f"acknowledgment of batch index {index} of {position}, which holds {size} messages"
            raise ProtocolError(message, position)
        is_cumulative = event.kind is not Kind.ACK
        return to_words(within(after(index) if is_cumulative else without(index), size))

    def _is_before_recording(self, position: Position) -> bool:
        return self.first_published is None or position.ledger_id < self.first_published

    def _size(self, position: Position, given: int | None = None) -> int | None:
        """Return how many messages an entry holds, as far as it is known."""
        return max(self.sizes.get(position, 0), self._topic_sizes.get(position, 0), given or 0) or None

    def _hold(self, event: Event, name: str) -> None:
        """Keep an acknowledgment until its transaction ends."""
        transaction, consumer = _transaction(name), self._connected(event.consumer)
        kind = _ACK_TYPES.get(event.kind)
        try:
            if transaction is None or consumer is None or kind is None:
                raise ProtocolError(f"{name} is not a client's transaction")
            position = self._acknowledgeable(event)
            size = self._size(position, event.batch_size)
            message = MessageId(*position, ack_set=self._ack_set(event), batch_size=size)
            self._subscription.handle(consumer, CommandAck(0, kind, (message,), transaction=transaction))
        except ProtocolError:
            # A broker refused it too, or the recording lacks what it depends on.
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

    def _requested(self, event: Event) -> None:
        consumer = self._connected(event.consumer)
        if consumer is not None:
            listed = [_position(event)] if event.kind is Kind.NACK else None
            self._subscription.redeliver(consumer, listed)

    def _opened(self, event: Event) -> None:
        kind = event.detail
        if kind and not self._subscription.consumers and kind != self._subscription.type:
            self._subscription.change_type(kind)
        self._connect(event.consumer or "")

    def _closed(self, event: Event) -> None:
        self._disconnect(event.consumer or "")

    def _all_closed(self, _: Event) -> None:
        for name in self._subscription.consumers:
            self._disconnect(name)

    def _moved(self, event: Event) -> None:
        """Apply a seek: it closes all consumers, and nothing is pending any more."""
        self.is_deleted = False
        self._all_closed(event)
        position, ack_set = _position(event), event.ack_set or ()
        self._subscription.seek(*position, ack_set)
        self._sought = None if self.ledgers.contains(*position) else (position, ack_set)

    def _cleared(self, event: Event) -> None:
        if event.ledger_id is not None:
            self._expired(event)
        elif self.ledgers.last_position is None:
            raise ProtocolError("backlog cleared before anything was published")
        else:
            self._subscription.clear_backlog()

    def _expired(self, event: Event) -> None:
        self._subscription.expire(*self._acknowledgeable(event))

    def _trimmed(self, event: Event) -> None:
        last = self.ledgers.last_position
        if last is None:
            return
        ledger_id = min(_position(event).ledger_id, last.ledger_id)
        # A broker moves the cursors on before it deletes what they have not consumed.
        before = self.ledgers.previous_valid(ledger_id, 0)
        if before.entry_id >= 0:
            self._subscription.expire(*before)
        self.ledgers.trim_before(ledger_id)

    def _deleted(self, event: Event) -> None:
        self._all_closed(event)
        self._subscription = Subscription("Shared", self.ledgers, settings=NO_LIMITS)
        self._open.clear()
        self.is_deleted = True

    def _connected(self, consumer: str | None) -> str | None:
        return consumer if consumer in self._subscription.consumers else None

    def _connect(self, consumer: str) -> None:
        if consumer in self._subscription.consumers:
            return
        if self._subscription.type == SubscriptionType.EXCLUSIVE:
            # It was refused while another is connected, so the recording lacks that one's end.
            for name in self._subscription.consumers:
                self._disconnect(name)
        self._subscription.add_consumer(consumer)

    def _disconnect(self, consumer: ConsumerKey) -> None:
        if consumer in self._subscription.consumers:
            self._subscription.remove_consumer(consumer)

    HANDLERS: ClassVar[dict[Kind, Callable[[Followed, Event], None]]] = {
        Kind.PUBLISH: _exists,
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
    """What each kind does to a subscription; the other kinds do nothing (`ackwell.replay.events.EFFECTS`)."""


class FollowedTopic:
    """A topic's subscriptions: what happens to the topic as a whole happens to each of them.

    Whatever is wrong with one subscription is its error, and the others go on.
    """

    def __init__(self) -> None:
        self.subscriptions: dict[str, Followed] = {}
        self.errors: dict[str, str] = {}
        """Why a subscription's events lead nowhere; it follows none of them from there on."""
        self._topic = Followed()
        self._topic_error: str | None = None

    def feed(self, event: Event) -> None:
        """Take one event of the topic or of one of its subscriptions."""
        names = [event.subscription] if event.subscription else ["", *self.subscriptions]
        for name in names:
            if name in self.errors:
                continue
            try:
                self._followed(name).feed(event)
            except (AckwellError, ValueError) as error:
                where = f"{event.file}, sequence" if event.file else "sequence"
                self.refuse(name, f"{where} {event.sequence}: {error}")

    def refuse(self, name: str, error: str) -> None:
        """Keep why a subscription's events lead nowhere; without a name, those of every subscription."""
        if not name:
            self._topic_error = self._topic_error or error
            for known in self.subscriptions:
                self.errors.setdefault(known, error)
            return
        self._followed(name)
        self.errors.setdefault(name, error)

    def ledgers(self) -> dict[int, int]:
        """Return how many entries each ledger has, as far as anybody was seen to publish or to get them."""
        found: dict[int, int] = {}
        for each in (self._topic, *self.subscriptions.values()):
            for ledger_id, entries in each.ledgers:
                found[ledger_id] = max(found.get(ledger_id, 0), entries)
        return found

    def sizes(self) -> dict[Position, int]:
        """Return how many messages each entry holds whose batch was seen."""
        return {
            position: size
            for each in (*self.subscriptions.values(), self._topic)
            for position, size in each.sizes.items()
        }

    def _followed(self, name: str) -> Followed:
        if not name:
            return self._topic
        if name not in self.subscriptions:
            self.subscriptions[name] = Followed(self._topic)
            if self._topic_error is not None:
                self.errors[name] = self._topic_error
        return self.subscriptions[name]


def _position(event: Event) -> Position:
    assert event.ledger_id is not None
    assert event.entry_id is not None
    return Position(event.ledger_id, event.entry_id)


def _transaction(name: str) -> TransactionId | None:
    """Read a transaction's name, `most:least`."""
    most, _, least = name.partition(":")
    try:
        return TransactionId(int(most), int(least))
    except ValueError:
        return None
