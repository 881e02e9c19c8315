"""A broker with a file keeps everything that has a receipt after kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackwell import StoreError
from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.protocol.constants import SchemaType

pulsar = pytest.importorskip("pulsar")

Connect = Callable[[Broker], Any]
SHARED = pulsar.ConsumerType.Shared


@contextmanager
def killed(path: Path) -> Iterator[str]:
    """Run a broker in a separate process; kill it at the end."""
    command = [sys.executable, "-m", "ackwell", "dev-broker", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen([*command, "--data", str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1]
        finally:
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_broker_keeps_everything_with_a_receipt(tmp_path: Path, connect: Connect) -> None:
    path = tmp_path / "broker.db"
    with killed(path) as url:
        client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        consumer = client.subscribe("orders", "billing", consumer_type=SHARED, batch_index_ack_enabled=True)
        producer = client.create_producer("orders")
        for number in range(20):
            producer.send(b"%d" % number)
        for number in range(20):
            message = consumer.receive(5000)
            if number % 2:
                consumer.acknowledge(message)
        client.close()
    with Broker(path=path) as broker:
        consumer = connect(broker).subscribe("orders", "billing", consumer_type=SHARED)
        left = [consumer.receive(5000).data() for _ in range(10)]
        assert left == [b"%d" % number for number in range(0, 20, 2)]
        with pytest.raises(pulsar.Timeout):
            consumer.receive(100)
        broker.validate()


def test_a_second_broker_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with Broker(path=tmp_path / "broker.db"), pytest.raises(StoreError, match="locked"):
        Broker(path=tmp_path / "broker.db")


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE z (a)", "PRAGMA application_id = 5", "PRAGMA user_version = 1", None]
)
def test_the_file_of_another_program_is_refused_and_stays_unchanged(
    tmp_path: Path, statement: str | None
) -> None:
    path = tmp_path / "other.db"
    if statement is None:
        path.write_bytes(b"5")
    else:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a dev broker's file"):
        Broker(path=path)
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"not a database at all, but long enough to look like one" * 20)
    with pytest.raises(StoreError, match="not a database"):
        Broker(path=path)


def test_topics_partitions_schemas_and_redelivery_counts_are_kept(tmp_path: Path, connect: Connect) -> None:
    path, settings = tmp_path / "broker.db", DevBrokerSettings(auto_create_partitions=2, entries_per_ledger=3)
    with Broker(path=path, settings=settings) as broker:
        client = connect(broker)
        consumer = client.subscribe("orders", "billing", consumer_type=SHARED, consumer_name="worker")
        producer = client.create_producer("orders", schema=pulsar.schema.StringSchema())
        for number in range(10):
            producer.send(str(number))
        for _ in range(10):
            consumer.receive(5000)
        broker.take_back("worker")
        client.close()
    with Broker(path=path, settings=settings) as broker:
        client = connect(broker)
        assert len(client.get_topic_partitions("orders")) == 2
        consumer = client.subscribe("orders", "billing", consumer_type=SHARED)
        counts = [consumer.receive(5000).redelivery_count() for _ in range(10)]
        # Pulsar 4.2 drops them when the last consumer leaves.
        assert counts == [0] * 10
        found = broker._broker.state.schemas.get("persistent://public/default/orders")
        assert found is not None
        assert found[0].type == SchemaType.STRING
        broker.validate()
