"""Operations that tests need and clients do not offer: list messages, list a backlog, force a redelivery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.cursor.ack_sets import from_words
from ackwell.position import Position
from ackwell.protocol.batches import read_batch
from ackwell.protocol.payload import read_payload, uncompressed
from ackwell.protocol.topic_name import TopicName
from ackwell.subscription import SubscriptionType

if TYPE_CHECKING:
    from ackwell.devbroker.broker_state import BrokerState
    from ackwell.devbroker.entry import LogEntry
    from ackwell.devbroker.subscriptions import ConnectedConsumer
    from ackwell.devbroker.topic import Topic


REOPENED_WITHIN_S: Final = 10.0
"""The maximum seconds until a client has subscribed again after the broker closed its consumer."""


_REDELIVERS_ENTRIES: Final = (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)
"""The subscription types for which single entries can be redelivered. The others redeliver all entries."""


class Message(NamedTuple):
    """A message of a topic."""

    data: bytes
    """The payload without compression. The payload of an encrypted message stays encrypted."""
    key: str | None
    properties: dict[str, str]
    topic: str
    position: Position
    batch_index: int
    """The index of the message in its batch. -1 if the message is not in a batch."""
    producer: str
    sequence_id: int
    publish_ms: int
    deliver_at_ms: int
    """The time at which a delayed message is delivered. 0 if the message is not delayed."""


def topics_of(state: BrokerState, name: str) -> list[Topic]:
    """Return a topic as a list. For a partitioned topic, return all of its partitions.

    Raises `KeyError` if the topic does not exist.
    """
    parse_topic_name = TopicName.parse(name)
    count = state.partitioned.get(str(parse_topic_name), 0)
    names = [str(parse_topic_name.of_partition(index)) for index in range(count)] or [str(parse_topic_name)]
    try:
        return [state.topics[each] for each in names]
    except KeyError as error:
        raise KeyError(f"topic {error.args[0]!r} does not exist") from None


def messages(state: BrokerState, topic: str) -> list[Message]:
    """Return the messages of a topic in order, one partition after the other."""
    return [message for each in topics_of(state, topic) for message in _messages(each)]


def backlog(state: BrokerState, topic: str, subscription: str) -> list[Message]:
    """Return the messages that a subscription has not acknowledged."""
    left: list[Message] = []
    for each in topics_of(state, topic):
        if subscription not in each.subscriptions:
            raise KeyError(f"{each.name} has no subscription {subscription!r}")
        cursor = each.subscriptions[subscription].cursor
        partly = {position: from_words(words) for position, words in cursor.batch_deleted.items()}
        left += [
            message
            for message in _messages(each)
            if not cursor.is_acked(*message.position)
            and partly.get(message.position, -1) >> max(message.batch_index, 0) & 1
        ]
    return left


def _messages(topic: Topic) -> Iterable[Message]:
    hidden = topic.content.transactions
    for ledger_id, entries in topic.content.log.entries.items():
        for entry_id, entry in enumerate(entries):
            position = Position(ledger_id, entry_id)
            aborted = entry.transaction is not None and hidden.hides(entry, position)
            if not entry.marker and not aborted:
                yield from _in_entry(topic, position, entry)


def _in_entry(topic: Topic, position: Position, entry: LogEntry) -> Iterable[Message]:
    payload = read_payload(entry.data)
    metadata = payload.metadata
    encrypted = bool(metadata.encryption_keys)
    body = payload.body if encrypted else uncompressed(payload)
    rows: list[tuple[int, Any, bytes]] = [(-1, metadata, body)]
    if metadata.HasField("num_messages_in_batch") and not encrypted:
        rows = [(index, *each) for index, each in enumerate(read_batch(metadata, body))]
    for index, about, data in rows:
        yield Message(
            data=data,
            key=about.partition_key if about.HasField("partition_key") else None,
            properties={each.key: each.value for each in about.properties},
            topic=str(topic.name),
            position=position,
            batch_index=index,
            producer=metadata.producer_name,
            sequence_id=about.sequence_id,
            publish_ms=metadata.publish_time,
            deliver_at_ms=entry.deliver_at_ms,
        )


# Redelivery


async def take_back(state: BrokerState, consumer: str, given: Any, subscription: str | None) -> int:
    """Redeliver entries of a consumer. Return the number of redelivered entries.

    `given` are the messages to redeliver. If it is None, all unacknowledged entries of the consumer are
    redelivered. Exclusive and Failover subscriptions always redeliver all of them.
    """
    found = _consumers(state, consumer, subscription)
    if not found:
        raise KeyError(f"no consumer {consumer!r} is connected")
    wanted = None if given is None else [_position(each) for each in _each(given)]
    taken, closed = 0, []
    for each in found:
        source = each.subscription
        if wanted is not None and source.type in _REDELIVERS_ENTRIES:
            taken += source.redeliver(each, wanted)
        else:
            taken += source.redeliver(each, None)
            closed.append(_ReopeningConsumer(state, each))
    state.shared.run_woken()
    try:
        async with asyncio.timeout(REOPENED_WITHIN_S):
            while not all(each.is_over for each in closed):
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise TimeoutError(f"{consumer!r} did not subscribe again in {REOPENED_WITHIN_S:g} s") from None
    finally:
        for reopening in closed:
            reopening.end()
    return taken


class _ReopeningConsumer:
    """A consumer that the broker closed. Its client drops its unread messages and subscribes again.

    Until the client has subscribed again, the subscription has an extra consumer without permits. Without any
    consumer, a Shared subscription would lose its redelivery counts, as in a Pulsar broker.
    """

    def __init__(self, state: BrokerState, consumer: ConnectedConsumer) -> None:
        self._state = state
        self._consumer = consumer
        self._source = source = consumer.subscription
        self._holder: int | None = None
        if source.type in _REDELIVERS_ENTRIES and source.key_shared_mode != "sticky":
            self._holder = state.new_consumer_key()
            source.subscription.add_consumer("", consumer_id=self._holder)
        source.reopen(consumer)

    @property
    def is_over(self) -> bool:
        """Whether the client has subscribed again or disconnected."""
        is_back = bool(_consumers(self._state, self._consumer.name, self._source.name))
        return is_back or self._consumer.connection not in self._state.shared.connections

    def end(self) -> None:
        """Remove the extra consumer."""
        if self._holder is not None:
            self._source.subscription.remove_consumer(self._holder)
            self._source.wake()
            self._state.shared.run_woken()


def _consumers(state: BrokerState, name: str, subscription: str | None) -> list[ConnectedConsumer]:
    return [
        each
        for source in state.subscriptions()
        if subscription in (None, source.name)
        for each in source.consumers.values()
        if each.name == name
    ]


def _each(given: Any) -> list[Any]:
    """Return the given messages as a list. A single message becomes a list with one element."""
    is_one = hasattr(given, "message_id") or hasattr(given, "ledger_id") or isinstance(given[0], int)
    return [given] if is_one else list(given)


def _position(given: Any) -> tuple[int, int]:
    """Return a position. `given` is a message, a message id, or a pair of ledger id and entry id."""
    if hasattr(given, "message_id"):
        given = given.message_id()
    if hasattr(given, "ledger_id"):
        ids = given.ledger_id, given.entry_id
        return tuple(each() if callable(each) else each for each in ids)
    return given[0], given[1]
