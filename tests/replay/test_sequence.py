"""A replay of recordings in order equals the broker's own state and the fold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

import pytest

from ackwell import Ledgers, Position, _native
from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.errors import ProtocolError
from ackwell.protocol.constants import CommandType, TxnAction
from ackwell.recording.proxy import Proxy
from ackwell.recording.recording import Recording
from ackwell.replay.events import Event, Kind
from ackwell.replay.sequence import SubscriptionReplay, TopicReplay
from ackwell.replay.states import Replay, SubscriptionState, states_of
from ackwell.spark.tasks.moment_rows import follow_batches
from ackwell.spark.tasks.source_rows import to_batches
from ackwell.subscription import TransactionId
from tests import reference
from tests.devbroker.raw import RawClient
from tests.devbroker.test_transactions import begin, end
from tests.replay.cases import CASES
from tests.replay.histories import random_history
from tests.replay.oracle import truths
from tests.replay.test_fold import folded as folded_at_once
from tests.replay.test_fold import rows_of, same_as_truth

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
    """The state of a subscription. The mark-delete position is given as the next position to read."""

    next_read: Position
    ranges: str
    ack_sets: dict[str, tuple[int, ...]]
    backlog_entries: int
    pending: dict[str, int]


class RecordedSession(NamedTuple):
    """Events, and the broker's state at the same moment."""

    events: list[Event]
    truth: dict[tuple[str, str], Found]
    ledgers: dict[str, Any]

    def found(self, row: dict[str, Any]) -> Found:
        """Return the state of a row of the table `MOMENTS`."""
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
        """Return the state of a `SubscriptionState`, which has no consumers."""
        cursor = state.cursor
        return (
            self.ledgers[state.topic].next_valid(*cursor.mark_delete_position),
            str(cursor.individually_deleted),
            {str(at): tuple(words) for at, words in cursor.batch_deleted.items()},
            cursor.backlog_entries,
        )


@contextmanager
def recorded(recorder: str, seed: int) -> Iterator[RecordedSession]:
    """Record traffic of every subscription type in the dev broker, or with a proxy in front of it."""
    with Broker(settings=DevBrokerSettings(entries_per_ledger=LEDGER_ENTRIES)) as broker:
        events: list[Event] = []
        url, stop = broker.url, None
        if recorder == "proxy":
            proxy = Proxy(broker.url, Recording(events.append))
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
            yield RecordedSession(
                list(events or broker.events),
                *broker.call(lambda: said_by(broker)),
            )
        if stop is not None:
            broker.wait(stop())


def traffic(client: Any, chance: random.Random, *, batches: bool) -> dict[str, Any]:
    """Publish, receive, acknowledge some, request redelivery, seek. Return the connected consumers."""
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
    """The address for a raw client."""

    url: str


def fill(url: str) -> None:
    """Consume a whole ledger, which is deleted when the next one starts, and one message of the next."""
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
    # A broker that has nothing to expire answers with a conflict, so an entry must remain.
    for name, what in (("moved", "skip/1"), ("moved", "expireMessages/0"), ("shared", "skip/3")):
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


@pytest.mark.slow
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


def folded(recording: RecordedSession) -> dict[tuple[str, str], tuple[Any, ...]]:
    replay = Replay()
    for event in recording.events:
        replay.feed(event)
    return {(state.topic, state.subscription): recording.state(state) for state in replay.states()}


@pytest.mark.parametrize("name", CASES)
def test_what_was_once_folded_wrongly_is_followed_to_the_truth(name: str) -> None:
    same_in_order(CASES[name])


@pytest.mark.parametrize("by_topic", [pytest.param(False, marks=pytest.mark.slow), True])
def test_random_histories_in_their_order_lead_to_the_truth(by_topic: bool) -> None:
    for seed in range(60):
        same_in_order(random_history(seed, by_topic=by_topic))


@pytest.mark.proof
@pytest.mark.parametrize("by_topic", [False, True])
def test_thousands_of_histories_in_their_order_lead_to_the_truth(by_topic: bool) -> None:
    for seed in range(60, 3_060):
        same_in_order(random_history(seed, by_topic=by_topic))


def same_in_order(events: list[Event]) -> None:
    """The ordered replay, the fold and the reference equal the oracle of plain sets."""
    numbered = [event._replace(file=event.file or "") for event in events]
    numbered.sort(key=lambda event: (event.topic, event.file or "", event.sequence))
    in_order = [row for batch in follow_batches(to_batches(numbered), []) for row in batch.to_pylist()]
    rows = {(row["topic"], row["subscription"]): row for row in in_order}
    for name, truth in truths(numbered).items():
        found = rows.pop(name)
        if truth.is_error:
            assert found["error"] is not None, name
            continue
        assert found["error"] is None, (name, found["error"])
        wanted = truth.to_row()
        mark_delete = found["mark_delete_ledger_id"], found["mark_delete_entry_id"]
        assert mark_delete == wanted["mark_delete"], name
        assert dict(found["batch_deleted"]) == wanted["batch_deleted"], name
        for column in ("individually_deleted", "backlog_entries"):
            assert found[column] == wanted[column], name
    assert not rows
    same_as_truth(numbered, rows_of(folded_at_once(numbered)))
    native, plain = (states_in(numbered, engine) for engine in (_native, reference))
    assert native == plain


def states_in(events: list[Event], engine: Any) -> tuple[list[Any], dict[Any, str]]:
    """Return the states of events fed one by one, and the errors of the other subscriptions."""
    replay, errors = Replay(engine=engine), dict[Any, str]()
    for event in events:
        replay.feed(event)
    return [state.to_json() for state in states_of(replay.fold, errors)], errors


def test_strict_raises_what_else_would_be_the_error_of_a_subscription() -> None:
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    published = Event("t", "", 1, Kind.PUBLISH, **at)
    ahead = Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=7)
    for wrong, said in (
        (ahead, "t, s: acknowledgment of 3:7, which was never published"),
        (ahead._replace(ledger_id=None), "no position"),
        (Event("t", "s", 2, Kind.CONSUMER_OPEN, consumer="c", detail="Odd"), "t, s: sequence 2: .*Odd"),
    ):
        for strict in (False, True):
            found = follow_batches(to_batches([published, wrong]), [], strict=strict)
            if strict:
                with pytest.raises(ProtocolError, match=said):
                    list(found)
            else:
                (row,) = (row for batch in found for row in batch.to_pylist())
                assert row["error"] is not None


def followed(
    *events: tuple[Kind, dict[str, Any]], sizes: Mapping[Position, int] | None = None
) -> SubscriptionReplay:
    """Replay events of one subscription on a topic with two ledgers of five entries."""
    found = SubscriptionReplay(Ledgers({3: 5, 5: 5}), dict(sizes or {}))
    for kind, fields in events:
        found.feed(Event("t", "s", 0, kind, **{"ledger_id": 3, "entry_id": 0} | fields))
    return found


def test_what_a_broker_dispatched_is_not_delivered_once_more_when_a_client_has_it() -> None:
    opened = (Kind.CONSUMER_OPEN, CLIENT | {"detail": "Shared"})
    again = CLIENT | {"redelivery_count": 1}
    both = followed(
        opened, (Kind.DISPATCH, again), (Kind.RECEIVE, again), (Kind.RECEIVE, {**again, "entry_id": 1})
    )
    assert (both.redeliveries, pending(both)) == (1, [1])
    # Without the broker's deliveries, those of the clients are used.
    client = followed(opened, (Kind.RECEIVE, again), (Kind.RECEIVE, {**again, "entry_id": 1}))
    assert (client.redeliveries, pending(client)) == (2, [2])


def test_an_entry_without_a_known_batch_size_is_one_message() -> None:
    assert followed(*DELIVERED).summary(0).unacked == 1
    assert followed(*DELIVERED, sizes={Position(3, 0): 3}).summary(0).unacked == 3
    (pending_ack,) = followed(*DELIVERED)._subscription.pending("c").values()
    assert (pending_ack.remaining, pending_ack.sticky_key_hash) == (1, 0)
    # A batch has at least the messages up to the index of a delivered one.
    topic = TopicReplay()
    topic.feed(Event("t", "s", 1, Kind.RECEIVE, ledger_id=3, entry_id=0, consumer="c", batch_index=2))
    assert topic.sizes() == {(3, 0): 3}


def pending(found: SubscriptionReplay) -> list[int]:
    return [each.pending_entries for each in found.summary(0).consumers]


CLIENT: Final = {"consumer": "c"}
DELIVERED: Final = ((Kind.CONSUMER_OPEN, CLIENT | {"detail": "Shared"}), (Kind.DISPATCH, CLIENT))


@pytest.mark.parametrize(
    ("name", "consumer", "waiting"), [("1:2", "c", 0), ("1:2", None, 1), ("not of a client", "c", 1)]
)
def test_a_transaction_s_acknowledgment_counts_once_its_subscription_commits(
    name: str, consumer: str | None, waiting: int
) -> None:
    held = (*DELIVERED, (Kind.ACK, {"consumer": consumer, "transaction": name}))
    # Acknowledgments that the subscription accepts in a transaction are no longer pending.
    assert pending(followed(*held)) == [waiting]
    committed = followed(*held, (Kind.COMMIT, {"transaction": name}))
    assert pending(committed) == [0]
    assert committed._subscription.cursor.is_acked(3, 0)
    # The end of the topic's transaction, or one without a name, does not affect this subscription.
    for kind in (Kind.COMMIT, Kind.ABORT):
        for subscription, transaction in (("", name), ("s", None)):
            found = followed(*held)
            found.feed(Event("t", subscription, 1, kind, transaction=transaction))
            assert pending(found) == [waiting]
            assert not found._subscription.cursor.is_acked(3, 0)
            found.feed(Event("t", "s", 2, Kind.COMMIT, transaction=name))
            assert found._subscription.cursor.is_acked(3, 0)


@pytest.mark.parametrize("name", ["1:2", "not of a client"])
def test_an_acknowledgment_after_its_commit_is_applied(name: str) -> None:
    late = (Kind.ACK, CLIENT | {"transaction": name})
    assert not followed(*DELIVERED, late)._subscription.cursor.is_acked(3, 0)
    found = followed(*DELIVERED, (Kind.COMMIT, {"transaction": name}), late)
    assert found._subscription.cursor.is_acked(3, 0)


@pytest.mark.parametrize(
    ("kind", "left"), [("Exclusive", ["d"]), ("Shared", ["c", "d"]), ("Failover", ["c", "d"])]
)
def test_a_second_consumer_replaces_the_first_only_on_exclusive(kind: str, left: list[str]) -> None:
    opened = [(Kind.CONSUMER_OPEN, {"consumer": name, "detail": kind}) for name in "cd"]
    assert followed(*opened)._subscription.consumers == left


def test_what_a_client_held_and_committed_is_the_subscription_s_own_transaction() -> None:
    held = (*DELIVERED, (Kind.ACK, CLIENT | {"transaction": "1:2"}))
    assert list(followed(*held)._subscription.transactions) == [TransactionId(1, 2)]
    assert not followed(*held)._open
    committed = followed(*held, (Kind.COMMIT, {"transaction": "1:2"}))
    assert not committed._subscription.transactions


def test_a_message_of_a_batch_that_nobody_has_measured_is_not_the_last_one() -> None:
    acks: list[tuple[Kind, dict[str, Any]]] = [(Kind.ACK, {"batch_index": index}) for index in (0, 1, 63, 64)]
    for count in range(1, len(acks) + 1):
        assert not followed(*DELIVERED, *acks[:count])._subscription.cursor.is_acked(3, 0)
    # The set has the fewest words that contain the index.
    sets = [followed(*DELIVERED, each)._subscription.cursor.batch_deleted[3, 0] for each in acks]
    assert sets == [(-2,), (-3,), (2**63 - 1,), (-1, -2)]
    both = [(kind, fields | {"batch_size": 2}) for kind, fields in acks[:2]]
    assert followed(*DELIVERED, *both)._subscription.cursor.is_acked(3, 0)


def test_what_an_abort_has_ended_no_commit_brings_back() -> None:
    for name in ("1:2", "not of a client"):
        held = (Kind.ACK, CLIENT | {"transaction": name})
        ends = [(kind, {"transaction": name}) for kind in (Kind.ABORT, Kind.COMMIT)]
        assert not followed(*DELIVERED, held, *ends)._subscription.cursor.is_acked(3, 0)
        assert followed(*DELIVERED, held, ends[1])._subscription.cursor.is_acked(3, 0)
        # A deleted subscription has no transactions.
        gone = (Kind.UNSUBSCRIBE, CLIENT)
        assert not followed(*DELIVERED, held, gone, ends[1])._subscription.cursor.is_acked(3, 0)


def test_a_delivery_before_the_answer_of_an_abort_stays_pending() -> None:
    """A broker delivers the entries of an aborted transaction again, and answers the abort afterwards."""
    held = (Kind.ACK, CLIENT | {"transaction": "1:2"})
    other = (Kind.ABORT, {"transaction": "1:3"})
    again = (Kind.DISPATCH, CLIENT | {"redelivery_count": 1})
    abort = (Kind.ABORT, {"transaction": "1:2"})
    assert pending(followed(*DELIVERED, held)) == [0]
    found = followed(*DELIVERED, held, again, other, abort)
    assert (pending(found), found.redeliveries) == ([1], 1)
    # Without a delivery the entry waits in the queue.
    assert pending(followed(*DELIVERED, held, abort)) == [0]
    assert pending(followed(*DELIVERED, held, again, (Kind.COMMIT, {"transaction": "1:2"}))) == [0]
    assert not pending(followed(*DELIVERED, held, again, (Kind.CLIENT_CLOSED, {}), abort))


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared"])
def test_a_cumulative_acknowledgment_moves_the_mark_delete_position_on_every_type(kind: str) -> None:
    opened = (Kind.CONSUMER_OPEN, CLIENT | {"detail": kind})
    whole = followed(opened, (Kind.ACK_CUMULATIVE, CLIENT | {"entry_id": 2}))._subscription.cursor
    assert (whole.mark_delete_position, dict(whole.batch_deleted)) == ((3, 2), {})
    part = (Kind.ACK_CUMULATIVE, CLIENT | {"entry_id": 2, "batch_index": 0, "batch_size": 2})
    cursor = followed(opened, part)._subscription.cursor
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((3, 1), {(3, 2): (2,)})


def test_a_cleared_backlog_without_a_position_has_every_entry() -> None:
    found = followed(*DELIVERED, (Kind.CLEAR_BACKLOG, {"ledger_id": None, "entry_id": None}))
    assert pending(found) == [0]
    assert found._subscription.cursor.mark_delete_position == (5, 4)


def test_a_trimmed_ledger_moves_the_subscription_before_the_next_one() -> None:
    found = followed(*DELIVERED, (Kind.DISPATCH, CLIENT | {"ledger_id": 5}), (Kind.TRIM, {"ledger_id": 5}))
    assert pending(found) == [1]
    assert found._subscription.cursor.mark_delete_position == (3, 4)
    untouched = followed(*DELIVERED, (Kind.TRIM, {"ledger_id": 3}))
    assert pending(untouched) == [1]
