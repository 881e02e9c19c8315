"""A recording through moves of topics between two brokers: the replay equals the state of the topic's owner.

`make lab-test-cluster` moves two topics three times each. `TOPIC_MOVES=20 SEED=7` plays other sessions.
The clients stay connected: while a topic moves, they publish and receive. They acknowledge between the moves,
because neither a client nor the recorder can know whether a broker applied an acknowledgment during a move.
Up to 5.0.0-M1, a broker forgets the acknowledged parts of batches in a move (docs/findings.md). On these
releases, the clients acknowledge whole batches.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pulsar")

import pulsar

from ackwell.cluster.admin import topic_path
from ackwell.replay.events import Kind
from ackwell.replay.files import read_events
from tests.pulsar.cluster import Cluster, ClusterBroker, running_cluster
from tests.pulsar.test_recording import Session, Snapshot, differences, recording
from tests.pulsar.traffic import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VERSIONS = os.environ.get("VERSIONS", "5.0.1").split()
KEEPS_PARTS = ("5.0.1",)
"""The releases that keep the acknowledged parts of batches in a move."""
MOVES = int(os.environ.get("TOPIC_MOVES", "3"))
"""Of each topic."""
SEED = int(os.environ.get("SEED", "1"))
TOPICS = 2
STEPS = 10
"""Before each move."""
CONNECTED_WITHIN_S = 60.0
BATCH = 10


def moves(cluster: Cluster, session: Session, namespace: str) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Play traffic, and move its topic between the brokers; yield the states before and after each move."""
    chance = random.Random(session.seed)
    for number in range(MOVES):
        for _ in range(STEPS):
            session.traffic.step()
        before = session.snapshot(2 * number)
        (target,) = (each for each in cluster.brokers if each is not session.broker)
        with ThreadPoolExecutor(1) as pool:
            moved = pool.submit(cluster.move, namespace, session.topic, target)
            while not moved.done():
                chance.choice([session.traffic.publish, session.traffic.receive])()
            moved.result()
        session.broker = target
        _wait_for_clients(target, session)
        yield before, session.snapshot(2 * number + 1)


def _wait_for_clients(broker: ClusterBroker, session: Session) -> None:
    """Wait until each client is connected to the new owner."""
    wanted = {each.name: len(each.consumers) for each in session.traffic.subscriptions}
    end_s = time.monotonic() + CONNECTED_WITHIN_S
    while True:
        found = broker.admin("GET", f"{topic_path(session.topic)}/stats")
        connected = {name: len(_consumers(found, name)) for name in wanted}
        if connected == wanted and len(found["publishers"]) == len(session.traffic.producers):
            return
        assert time.monotonic() < end_s, (connected, wanted, found["publishers"])
        time.sleep(0.2)


def _consumers(stats: dict[str, Any], subscription: str) -> list[Any]:
    found: list[Any] = stats["subscriptions"].get(subscription, {}).get("consumers", [])
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recording_through_moves_is_the_state_of_the_owner(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "events"
    taken: list[Snapshot] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(tmp_path, version))
        first = cluster.brokers[0]
        record = stack.enter_context(recording(first, folder))
        for seed in range(SEED, SEED + TOPICS):
            first.create_namespace(f"moved-{seed}")
            namespace = f"public/moved-{seed}"
            session = Session(first, record, seed, namespace=namespace, parts=version in KEEPS_PARTS)
            stack.callback(session.traffic.close)
            session.broker = cluster.owner(session.topic, first)
            for before, after in moves(cluster, session, namespace):
                taken += (before, after)
    found = [line for each in taken for line in differences(each, folder)]
    compared = sum(len(each.answers) for each in taken)
    with capsys.disabled():
        print(f"\n{version}: {len(taken) // 2} moves, {compared} cursors compared, {len(found)} different")
    assert len(taken) == 2 * TOPICS * MOVES
    assert not found, "\n".join(found)


def test_a_move_that_forgets_parts_of_batches_is_a_gap(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    topic, name = "persistent://public/moved/parts", "billing"
    with ExitStack() as stack:
        settings: dict[str, Any] = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}
        cluster = stack.enter_context(running_cluster(tmp_path, "4.2.4", **settings))
        first, second = cluster.brokers
        record = stack.enter_context(recording(first, folder))
        first.create_namespace("moved")
        cluster.move("public/moved", topic, first)
        client = pulsar.Client(record.url, logger=QUIET)
        stack.callback(client.close)
        consumer = client.subscribe(topic, name, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_messages=BATCH, batching_max_publish_delay_ms=10_000
        )
        for _ in range(BATCH):
            producer.send_async(b"m", None)
        producer.flush()
        received = [consumer.receive(60_000) for _ in range(BATCH)]
        consumer.acknowledge(received[0])
        _wait_until(lambda: len(first.cursor(topic, name)["batchDeletedIndexes"]) == 1)
        cluster.move("public/moved", topic, second)
        again = [consumer.receive(60_000) for _ in range(BATCH)]
        assert second.cursor(topic, name)["batchDeletedIndexes"] == {}
        entry = again[0].message_id()
    what = f"the state of {name}: a part of {entry.ledger_id()}:{entry.entry_id()}"
    assert _gaps(folder, name) == [f"{what} was acknowledged before, and is delivered again"]


def _wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + CONNECTED_WITHIN_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def _gaps(folder: Path, subscription: str) -> list[str]:
    """Return the recorded gaps in the state of a subscription."""
    details = [each.detail or "" for each in read_events([folder]) if each.kind is Kind.GAP]
    return [each for each in details if each.startswith(f"the state of {subscription}")]
