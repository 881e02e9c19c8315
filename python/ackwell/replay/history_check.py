"""The check of recorded deliveries: order per key, at-least-once, lost acknowledgments, redelivery counts.

`check_history` reads the events of `ackwell record`, of the dev broker or of any trace. It uses only the
recorded deliveries and commands, not ackwell's dispatch rules, so it can check any broker.

A message *is returned* to the broker by a negative acknowledgment, a redelivery request, a disconnect of its
consumer, an abort or a restart. From then on the message *waits*, until it is redelivered or acknowledged. On
Key_Shared, a later message *overtakes* a waiting message with the same key if it is delivered first.

A `result` event with a position and the detail `RECEIPT` records the receipt that the broker sent for an
acknowledgment. An acknowledgment without a receipt can be lost in a crash. A broker resets redelivery counts
when it restarts, when the last consumer disconnects and when a part of a batch is acknowledged.

The proxy can record a client's command before a delivery that the broker had already sent. With
`in_flight_ms`, a delivery within this time after an acknowledgment or a return is not a violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.position import Position
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.replay.events import Event

RECEIPT: Final = "receipt"
"""The `detail` of a `result` event that records the broker's receipt for an acknowledgment."""

NO_DELIVERY: Final = "the events contain no delivery (`dispatch`)"


class Rule(StrEnum):
    """A rule that a history can violate."""

    OVERTAKEN = "overtaken"
    """A message was delivered while an earlier message with the same key waited for redelivery."""
    OUT_OF_ORDER = "out-of-order"
    """The first delivery of a message came after the delivery of a message with the same key and a later
    position."""
    ACKED_AGAIN = "acked-again"
    """A message was delivered although it was wholly acknowledged and the acknowledgment was not void."""
    RECEIPT_LOST = "receipt-lost"
    """After a restart, a wholly acknowledged message was delivered, although the broker had sent the receipt
    for the acknowledgment before the restart."""
    COUNT_FELL = "count-fell"
    """A message was delivered with a lower redelivery count than in its previous delivery."""
    NEVER_DELIVERED = "never-delivered"
    """A message is neither acknowledged nor pending at a consumer when the history ends. This is checked only
    if the broker had no message left to deliver."""


class Violation(NamedTuple):
    """One violation of a rule by an event, or by the end of the history."""

    rule: Rule
    topic: str
    subscription: str
    position: Position
    sequence: int
    """The sequence of the event; 0 for `NEVER_DELIVERED`, which has no event."""
    other: Position | None = None
    """The message that `position` overtook; None for other rules."""

    def __str__(self) -> str:
        of = "" if self.other is None else f" {self.other}"
        event = "" if self.rule is Rule.NEVER_DELIVERED else f"event {self.sequence}, "
        return f"{self.topic} {self.subscription}: {event}{self.position} {self.rule}{of}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values. A position is a text such as `3:1`."""
        fields = self._asdict() | {"position": str(self.position)}
        return fields | {"other": None if self.other is None else str(self.other)}


@dataclass(slots=True)
class _WaitingMessages:
    """The waiting messages of one key, in a heap with the least position first.

    A message that no longer waits stays in the heap until it is the first item of the heap.
    """

    heap: list[Position] = field(default_factory=list)
    since_ms: dict[Position, int] = field(default_factory=dict)

    def add(self, position: Position, now_ms: int) -> None:
        self.since_ms[position] = now_ms
        heappush(self.heap, position)

    def first(self, before: Position, until_ms: int | None) -> Position | None:
        """Return the lowest position of a waiting message that meets two conditions, or None.

        The position must be less than `before`. The message must have been returned at `until_ms` or earlier;
        if `until_ms` is None, this second condition does not apply.
        """
        while self.heap and self.heap[0] not in self.since_ms:
            heappop(self.heap)
        if not self.heap or self.heap[0] >= before:
            return None
        if until_ms is None:
            return self.heap[0]
        found = (each for each, since in self.since_ms.items() if each < before and since <= until_ms)
        return min(found, default=None)


class _PublishedEntries:
    """The published entries of a topic, with their keys."""

    def __init__(self) -> None:
        self.keys: dict[Position, str | None] = {}
        self.unordered: set[Position] = set()
        """The delayed entries and the entries of transactions. The order of their delivery is not checked."""
        self.in_transactions: dict[str, set[Position]] = {}
        self.aborted: set[Position] = set()

    def publish(self, event: Event, position: Position) -> None:
        self.keys.setdefault(position, None)
        if event.deliver_at_ms or event.transaction is not None:
            self.unordered.add(position)
        if event.transaction is not None:
            self.in_transactions.setdefault(event.transaction, set()).add(position)


class _History:
    """The history of one subscription."""

    def __init__(self, topic: _PublishedEntries, in_flight_ms: int) -> None:
        self.topic = topic
        self.in_flight_ms = in_flight_ms
        self.now_ms = 0
        self.set_back_ms = 0
        """The largest step by which the time of the events went back from one event to the next, in ms."""
        self.by_key: bool | None = None
        """Whether the type of the subscription is Key_Shared; None if it is unknown."""
        self.deliveries = 0
        self.of_unknown_type = 0
        self.without_key = 0
        """The number of deliveries on Key_Shared whose order is not checked, because no event before them has
        the key of their message."""
        self.consumers = 0
        self.begin(())

    def begin(self, acked_up_to: tuple[int, ...]) -> None:
        """Restart the history at a point where no message is delivered.

        The messages up to the position `acked_up_to` are acknowledged, and no others. If `acked_up_to` is the
        empty tuple, no message is acknowledged.
        """
        self.acked_up_to = self.durable_up_to = acked_up_to
        self.holder: dict[Position, str | None] = {}
        self.of_consumer: dict[str | None, set[Position]] = {}
        self.waiting: dict[str, _WaitingMessages] = {}
        self.first_deliveries: dict[str, Position] = {}
        """Maps each key to the greatest position among its delivered messages. Messages whose order is not
        checked are left out."""
        self.delivered: set[Position] = set()
        self.acked: set[Position] = set()
        self.acked_ms: dict[Position, int] = {}
        """Maps each acknowledged message to the time of its acknowledgment; empty if `in_flight_ms` is 0."""
        self.answered: set[Position] = set()
        self.unanswered: set[Position] = set()
        """The acknowledged messages for whose acknowledgment the broker has not sent a receipt yet."""
        self.may_be_acked: set[Position] = set()
        """The messages that were acknowledged before a crash, but without a receipt. The crash may have lost
        these acknowledgments, so the broker may redeliver the messages, but need not."""
        self.counts: dict[Position, int] = {}
        self.in_transactions: dict[str, set[Position]] = {}

    def is_acked(self, position: Position) -> bool:
        return position in self.acked or position <= self.acked_up_to

    def is_accounted_for(self, position: Position) -> bool:
        """Return whether a message need not be delivered at the end of the history.

        This is the case if it is acknowledged, may be acknowledged after a crash, or is pending at a consumer
        or in an open transaction.
        """
        if self.is_acked(position) or position in self.holder or position in self.may_be_acked:
            return True
        return any(position in each for each in self.in_transactions.values())

    def dispatch(self, event: Event, position: Position) -> Iterator[tuple[Rule, Position | None]]:
        until_ms = self.now_ms - self.in_flight_ms if self.in_flight_ms else None
        crossed = until_ms is not None and self.acked_ms.get(position, until_ms) > until_ms
        if self.is_acked(position) and not crossed:
            yield Rule.RECEIPT_LOST if position in self.answered else Rule.ACKED_AGAIN, None
        count = event.redelivery_count or 0
        if count < self.counts.get(position, count):
            yield Rule.COUNT_FELL, None
        self.counts[position] = count
        key = self.topic.keys.get(position)
        self.deliveries += 1
        self.of_unknown_type += self.by_key is None
        if self.by_key and key is not None:
            waiting = self.waiting.get(key)
            first = None if waiting is None else waiting.first(position, until_ms)
            if first is not None:
                yield Rule.OVERTAKEN, first
            if position not in self.delivered and position not in self.topic.unordered:
                last = self.first_deliveries.get(key, position)
                if last > position:
                    yield Rule.OUT_OF_ORDER, last
                self.first_deliveries[key] = max(last, position)
        elif self.by_key:
            self.without_key += 1
        self.remove(position)
        self.may_be_acked.discard(position)
        self.delivered.add(position)
        self.holder[position] = event.consumer
        self.of_consumer.setdefault(event.consumer, set()).add(position)

    def remove(self, position: Position) -> None:
        """Remove a message from the waiting messages, and from the pending messages of its consumer."""
        if position in self.holder:
            self.of_consumer[self.holder.pop(position)].discard(position)
        key = self.topic.keys.get(position)
        if key is not None and key in self.waiting:
            waiting = self.waiting[key]
            waiting.since_ms.pop(position, None)
            if not waiting.since_ms:
                del self.waiting[key]

    def give_back(self, positions: Iterable[Position]) -> None:
        for position in sorted(positions):
            self.remove(position)
            key = self.topic.keys.get(position)
            if key is not None and not self.is_acked(position):
                self.waiting.setdefault(key, _WaitingMessages()).add(position, self.now_ms)

    def acknowledge(self, position: Position) -> None:
        self.acked.add(position)
        self._note_ack_time(position)
        self.counts.pop(position, None)
        self.remove(position)

    def acknowledge_up_to(self, position: tuple[int, ...]) -> None:
        self.acked_up_to = max(self.acked_up_to, position)
        for each in [each for each in self.delivered if each <= position]:
            self.counts.pop(each, None)
            self._note_ack_time(each)
            self.remove(each)

    def _note_ack_time(self, position: Position) -> None:
        if self.in_flight_ms:
            self.acked_ms.setdefault(position, self.now_ms)

    def return_all(self) -> None:
        """Mark the pending messages of all consumers as returned.

        The broker reads these messages again in order.
        """
        self.give_back([*self.holder])
        self.counts.clear()

    def set_time(self, time_ms: int) -> None:
        self.set_back_ms = max(self.set_back_ms, self.now_ms - time_ms)
        self.now_ms = time_ms

    def unchecked(self) -> Iterator[str]:
        """Yield a sentence for each check that was not possible with these events."""
        if self.without_key:
            yield f"the order of {self.without_key:,} deliveries is not checked: no earlier event has the key"
        if self.of_unknown_type:
            yield (
                f"the order per key of {self.of_unknown_type:,} deliveries is not checked: "
                "no earlier `consumer_open` event has the subscription type"
            )
        if self.set_back_ms > self.in_flight_ms > 0:
            yield (
                f"the times of the events go back by up to {self.set_back_ms:,} ms, "
                "so a violation may look like a delivery in flight"
            )


def check_history(
    events: Iterable[Event], *, at_rest: bool = False, in_flight_ms: int = 0
) -> list[Violation]:
    """Return the violations of a history, in the order of the events. O(events · log waiting).

    Parameters
    ----------
    events : iterable of Event
        The events in order, as `read_events` returns them. The key of a message comes from its publish event
        or from a delivery event. The order of messages without a known key is not checked.
    at_rest : bool
        Whether the broker had no message left to deliver at the end of the history. If so, a message that is
        neither acknowledged nor pending at a consumer is a violation.
    in_flight_ms : int
        A delivery within this time after the acknowledgment or return of its message is not a violation,
        because the broker may have sent the message before. Times are the `time_ms` of the events. Use 0 for
        events that the broker recorded itself.

    Examples
    --------
    >>> from ackwell.replay.events import event_from_fields
    >>> lines = [
    ...     {"kind": "consumer_open", "consumer": "a", "detail": "Key_Shared"},
    ...     {"kind": "dispatch", "consumer": "a", "entry_id": 0, "key": "k"},
    ...     {"kind": "nack", "consumer": "a", "entry_id": 0},
    ...     {"kind": "dispatch", "consumer": "a", "entry_id": 1, "key": "k"},
    ... ]
    >>> common = {"topic": "t", "subscription": "s", "ledger_id": 3}
    >>> for each in check_history(event_from_fields(common | line) for line in lines):
    ...     print(each.position, each.rule, each.other)
    3:1 overtaken 3:0
    """
    checker = HistoryChecker(in_flight_ms)
    for event in events:
        checker.feed(event)
    if at_rest:
        checker.check_rest()
    return checker.found


class HistoryChecker:
    """Checks a history event by event, by the same rules as `check_history`."""

    def __init__(self, in_flight_ms: int = 0) -> None:
        self.found: list[Violation] = []
        """The violations of the events so far."""
        self._under_way_ms = in_flight_ms
        self._topics: dict[str, _PublishedEntries] = {}
        self._histories: dict[str, dict[str, _History]] = {}

    def feed(self, event: Event) -> None:
        """Apply one event to its subscription.

        An event without a subscription is applied to all subscriptions of its topic.
        """
        position = None
        if event.ledger_id is not None and event.entry_id is not None:
            position = Position(event.ledger_id, event.entry_id)
        topic = self._topics.setdefault(event.topic, _PublishedEntries())
        if position is not None and event.key is not None and topic.keys.get(position) is None:
            # The publish event may lack the key, so the key is taken from any event of the message.
            topic.keys[position] = event.key
        if event.kind is Kind.PUBLISH and position is not None:
            topic.publish(event, position)
        elif event.kind is Kind.ABORT and not event.subscription:
            topic.aborted |= topic.in_transactions.pop(event.transaction or "", set())
        histories = self._histories.setdefault(event.topic, {})
        if event.subscription:
            if event.subscription not in histories:
                histories[event.subscription] = _History(topic, self._under_way_ms)
            self._apply(event, histories[event.subscription], position)
        else:
            for name, history in histories.items():
                self._apply(event._replace(subscription=name), history, position)

    def check_rest(self) -> int:
        """Add a violation for each message that should have been delivered by the end of the history.

        Return the number of messages that were checked.
        """
        checked = 0
        for topic_name, histories in self._histories.items():
            for name, history in histories.items():
                for position in sorted(history.topic.keys.keys() - history.topic.aborted):
                    checked += 1
                    if not history.is_accounted_for(position):
                        self.found.append(Violation(Rule.NEVER_DELIVERED, topic_name, name, position, 0))
        return checked

    @property
    def deliveries(self) -> int:
        """The number of deliveries so far."""
        return sum(each.deliveries for histories in self._histories.values() for each in histories.values())

    def unchecked(self) -> Iterator[str]:
        """Yield a sentence for each check that was not possible with these events."""
        if not self.deliveries:
            yield f"{NO_DELIVERY}, so neither order nor redelivery is checked"
            return
        subscriptions = [
            (f"{topic} {name}", history)
            for topic, histories in self._histories.items()
            for name, history in histories.items()
        ]
        without = [name for name, history in subscriptions if not history.deliveries]
        if without:
            yield (
                f"{len(without):,} of {len(subscriptions):,} subscriptions have no delivery (`dispatch`), "
                f"such as {without[0]}; neither their order nor their redelivery is checked"
            )
        for name, history in subscriptions:
            for sentence in history.unchecked():
                yield f"{name}: {sentence}"

    def _apply(self, event: Event, history: _History, position: Position | None) -> None:
        kind = event.kind
        if event.time_ms is not None:
            history.set_time(event.time_ms)
        if kind is Kind.DISPATCH and position is not None:
            common = event.topic, event.subscription, position, event.sequence
            self.found += [
                Violation(rule, *common, other) for rule, other in history.dispatch(event, position)
            ]
        elif kind in _WITH_POSITION and position is not None:
            _WITH_POSITION[kind](history, event, position)
        elif kind in _WITHOUT_POSITION:
            _WITHOUT_POSITION[kind](history, event)


def _ack(history: _History, event: Event, position: Position) -> None:
    if event.ack_set or event.batch_index is not None:
        # The event acknowledges a part of a batch. The history treats the entry as unacknowledged.
        history.counts.pop(position, None)
        return
    if event.transaction is not None:
        history.in_transactions.setdefault(event.transaction, set()).add(position)
    else:
        history.acknowledge(position)
        if position not in history.answered:
            history.unanswered.add(position)


def _ack_cumulative(history: _History, event: Event, position: Position) -> None:
    if event.transaction is None:
        before = event.ack_set or event.batch_index is not None
        history.acknowledge_up_to(Position(position.ledger_id, position.entry_id - 1) if before else position)


def _nack(history: _History, event: Event, position: Position) -> None:
    if position in history.holder and event.consumer in (None, history.holder[position]):
        history.give_back([position])


def _receipt(history: _History, event: Event, position: Position) -> None:
    if event.detail == RECEIPT:
        history.answered.add(position)
        history.unanswered.discard(position)
        if position == history.acked_up_to:
            history.durable_up_to = position


def _seek(history: _History, event: Event, position: Position) -> None:
    history.begin(Position(position.ledger_id, position.entry_id - 1))


def _moved(history: _History, event: Event, position: tuple[int, ...]) -> None:
    history.acknowledge_up_to(position)
    history.durable_up_to = history.acked_up_to


def _trimmed(history: _History, event: Event, position: Position) -> None:
    _moved(history, event, Position(position.ledger_id, position.entry_id - 1))


def _opened(history: _History, event: Event) -> None:
    history.consumers += 1
    if event.detail is not None:
        history.by_key = event.detail == "Key_Shared"


def _closed(history: _History, event: Event) -> None:
    _give_all_back(history, event)
    history.consumers -= 1
    if history.consumers <= 0:
        history.counts.clear()


def _give_all_back(history: _History, event: Event) -> None:
    history.give_back([*history.of_consumer.get(event.consumer, ())])


def _all_left(history: _History, event: Event) -> None:
    history.consumers = 0
    history.return_all()


def _restarted(history: _History, event: Event) -> None:
    if event.detail == "crash":
        history.acked -= history.unanswered
        history.may_be_acked |= history.unanswered
        history.may_be_acked.update(each for each in history.topic.keys if each <= history.acked_up_to)
        history.acked_up_to = history.durable_up_to
        history.unanswered.clear()
    _all_left(history, event)


def _committed(history: _History, event: Event) -> None:
    for position in history.in_transactions.pop(event.transaction or "", ()):
        history.acknowledge(position)


def _aborted(history: _History, event: Event) -> None:
    history.give_back(history.in_transactions.pop(event.transaction or "", ()))


def _cleared(history: _History, event: Event) -> None:
    _moved(history, event, max(history.topic.keys, default=history.acked_up_to))


_WITH_POSITION: Final = {
    Kind.ACK: _ack,
    Kind.ACK_CUMULATIVE: _ack_cumulative,
    Kind.NACK: _nack,
    Kind.RESULT: _receipt,
    Kind.SEEK: _seek,
    Kind.SKIP: _moved,
    Kind.EXPIRE: _moved,
    Kind.TRIM: _trimmed,
}
_WITHOUT_POSITION: Final = {
    Kind.CONSUMER_OPEN: _opened,
    Kind.CONSUMER_CLOSE: _closed,
    Kind.REDELIVER_UNACKED: _give_all_back,
    Kind.CLIENT_CLOSED: _all_left,
    Kind.UNLOAD: _restarted,
    Kind.BROKER_RESTART: _restarted,
    Kind.COMMIT: _committed,
    Kind.ABORT: _aborted,
    Kind.CLEAR_BACKLOG: _cleared,
}
