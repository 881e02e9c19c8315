"""A watch makes no acknowledgment that no consumer and no administrator made: `HISTORIES=12 STEPS=8`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pulsar")

from tests.pulsar.cluster import running_cluster
from tests.pulsar.rolling import SETTINGS, admins
from tests.pulsar.watched import play

if TYPE_CHECKING:
    from pathlib import Path

HISTORIES = int(os.environ.get("HISTORIES", "6"))
STEPS = int(os.environ.get("STEPS", "4"))
SEED = int(os.environ.get("SEED", "0"))


def test_a_watch_makes_no_acknowledgment_of_its_own(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "4.2.4", **SETTINGS) as cluster:
        found = play(tmp_path, admins(cluster), HISTORIES, STEPS, SEED)
    assert (found["wrong"], found["steps"]) == ([], HISTORIES * STEPS), found
    assert found["restores"] >= HISTORIES * STEPS // 12, found
