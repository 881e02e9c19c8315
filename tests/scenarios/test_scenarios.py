"""The dev broker gives the recorded answers of a real broker (`answers.json`).

`make lab-test-pulsar` plays every scenario on both, and `make lab-test-pulsar ANSWERS=1` writes the answers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pulsar")

from tests.scenarios.on import NAMES, on_ours

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))

QUICK = (
    "batch_receive",
    "deduplication",
    "figures_of_stats",
    "last_message_id",
    "listener",
    "partitions",
    "peek_and_lookup",
    "producers",
    "schemas",
    "terminated",
    "topics_by_rest",
    "types_that_do_not_go_together",
    "unsubscribe_and_delete",
    "what_a_message_carries",
)
"""The scenarios that do not wait for the absence of messages."""


def test_every_scenario_was_played_on_a_real_broker() -> None:
    assert sorted(ANSWERS) == sorted(NAMES)
    assert all(ANSWERS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_dev_broker_answers_as_the_real_broker_did(name: str) -> None:
    assert [list(note) for note in on_ours(name)] == [list(note) for note in ANSWERS[name]]
