"""A transactional consumer after a rescue restored the acknowledgment of an entry that it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pulsar")

from ackwell import Position
from ackwell.cluster.admin import Admin, topic_path
from ackwell.cluster.endpoint import Endpoint
from ackwell.rescue import Connection
from tests.commands import ackwell
from tests.pulsar.cluster import Cluster, running_cluster
from tests.pulsar.live.client import Client
from tests.pulsar.rolling import SETTINGS
from tests.pulsar.transacting import TransactionalConsumer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = ("persistent://public/default/transacted", "billing")
ENTRIES = 60
RESTORED = 3
WAIT_S = 60.0


def test_a_conflict_is_aborted_and_its_other_entries_are_handled_again(tmp_path: Path) -> None:
    topic, subscription = NAME
    with running_cluster(tmp_path, "4.2.4", count=1, **SETTINGS) as cluster:
        (broker,) = cluster.brokers
        consumer = TransactionalConsumer(*NAME)

        def wait_for(condition: Callable[[], bool]) -> None:
            end_s = time.monotonic() + WAIT_S
            while not condition():
                assert time.monotonic() < end_s, (consumer.errors, consumer.delivered)
                consumer.poll(cluster)
                time.sleep(0.1)

        consumer.poll(cluster)
        producer = Client(broker.ports.binary, *NAME)
        producer.open_producer()
        for _ in range(ENTRIES):
            producer.publish(None, None)
        producer.close()
        wait_for(lambda: len(consumer.delivered) == ENTRIES)
        chosen = sorted(filter(consumer.chooses, consumer.delivered))
        assert len(chosen) > RESTORED
        _acknowledge(consumer, cluster, {*chosen})

        # The reset returns the acknowledged entries, as a crash may do.
        broker.admin("POST", f"{topic_path(topic)}/subscription/{subscription}/resetcursor/0")
        wait_for(lambda: len(consumer.delivered) == ENTRIES and consumer.lost == {*chosen})
        restored = {*chosen[:RESTORED]}
        options = ("--admin", broker.admin_url, "--broker", broker.service_url, "--yes")
        answer = ackwell("rescue", "ack", *NAME, *map(str, sorted(restored)), *options)
        assert answer.code == 0, answer

        _acknowledge(consumer, cluster, {*chosen} - restored)
        assert (consumer.conflicts > 0, consumer.errors) == (True, [])
        # Each delivery of an acknowledged entry is counted once. A restored entry is not delivered again.
        assert consumer.lost == restored
        assert sorted(entry for _, entry in consumer.again) == chosen
        with Connection(Admin(Endpoint(url=broker.admin_url))) as connection:
            acked = {Position(*each) for each in connection.read_live(*NAME).acked.positions()}
        consumer.close()
    assert acked == {*chosen}


def _acknowledge(consumer: TransactionalConsumer, cluster: Cluster, wanted: set[Position]) -> None:
    """Acknowledge in transactions until these entries are acknowledged; some transactions are aborted."""
    end_s = time.monotonic() + WAIT_S
    while not wanted <= consumer.acked:
        assert time.monotonic() < end_s, (consumer.errors, consumer.delivered)
        consumer.poll(cluster)
        consumer.act()
        time.sleep(0.2)
