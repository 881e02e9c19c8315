"""Plan files of earlier commits load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackwell.errors import StatsError
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import read_plans
from ackwell.rescue.checksums import with_sha256
from ackwell.rescue.plans import plan_text

FILE = Path(__file__).with_name("plan-version-1.json")
"""Written at commit 8404ad6."""


def test_a_plan_file_of_version_1_loads() -> None:
    (plan,) = read_plans(str(FILE))
    assert plan.name == ("persistent://shop/eu/orders", "billing")
    assert (plan.type, plan.restart) == (SubscriptionType.SHARED, "graceful")
    assert str(plan.missing) == "[(3:5..3:6],(3:7..3:8]]"
    assert plan.ack_sets == {Position(4, 1): (5,)}
    assert dict(plan.ledgers) == {3: 20, 4: 3, 5: 1}


def test_a_plan_file_is_written_as_before() -> None:
    refused = {
        "topic": "persistent://public/default/a",
        "subscription": "s",
        "code": "transactions",
        "reason": "persistent://public/default/a has open transactions",
    }
    assert plan_text(read_plans(FILE), [refused], 1_795_460_400_000) == FILE.read_text().rstrip("\n")


def test_plans_that_are_not_an_array_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    wrong: list[object] = [{}, "", {"plans": []}]
    for plans in wrong:
        file.write_text(json.dumps(with_sha256({"version": 1, "plans": plans})))
        with pytest.raises(StatsError, match="not a plan of `ackwell rescue plan`"):
            read_plans(file)
