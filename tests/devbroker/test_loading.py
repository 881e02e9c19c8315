"""A broker that loads an incident has its state, and clients receive the unacknowledged messages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackwell import DelayedDeliveryTracker, Ledgers, Position, PositionInfo
from ackwell.cursor.ack_sets import to_words
from ackwell.devbroker import Broker
from ackwell.devbroker.admin_api.topic_stats import internal_stats, stats
from ackwell.devbroker.broker_state import BrokerState
from ackwell.devbroker.clock import Clock
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.loading import read
from ackwell.devbroker.placeholders import PLACEHOLDER
from ackwell.errors import StatsError
from ackwell.protocol import messages
from ackwell.protocol.payload import write_payload
from ackwell.replay.events import Event, Kind
from ackwell.replay.payloads import PREFIX, payload_line
from ackwell.replay.traces import line
from ackwell.subscription import Subscription
from tests.devbroker.loaded import TOPIC, dump, state_of, unread
from tests.devbroker.test_admin import PATH, call
from tests.shared import shared_path

pulsar = pytest.importorskip("pulsar")

VECTORS = Path(__file__).parents[1] / "vectors"


def shown(answer: dict[str, Any], path: Path) -> dict[str, Any]:
    """Load an answer; return the loaded topic's stats in the same form."""
    state = BrokerState(DevBrokerSettings(), Clock())
    loaded = read([path])
    assert not loaded.unread
    state.load(loaded)
    state_of_all = list(state.topics.values())
    (topic,) = state_of_all
    name = answer.get("cursor", {}).get("name")
    ours: dict[str, Any] = {"internalStats": internal_stats(topic), "stats": stats(topic)}
    if name in topic.subscriptions:
        partial = topic.subscriptions[name].cursor.batch_deleted
        sets = {str(position): list(words) for position, words in partial.items()}
        ours["cursor"] = {"name": name, "batchDeletedIndexes": sets}
    state.validate()
    return state_of(ours, unread(answer))


def test_a_loaded_broker_shows_the_state_of_every_dump_of_the_vectors(tmp_path: Path) -> None:
    path = tmp_path / "life.stats.json"
    compared = 0
    with gzip.open(VECTORS / "lives.jsonl.gz", "rt") as lines:
        for each in map(json.loads, lines):
            path.write_text(json.dumps(each["answer"]))
            assert shown(each["answer"], path) == state_of(each["answer"], unread(each["answer"]))
            compared += 1
    assert compared > 200


def test_a_loaded_broker_shows_the_state_of_every_recorded_snapshot() -> None:
    paths = sorted((shared_path("data") / "traces").glob("*.stats.json*"))
    assert len(paths) > 100
    for path in paths:
        data = path.read_bytes()
        answer = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        assert shown(answer, path) == state_of(answer, unread(answer)), path.name


def drained(client: Any, topic: str = "orders", name: str = "billing", **options: Any) -> list[Any]:
    consumer = client.subscribe(topic, name, batch_index_ack_enabled=True, **options)
    got = []
    try:
        while True:
            got.append(consumer.receive(300))
    except pulsar.Timeout:
        return got


def test_clients_receive_placeholders_for_unacknowledged_entries(
    broker: Broker, client: Any, tmp_path: Path
) -> None:
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump("[(3:1..3:4],(3:6..3:9]]", mark_delete="3:0")))
    loaded = broker.load(path)
    assert (list(loaded.topics), loaded.subscriptions) == ([TOPIC], 1)
    assert loaded.unknown == [f"{TOPIC}, billing: which parts of batches are acknowledged"]
    got = drained(client)
    assert [each.message_id().entry_id() for each in got] == [1, 5, 6]
    assert got[0].properties() == {PLACEHOLDER: "3:1"}
    assert got[0].data() == b"placeholder for 3:1: its payload was not recorded"
    sent = client.create_producer("orders").send(b"new")
    assert sent.ledger_id() == 3
    assert call(broker, "GET", f"{PATH}/internalStats")["lastConfirmedEntry"] == f"3:{sent.entry_id()}"


def test_of_a_batch_clients_receive_the_messages_that_are_not_acknowledged(
    broker: Broker, client: Any, tmp_path: Path
) -> None:
    memory = {"name": "billing", "batchDeletedIndexes": {"3:0": to_words(0b10110)}}
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump("[]", entries=1, cursor=memory)))
    broker.load(path)
    assert [each.message_id().batch_index() for each in drained(client)] == [1, 2, 4]


def test_a_loaded_subscription_has_its_redelivery_counts_and_its_delays(broker: Broker, client: Any) -> None:
    now_ms = broker.clock.now_ms()
    source = Subscription("Shared", Ledgers({3: 3}), delayed=DelayedDeliveryTracker())
    source.add_consumer("c")
    source.flow("c", 10)
    source.dispatch(3, 0, now_ms=now_ms)
    source.dispatch(3, 1, now_ms=now_ms, deliver_at_ms=now_ms + 60_000)
    source.dispatch(3, 2, now_ms=now_ms)
    source.ack("c", 3, 2)
    source.redeliver("c", None)
    broker.load(source, topic="orders", subscription="billing")
    shared = {"consumer_type": pulsar.ConsumerType.Shared}
    got = drained(client, **shared)
    assert [(each.message_id().entry_id(), each.redelivery_count()) for each in got] == [(0, 1)]
    broker.clock.advance(minutes=2)
    broker.settle()
    assert [event.entry_id for event in broker.events if event.kind is Kind.DISPATCH] == [0, 1]
    assert source.delayed is not None
    assert len(source.delayed) == 1, "reading it took nothing out"


def test_cursor_bytes_are_loaded_under_the_names_that_are_given(
    broker: Broker, client: Any, tmp_path: Path
) -> None:
    path = tmp_path / "cursor.bin"
    path.write_bytes(PositionInfo(3, 1, [(3, 4, 5)]).encode("pulsar-ranges"))
    loaded = broker.load(path, topic="orders", subscription="billing")
    assert "after the last acknowledged" in loaded.unknown[0]
    assert [each.message_id().entry_id() for each in drained(client)] == [2, 3, 4]


def test_a_recording_is_loaded_with_its_payloads(
    broker: Broker, client: Any, connect: Callable[[Broker], Any], tmp_path: Path
) -> None:
    with Broker() as before:
        writer = connect(before)
        consumer = writer.subscribe("orders", "billing", consumer_type=pulsar.ConsumerType.Shared)
        producer = writer.create_producer("orders")
        for number in range(3):
            producer.send(b"order %d" % number, partition_key=f"k{number}")
        consumer.receive(5000)
        consumer.acknowledge(consumer.receive(5000))
        before.settle()
        before.save_events(tmp_path, payloads=True)
    (damaged,) = tmp_path.glob("_payloads-*")
    with damaged.open("a") as file:
        file.write("null\n")
    loaded = broker.load(tmp_path)
    assert not loaded.unread
    assert loaded.unknown == [f"{damaged}, line 4: not an entry of a recording"]
    got = drained(client, consumer_type=pulsar.ConsumerType.Shared)
    assert [(each.data(), each.partition_key()) for each in got] == [(b"order 0", "k0"), (b"order 2", "k2")]


def test_each_recording_of_a_folder_is_loaded_with_its_payloads(tmp_path: Path) -> None:
    topics = [f"persistent://public/default/t{number}" for number in range(2)]
    for number, topic in enumerate(topics):
        folder = tmp_path / str(number)
        folder.mkdir()
        events = [
            Event(topic, "billing", 1, Kind.SEEK, ledger_id=7, entry_id=0),
            Event(topic, "", 2, Kind.PUBLISH, ledger_id=7, entry_id=0),
        ]
        (folder / "events-000001.jsonl").write_text("".join(map(line, events)))
        entry = write_payload(
            messages.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x"
        )
        (folder / f"{PREFIX}000001.jsonl").write_text(payload_line(topic, (7, 0), entry))
    found = read([tmp_path]).topics
    assert {topic: list(found[topic].known.entries) for topic in topics} == {
        topic: [(7, 0)] for topic in topics
    }


def test_a_recording_without_payloads_is_loaded_with_stand_ins(
    broker: Broker, client: Any, tmp_path: Path
) -> None:
    events = [
        Event(TOPIC, "billing", 1, Kind.SEEK, ledger_id=7, entry_id=0),
        *(Event(TOPIC, "", 2 + each, Kind.PUBLISH, ledger_id=7, entry_id=each) for each in range(3)),
        Event(TOPIC, "billing", 9, Kind.ACK, ledger_id=7, entry_id=1),
    ]
    (tmp_path / "events-000001.jsonl").write_text("".join(map(line, events)))
    broker.load(tmp_path)
    assert [each.properties()[PLACEHOLDER] for each in drained(client)] == ["7:0", "7:2"]


def test_partitions_without_a_source_are_empty(broker: Broker, client: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({f"{TOPIC}-partition-2": dump("[]", entries=2)}))
    broker.load(path)
    assert len(client.get_topic_partitions("orders")) == 3
    assert len(drained(client)) == 2


def test_loading_an_existing_topic_changes_nothing(broker: Broker, client: Any, tmp_path: Path) -> None:
    client.create_producer("orders").send(b"order 7")
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump("[]")))
    with pytest.raises(ValueError, match="orders exists already"):
        broker.load(path)
    path.write_text("not JSON")
    with pytest.raises(StatsError, match="not JSON"):
        broker.load(path)
    with pytest.raises(ValueError, match="give topic= and subscription="):
        broker.load(Subscription("Shared", Ledgers({3: 1})))
    assert len(broker.events) == 1


def test_loaded_topics_are_in_the_file_of_the_broker(
    tmp_path: Path, connect: Callable[[Broker], Any]
) -> None:
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump("[(3:0..3:9]]", entries=11)))
    with Broker(path=tmp_path / "broker.db") as broker:
        broker.load(path)
    with Broker(path=tmp_path / "broker.db") as broker:
        got = drained(connect(broker))
        assert [each.message_id().entry_id() for each in got] == [0, 10]


def test_a_restart_loses_state_by_the_settings_of_the_cluster(
    tmp_path: Path, connect: Callable[[Broker], Any]
) -> None:
    holes = ",".join(f"(3:{2 * each}..3:{2 * each + 1}]" for each in range(40))
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump(f"[{holes}]", entries=100)))
    conf = ("managedLedgerMaxUnackedRangesToPersist=10", "managedLedgerPersistIndividualAckAsLongArray=false")
    with Broker(settings=DevBrokerSettings(version="4.0", broker_conf=conf)) as broker:
        broker.load(path)
        assert broker.restart().messages == 29
        assert len(drained(connect(broker))) == 60 + 29


def test_cursor_bytes_give_the_shortest_ledgers_that_contain_them(tmp_path: Path) -> None:
    cases = [
        (PositionInfo(3, 5), {3: 6}),
        (PositionInfo(3, -1), {3: 0}),
        (PositionInfo(3, 5, [(3, 6, 9), (4, -1, 2), (4, 3, 4)]), {3: 10, 4: 5}),
        (PositionInfo(3, 5, [(3, 7, 9)], batch_deleted={Position(3, 6): (1,)}), {3: 10}),
        (PositionInfo(3, 5, batch_deleted={Position(3, 8): (1,), Position(5, 0): (7,)}), {3: 9, 5: 1}),
    ]
    path = tmp_path / "orders.bin"
    for info, ledgers in cases:
        path.write_bytes(info.encode("compact"))
        (topic,) = read([path]).topics.values()
        assert {ledger_id: count for ledger_id, (count, _) in topic.ledgers.items()} == ledgers
        # The bytes do not show the size of a batch after its last unacknowledged message.
        sizes = {position: max(2, max(words).bit_length()) for position, words in info.batch_deleted.items()}
        assert topic.known.batch_sizes == sizes


def test_two_sources_of_a_topic_give_the_longest_ledgers_batches_and_the_newest_time(tmp_path: Path) -> None:
    sources = {}
    for name, count, words, time_ms in (("long", 20, [4], 5_000), ("short", 10, [2], 9_000)):
        memory = {"name": "billing", "batchDeletedIndexes": {"3:2": words}}
        answer = dump("[]", entries=count, cursor=memory, t=time_ms)
        answer["internalStats"]["cursors"] = {name: answer["internalStats"]["cursors"]["billing"]}
        answer["cursor"]["name"] = name
        sources[name] = tmp_path / name / "orders.stats.json"
        sources[name].parent.mkdir()
        sources[name].write_text(json.dumps(answer))
    for order in (["long", "short"], ["short", "long"]):
        (topic,) = read([sources[name] for name in order]).topics.values()
        assert topic.ledgers == {3: (20, 2_000)}
        assert topic.cursors.keys() == {"long", "short"}
        assert topic.known.batch_sizes == {Position(3, 2): 3}
        assert topic.known.publish_ms == 9_000


def test_a_batch_of_a_dump_has_at_least_two_messages(tmp_path: Path) -> None:
    """A broker keeps no ack set of an entry with one message."""
    path = tmp_path / "orders.stats.json"
    path.write_text(json.dumps(dump("[]", cursor={"name": "billing", "batchDeletedIndexes": {"3:2": [1]}})))
    (topic,) = read([path]).topics.values()
    assert topic.known.batch_sizes == {Position(3, 2): 2}


def test_the_entries_of_a_recording_are_as_old_as_its_newest_event(tmp_path: Path) -> None:
    events = [
        Event(TOPIC, "s", number, Kind.PUBLISH, time_ms, ledger_id=3, entry_id=number)
        for number, time_ms in enumerate((5_000, 9_000, 7_000, None))
    ]
    (tmp_path / "events.jsonl").write_text("".join(map(line, events)))
    (topic,) = read([tmp_path]).topics.values()
    assert topic.known.publish_ms == 9_000


def test_a_subscription_gives_its_batches_and_no_sizes_of_ledgers() -> None:
    made = Subscription("Shared", Ledgers({3: 10}))
    made.add_consumer("a")
    made.flow("a", 10)
    made.dispatch(3, 2, now_ms=0, batch_size=4)
    made.ack("a", 3, 2, to_words(0b1101))
    loaded = read([made], TOPIC, "billing").topics[TOPIC]
    assert loaded.ledgers == {3: (10, 0)}
    assert loaded.known.batch_sizes == {Position(3, 2): 4}
    assert not loaded.is_terminated


def test_a_terminated_topic_is_loaded_as_one_and_bytes_are_not(tmp_path: Path) -> None:
    answer = dump("[]")
    answer["internalStats"]["state"] = "Terminated"
    (tmp_path / "orders.stats.json").write_text(json.dumps(answer))
    assert read([tmp_path]).topics[TOPIC].is_terminated
    (tmp_path / "orders.stats.json").write_text(json.dumps(dump("[]")))
    assert not read([tmp_path]).topics[TOPIC].is_terminated


def test_without_a_usable_source_the_first_reason_is_raised(
    tmp_path: Path,
) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(f"{name}, not JSON")
    with pytest.raises(StatsError) as raised:
        read([tmp_path / "first.json", tmp_path / "second.json"])
    assert raised.value.source == str(tmp_path / "first.json")
    (tmp_path / "third.json").write_text("<title>another</title>")
    with pytest.raises(StatsError, match="an HTML page"):
        read([tmp_path / "third.json", tmp_path / "first.json"])


def test_a_subscription_with_contradicting_fields_is_reported_and_its_topic_is_loaded(tmp_path: Path) -> None:
    answer = dump("[(3:1..3:4]]")
    cursors = answer["internalStats"]["cursors"]
    cursors["broken"] = {**cursors["billing"], "markDeletePosition": "3:99"}
    (tmp_path / "orders.stats.json").write_text(json.dumps(answer))
    loaded = read([tmp_path])
    assert loaded.topics[TOPIC].cursors.keys() == {"billing"}
    assert len(loaded.unread) == 1


def test_a_subscription_of_a_recording_has_the_type_of_its_last_consumer(tmp_path: Path) -> None:
    events = [Event(TOPIC, "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)]
    events += [
        Event(TOPIC, "s", 2, Kind.CONSUMER_OPEN, detail=each) for each in ("Shared", "Key_Shared", None)
    ]
    (tmp_path / "events.jsonl").write_text("".join(map(line, events)))
    (topic,) = read([tmp_path]).topics.values()
    assert str(topic.cursors["s"].type) == "Key_Shared"
