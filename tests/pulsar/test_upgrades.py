"""The predictions of `ackwell upgrade-check` equal a rolling upgrade of two brokers, and the downgrade back.

`make lab-test-pulsar UPGRADES=16 SEED=1`: 16 states for each direction and each of three sets of settings.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.pulsar.cluster import running_cluster
from tests.pulsar.upgrades import ROUNDS, ProtectedLife, compared, protected, summary

if TYPE_CHECKING:
    from pathlib import Path

UPGRADES = int(os.environ.get("UPGRADES", "4"))
SEED = int(os.environ.get("SEED", "1"))


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_a_rolling_upgrade_redelivers_what_was_predicted(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for name, outcomes in compared(tmp_path, "4.2.4", "5.0.1", UPGRADES, SEED, [number]):
        with capsys.disabled():
            print(f"\n{name}: {summary(outcomes)}")
        found += outcomes
    assert any(each.predicted["exact"] for each in found)
    wrong = [str(each) for each in found if each.is_wrong]
    assert not wrong, "\n".join(wrong)


def test_a_rescue_around_each_restart_redelivers_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "4.2.4", **ROUNDS[1]) as cluster:
        lives = []
        for number in range(UPGRADES):
            broker = cluster.brokers[number % 2]
            life = ProtectedLife(broker, 1_000 * SEED + number)
            cluster.move(life.namespace, life.topic, broker)
            life.load()
            life.act()
            lives.append(life)
        outcomes = protected(cluster, lives, "5.0.1", tmp_path)
    assert any(each.predicted["min"] for each in outcomes)
    assert [each.lost for each in outcomes] == [0] * len(outcomes)
