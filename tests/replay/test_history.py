"""The history checker: what it must let pass, and what it must find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ackwell.cli import app
from ackwell.replay.events import Event, Kind, event_from_fields
from ackwell.replay.history import RECEIPT, Rule, check_history

PUBLISHED = [{"kind": "publish", "entry_id": entry_id, "key": "k"} for entry_id in range(4)]
OPEN = [{"kind": "consumer_open", "consumer": "a", "detail": "Key_Shared"}]


def events(*lines: dict[str, Any]) -> list[Event]:
    found = []
    for number, line in enumerate(lines, 1):
        subscription = "" if line["kind"] in ("publish", "broker_restart") else "s"
        whole = {"topic": "t", "subscription": subscription, "sequence": number} | line
        if "entry_id" in line:
            whole["ledger_id"] = 3
        found.append(event_from_fields(whole))
    return found


def got(entry_id: int, **more: Any) -> dict[str, Any]:
    return {"kind": "dispatch", "consumer": "a", "entry_id": entry_id} | more


def said(kind: str, entry_id: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "consumer": "a", "entry_id": entry_id} | more


def broken(*lines: dict[str, Any], at_rest: bool = False) -> list[tuple[Rule, int]]:
    found = check_history(events(*PUBLISHED, *OPEN, *lines), at_rest=at_rest)
    assert all((each.topic, each.subscription) == ("t", "s") for each in found)
    return [(each.rule, each.position.entry_id) for each in found]


BACK = {
    "nack": [said("nack", 0)],
    "all asked for again": [{"kind": "redeliver_unacked", "consumer": "a"}],
    "its consumer left": [{"kind": "consumer_close", "consumer": "a"}, *OPEN],
    "all left": [{"kind": "client_closed"}, *OPEN],
    "abort": [said("ack", 0, transaction="1:1"), {"kind": "abort", "transaction": "1:1"}],
    "restart": [{"kind": "broker_restart", "detail": "graceful"}],
    "crash": [{"kind": "broker_restart", "detail": "crash"}],
}


@pytest.mark.parametrize("back", BACK.values(), ids=BACK)
def test_a_later_message_of_the_key_overtakes_one_that_was_given_back(back: list[dict[str, Any]]) -> None:
    assert broken(got(0), *back, got(1)) == [(Rule.OVERTAKEN, 1)]
    assert broken(got(0), *back, got(0), got(1)) == []
    assert broken(got(0), *back, said("ack", 0), got(1)) == []


def test_what_was_delivered_before_overtakes_nothing() -> None:
    assert broken(got(0), got(1), said("nack", 0), said("ack", 1), got(0), got(2)) == []


def test_a_nack_of_what_another_consumer_has_gives_nothing_back() -> None:
    assert broken(got(0), said("nack", 0) | {"consumer": "b"}, got(1)) == []


def test_another_key_an_unknown_key_and_another_type_overtake_nothing() -> None:
    other = {"kind": "publish", "entry_id": 7, "key": "other"}
    assert broken(other, got(0), said("nack", 0), got(7), got(9)) == []
    assert broken({**OPEN[0], "detail": "Shared"}, got(0), said("nack", 0), got(1)) == []


def test_first_deliveries_of_a_key_are_in_order_unless_they_are_delayed_or_in_a_transaction() -> None:
    assert broken(got(1), got(0)) == [(Rule.OUT_OF_ORDER, 0)]
    for why in ({"deliver_at_ms": 5}, {"transaction": "1:1"}):
        late = {"kind": "publish", "entry_id": 4, "key": "k"} | why
        assert broken(late, {"kind": "publish", "entry_id": 5, "key": "k"}, got(5), got(4)) == []


def test_an_acknowledged_message_does_not_come_again() -> None:
    assert broken(got(0), said("ack", 0), got(0)) == [(Rule.ACKED_AGAIN, 0)]
    assert broken(got(0), got(1), said("ack_cumulative", 1), got(0)) == [(Rule.ACKED_AGAIN, 0)]
    assert broken(got(0), said("ack", 0, ack_set=[2]), said("nack", 0), got(0)) == []
    committed = [said("ack", 0, transaction="1:1"), {"kind": "commit", "transaction": "1:1"}]
    assert broken(got(0), *committed, got(0)) == [(Rule.ACKED_AGAIN, 0)]
    for moved in (said("skip", 0), said("expire", 0), {"kind": "clear_backlog"}):
        assert broken(got(0), moved, got(0)) == [(Rule.ACKED_AGAIN, 0)]
    assert broken(got(0), said("ack", 0), said("seek", 0), got(0)) == []


def test_a_crash_may_lose_what_was_not_answered_and_nothing_else() -> None:
    crash = {"kind": "broker_restart", "detail": "crash"}
    answered = {"kind": "result", "entry_id": 0, "detail": RECEIPT}
    assert broken(got(0), said("ack", 0), crash, got(0), got(1)) == []
    assert broken(got(0), said("ack", 0), crash, got(1)) == []
    assert broken(got(0), said("ack_cumulative", 0), crash, got(0)) == []
    assert broken(got(0), said("ack", 0), answered, crash, got(0)) == [(Rule.RECEIPT_LOST, 0)]
    assert broken(got(0), said("ack", 0), crash | {"detail": "graceful"}, got(0)) == [(Rule.ACKED_AGAIN, 0)]


def test_redelivery_counts_only_grow() -> None:
    twice = [got(0, redelivery_count=1), said("nack", 0)]
    assert broken(*twice, got(0, redelivery_count=0)) == [(Rule.COUNT_FELL, 0)]
    assert broken(*twice, got(0, redelivery_count=1)) == []
    for begins_anew in (
        {"kind": "broker_restart", "detail": "graceful"},
        said("ack", 0, ack_set=[2]),
        {"kind": "consumer_close", "consumer": "a"},
    ):
        assert broken(*twice, begins_anew, got(0)) == []


def test_at_rest_everything_is_acknowledged_or_with_somebody() -> None:
    rest = [got(0), said("ack", 0), got(1), got(2), said("ack", 2, transaction="1:1")]
    assert broken(*rest, at_rest=True) == [(Rule.NEVER_DELIVERED, 3)]
    assert broken(*rest, got(3), said("nack", 3), at_rest=True) == [(Rule.NEVER_DELIVERED, 3)]
    assert broken(*rest, got(3), at_rest=True) == []
    aborted = events(
        *({**each, "transaction": "1:1"} for each in PUBLISHED), {"kind": "abort", "transaction": "1:1"}
    )
    aborted[-1] = aborted[-1]._replace(subscription="")
    assert check_history([*aborted, *events(*OPEN)], at_rest=True) == []


def test_a_violation_says_where_and_what_was_overtaken() -> None:
    (found,) = check_history(events(*PUBLISHED, *OPEN, got(0), got(1), said("nack", 0), got(2)))
    assert (found.sequence, found.position, found.other) == (9, (3, 2), (3, 0))
    assert Kind.RESULT not in {each.kind for each in events(*PUBLISHED)}


def test_the_command_says_what_is_wrong_and_exits_with_3(tmp_path: Path) -> None:
    lines = [
        json.dumps({"topic": "t", "subscription": "s", "ledger_id": 3} | line) for line in PUBLISHED + OPEN
    ]
    trace = tmp_path / "trace.jsonl"
    for more, code, words in (
        ([got(0), said("nack", 0)], 0, "nothing is wrong"),
        ([got(0), said("nack", 0), got(1)], 3, "t s: event 8, 3:1 overtaken 3:0"),
    ):
        whole = [json.dumps({"topic": "t", "subscription": "s", "ledger_id": 3} | line) for line in more]
        trace.write_text("\n".join([*lines, *whole]))
        result = CliRunner().invoke(app, ["history", str(trace)])
        assert (result.exit_code, result.stdout.strip()) == (code, words)
    result = CliRunner().invoke(app, ["history", "--json", "--at-rest", str(trace)])
    assert [each["rule"] for each in json.loads(result.stdout)] == ["overtaken", *["never-delivered"] * 3]
