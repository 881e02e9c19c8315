"""The doctor's codes. `docs/pages.py` writes their tables."""

from __future__ import annotations

from typing import get_args

import pytest

from ackwell.broker.codes import codes
from ackwell.broker.writes import ReasonCode
from ackwell.diagnosis.delivery import DeliveryVerdict
from tests.commands import command


def test_every_reason_of_a_loss_has_a_code_and_every_code_a_verdict() -> None:
    restart = {entry.code for entry in codes().values() if entry.verdict == "restart"}
    assert restart == set(get_args(ReasonCode))
    verdicts = {entry.verdict for entry in codes().values()}
    assert verdicts == {"restart", *map(str, DeliveryVerdict)}


def test_every_rule_says_what_ends_the_wait_and_nothing_else_does() -> None:
    assert {entry.code for entry in codes().values() if entry.until} == {
        entry.code for entry in codes().values() if entry.verdict == "waiting"
    }


@pytest.mark.parametrize("code", codes())
def test_every_code_is_explained(code: str) -> None:
    exit_code, output = command("doctor", "--explain", code)
    assert exit_code == 0
    assert output.startswith(code)
    assert "{" not in output


def test_a_code_that_does_not_exist_is_refused() -> None:
    assert command("doctor", "--explain", "no-reason") == (2, "")


def test_names_in_a_remedy_can_be_copied_into_a_shell() -> None:
    assert codes()["no-consumer"].steps("persistent://a/b/c d", "e'f")[1] == (
        "  pulsar-admin topics unsubscribe -s 'e'\"'\"'f' 'persistent://a/b/c d'"
    )
