"""A subscription gives the broker's answers to the questions of `tests/pulsar/live/answers.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pulsar.live.answers import MESSAGES, SCRIPTS

ANSWERS = json.loads((Path(__file__).parents[1] / "vectors" / "answers.json").read_text(encoding="utf-8"))


def test_every_script_was_played_on_a_broker() -> None:
    assert sorted(ANSWERS) == sorted(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_subscription_gives_the_recorded_answer(name: str) -> None:
    assert SCRIPTS[name].ours(ANSWERS[name]) == ANSWERS[name]


def test_both_consumers_got_a_share_of_the_keyless_messages() -> None:
    owners = ANSWERS["keyless messages on Key_Shared"]["owners"]
    assert len(owners) == MESSAGES
    assert 20 < owners.count(1) < 40
