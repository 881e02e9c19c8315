"""A recording of a real broker, replayed in order on Spark, gives the broker's state.

All types of subscription, transactions, seeks, skips, expiry, a cleared backlog and trimmed ledgers. After
each step the recording so far is compared with stats-internal, the consumers and ack sets in the broker's
memory, and the local fold. The proxy does not see an operator's actions, so the test records them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

import pytest

from ackwell.protocol.constants import CommandType, TxnAction
from ackwell.recording.proxy import Proxy
from ackwell.recording.recording import Recording
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay
from ackwell.spark.tasks.moment_rows import follow_batches
from tests.devbroker.raw import RawClient
from tests.devbroker.test_transactions import begin, end
from tests.pulsar import kit
from tests.pulsar.traffic import QUIET, TYPES
from tests.replay.test_sequence import Address, in_topics

if TYPE_CHECKING:
    from pathlib import Path

pulsar = pytest.importorskip("pulsar")

NAMES = ("shared", "exclusive", "failover", "keyed")
MESSAGES = 60
LEDGER_ENTRIES = 25
PATIENCE_S = 60.0
COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "managedLedgerMaxEntriesPerLedger": str(LEDGER_ENTRIES),
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "activeConsumerFailoverDelayTimeMs": "0",
    # The client of a few lines answers no ping.
    "keepAliveIntervalSeconds": "600",
}


class Found(NamedTuple):
    """The state of a subscription in the broker, the ordered path or the fold."""

    acknowledged: tuple[tuple[int, int], ...]
    """Every position up to the topic's last that is wholly acknowledged."""
    ack_sets: dict[str, tuple[int, ...]]
    backlog_entries: int
    pending: dict[str, int] | None


class Session:
    """A broker, a proxy in front of it, and the frames that passed."""

    def __init__(self, broker: kit.Broker) -> None:
        self.broker = broker
        self.events: list[Event] = []
        self.recording = Recording(self.events.append)
        self.namespace = "public/in-order"
        broker.create_namespace("in-order")
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._proxy = Proxy(broker.service_url, self.recording)
        self._wait(self._proxy.start())
        self.url = self._proxy.url
        self.compared = 0

    def close(self) -> None:
        self._wait(self._proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, awaitable: Any) -> None:
        asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(60)

    def topic(self, name: str) -> str:
        return f"persistent://{self.namespace}/{name}"

    def operate(self, kind: Kind, topic: str, subscription: str, path: str, body: object = None) -> None:
        """Run an operator's action, and record the cursor's position after it."""
        before = self.broker.cursor(self.topic(topic), subscription)["markDelete"]
        path = f"persistent/{self.namespace}/{topic}/subscription/{subscription}/{path}"
        self.broker.admin("POST", path, body)
        deadline = time.monotonic() + PATIENCE_S
        while (now := self.broker.cursor(self.topic(topic), subscription)["markDelete"]) == before:
            assert time.monotonic() < deadline, path
            time.sleep(0.1)
        mark_delete = tuple(now)
        on_loop = self._loop.call_soon_threadsafe
        on_loop(self.recording.record, self.topic(topic), subscription, kind, mark_delete)

    def look_up(self, topic: str) -> None:
        """Ask for a topic's broker, which serves it from then on."""
        path = topic.replace("://", "/")
        urlopen(f"http://127.0.0.1:{self.broker.ports.admin}/lookup/v2/topic/{path}", timeout=60).close()

    def trimmed(self, topic: str) -> None:
        """Record which ledgers the broker has deleted."""
        ledgers = self.stats(topic)["ledgers"]
        self._loop.call_soon_threadsafe(
            self.recording.record, self.topic(topic), "", Kind.TRIM, (ledgers[0]["ledgerId"], 0)
        )

    def stats(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = self.broker.admin("GET", f"persistent/{self.namespace}/{topic}/internalStats")
        return found

    def entries(self, topic: str) -> list[tuple[int, int]]:
        """Return every position that the broker has."""
        stats = self.stats(topic)
        last = stats["ledgers"][-1]["ledgerId"]
        counts = {
            each["ledgerId"]: stats["currentLedgerEntries"] if each["ledgerId"] == last else each["entries"]
            for each in stats["ledgers"]
        }
        return [(ledger_id, entry) for ledger_id, count in counts.items() for entry in range(count)]

    def truth(self, topics: tuple[str, ...]) -> dict[tuple[str, str], Found]:
        """Return the broker's state: stats-internal, and its memory for ack sets and consumers."""
        found = {}
        for topic in topics:
            entries, stats = self.entries(topic), self.stats(topic)
            for name, cursor in stats["cursors"].items():
                state = self.broker.subscription(self.topic(topic), name)
                mark = tuple(map(int, cursor["markDeletePosition"].split(":")))
                ranges = [
                    [tuple(map(int, end.split(":"))) for end in each.strip("()[]").split("..")]
                    for each in cursor["individuallyDeletedMessages"].strip("[]").split(",")
                    if each
                ]
                found[self.topic(topic), name] = of_broker(entries, mark, ranges, state)
        return found

    def compare(self, *topics: str) -> None:
        """Wait until the broker and the recording rest in one state."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            truth = self.truth(topics)
            events = [
                event._replace(sequence=number, file=None)
                for number, event in enumerate(self.events)
                if event.topic in {name[0] for name in truth}
            ]
            entries = {self.topic(topic): self.entries(topic) for topic in topics}
            found = in_order(events, entries)
            if found == truth or time.monotonic() > deadline:
                break
            time.sleep(0.3)
        assert found == truth
        without = {name: each._replace(pending=None) for name, each in truth.items()}
        assert folded(events, entries) == without
        self.compared += len(truth)


def of_broker(
    entries: list[tuple[int, int]], mark: tuple[int, ...], ranges: list[Any], state: dict[str, Any]
) -> Found:
    acked = tuple(at for at in entries if at <= mark or any(lower < at <= upper for lower, upper in ranges))
    open_entries = set(entries) - set(acked)
    sets = {
        at: tuple(words)
        for at, words in state["cursor"]["batchDeletedIndexes"].items()
        if tuple(map(int, at.split(":"))) in open_entries
    }
    pending = {each["name"]: len(each["pending"]) for each in state["consumers"]}
    return Found(acked, sets, len(open_entries), pending)


def in_order(events: list[Event], entries: dict[str, list[tuple[int, int]]]) -> dict[tuple[str, str], Found]:
    """Return the result of the ordered path."""
    rows = [row for batch in follow_batches(in_topics(events), []) for row in batch.to_pylist()]
    return {(row["topic"], row["subscription"]): of_row(row, entries) for row in rows}


def of_row(row: dict[str, Any], entries: dict[str, list[tuple[int, int]]]) -> Found:
    assert row["error"] is None, row
    from ackwell import PositionRangeSet

    mark = row["mark_delete_ledger_id"], row["mark_delete_entry_id"]
    ranges = PositionRangeSet.parse(row["individually_deleted"])
    acked = tuple(at for at in entries[row["topic"]] if at <= mark or at in ranges)
    sets = {at: tuple(words) for at, words in dict(row["batch_deleted"]).items()}
    return Found(acked, sets, row["backlog_entries"], dict(row["pending_entries"]))


def folded(events: list[Event], entries: dict[str, list[tuple[int, int]]]) -> dict[tuple[str, str], Found]:
    """Return the state of the local fold."""
    replay = Replay()
    for event in events:
        replay.feed(event)
    found = {}
    for state in replay.states():
        cursor = state.cursor
        acked = tuple(at for at in entries[state.topic] if cursor.is_acked(*at))
        sets = {str(at): tuple(words) for at, words in cursor.batch_deleted.items()}
        found[state.topic, state.subscription] = Found(acked, sets, cursor.backlog_entries, None)
    return found


def orders(session: Session, chance: random.Random, *, batches: bool) -> str:
    """Publish, receive, acknowledge in part, ask again, seek, skip, expire, clear; compare between them."""
    topic = f"orders-{'batches' if batches else 'single'}"
    client = pulsar.Client(session.url, logger=QUIET)
    with closing(client):
        producer = client.create_producer(
            session.topic(topic), batching_enabled=batches, batching_max_messages=7
        )
        types = dict(zip(NAMES, TYPES, strict=True))
        consumers = {
            name: client.subscribe(
                session.topic(topic),
                name,
                consumer_type=types.get(name, pulsar.ConsumerType.Shared),
                consumer_name=f"consumer of {name}",
                initial_position=pulsar.InitialPosition.Earliest,
                batch_index_ack_enabled=True,
            )
            for name in (*NAMES, "sought", "moved", "gone")
        }
        for number in range(MESSAGES):
            producer.send_async(b"%d" % number, None, partition_key=str(number % 7))
        producer.flush()
        received = {name: [each.receive(10_000) for _ in range(MESSAGES)] for name, each in consumers.items()}
        session.compare(topic)
        for name, consumer in consumers.items():
            for message in chance.sample(received[name], 25):
                consumer.acknowledge(message)
        for name in ("exclusive", "failover"):
            consumers[name].acknowledge_cumulative(received[name][chance.randrange(MESSAGES)])
        session.compare(topic)
        consumers["keyed"].redeliver_unacknowledged_messages()
        consumers["sought"].seek(received["sought"][chance.randrange(10, 40)].message_id())
        for _ in range(5):
            consumers["sought"].acknowledge(consumers["sought"].receive(10_000))
        session.compare(topic)
        for name in ("moved", "shared", "keyed"):
            consumers.pop(name).close()
        session.compare(topic)
        session.operate(Kind.SKIP, topic, "moved", "skip/2")
        session.operate(Kind.SKIP, topic, "shared", "skip/2")
        session.operate(Kind.CLEAR_BACKLOG, topic, "keyed", "skip_all")
        consumers.pop("gone").unsubscribe()
        session.compare(topic)
        last = received["moved"][-2].message_id()
        expired = {"ledgerId": last.ledger_id(), "entryId": last.entry_id()}
        session.operate(Kind.EXPIRE, topic, "moved", "expireMessages", expired)
        session.compare(topic)
    return topic


def trimming(session: Session) -> str:
    """Consume a whole ledger, which is deleted when the next one begins; and one message of that."""
    topic = "trimmed"
    with RawClient(Address(session.url)) as client:  # type: ignore[arg-type]
        session.look_up(session.topic(topic))
        client.subscribe(session.topic(topic), consumer_name="raw")
        client.produce(session.topic(topic))
        for count in (LEDGER_ENTRIES, 1):
            places = [client.publish(number, b"x").message_id for number in range(count)]
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=places, request_id=20)
            client.until(CommandType.ACK_RESPONSE)
        deadline = time.monotonic() + PATIENCE_S
        while len(session.stats(topic)["ledgers"]) > 1 and time.monotonic() < deadline:
            session.broker.admin("POST", f"persistent/{session.namespace}/{topic}/trim")
            time.sleep(0.3)
        assert len(session.stats(topic)["ledgers"]) == 1
        session.trimmed(topic)
        session.compare(topic)
    return topic


def transactions(session: Session) -> str:
    """Acknowledge messages in transactions: one is committed, one is aborted, one stays open."""
    topic = "in-transactions"
    name = session.topic(topic)
    with RawClient(Address(session.url)) as client:  # type: ignore[arg-type]
        session.look_up(name)
        session.look_up(COORDINATOR)
        client.send(CommandType.TC_CLIENT_CONNECT_REQUEST, tc_id=0, request_id=4)
        assert not client.until(CommandType.TC_CLIENT_CONNECT_RESPONSE).HasField("error")
        client.subscribe(name, consumer_name="raw")
        client.produce(name)
        places = [client.publish(number, b"x").message_id for number in range(8)]
        for number, action in enumerate((TxnAction.COMMIT, TxnAction.ABORT, None)):
            txn = begin(client)
            client.send(
                CommandType.ADD_SUBSCRIPTION_TO_TXN,
                request_id=12,
                subscription=[{"topic": name, "subscription": "s"}],
                **txn,
            )
            client.until(CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)
            few = places[2 * number : 2 * number + 2]
            client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=few, request_id=20, **txn)
            assert not client.until(CommandType.ACK_RESPONSE).HasField("error")
            session.compare(topic)
            if action is not None:
                assert not end(client, txn, action).HasField("error")
                session.compare(topic)
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[places[7]], request_id=21)
        client.until(CommandType.ACK_RESPONSE)
        session.compare(topic)
    return topic


@contextmanager
def session(version: str, folder: Path) -> Iterator[Session]:
    with kit.running_broker(folder, version, **SETTINGS) as broker:
        made = Session(broker)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("version", kit.VERSIONS)
def test_a_recording_in_its_order_is_the_broker_s_own_state(version: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with session(version, tmp_path) as made:
        topics = [trimming(made), transactions(made)]
        topics += [orders(made, random.Random(seed), batches=seed % 2 == 1) for seed in range(2)]
        made.compare(*topics)
        kinds = {event.kind for event in made.events}
        assert kinds >= {Kind.SEEK, Kind.SKIP, Kind.EXPIRE, Kind.CLEAR_BACKLOG, Kind.TRIM}
        assert kinds >= {Kind.UNSUBSCRIBE, Kind.COMMIT, Kind.ABORT, Kind.REDELIVER_UNACKED}
        assert made.compared > 60
        truth = made.truth(tuple(topics))
        entries = {made.topic(topic): made.entries(topic) for topic in topics}
        events = list(made.events)
    assert on_spark(events, entries, tmp_path) == truth


def on_spark(
    events: list[Event], entries: dict[str, list[tuple[int, int]]], folder: Path
) -> dict[tuple[str, str], Found]:
    from ackwell.spark import local_session, ordered_replay
    from tests.spark.rows import parquet_of

    spark = local_session("local[2]")
    try:
        numbered = [event._replace(sequence=number, file=None) for number, event in enumerate(events)]
        table = parquet_of(spark, numbered, folder / "events")
        rows = [row.asDict() for row in ordered_replay(table).collect()]
    finally:
        spark.stop()
    return {
        (row["topic"], row["subscription"]): of_row(row, entries) for row in rows if row["topic"] in entries
    }
