"""A crash after a seek restores the acknowledgments from before the seek."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from ackwell import Position
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar import kit
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
