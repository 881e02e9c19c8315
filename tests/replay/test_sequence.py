"""Recordings in their order lead to what the broker itself says, and to what the fold says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.request import Request, urlopen

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.protocol.codes import CommandType, TxnAction
from ackwell.recording.book import Book
from ackwell.recording.proxy import Proxy
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay, SubscriptionState
from ackwell.spark.tasks.ordered import follow_batches
from ackwell.spark.tasks.sources import to_batches
from tests.devbroker.raw import RawClient
from tests.devbroker.test_transactions import begin, end
from tests.replay.histories import random_history
from tests.replay.oracle import truths

if TYPE_CHECKING:
    from ackwell.position import Position

pulsar = pytest.importorskip("pulsar")

TYPES: Final = {
    "shared": pulsar.ConsumerType.Shared,
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "keyed": pulsar.ConsumerType.KeyShared,
}
MESSAGES: Final = 60
LEDGER_ENTRIES: Final = 25


class Found(NamedTuple):
    """What somebody says of a subscription, the mark-delete position as the next one to be read."""

    next_read: Position
    ranges: str
    ack_sets: dict[str, tuple[int, ...]]
    backlog_entries: int
    pending: dict[str, int]


class Recording(NamedTuple):
    """Events, and what the broker says at the same moment."""

    events: list[Event]
    truth: dict[tuple[str, str], Found]
    ledgers: dict[str, Any]

    def found(self, row: dict[str, Any]) -> Found:
        """Return what a row of the table `MOMENTS` says."""
        assert row["error"] is None, row
        mark_delete = row["mark_delete_ledger_id"], row["mark_delete_entry_id"]
        return Found(
            self.ledgers[row["topic"]].next_valid(*mark_delete),
            row["individually_deleted"],
            {at: tuple(words) for at, words in dict(row["batch_deleted"]).items()},
            row["backlog_entries"],
            dict(row["pending_entries"]),
        )

    def state(self, state: SubscriptionState) -> tuple[Any, ...]:
        """Return the same of a state, which says nothing of consumers."""
        cursor = state.cursor
        return (
            self.ledgers[state.topic].next_valid(*cursor.mark_delete_position),
            str(cursor.individually_deleted),
            {str(at): tuple(words) for at, words in cursor.batch_deleted.items()},
            cursor.backlog_entries,
        )


@contextmanager
def recorded(recorder: str, seed: int) -> Iterator[Recording]:
    """Record traffic of every type of subscription by the dev broker itself, or by a proxy before it."""
    with Broker(settings=DevBrokerSettings(entries_per_ledger=LEDGER_ENTRIES)) as broker:
        events: list[Event] = []
        url, stop = broker.url, None
        if recorder == "proxy":
            proxy = Proxy(broker.url, Book(events.append))
            broker.wait(proxy.start())
            url, stop = proxy.url, proxy.stop
        client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        with closing(client):
            consumers = traffic(client, random.Random(seed), batches=seed % 2 == 1)
            fill(url)
            for action in (TxnAction.COMMIT, TxnAction.ABORT):
                transaction(url, action)
            if recorder == "dev broker":
                operate(broker)
            consumers["gone"].unsubscribe()
            broker.settle()
            yield Recording(
                list(events or broker.events),
                *broker.call(lambda: said_by(broker)),
            )
        if stop is not None:
            broker.wait(stop())


def traffic(client: Any, chance: random.Random, *, batches: bool) -> dict[str, Any]:
    """Publish, receive, acknowledge in part, ask again, seek; return the consumers, which stay connected."""
    producer = client.create_producer("orders", batching_enabled=batches, batching_max_messages=7)
    consumers = {
        name: client.subscribe(
            "orders",
            name,
            consumer_type=TYPES.get(name, pulsar.ConsumerType.Shared),
            consumer_name=f"consumer of {name}",
            initial_position=pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=True,
        )
        for name in (*TYPES, "sought", "moved", "gone")
    }
    for number in range(MESSAGES):
        producer.send_async(b"%d" % number, None, partition_key=str(number % 7))
    producer.flush()
    received = {name: [each.receive(5_000) for _ in range(MESSAGES)] for name, each in consumers.items()}
    for name, consumer in consumers.items():
        for message in chance.sample(received[name], 25):
            consumer.acknowledge(message)
    for name in ("exclusive", "failover"):
        consumers[name].acknowledge_cumulative(received[name][chance.randrange(MESSAGES)])
    consumers["keyed"].redeliver_unacknowledged_messages()
    consumers["sought"].seek(received["sought"][chance.randrange(10, 40)].message_id())
    for _ in range(5):
        consumers["sought"].acknowledge(consumers["sought"].receive(5_000))
    return consumers


class Address(NamedTuple):
    """Where a raw client connects."""

    url: str


def fill(url: str) -> None:
    """Consume a whole ledger, which is deleted when the next one begins; and one message of that."""
    with RawClient(Address(url)) as client:  # type: ignore[arg-type]
        client.subscribe("trimmed")
        client.produce("trimmed")
        for count in (LEDGER_ENTRIES, 1):
            places = [client.publish(number, b"x").message_id for number in range(count)]
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=places, request_id=20)
            client.until(CommandType.ACK_RESPONSE)


def transaction(url: str, action: TxnAction) -> None:
    """Acknowledge two messages in a transaction that is committed or aborted."""
    with RawClient(Address(url)) as client:  # type: ignore[arg-type]
        client.subscribe("in-transactions")
        client.produce("in-transactions")
        places = [client.publish(number, b"x").message_id for number in range(4)]
        txn = begin(client)
        client.send(
            CommandType.ADD_SUBSCRIPTION_TO_TXN,
            request_id=12,
            subscription=[{"topic": "in-transactions", "subscription": "s"}],
            **txn,
        )
        client.until(CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=places[1:3], request_id=20, **txn)
        client.until(CommandType.ACK_RESPONSE)
        end(client, txn, action)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[places[0]], request_id=21)
        client.until(CommandType.ACK_RESPONSE)


def operate(broker: Broker) -> None:
    """Skip, expire and clear as an operator does."""
    path = f"{broker.admin_url}/admin/v2/persistent/public/default/orders/subscription"
    for name, what in (("moved", "skip/9"), ("moved", "expireMessages/0"), ("shared", "skip/3")):
        urlopen(Request(f"{path}/{name}/{what}", method="POST"), timeout=10).close()
    urlopen(Request(f"{path}/keyed/skip_all", method="POST"), timeout=10).close()


def said_by(broker: Broker) -> tuple[dict[tuple[str, str], Found], dict[str, Any]]:
    truth, ledgers = {}, {}
    for each in broker._broker.state.subscriptions():
        cursor, topic = each.cursor, str(each.content.name)
        ledgers[topic] = each.content.log.ledgers
        truth[topic, each.name] = Found(
            cursor.ledgers.next_valid(*cursor.mark_delete_position),
            str(cursor.individually_deleted),
            {str(at): tuple(words) for at, words in cursor.batch_deleted.items()},
            cursor.backlog_entries,
            {
                consumer.name: summary.pending_entries
                for consumer, summary in zip(
                    each.consumers.values(), each.subscription.summary(0).consumers, strict=True
                )
            },
        )
    return truth, ledgers


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("recorder", ["dev broker", "proxy"])
def test_a_recording_in_its_order_is_the_broker_s_own_state(recorder: str, seed: int) -> None:
    with recorded(recorder, seed) as recording:
        kinds = {event.kind for event in recording.events}
        assert {Kind.PUBLISH, Kind.DISPATCH, Kind.SEEK, Kind.COMMIT, Kind.ABORT, Kind.UNSUBSCRIBE} <= kinds
        if recorder == "dev broker":
            assert {Kind.SKIP, Kind.EXPIRE, Kind.CLEAR_BACKLOG, Kind.TRIM} <= kinds
        numbered = [event._replace(sequence=n, file=None) for n, event in enumerate(recording.events)]
        rows = [row for batch in follow_batches(in_topics(numbered), []) for row in batch.to_pylist()]
        found = {(row["topic"], row["subscription"]): recording.found(row) for row in rows}
        assert found == recording.truth
        assert folded(recording) == {name: each[:4] for name, each in recording.truth.items()}


def in_topics(events: list[Event]) -> Any:
    """Order events as `ordered_replay` does."""
    return to_batches(sorted(events, key=lambda event: (event.topic, event.sequence)))


def folded(recording: Recording) -> dict[tuple[str, str], tuple[Any, ...]]:
    replay = Replay()
    for event in recording.events:
        replay.feed(event)
    return {(state.topic, state.subscription): recording.state(state) for state in replay.states()}


@pytest.mark.parametrize("by_topic", [False, True])
def test_random_histories_in_their_order_lead_to_the_truth(by_topic: bool) -> None:
    """Of whole entries: what an index acknowledges depends on how large the batch is known to be by then."""
    compared = 0
    for seed in range(40):
        events = [
            event._replace(file=event.file or "")
            for event in random_history(seed, by_topic=by_topic)
            if event.batch_index is None and event.ack_set is None and event.kind is not Kind.TRIM
        ]
        events.sort(key=lambda event: (event.topic, event.file or "", event.sequence))
        rows = [row for batch in follow_batches(to_batches(events), []) for row in batch.to_pylist()]
        found = {(row["topic"], row["subscription"]): row for row in rows}
        for name, truth in truths(events).items():
            row = found[name]
            if row["error"] is not None:
                # What was wrong before a seek is void in the end, but it cannot be followed in order.
                assert truth.is_error or {Kind.SEEK} & kinds_of(events, name), (seed, name, row["error"])
            else:
                compared += 1
                assert not truth.is_error, (seed, name)
                mark_delete = row["mark_delete_ledger_id"], row["mark_delete_entry_id"]
                said = mark_delete, row["individually_deleted"], row["backlog_entries"]
                wanted = truth.to_row()
                assert said == (truth.mark_delete, wanted["individually_deleted"], truth.backlog), (
                    seed,
                    name,
                )
    assert compared > 30


def kinds_of(events: list[Event], name: tuple[str, str]) -> set[Kind]:
    return {event.kind for event in events if (event.topic, event.subscription) == name}
