"""A crash after a seek restores the acknowledgments from before the seek; a slow bookie discards a seek."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ackwell import Position
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar import kit
from tests.pulsar.cluster import Cluster, running_cluster
from tests.pulsar.live import runs
from tests.pulsar.live.client import Client

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
TOPICS = {f"persistent://public/default/sought-{then}": then for then in ("crash", "acknowledge")}
"""Topics, and the operations after the seek."""
NAME = "billing"


def connected(broker: kit.Broker, topic: str) -> Client:
    """Connect a consumer that asks for everything."""
    client = Client(broker.ports.binary, topic, NAME)
    client.open_producer()
    client.subscribe(1, "a", SubscriptionType.SHARED)
    client.flow(1, 100)
    return client


def acknowledged(broker: kit.Broker, topic: str) -> list[Position]:
    """Return the last position of each acknowledged range."""
    return [Position(*each[2:]) for each in broker.cursor(topic, NAME)["ranges"]]


def sought(broker: kit.Broker, topic: str, then: str) -> tuple[list[Position], list[Position]]:
    """Acknowledge, then seek back; return the positions, and the acknowledged ones after a crash."""
    client = connected(broker, topic)
    sent = [client.publish(None, None) for _ in range(10)]
    acked = [sent[each] for each in (3, 5, 8)]
    client.ack(1, [(each, (), 0) for each in acked])
    time.sleep(runs.RATE_LIMIT_S)
    broker.flush(topic, NAME)
    client.seek(1, sent[1])
    client.close()
    client = connected(broker, topic)
    assert acknowledged(broker, topic) == []
    if then == "acknowledge":
        acked = [sent[6]]
        client.ack(1, [(sent[6], (), 0)])
        time.sleep(runs.RATE_LIMIT_S)
    broker.flush(topic, NAME)
    client.close()
    return sent, acked


@pytest.mark.parametrize("version", VERSIONS)
def test_a_crash_undoes_a_seek_until_an_entry_is_acknowledged(version: str, tmp_path: Path) -> None:
    with kit.running_broker(tmp_path, version, **runs.settings(transactions=False)) as broker:
        made = {topic: sought(broker, topic, then) for topic, then in TOPICS.items()}
        broker.stop(crash=True)
        broker.start()
        for topic, (sent, acked) in made.items():
            client = connected(broker, topic)
            time.sleep(1)
            client.settle()
            assert acknowledged(broker, topic) == acked
            came = [each.position for each in client.take()]
            assert came == [each for each in sent[1:] if each not in acked]
            client.close()


SLOW = {
    "journalSyncData": "false",
    # Reads come from the bookie.
    "managedLedgerCacheSizeMB": "0",
    # The client answers pings only when it waits for an answer.
    "keepAliveIntervalSeconds": "600",
}
DISCARDING = ("4.2.4", "5.0.0-M1")
SEEKS = 12
"""The bookie often answers the read first (2 of 3 times on 4.2.4), and then the seek works."""


def sought_while_the_bookie_is_stopped(cluster: Cluster, topic: str) -> tuple[Position, Position]:
    """Seek back during a read and the write of an acknowledgment; return it and the first delivery.

    The seek is discarded if the bookie answers the write before the last entry of the read.
    """
    (broker,) = cluster.brokers
    client = Client(broker.ports.binary, topic, NAME)
    client.open_producer()
    client.subscribe(1, "a", SubscriptionType.SHARED)
    client.flow(1, 10)
    sent = [client.publish(None, None) for _ in range(150)]
    client.settle()
    client.ack(1, [(sent[0], (), 0)])
    time.sleep(runs.RATE_LIMIT_S)
    with ThreadPoolExecutor(1) as pool:
        cluster.signal_store(signal.SIGSTOP)
        try:
            client.ask_ack(1, [(each, (), 0) for each in sent[1:6]])
            client.flow(1, 100)
            client.settle()
            time.sleep(0.5)
            seek = pool.submit(client.seek, 1, sent[2])
            time.sleep(0.5)
            assert not seek.done()
        finally:
            cluster.signal_store(signal.SIGCONT)
        seek.result()
    client.close()
    client = connected(broker, topic)
    delivered: list[Position] = []
    while not delivered:
        client.settle()
        delivered = [each.position for each in client.take()]
    client.close()
    return sent[2], delivered[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_seek_back_is_discarded_if_an_acknowledgment_is_written_at_the_time(
    version: str, tmp_path: Path
) -> None:
    """Apache/pulsar#26304; the broker answers success."""
    with running_cluster(tmp_path, version, count=1, **SLOW) as cluster:
        cluster.brokers[0].create_namespace("slow")
        topics = (f"persistent://public/slow/sought-{number}" for number in range(SEEKS))
        found = (sought_while_the_bookie_is_stopped(cluster, topic) for topic in topics)
        discarded = any(position != first for position, first in found)
    assert discarded == (version in DISCARDING)
