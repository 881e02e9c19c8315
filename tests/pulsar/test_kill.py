"""The topic store under kill -9, of its owner and of the broker."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from ackwell.store.pulsar import PulsarStore
from tests.faults.killing import kill_often

if TYPE_CHECKING:
    from tests.pulsar import kit

KILLS = 25
SAVE_S = 0.01


def test_a_topic_keeps_every_save_that_returned(broker: kit.Broker) -> None:
    topic = f"persistent://public/default/killed-{uuid.uuid4()}"
    saves = kill_often(
        ["pulsar", broker.service_url, topic],
        lambda: PulsarStore(broker.service_url, topic),
        kills=KILLS,
        save_s=SAVE_S,
    )
    assert saves > KILLS
