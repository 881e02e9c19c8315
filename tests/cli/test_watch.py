"""The delivery verdict from a live broker: two requests, and the dispatch rate that can delay messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster.fake_admin import broker, served
from tests.commands import command
from tests.diagnosis.test_delivery import told
from tests.pauses import recorded_pauses

if TYPE_CHECKING:
    import pytest

BASE = "/admin/v2/persistent/shop/eu/orders"


def judged(*arguments: str, rate: dict[str, int] | None = None, **changes: Any) -> tuple[int, str]:
    """Return the exit code, and the code of the delivery verdict."""
    dump = told(**changes)
    answers = served() | {f"{BASE}/internalStats": dump["internalStats"], f"{BASE}/stats": dump["stats"]}
    if rate is not None:
        answers[f"{BASE}/sub/dispatchRate?applied=true"] = rate
    with broker(answers) as (url, asked):
        exit_code, output = command("doctor", "--admin", url, "--format", "json", *arguments)
    assert {method for method, _, _ in asked} == {"GET"}
    (found,) = json.loads(output)["subscriptions"]
    return exit_code, found["delivery"]["code"]


def test_one_look_does_not_tell_slow_from_still_and_two_do(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = recorded_pauses(monkeypatch, "ackwell.cli.doctor_command")
    assert judged("--restart", "graceful")[1] == "second-dump"
    assert judged("--watch", "7", "--restart", "graceful") == (4, "read-lost-shared")
    assert slept == [7.0]


def test_watching_needs_a_broker() -> None:
    assert command("doctor", "--watch", "7", "dump.json")[0] == 2


HOLD = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": 1, "ratePeriodInSecond": 3600}


def test_a_forgotten_hold_is_named() -> None:
    throttled = {"dispatchThrottledMsgEventsBySubscriptionLimit": 3}
    assert judged(rate=HOLD, **throttled)[1] == "hold"
    assert judged(rate={**HOLD, "dispatchThrottlingRateInByte": -1}, **throttled)[1] == "second-dump"


def test_a_broker_without_policies_of_topics_is_judged_without_them() -> None:
    assert judged(dispatchThrottledMsgEventsBySubscriptionLimit=3)[1] == "second-dump"
