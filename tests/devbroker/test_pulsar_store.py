"""The topic store on the broker in the process, held to the public conformance suite."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ackwell import Cursor, FencedError, Ledgers, NotLoadedError, StoreError
from ackwell.store.pulsar import ENTRY, STATE, PulsarStore, Record
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


def test_an_owner_reads_what_the_one_before_wrote_until_it_was_shut_out(client: Any) -> None:
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
    """What failed may still arrive; another entry under its id would then be lost."""
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
            with pytest.raises(StoreError, match="a write failed before"):
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


def test_what_an_older_owner_wrote_after_a_newer_one_is_void(client: Any) -> None:
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
