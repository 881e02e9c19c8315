"""The topic store on a real broker, held to the public conformance suite."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pulsar
import pytest

from ackwell import FencedError, StoreError
from ackwell.store.pulsar import SUBSCRIPTION, PulsarStore
from ackwell.testing.stores import Opener, StoreConformance

if TYPE_CHECKING:
    from tests.pulsar import kit


@pytest.fixture(scope="module")
def client(broker: kit.Broker) -> Iterator[pulsar.Client]:
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.fixture
def topic(broker: kit.Broker) -> str:
    return f"persistent://public/default/ledger-{uuid.uuid4()}"


class TestPulsarStore(StoreConformance):
    @pytest.fixture
    def new_ledger(self, client: pulsar.Client) -> Callable[[], Opener]:
        def new() -> Opener:
            topic = f"persistent://public/default/ledger-{uuid.uuid4()}"
            return lambda read_only=False: PulsarStore(client, topic, read_only=read_only)

        return new


def test_another_machine_takes_over_from_an_owner_that_still_runs(broker: kit.Broker, topic: str) -> None:
    with PulsarStore(broker.service_url, topic) as here:
        here.append(b"a")
        with PulsarStore(broker.service_url, topic) as there:
            assert (there.generation, there.read(0)) == (0, b"a")
            here.append(b"read by own")
            there.own()
            assert (there.generation, there.read(1)) == (2, b"read by own")
            assert there.append(b"b") == 2
            with pytest.raises(FencedError, match="generation 1 was fenced"):
                here.append(b"late")
            assert there.append(b"c") == 3


def test_deletion_lets_the_broker_free_the_space(broker: kit.Broker, topic: str) -> None:
    with PulsarStore(broker.service_url, topic) as store:
        for number in range(10):
            store.append(b"entry %d" % number)
        before = broker.cursor(topic, SUBSCRIPTION)["markDelete"]
        store.delete_up_to(7)
        assert store.first_id == 8
    # Closing sends the acknowledgments the client groups.
    after = broker.cursor(topic, SUBSCRIPTION)["markDelete"]
    # The opening's two records, then entries 0 to 7.
    assert after[1] - before[1] == 10


def test_what_a_fenced_owner_slipped_in_is_void(client: pulsar.Client, topic: str) -> None:
    with PulsarStore(client, topic) as old:
        old.append(b"a")
        record = old._state(metadata={"late": b""}).encode()
    with PulsarStore(client, topic) as store:
        store.append(b"b")
    producer = client.create_producer(topic)
    producer.send(record)
    producer.close()
    with PulsarStore(client, topic) as store:
        assert dict(store.metadata) == {}
        assert [store.read(0), store.read(1)] == [b"a", b"b"]


def test_an_entry_sent_twice_counts_once(client: pulsar.Client, topic: str) -> None:
    with PulsarStore(client, topic) as store:
        store.append(b"a")
    records = []
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        records.append(reader.read_next().data())
    reader.close()
    assert len(records) == 3
    producer = client.create_producer(topic)
    for record in records:
        producer.send(record)
    producer.close()
    with PulsarStore(client, topic) as store:
        assert (store.last_id, store.read(0)) == (0, b"a")
        assert store.append(b"b") == 1


def test_a_topic_of_others_is_refused(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"an order of theirs, longer than a header")
    producer.close()
    with pytest.raises(StoreError, match="not a record of ackwell"):
        PulsarStore(client, topic)


def test_after_a_failed_write_the_ledger_must_be_opened_again(client: pulsar.Client, topic: str) -> None:
    with PulsarStore(client, topic) as store:
        store.append(b"a")
        with pytest.raises(StoreError, match="MessageTooBig"):
            store.append(bytes(6_000_000))
        with pytest.raises(StoreError, match="open the ledger again"):
            store.append(b"b")
    with PulsarStore(client, topic) as store:
        assert store.append(b"b") == 1


def test_a_cluster_that_does_not_answer_is_a_store_error() -> None:
    client = pulsar.Client(
        "pulsar://127.0.0.1:1",
        operation_timeout_seconds=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    with pytest.raises(StoreError, match="ledger"):
        PulsarStore(client, "persistent://public/default/ledger")
    client.close()


def test_a_topic_survives_a_crash_of_the_broker(broker: kit.Broker) -> None:
    topic = f"persistent://public/default/crashed-{uuid.uuid4()}"
    # Closing asks the broker, which is gone by then.
    client = pulsar.Client(
        broker.service_url,
        operation_timeout_seconds=2,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    with PulsarStore(client, topic) as store:
        for number in range(20):
            store.append(b"entry %d" % number)
        store.set_metadata({"form": b"compact"})
        store.delete_up_to(4)
        broker.stop(crash=True)
    client.close()
    broker.start()
    with PulsarStore(broker.service_url, topic) as store:
        store.own()
        assert (store.generation, store.first_id, store.last_id) == (2, 5, 19)
        assert [store.read(number) for number in range(5, 20)] == [
            b"entry %d" % number for number in range(5, 20)
        ]
        assert dict(store.metadata) == {"form": b"compact"}
