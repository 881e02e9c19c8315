"""The doctor's codes. `docs/pages.py` writes their tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.codes import Code, codes
from ackwell.broker.writes import ReasonCode
from ackwell.diagnosis.delivery import EXPECTED_WAITS, DeliveryVerdict
from ackwell.diagnosis.doctor import diagnose
from tests.broker.answers import holes, subscription
from tests.commands import command
from tests.diagnosis.test_delivery import recorded
from tests.pulsar.stalls.causes import CAUSES, NOT_CAUSED

CASES = [*Path(__file__).parent.glob("test_*.py"), *(Path(__file__).parents[1] / "broker").glob("test_*.py")]


def test_every_reason_of_a_loss_has_a_code_and_every_code_a_verdict() -> None:
    restart = {entry.code for entry in codes().values() if entry.verdict == "restart"}
    assert restart == set(get_args(ReasonCode))
    verdicts = {entry.verdict for entry in codes().values()}
    assert verdicts == {"restart", *map(str, DeliveryVerdict)}


def test_every_rule_says_what_ends_the_wait_and_nothing_else_does() -> None:
    until = {entry.code for entry in codes().values() if entry.until}
    waiting = {entry.code for entry in codes().values() if entry.verdict == "waiting"}
    assert until == waiting, f"each code of the verdict waiting needs `until`: {sorted(until ^ waiting)}"


def test_every_code_has_a_case() -> None:
    """A case is a stall that a real broker recorded, or a test that names the code."""
    tests = "".join(each.read_text(encoding="utf-8") for each in CASES if each != Path(__file__))
    named = {each["code"] for each in recorded()} | set(re.findall(r'"([a-z0-9-]+)"', tests))
    missing = sorted(codes().keys() - named)
    assert not missing, f"write a test in tests/diagnosis that expects these codes: {missing}"


def test_every_wait_and_every_defect_is_caused_on_a_broker_or_has_a_reason() -> None:
    caused = {each.code for each in CAUSES}
    of_broker = {entry.code for entry in codes().values() if entry.verdict in ("waiting", "stalled")}
    missing = sorted(of_broker - caused - NOT_CAUSED.keys())
    assert not missing, f"write a cause in tests/pulsar/stalls/causes.py, or a reason: {missing}"
    assert caused <= codes().keys()
    assert of_broker >= NOT_CAUSED.keys()
    assert caused.isdisjoint(NOT_CAUSED), "these codes have a cause: remove the reason"


@pytest.mark.parametrize("code", codes())
def test_every_code_is_explained(code: str) -> None:
    exit_code, output = command("doctor", "--explain", code)
    assert exit_code == 0
    assert output.startswith(code)
    assert "{" not in output
    entry = codes()[code]
    needs_none = entry.verdict in ("delivering", "idle") or code in EXPECTED_WAITS
    assert ("no remedy is needed" in output, "what helps:" in output) == (needs_none, not needs_none), (
        "give the code a remedy in `do`, or add it to EXPECTED_WAITS"
    )


def test_all_codes_are_listed_with_their_meaning() -> None:
    exit_code, output = command("doctor", "--explain")
    assert exit_code == 0
    assert [line.split()[0] for line in output.splitlines()] == list(codes())


CLOSES = re.compile(r"\b(?:unload|restart|seek|reset-cursor|skip|unsubscribe|clear-backlog)")
"""A remedy that closes a topic, or moves or deletes a subscription."""


@pytest.mark.parametrize("code", codes().values(), ids=codes())
def test_no_remedy_loses_acknowledgments_without_its_cost_and_a_rescue(code: Code) -> None:
    """The restart of a consumer loses nothing, because its messages are redelivered."""
    steps = [code.save, *code.steps("TOPIC", "SUBSCRIPTION")]
    of_broker = [re.sub(r"[Rr]estart the consumers?", "", each) for each in steps]
    closing = [number for number, each in enumerate(of_broker) if CLOSES.search(each)]
    if not closing:
        return
    text = "\n".join(steps)
    assert re.search(r"\b(?:loses?|deletes|forgets)\b", text), "the cost is missing"
    rescue = next((number for number, each in enumerate(steps) if "ackwell rescue" in each), len(steps))
    assert rescue <= closing[0] or "between these commands" in steps[closing[0]], "a rescue comes first"


def test_the_text_of_every_remedy_for_a_loss_names_the_rescue_before_the_restart() -> None:
    settings = BrokerSettings.of("4.2").with_values(
        ["managedLedgerMaxUnackedRangesToPersist=100", "managedLedgerPersistIndividualAckAsLongArray=false"]
    )
    seen = 0
    for count in (85, 101, 500):
        texts = [each.text for each in diagnose(subscription(holes(count)), settings).remedies]
        closing = [text for text in texts if CLOSES.search(text.replace("ackwell rescue", ""))]
        seen += len(closing)
        assert all(re.search(r"\blos(?:e|es|s)\b", text) for text in closing)
        assert any("ackwell rescue hold" in text for text in texts) or not closing
    assert seen >= 3


def test_a_code_that_does_not_exist_is_refused() -> None:
    assert command("doctor", "--explain", "no-reason") == (2, "")


def test_names_in_a_remedy_can_be_copied_into_a_shell() -> None:
    assert codes()["no-consumer"].steps("persistent://a/b/c d", "e'f")[-1] == (
        "  pulsar-admin topics unsubscribe -s 'e'\"'\"'f' 'persistent://a/b/c d'"
    )
