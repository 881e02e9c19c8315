"""The public conformance suite for the topic store on the dev broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackwell import Cursor, FencedError, Ledgers, NotLoadedError, StoreError
from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.store.pulsar import ENTRY, STATE, SUBSCRIPTION, PulsarStore, Record
from ackwell.testing.stores import Opener, StoreConformance

pulsar = pytest.importorskip("pulsar")


def topic() -> str:
    return f"persistent://public/default/ledger-{uuid.uuid4()}"


class TestPulsarStore(StoreConformance):
    random_calls = 30

    @pytest.fixture
    def new_ledger(self, client: Any) -> Callable[[], Opener]:
        def new() -> Opener:
            name = topic()
            return lambda read_only=False: PulsarStore(client, name, read_only=read_only)

        return new


def test_an_owner_reads_the_writes_of_its_predecessor_before_the_takeover(client: Any) -> None:
    name = topic()
    with PulsarStore(client, name) as here, PulsarStore(client, name) as there:
        here.append(b"a")
        assert (there.generation, there.last_id) == (0, -1)
        there.own()
        assert (there.generation, there.read(0)) == (2, b"a")
        with pytest.raises(FencedError):
            here.append(b"late")
        assert there.append(b"b") == 1


def test_a_live_topic_is_read_without_fencing_its_owner(client: Any) -> None:
    name, ledgers = topic(), Ledgers({3: 100})
    with PulsarStore(client, name) as store:
        cursor = Cursor(ledgers)
        cursor.ack(3, 5)
        cursor.save(store)
        with PulsarStore(client, name, read_only=True) as reader:
            assert str(Cursor.load(reader, ledgers).individually_deleted) == "[(3:4..3:5]]"
            with pytest.raises(StoreError, match="read-only"):
                reader.append(b"a")
        with PulsarStore(client, name) as other, pytest.raises(NotLoadedError):
            Cursor(ledgers).save(other)
        cursor.ack(3, 7)
        cursor.save(store)


def test_after_a_write_that_failed_only_a_new_opening_writes(client: Any) -> None:
    """A failed append may still arrive; another entry with its id would then be lost."""
    name = topic()
    with PulsarStore(client, name) as store:
        store.append(b"a")
        producer = store._producer

        class Failing:
            def send(self, data: bytes) -> None:
                producer.send(data)
                raise pulsar.Timeout(pulsar.Result.Timeout)

        store._producer = Failing()
        with pytest.raises(StoreError):
            store.append(b"b")
        store._producer = producer
        for write in (
            lambda: store.append(b"c"),
            lambda: store.set_metadata({"a": b"1"}),
            lambda: store.delete_up_to(0),
        ):
            with pytest.raises(StoreError, match="an earlier write failed"):
                write()
        assert (dict(store.metadata), store.first_id) == ({}, 0)
    with PulsarStore(client, name) as store:
        assert [store.read(0), store.read(1), store.append(b"c")] == [b"a", b"b", 2]


def with_records(client: Any, *records: Record) -> str:
    """Return a topic that holds these."""
    name = topic()
    producer = client.create_producer(name, batching_enabled=False)
    for record in records:
        producer.send(record.encode())
    producer.close()
    return name


def test_writes_of_an_older_owner_after_a_newer_one_are_void(client: Any) -> None:
    late = Record(ENTRY, 1, 1, b"late"), Record(STATE, 1, 1, b"{}")
    name = with_records(
        client, Record(STATE, 1, 0, b"{}"), Record(ENTRY, 1, 0, b"a"), Record(STATE, 2, 0, b"{}"), *late
    )
    with PulsarStore(client, name) as store:
        assert (store.first_id, store.last_id, store.read(0)) == (0, 0, b"a")
        assert (store.append(b"b"), store.generation) == (1, 3)


def test_ids_go_on_where_the_broker_dropped_the_deleted_entries(client: Any) -> None:
    with PulsarStore(client, with_records(client, Record(STATE, 4, 5, b"{}"))) as store:
        assert (store.first_id, store.last_id) == (5, 4)
        assert (store.append(b"a"), store.generation) == (5, 5)


def test_a_record_that_was_sent_twice_counts_once(client: Any) -> None:
    twice = Record(ENTRY, 1, 0, b"a")
    name = with_records(client, Record(STATE, 1, 0, b"{}"), twice, Record(ENTRY, 1, 1, b"b"), twice)
    with PulsarStore(client, name) as store:
        assert (store.last_id, store.append(b"c")) == (1, 2)


def read_by_its_subscription(client: Any, name: str) -> list[Record]:
    """Return the records that the subscription of a closed ledger still has."""
    consumer = client.subscribe(name, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Exclusive)
    last = consumer.get_last_message_id()
    records = []
    while True:
        message = consumer.receive(10_000)
        records.append(Record.decode(message.data()))
        if message.message_id() >= last:
            consumer.close()
            return records


@pytest.fixture
def prompt_broker() -> Iterator[Broker]:
    """A broker whose Failover subscriptions change their consumer without a delay."""
    with Broker(settings=DevBrokerSettings(failover_delay_ms=0)) as broker:
        yield broker


def test_entries_before_the_first_owner_are_kept_and_deleted_ones_are_freed(
    prompt_broker: Broker, connect: Callable[[Broker], Any]
) -> None:
    """The broker deletes entries that every subscription has acknowledged, and keeps the others."""
    client = connect(prompt_broker)
    entries = [Record(ENTRY, 1, entry_id, b"a") for entry_id in range(3)]
    name = with_records(client, Record(STATE, 1, 0, b"{}"), *entries)
    with PulsarStore(client, name) as store:
        store.own()
    kept = read_by_its_subscription(client, name)
    assert [record.entry_id for record in kept if record.kind == ENTRY] == [0, 1, 2]
    with PulsarStore(client, name) as store:
        store.delete_up_to(1)
    kept = read_by_its_subscription(client, name)
    assert [record.entry_id for record in kept if record.kind == ENTRY] == [2]
    with PulsarStore(client, name) as store:
        assert (store.first_id, store.read(2), store.last_id) == (2, b"a", 2)


def test_a_deleted_entry_leaves_nothing_in_memory(client: Any) -> None:
    with PulsarStore(client, topic()) as store:
        for _ in range(5):
            store.append(b"a")
        store.delete_up_to(3)
        assert list(store._entries) == list(store._message_ids) == [4]


def test_metadata_that_could_not_be_written_is_not_shown(client: Any) -> None:
    with PulsarStore(client, topic()) as store, PulsarStore(client, store._topic) as newer:
        store.set_metadata({"a": b"1"})
        newer.own()
        with pytest.raises(FencedError):
            store.set_metadata({"a": b"2"})
        assert dict(store.metadata) == dict(newer.metadata) == {"a": b"1"}


class Counting:
    """A client that stores the producers and consumers that it created."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.readers: list[Any] = []
        self.closed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def create_reader(self, *args: Any) -> Any:
        self.readers.append(self.client.create_reader(*args))
        return self.readers[-1]

    def close(self) -> None:
        self.closed += 1


def test_every_reader_is_closed_even_if_reading_fails(client: Any) -> None:
    counting = Counting(client)
    with PulsarStore(counting, topic()) as store:
        store.own()
        assert len(counting.readers) == 2
    producer = client.create_producer(name := topic())
    producer.send(b"no record")
    with pytest.raises(StoreError, match="not a record"):
        PulsarStore(counting, name)
    assert [reader.is_connected() for reader in counting.readers] == [False] * 3
    assert counting.closed == 0


def test_a_client_of_the_stores_own_is_closed_with_it_and_when_opening_fails(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(_: str) -> Any:
        made.append(Counting(client))
        return made[-1]

    monkeypatch.setattr("ackwell.store.pulsar._client", counted)
    with PulsarStore("pulsar://127.0.0.1", topic()):
        assert made[0].closed == 0
    producer = client.create_producer(name := topic())
    producer.send(b"no record")
    with pytest.raises(StoreError, match="not a record"):
        PulsarStore("pulsar://127.0.0.1", name)
    assert [each.closed for each in made] == [1, 1]
