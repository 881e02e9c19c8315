"""`topics info-internal`: the persisted cursors, alone and next to the cursors in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.info import is_info, persisted_cursor
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, from_answer, parse_each
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.diagnosis.doctor import Verdict, diagnose
from tests.broker.test_contradictions import no_cursor_ledger, stats_of
from tests.cluster.fake_admin import broker, served
from tests.commands import command


def info(mark_delete: int, *ranges: tuple[int, int], ledger: int = -1, name: str = "s") -> dict[str, Any]:
    """Return the answer about ledger 3, of which the metadata store does not know the length."""
    cursor = {
        "version": 0,
        "cursorsLedgerId": ledger,
        "markDelete": {"ledgerId": 3, "entryId": mark_delete},
        "individualDeletedMessages": [
            {"from": {"ledgerId": 3, "entryId": lower}, "to": {"ledgerId": 3, "entryId": upper}}
            for lower, upper in ranges
        ],
    }
    return {"version": 1, "ledgers": [{"ledgerId": 3}], "cursors": {name: cursor}}


def test_the_persisted_state_alone_is_read_and_judges_no_restart(tmp_path: Path) -> None:
    answer = {
        "version": 1,
        "ledgers": [{"ledgerId": 30, "entries": 50}],
        "cursors": {
            "s": {
                "cursorsLedgerId": -1,
                "markDelete": {"ledgerId": 30, "entryId": 16},
                "individualDeletedMessages": [
                    {"from": {"ledgerId": 30, "entryId": 17}, "to": {"ledgerId": 30, "entryId": 27}}
                ],
            }
        },
    }
    source = tmp_path / "info.json"
    source.write_text(json.dumps(answer))
    code, printed = command("doctor", "--format", "json", source)
    (found,) = json.loads(printed)["subscriptions"]
    assert (code, found["verdict"], found["ackedMessagesLostOnRestart"]["max"]) == (0, "unproven", None)
    assert (found["markDeletePosition"], found["ranges"], found["backlogEntries"]) == ("30:16", 1, None)
    assert found["delivery"]["code"] == "no-stats"
    assert "info-internal" in found["notes"][0]
    assert command("holes", source)[0] == 5
    assert command("what-if", "clear-backlog", source, "s")[0] == 1
    assert command("diff", source, source)[0] == 0
    assert command("convert", "--to", "compact", source, tmp_path / "state")[0] == 0


def test_the_memory_is_compared_with_the_persisted_state(tmp_path: Path) -> None:
    memory, persisted = tmp_path / "memory.json", tmp_path / "info.json"
    memory.write_text(json.dumps(no_cursor_ledger()))
    persisted.write_text(json.dumps(info(-1, (9, 49))))
    code, printed = command("diff", "--format", "json", persisted, memory)
    assert (code, json.loads(printed)["acked"]) == (3, "[(3:49..3:99]]")


@pytest.mark.parametrize(("ranges", "lost"), [((), 90), (((9, 49),), 50), (((9, 99),), 0)])
def test_it_decides_what_a_crash_loses_without_a_cursor_ledger(
    ranges: tuple[tuple[int, int], ...], lost: int
) -> None:
    """Live on 4.2.4 a crash brought back 90 of 90 acknowledged messages (apache/pulsar#26485)."""
    answer = no_cursor_ledger() | {"info": info(-1, *ranges)}
    found = diagnose(stats_of(answer), restarts=("crash",))
    assert found.messages_lost == Bounds(lost, lost)
    assert found.verdict is (Verdict.LOSING if lost else Verdict.FINE)
    assert ("cursor-not-written" in {each.code for each in found.reasons}) == bool(lost)
    graceful = diagnose(stats_of(answer), restarts=("graceful",))
    assert graceful.messages_lost == Bounds(0, lost)


@pytest.mark.parametrize(("first", "lost"), [(9, 0), (49, 40)])
def test_it_decides_what_a_crash_loses_after_a_failed_write_of_a_cursor_ledger(first: int, lost: int) -> None:
    """Live on 5.0.1: a bookie did not answer, and the broker wrote to the metadata store after 30 s."""
    answer = no_cursor_ledger(cursorLedger=8, cursorLedgerLastEntry=1) | {"info": info(-1, (first, 99))}
    found = diagnose(stats_of(answer), restarts=("crash",))
    assert found.messages_lost == Bounds(lost, lost)
    assert found.verdict is (Verdict.LOSING if lost else Verdict.FINE)
    # Ack sets may be missing in the metadata store, or not be read back from there.
    answer["stats"]["msgInCounter"] = 1_000
    batches = diagnose(stats_of(answer), restarts=("crash",))
    assert (batches.verdict, batches.messages_lost.at_least) == (Verdict.AT_RISK, 0)
    assert "cursor-not-written" in {each.code for each in batches.reasons}


def test_a_persisted_state_that_is_newer_than_the_answer_is_no_loss() -> None:
    answer = no_cursor_ledger(individuallyDeletedMessages="[(3:9..3:49]]", messagesConsumedCounter=40)
    answer["stats"]["subscriptions"]["s"] |= {"msgBacklog": 60}
    found = diagnose(stats_of(answer | {"info": info(-1, (9, 60))}), restarts=("crash",))
    assert found.messages_lost == Bounds(0, 0)


def test_acknowledgments_in_a_cursor_ledger_are_said_to_be_there() -> None:
    (found,) = from_answer({"info": info(4, ledger=8), "internalStats": info(4, ledger=8)}, "topic", "info")
    assert isinstance(found, UnreadableSource)
    (found,) = parse_each(json.dumps(info(4, ledger=8)).encode(), "info.json")
    assert isinstance(found, UnreadableSource)
    assert "cursor ledger 8" in found.reason
    # Next to the cursor in memory it is not needed.
    stats = stats_of(no_cursor_ledger(state="Open", cursorLedger=8) | {"info": info(4, ledger=8)})
    assert stats.persisted is None


def test_three_answers_about_a_topic_in_one_file_are_one_dump() -> None:
    answer = no_cursor_ledger()
    texts = [json.dumps(each) for each in (info(-1), answer["stats"], answer["internalStats"])]
    for order in (texts, texts[::-1]):
        (found,) = parse_each("\n".join(order).encode(), "pasted.json")
        assert isinstance(found, SubscriptionStats)
        assert found.persisted is not None
        assert found.dispatch is not None
        assert found.shows_cursor


@pytest.mark.parametrize(
    "damage", [{"markDelete": 5}, {"individualDeletedMessages": "many"}, {"markDelete": {"ledgerId": 3}}]
)
def test_a_damaged_cursor_is_reported(damage: dict[str, Any]) -> None:
    answer = info(4)
    answer["cursors"]["s"] |= damage
    assert is_info(answer)
    (found,) = parse_each(json.dumps(answer).encode(), "info.json")
    assert isinstance(found, UnreadableSource)
    assert persisted_cursor({"cursorsLedgerId": -1})["markDeletePosition"] == "-1:-1"


@pytest.mark.parametrize(
    "damage",
    [
        {"markDelete": {"ledgerId": 3}},
        {"individualDeletedMessages": [{"from": {"ledgerId": 3, "entryId": 4}, "to": {"ledgerId": 3}}]},
        {"individualDeletedMessages": [{"lowerEndpoint": {"ledgerId": 3, "entryId": 4}}]},
        None,
    ],
)
def test_a_missing_field_is_reported_with_the_command_that_prints_the_answer(
    damage: dict[str, Any] | None,
) -> None:
    answer = info(4)
    if damage is None:
        answer["ledgers"] = [{"entries": 5}]
    else:
        answer["cursors"]["s"] |= damage
    unread = list(parse_each(json.dumps(answer).encode(), "info.json"))
    if damage is not None:
        # A snapshot contains the persisted cursors next to those in memory.
        unread += from_answer(no_cursor_ledger() | {"info": answer}, "topic", "dump")
    for found in unread:
        assert isinstance(found, UnreadableSource)
        assert "Id' in the answer; expected the answer of `pulsar-admin topics info-internal" in found.reason


def test_the_admin_api_is_asked_for_it_if_a_cursor_has_no_open_ledger() -> None:
    told, base = served(), "/admin/v2/persistent/shop/eu/orders"
    told[f"{base}/internal-info"] = info(4, name="sub")
    for state, asks in (("Open", False), ("NoLedger", True)):
        told[f"{base}/internalStats"]["cursors"]["sub"]["state"] = state
        with broker(told) as (url, asked):
            (answer,) = Admin(Endpoint(url=url)).answers(["shop/eu/orders"])
        assert not isinstance(answer, UnreadableSource)
        assert any("internal-info" in path for _, path, _ in asked) == asks
        assert answer.to_json()["info"] == (info(4, name="sub") if asks else {})


def test_the_dev_broker_names_what_it_does_not_load(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    from ackwell.devbroker.loading import read

    source = tmp_path / "info.json"
    source.write_text(json.dumps(info(4)))
    (unread,) = read([source], "persistent://a/b/c").unread
    assert "`info-internal` shows only the persisted acknowledgments" in unread.reason
