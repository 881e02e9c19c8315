"""A subscription that stalls on a real broker is named, and delivers once the advice is followed.

`make lab-test-pulsar VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1"`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.diagnosis.delivery import DeliveryDiagnosis, DeliveryVerdict, delivery_of
from tests.pulsar import kit
from tests.pulsar.stalls.causes import BETWEEN_S, CAUSES, KEY_SHARED, SETTINGS, SHARED, Scene, made

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
STALLS = {each.code: each for each in CAUSES}
ADVICE = ("publish", "flow", "unload")
"""What `no-read-after-leave` says that helps."""


def judged(scene: Scene) -> tuple[DeliveryDiagnosis, SubscriptionStats]:
    """Ask twice, as `ackwell doctor --watch` does."""
    found = []
    for pause_s in (BETWEEN_S, 0.0):
        (stats,) = from_answer(scene.answer(), scene.topic, "live")
        assert isinstance(stats, SubscriptionStats), stats
        found.append(stats)
        time.sleep(pause_s)
    version = scene.broker.version
    return delivery_of(found[1], BrokerSettings.of(version), found[0], version=version), found[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stall_of_key_shared_is_named_and_gone_after_each_advice(version: str, tmp_path: Path) -> None:
    with kit.running_broker(tmp_path, version, **SETTINGS) as broker:
        for advice in ADVICE:
            with made(broker, STALLS["no-read-after-leave"]) as scene:
                found, stats = judged(scene)
                assert (found.verdict, found.code.code) == (DeliveryVerdict.STALLED, "no-read-after-leave")
                left = stats.backlog_entries
                assert left is not None
                assert left > 0
                if advice == "publish":
                    left += len(scene.publish(1, keys=1))
                elif advice == "flow":
                    scene.client.flow(1, 1)
                else:
                    scene.admin("PUT", "unload")
                    scene.client.open_producer()
                    scene.join(1, KEY_SHARED, 1_000)
                scene.ack(1, scene.received(left))
                time.sleep(BETWEEN_S)
                assert judged(scene)[0].verdict in (DeliveryVerdict.IDLE, DeliveryVerdict.DELIVERING), advice


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_read_of_shared_is_named_and_only_an_unload_helps(version: str, tmp_path: Path) -> None:
    settings = SETTINGS | {
        # The broker's own check for stuck subscriptions does not detect this state.
        "unblockStuckSubscriptionEnabled": "true",
        "statsUpdateFrequencyInSecs": "1",
    }
    with (
        kit.running_broker(tmp_path, version, **settings) as broker,
        made(broker, STALLS["read-lost-shared"]) as scene,
    ):
        scene.publish(1)
        scene.client.flow(1, 100)
        found, stats = judged(scene)
        assert (found.verdict, found.code.code) == (DeliveryVerdict.STALLED, "read-lost-shared")
        assert stats.backlog_entries == 6
        scene.admin("PUT", "unload")
        scene.client.open_producer()
        scene.join(1, SHARED, 1_000)
        scene.ack(1, scene.received(6))
        time.sleep(BETWEEN_S)
        assert judged(scene)[0].verdict is DeliveryVerdict.IDLE
