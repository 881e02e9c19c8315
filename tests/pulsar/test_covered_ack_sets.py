"""Ack sets that a new mark-delete position covers count once more for the limit of a write.

The ack set of an entry that is acknowledged individually as a whole does not count.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.cluster.admin import Admin, TopicAnswer
from ackwell.cluster.endpoint import Endpoint
from ackwell.cursor.ack_sets import to_words
from ackwell.diagnosis.prediction import predict
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.client import Client

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell import Position
    from ackwell.broker.writes import Restart

VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
NAME = "billing"
SIZE = 4
LIMIT = {
    "managedLedgerMaxBatchDeletedIndexToPersist": "3",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "0",
    # A write every ten seconds, in 5.0 also by the flush.
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
}
FLUSH_S = 5
PATIENCE_S = 120.0
RESTARTS: tuple[Restart, ...] = ("graceful", "crash")


def seen(broker: kit.Broker, topic: str) -> SubscriptionStats:
    """Ask for all that a dump of the broker's memory shows."""
    admin = Admin(Endpoint(url=f"http://127.0.0.1:{broker.ports.admin}"))
    admin.count_backlogs = True
    (answer,) = admin.answers([topic])
    assert isinstance(answer, TopicAnswer), answer
    memory = {"name": NAME, "batchDeletedIndexes": broker.cursor(topic, NAME)["batchDeletedIndexes"]}
    shown: dict[str, Any] = {**answer.to_json(), "cursor": memory}
    (found,) = from_answer(shown, topic, "live")
    assert isinstance(found, SubscriptionStats), found
    return replace(found, batch_sizes=BatchSizes(each=SIZE))


def covered(broker: kit.Broker, topic: str) -> list[Position]:
    """Acknowledge parts of five batches, and two of them whole before the next write."""
    client = Client(broker.ports.binary, topic, NAME)
    client.open_producer()
    client.subscribe(1, "a", SubscriptionType.EXCLUSIVE)
    client.flow(1, 100)
    sent = [client.publish(SIZE, None) for _ in range(9)]
    client.settle()
    client.ack(1, [(sent[8], (), SIZE)])
    client.ack(1, [(each, tuple(to_words(0b0111)), SIZE) for each in sent[:5]])
    client.ack(1, [(sent[6], (), SIZE)])
    # It waits to be written, and the sets of both stay until it is.
    client.ack(1, [(sent[1], (), SIZE)], cumulative=True)
    client.close()
    return sent


def written(broker: kit.Broker, topic: str, covered: Position) -> None:
    """Wait for the write that counts a covered ack set for the last time."""
    deadline = time.monotonic() + PATIENCE_S
    while str(covered) in broker.cursor(topic, NAME)["batchDeletedIndexes"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the ack set of {covered} was not dropped in {PATIENCE_S} s")
        time.sleep(0.5)


@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_covered_ack_sets_cost_is_predicted(version: str, restart: Restart, tmp_path: Path) -> None:
    topic = "persistent://public/default/covered"
    flush = {"managedLedgerCursorPositionFlushSeconds": str(FLUSH_S)}
    started = {**runs.settings(transactions=False), **LIMIT, **flush}
    settings = BrokerSettings.of(version).with_known(started)
    with kit.running_broker(tmp_path, version, **started) as broker:
        sent = covered(broker, topic)
        if restart == "crash":
            written(broker, topic, sent[0])
        before = seen(broker, topic)
        # A crash that comes after all of it was written.
        predicted = predict(before, settings, restart).messages
        broker.stop(crash=restart == "crash")
        broker.start()
        client = Client(broker.ports.binary, topic, NAME)
        client.open_producer()
        left = broker.cursor(topic, NAME)["batchDeletedIndexes"]
        lost = sum(str(each) not in left for each in sent[2:5])
        client.close()
    # One message was acknowledged of each of the three batches, and the covered two take places.
    assert lost == 2
    assert predicted == Bounds(0, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ack_set_of_a_wholly_acknowledged_entry_does_not_count(version: str, tmp_path: Path) -> None:
    topic = "persistent://public/default/whole"
    limit = {"managedLedgerMaxBatchDeletedIndexToPersist": "1"}
    flush = {"managedLedgerCursorPositionFlushSeconds": str(FLUSH_S)}
    started = {**runs.settings(transactions=False), **LIMIT, **limit, **flush}
    settings = BrokerSettings.of(version).with_known(started)
    with kit.running_broker(tmp_path, version, **started) as broker:
        client = Client(broker.ports.binary, topic, NAME)
        client.open_producer()
        client.subscribe(1, "a", SubscriptionType.SHARED)
        client.flow(1, 100)
        sent = [client.publish(SIZE, None) for _ in range(5)]
        client.settle()
        part = tuple(to_words(0b0111))
        for position, ack_set in ((sent[1], part), (sent[1], ()), (sent[1], part), (sent[2], part)):
            client.ack(1, [(position, ack_set, SIZE)])
        client.close()
        broker.flush(topic, NAME)
        # The broker writes a cursor once in ten seconds here. The limit also applies to the flush of 5.0.
        time.sleep(2 * FLUSH_S + 10)
        before = seen(broker, topic)
        assert list(before.batch_deleted or ()) == [sent[2]]
        predicted = predict(before, settings, "crash", 0).messages
        broker.stop(crash=True)
        broker.start()
        client = Client(broker.ports.binary, topic, NAME)
        client.open_producer()
        assert list(broker.cursor(topic, NAME)["batchDeletedIndexes"]) == [str(sent[2])]
        client.close()
    assert predicted == Bounds(0, 0)
