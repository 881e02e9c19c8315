"""Rolling restarts of two brokers with `rescue begin` and `end`, with `rescue watch`, and without both.

`make lab-test-cluster RESTARTS=4 TOPICS=50`: four rounds (graceful, `kill -9`, to 5.0.1, to 4.2.4) of two
restarts each, and 50 topics with five subscriptions each.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pulsar")

from tests.pulsar.rolling import RESTARTS, Mode, play

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("RESTARTS", "1"))
TOPICS = int(os.environ.get("TOPICS", "4"))


@pytest.mark.parametrize("mode", ["none", "window", "watch"])
def test_no_message_is_acknowledged_that_no_consumer_acknowledged(
    mode: Mode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = []
    restarts = [RESTARTS[number % len(RESTARTS)] for number in range(ROUNDS)]
    for each in play(tmp_path, mode, restarts, TOPICS):
        outcomes.append(each)
        with capsys.disabled():
            print(f"\n{mode}: {each}")
    again = sum(each.again for each in outcomes)
    assert len(outcomes) >= ROUNDS
    if mode == "window":
        assert again == 0
        assert all("0 still held" in each.report for each in outcomes)
    elif mode == "none":
        assert again > 0
