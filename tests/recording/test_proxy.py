"""The proxy forwards traffic unchanged, and its events replay to the broker's state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackwell.devbroker import Broker
from ackwell.recording.event_files import EventFiles
from ackwell.recording.proxy import Proxy
from ackwell.recording.recording import Recording
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.replay.states import Replay
from ackwell.replay.traces import line

pulsar = pytest.importorskip("pulsar")

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Session:
    """A dev broker, a proxy in front of it, and the recorded events."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.events: list[Event] = []
        self.proxy = Proxy(broker.url, Recording(self.events.append))
        broker.wait(self.proxy.start())

    def close(self) -> None:
        self.broker.wait(self.proxy.stop())

    def client(self) -> Any:
        return pulsar.Client(self.proxy.url, logger=QUIET)

    def kinds(self) -> list[str]:
        return [str(event.kind) for event in self.events]


@pytest.fixture
def recording() -> Iterator[Session]:
    with Broker() as broker:
        made = Session(broker)
        yield made
        made.close()


def folded(events: list[Event]) -> dict[tuple[str, str], str]:
    """Replay events; return mark-delete position and ranges of each subscription."""
    replay = Replay()
    for event in events:
        replay.feed(event)
    return {(state.topic, state.subscription): acknowledged(state.cursor) for state in replay.states()}


def acknowledged(cursor: Any) -> str:
    return f"{cursor.acknowledged()} {dict(cursor.batch_deleted)}"


def broker_s_own(broker: Broker) -> dict[tuple[str, str], str]:
    state = broker._broker.state
    return broker.call(
        lambda: {
            (str(each.content.name), each.name): acknowledged(each.cursor) for each in state.subscriptions()
        }
    )


def test_a_session_is_recorded_as_events_in_its_order(recording: Session) -> None:
    client = recording.client()
    consumer = client.subscribe("orders", "billing", consumer_name="worker")
    producer = client.create_producer("orders")
    producer.send(b"order 7")
    consumer.acknowledge(consumer.receive(5000))
    client.close()
    recording.broker.settle()
    assert recording.kinds() == [
        "gap",
        "seek",
        "consumer_open",
        "dispatch",
        "publish",
        "ack",
        "consumer_close",
    ] or sorted(recording.kinds()[3:5]) == ["dispatch", "publish"]
    ack = recording.events[5]
    assert (ack.topic, ack.subscription, ack.consumer) == (
        "persistent://public/default/orders",
        "billing",
        "worker",
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_traffic_replayed_is_the_broker_s_own_state(recording: Session, seed: int) -> None:
    chance = random.Random(seed)
    client = recording.client()
    kinds = (pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.KeyShared)
    producer = client.create_producer("orders", batching_enabled=seed % 2 == 1)
    for number in range(10):
        producer.send(b"%d" % number)
    consumers = [
        client.subscribe(
            "orders",
            f"sub-{index}",
            consumer_type=kind,
            initial_position=chance.choice([pulsar.InitialPosition.Earliest, pulsar.InitialPosition.Latest]),
            batch_index_ack_enabled=True,
        )
        for index, kind in enumerate(kinds)
    ]
    for number in range(60):
        producer.send_async(b"%d" % number, None, partition_key=str(number % 7))
    producer.flush()
    received: list[list[Any]] = [[] for _ in consumers]
    for consumer, mine in zip(consumers, received, strict=True):
        for _ in range(60):
            mine.append(consumer.receive(5000))
        for message in chance.sample(mine, 30):
            consumer.acknowledge(message)
    consumers[1].acknowledge_cumulative(received[1][chance.randrange(60)])
    consumers[0].redeliver_unacknowledged_messages()
    client.close()
    recording.broker.settle()
    assert folded(recording.events) == broker_s_own(recording.broker)
    assert {"nack", "redeliver_unacked"} & set(recording.kinds())


def test_a_seek_to_a_time_is_recorded_when_the_consumer_subscribes_again(recording: Session) -> None:
    client = recording.client()
    consumer = client.subscribe("orders", "billing")
    producer = client.create_producer("orders")
    for number in range(5):
        producer.send(b"%d" % number)
    for _ in range(5):
        consumer.acknowledge(consumer.receive(5000))
    consumer.seek(pulsar.MessageId.earliest)
    assert consumer.receive(5000).data() == b"0"
    client.close()
    recording.broker.settle()
    assert folded(recording.events) == broker_s_own(recording.broker)
    assert recording.kinds().count("seek") == 2


def test_a_subscription_that_is_deleted_and_a_send_that_is_refused_are_seen(recording: Session) -> None:
    client = recording.client()
    consumer = client.subscribe("orders", "billing")
    consumer.unsubscribe()
    producer = client.create_producer("orders")
    recording.broker.faults.seed(7)
    recording.broker.faults.refuse_sends(0.5)
    producer.send(b"the client sends it until it is taken")
    client.close()
    assert "unsubscribe" in recording.kinds()
    assert "publish_failed" in recording.kinds()


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_files_rotate_and_read_back_as_they_were(tmp_path: Path, file_format: Any) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    given = [
        Event("t", "", number, Kind.PUBLISH, 5, ledger_id=3, entry_id=number, batch_size=2)
        for number in range(25)
    ]
    given.append(Event("t", "s", 25, Kind.ACK, 6, "c", 3, 4, ack_set=(-1, 5), transaction="1:2"))
    with EventFiles(tmp_path, file_format=file_format, events_per_file=10) as files:
        for event in given:
            files.write(event)
    assert len(list(tmp_path.iterdir())) == 3
    assert [event._replace(file=None) for event in read_events([tmp_path])] == given
    assert (files.written, files.dropped) == (26, 0)


def test_events_beyond_the_queue_are_dropped_and_reported(tmp_path: Path) -> None:
    files = EventFiles(tmp_path, queue_max=0)
    files.write(Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0))
    files.close()
    (gap,) = read_events([tmp_path])
    assert gap.detail == "1 events were dropped because writing was too slow"


@pytest.mark.parametrize("connected", ["its consumer", "another consumer", "nobody"])
def test_positions_are_requested_again_after_a_broker_crash(recording: Session, connected: str) -> None:
    client, broker = recording.client(), recording.broker
    consumer = client.subscribe("orders", "billing", pulsar.ConsumerType.Shared)
    if connected == "another consumer":
        client.subscribe("orders", "audit", pulsar.ConsumerType.Shared)
    producer = client.create_producer("orders")
    for number in range(10):
        producer.send(b"%d" % number)
    # The cursor is written with the first acknowledgment, and not again within the same second.
    broker.clock.freeze()
    consumer.acknowledge(consumer.receive(5000))
    broker.settle()
    for _ in range(9):
        consumer.acknowledge(consumer.receive(5000))
    broker.settle()
    assert folded(recording.events) == broker_s_own(broker)
    if connected == "another consumer":
        consumer.close()
    elif connected == "nobody":
        client.close()
        client = recording.client()
    broker.crash()
    forgotten = broker.restart().messages
    assert forgotten
    if connected != "its consumer":
        consumer = client.subscribe("orders", "billing", pulsar.ConsumerType.Shared)
    for _ in range(forgotten):
        consumer.receive(20_000)
    gaps = [event.detail for event in recording.events if event.kind is Kind.GAP]
    if connected == "nobody":
        # The recording contains no sign of the crash.
        assert "whether the broker restarted while no connection to it existed" in gaps
    else:
        assert folded(recording.events) == broker_s_own(broker)
        assert "the state of billing after the connection to the broker was lost" in gaps
    client.close()


def test_a_recording_continues_the_files_of_another(tmp_path: Path) -> None:
    event = Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)
    for number in range(3):
        with EventFiles(tmp_path) as files:
            files.write(event)
        if number == 1:
            # The first file was moved away, so the number of files is not the last number.
            (tmp_path / "events-000001.jsonl").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events-000002.jsonl", "events-000003.jsonl"]


def test_a_full_disk_is_named_at_once_and_leaves_whole_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)

    def torn(self: EventFiles, events: list[Event]) -> None:
        assert self._file is not None
        self._file.write(line(event) + line(event)[:10])
        self._file.flush()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventFiles, "_write_lines", torn)
    files = EventFiles(tmp_path)
    files.write(event)
    files._thread.join(60)
    path = tmp_path / "events-000001.jsonl"
    assert f"No space left on device; nothing is recorded from now on: '{path}'" in caplog.text
    assert len(list(read_events([tmp_path]))) == 1
    with pytest.raises(OSError, match=str(path)):
        files.close()
