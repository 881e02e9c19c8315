"""The commands and the recorder if all connections pass Pulsar's proxy."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Position
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.replay import replay_files
from ackwell.rescue import Connection
from tests.commands import ackwell
from tests.pulsar.cluster import running_cluster
from tests.pulsar.rolling import SETTINGS
from tests.recording.process import recording

if TYPE_CHECKING:
    from pathlib import Path

pulsar = pytest.importorskip("pulsar")

NAMESPACE = "public/proxied"
TOPICS = [f"persistent://{NAMESPACE}/t{number}" for number in range(6)]
NAME, ENTRIES = "billing", 60


def test_all_connections_pass_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(tmp_path, "4.2.4", **SETTINGS))
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        url, admin, log = stack.enter_context(cluster.proxy())
        record = stack.enter_context(recording(url, tmp_path / "events"))
        client = pulsar.Client(record, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
        acked = {}
        consumers = []
        for topic in TOPICS:
            consumer = client.subscribe(topic, NAME, pulsar.ConsumerType.Shared)
            consumers.append(consumer)
            producer = client.create_producer(topic, batching_enabled=False)
            for _ in range(ENTRIES):
                producer.send(b"m")
            acked[topic] = _acked(consumer)
        assert len({cluster.owner(topic, cluster.brokers[0]) for topic in TOPICS}) == 2

        words = (
            "doctor",
            NAMESPACE,
            "--admin",
            admin,
            "--format",
            "json",
            "--fail-on",
            "never",
            "--every-topic",
        )
        found = json.loads(ackwell(*words).out)
        assert (len(found["subscriptions"]), found["unread"]) == (len(TOPICS), [])
        options = ("--admin", admin, "--broker", url, "--yes")
        answer = ackwell("rescue", "begin", NAMESPACE, *options)
        assert (answer.code, f"{len(TOPICS)} subscriptions are held" in answer.out) == (0, True), answer
        for topic in TOPICS:
            path = topic.replace("://", "/")
            request = urllib.request.Request(f"{admin}/admin/v2/{path}/unload", method="PUT")
            urllib.request.urlopen(request, timeout=60).close()
        before = _forwarded(log)
        answer = ackwell("rescue", "end", "window", *options)
        assert (answer.code, answer.out.count(" 0 are still missing")) == (0, len(TOPICS)), answer
        assert _forwarded(log) > before
        with Connection(Admin(Endpoint(url=admin))) as connection:
            for topic in TOPICS:
                assert set(connection.read_live(topic, NAME).acked.positions()) == acked[topic]
        client.close()
    states = {each.topic: each for each in replay_files([tmp_path / "events"]) if each.subscription == NAME}
    for topic in TOPICS:
        assert {Position(*each) for each in states[topic].cursor.acknowledged().positions()} == acked[topic]


def _acked(consumer: Any) -> set[Position]:
    """Receive all entries, and acknowledge every second one."""
    found = set()
    for _ in range(ENTRIES):
        message = consumer.receive(60_000)
        of = message.message_id()
        if of.entry_id() % 2:
            consumer.acknowledge(message)
            found.add(Position(of.ledger_id(), of.entry_id()))
    return found


def _forwarded(log: Path) -> int:
    """Count the connections that the proxy forwarded to a broker."""
    return log.read_text(errors="replace").count("hasProxyToBrokerUrl: true")
