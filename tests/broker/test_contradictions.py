"""Dumps whose fields contradict each other: every command names them and treats them as unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.contradictions import DumpPart
from ackwell.broker.stats import SubscriptionStats, from_answer, parse_stats
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.diagnosis.doctor import Diagnosis, Verdict, diagnose
from ackwell.diagnosis.prometheus import prometheus_text
from tests.broker.test_stats import internal
from tests.commands import command
from tests.diagnosis.test_delivery import recorded, subscription_of
from tests.diagnosis.test_doctor_lives import recorded as lives

STATS_ALONE = {"subscriptions": {"s": {"msgBacklog": 110, "type": "Shared", "consumers": []}}}


def cursor(mark_delete: str, read: str, ranges: str, **fields: Any) -> dict[str, Any]:
    shown = {
        "markDeletePosition": mark_delete,
        "readPosition": read,
        "individuallyDeletedMessages": ranges,
        "state": "Open",
    }
    return {"s": shown | fields}


NO_LEDGERS = {
    "numberOfEntries": 64,
    "currentLedgerEntries": 64,
    "lastConfirmedEntry": "74:63",
    "ledgers": [],
    "cursors": cursor("74:36", "74:64", "[(74:37..74:63]]"),
}
LOST_LEDGER = {
    "currentLedgerEntries": 10,
    "lastConfirmedEntry": "9:9",
    "ledgers": [{"ledgerId": 5, "entries": 50}, {"ledgerId": 9, "entries": 0}],
    "cursors": cursor("5:39", "9:10", "[(7:-1..7:99],(9:-1..9:5]]"),
}
OVER_AN_END = {
    "currentLedgerEntries": 10,
    "lastConfirmedEntry": "7:9",
    "ledgers": [{"ledgerId": 5, "entries": 50}, {"ledgerId": 7, "entries": 0}],
    "cursors": cursor("5:39", "7:10", "[(5:47..7:1]]"),
}


def no_cursor_ledger(**changes: Any) -> dict[str, Any]:
    """Return the answers about a cursor without a ledger; 90 of 100 entries are acknowledged."""
    consumer = {"consumerName": "a", "msgOutCounter": 100, "availablePermits": 900, "unackedMessages": 10}
    of = {"msgOutCounter": 100, "msgBacklog": 10, "type": "Shared", "unackedMessages": 10}
    fields = {"messagesConsumedCounter": 90, "cursorLedger": -1, "cursorLedgerLastEntry": -1}
    shown = cursor("3:-1", "3:100", "[(3:9..3:99]]", **(fields | {"state": "NoLedger"} | changes))
    return {
        "internalStats": {
            "entriesAddedCounter": 100,
            "numberOfEntries": 100,
            "currentLedgerEntries": 100,
            "lastConfirmedEntry": "3:99",
            "ledgers": [{"ledgerId": 3, "entries": 0}],
            "cursors": shown,
        },
        "stats": {"msgInCounter": 100, "subscriptions": {"s": of | {"consumers": [consumer]}}},
    }


def stats_of(answer: dict[str, Any]) -> SubscriptionStats:
    (found,) = from_answer(answer, "topic", "dump")
    assert isinstance(found, SubscriptionStats)
    return found


@pytest.mark.parametrize("answer", [STATS_ALONE, NO_LEDGERS, LOST_LEDGER])
def test_every_command_refuses_what_the_dump_does_not_show(answer: dict[str, Any], tmp_path: Path) -> None:
    source, bytes_file = tmp_path / "answer.json", tmp_path / "cursor.bin"
    source.write_text(json.dumps(answer))
    printed = json.loads(command("doctor", "--format", "json", source)[1])
    (found,) = printed["subscriptions"]
    assert found["backlogEntries"] is None
    assert found["verdict"] == "unproven"
    assert (found["delivery"]["verdict"] == "idle") is False
    assert bool(found["contradictions"]) is (answer is not STATS_ALONE)
    metrics = command("doctor", "--format", "prometheus", source)[1]
    assert "ackwell_subscription_backlog_entries{" not in metrics
    assert "+Inf" in metrics
    assert command("holes", "--format", "json", source)[0] == 5
    assert command("what-if", "clear-backlog", source, "s")[0] == 1
    assert command("diff", source, source)[0] == 1
    code = command("convert", "--to", "compact", source, bytes_file)[0]
    assert (code, bytes_file.exists()) == ((1, False) if answer is STATS_ALONE else (0, True))


@pytest.mark.parametrize("answer", [STATS_ALONE, NO_LEDGERS, LOST_LEDGER])
def test_the_page_shows_what_is_unknown(answer: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("bokeh")
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"topic": "persistent://a/b/c", **answer}))
    code, page = command("doctor", "--html", "-", "--fail-on", "never", tmp_path)
    assert code == 0
    assert "<td>unknown<td>" in page


def test_the_rows_of_spark_have_no_state_that_the_dump_does_not_show(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.spark.tasks.audit_rows import audit_batches
    from ackwell.spark.tasks.source_rows import stats_batches

    source = tmp_path / "answer.json"
    source.write_text(json.dumps(STATS_ALONE))
    (batch,) = stats_batches(str(source))
    (row,) = batch.to_pylist()
    assert (row["backlog_entries"], row["mark_delete_ledger_id"], row["ledgers"]) == (None, None, None)
    assert "topics stats" in row["error"]
    wanted = batch.append_column("batch_sizes", [[None]])
    (audited,) = next(iter(audit_batches([wanted], BrokerSettings(), ("crash",)))).to_pylist()
    assert (audited["lost_messages_min"], audited["lost_messages_max"]) == (None, None)


def test_entries_of_a_lost_ledger_do_not_exist() -> None:
    found = stats_of(LOST_LEDGER | {"numberOfEntries": 60})
    assert [each.name for each in found.contradictions] == ["ranges in ledgers"]
    assert (found.backlog_entries, found.unknown) == (10 + 4, frozenset())


def test_a_range_over_the_end_of_a_ledger_is_split_there() -> None:
    found = stats_of(OVER_AN_END)
    assert str(found.individually_deleted) == "[(5:47..5:49],(7:-1..7:1]]"
    assert (found.split_ranges, found.backlog_entries, found.contradictions) == (1, 8 + 8, ())
    beyond = {**OVER_AN_END, "cursors": cursor("5:39", "7:10", "[(5:57..7:1]]")}
    assert stats_of(beyond).unknown == {DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS}


@pytest.mark.parametrize("state", ["NoLedger", "Closed"])
def test_acknowledgments_that_no_ledger_holds_are_at_risk_and_bounded(state: str) -> None:
    found = diagnose(stats_of(no_cursor_ledger(state=state)))
    assert (found.verdict, found.messages_lost) == (Verdict.AT_RISK, Bounds(0, 90))
    assert [reason.code for reason in found.reasons] == ["cursor-not-written"]
    assert "rescue snapshot" in found.remedies[0].text


def test_a_cursor_that_switches_its_ledger_and_writes_nothing_is_at_risk() -> None:
    ledger = {"state": "SwitchingLedger", "cursorLedger": 8, "cursorLedgerLastEntry": 4}
    before = no_cursor_ledger(
        **ledger, individuallyDeletedMessages="[(3:9..3:49]]", messagesConsumedCounter=40
    )
    found = diagnose(stats_of(no_cursor_ledger(**ledger)), before=stats_of(before))
    assert "cursor-not-written" in {reason.code for reason in found.reasons}


def between(seconds: int, state: str, last_entry: int, earlier: int) -> Diagnosis:
    """Return the findings about two dumps; the consumer acknowledged `earlier` entries before the first."""
    ledger = {"state": state, "cursorLedger": 8}
    before, now = (
        no_cursor_ledger(
            **ledger,
            cursorLedgerLastEntry=each,
            individuallyDeletedMessages=f"[(3:9..3:{9 + acked}]]",
            messagesConsumedCounter=acked,
        )
        for each, acked in ((4, earlier), (last_entry, 90))
    )
    before["t"], now["t"] = 1_000_000, 1_000_000 + 1_000 * seconds
    now["stats"]["subscriptions"]["s"]["consumers"][0]["lastAckedTimestamp"] = 1_001_000
    return diagnose(stats_of(now), before=stats_of(before))


@pytest.mark.parametrize(
    ("seconds", "state", "last_entry", "earlier", "unwritten_ms"),
    [
        (70, "Open", 4, 40, 69_000),
        (70, "Open", 5, 40, None),
        (70, "Open", 4, 90, None),
        (3, "Open", 4, 40, None),
        (70, "SwitchingLedger", 4, 90, 70_000),
        (70, "SwitchingLedger", 4, 40, 70_000),
        (3, "SwitchingLedger", 4, 90, None),
    ],
)
def test_a_write_that_no_bookie_answers_shows_in_two_dumps(
    seconds: int, state: str, last_entry: int, earlier: int, unwritten_ms: int | None
) -> None:
    found = between(seconds, state, last_entry, earlier)
    assert found.unwritten_ms == unwritten_ms
    not_written = "cursor-not-written" in {reason.code for reason in found.reasons}
    assert not_written == (unwritten_ms is not None)
    if not_written:
        assert found.messages_lost == Bounds(0, 90)
    broker = JudgedBroker(version="4.2.4", settings=BrokerSettings(), source="the test")
    metrics = prometheus_text(Checkup(diagnoses=(found,), histories={}, unread=(), broker=broker))
    assert ("ackwell_subscription_cursor_unwritten_seconds{" in metrics) == not_written


@pytest.mark.parametrize(("age_s", "most", "verdict"), [(5, 90, "unproven"), (122, 0, "fine")])
def test_every_command_bounds_a_crash_while_a_bookie_may_delay_the_write(
    age_s: int, most: int, verdict: str, tmp_path: Path
) -> None:
    source = tmp_path / "answer.json"
    answer = no_cursor_ledger(state="Open", cursorLedger=8, cursorLedgerLastEntry=4) | {"t": 1_000_000_000}
    consumer = answer["stats"]["subscriptions"]["s"]["consumers"][0]
    consumer["lastAckedTimestamp"] = answer["t"] - 1_000 * age_s
    source.write_text(json.dumps({"topic": "persistent://a/b/c", **answer}))
    doctor = "doctor", "--broker-version", "4.2.4", "--broker-setting", "defaults", "--fail-on", "never"
    (found,) = json.loads(command(*doctor, "--format", "json", source)[1])["subscriptions"]
    crash, graceful = found["restarts"]["crash"], found["restarts"]["graceful"]
    assert crash["verdict"] == verdict
    assert crash["ackedMessagesLostBeforeFlush"] == {"min": 0, "max": most, "exact": not most}
    assert graceful["verdict"] == "fine"
    codes = [each["code"] for each in found["reasons"]]
    assert codes == (["write-not-confirmed"] if most else [])
    table = command(*doctor, source)[1]
    assert (f"the last acknowledgment is {age_s} s old" in " ".join(table.split())) is bool(most)
    metrics = command(*doctor, "--format", "prometheus", source)[1]
    labels = '{topic="persistent://a/b/c",subscription="s",restart="crash"}'
    assert f"acked_messages_lost_max{labels} {most}" in metrics
    check = "upgrade-check", "--to", "5.0.1", "--from", "4.2.4", "--broker-setting", "defaults"
    (upgraded,) = json.loads(command(*check, "--format", "json", source)[1])["subscriptions"]
    assert upgraded["restartNow"]["ackedMessagesLost"]["crash"]["max"] == most


def test_the_reason_for_an_unproven_write_names_the_age_or_the_state() -> None:
    answer = no_cursor_ledger(state="Open", cursorLedger=8, cursorLedgerLastEntry=4)
    assert "is of unknown age, and its write is proven after 121 s" in unproven(answer)
    answer["t"] = 1_000_000
    shown = answer["stats"]["subscriptions"]["s"]
    shown["consumers"][0]["lastAckedTimestamp"] = 997_000
    assert "is 3 s old, and its write is proven after 121 s" in unproven(answer)
    # 20 entries were acknowledged before the topic was loaded. Two of 80 delivered messages have no pending
    # acknowledgment, and no field shows the reason.
    fields = {"cursorLedger": 8, "cursorLedgerLastEntry": 4, "messagesConsumedCounter": -70}
    answer = no_cursor_ledger(**fields, readPosition="5:10", individuallyDeletedMessages="[(3:9..3:29]]")
    ledgers = {"ledgers": [{"ledgerId": 3, "entries": 90}, {"ledgerId": 5, "entries": 0}]}
    answer["internalStats"] |= {**ledgers, "lastConfirmedEntry": "5:9", "currentLedgerEntries": 10}
    answer["internalStats"]["entriesAddedCounter"] = answer["stats"]["msgInCounter"] = 10
    shown = answer["stats"]["subscriptions"]["s"]
    for each in (shown, shown["consumers"][0]):
        each |= {"msgOutCounter": 80, "unackedMessages": 78}
    shown["msgBacklog"] = 80
    assert "the state of the cursor is NoLedger" in unproven(answer)


def unproven(answer: dict[str, Any]) -> str:
    (text,) = (each.text for each in diagnose(stats_of(answer)).reasons if each.code == "write-not-confirmed")
    return text


@pytest.mark.parametrize(
    ("mark_delete", "unknown"), [("3:1", frozenset()), ("3:4", {DumpPart.ACKNOWLEDGMENTS})]
)
def test_a_mark_delete_position_at_the_last_entry_is_compared_with_the_entries_to_the_read_position(
    mark_delete: str, unknown: frozenset[DumpPart]
) -> None:
    shown = cursor(
        mark_delete,
        "3:5",
        "[]",
        messagesConsumedCounter=2,
        numberOfEntriesSinceFirstNotAckedMessage=4,
    )
    ledgers = {"ledgers": [{"ledgerId": 3, "entries": 5}], "lastConfirmedEntry": "3:4"}
    found = stats_of({**ledgers, "entriesAddedCounter": 5, "cursors": shown})
    assert found.unknown & {DumpPart.ACKNOWLEDGMENTS} == unknown
    assert found.backlog_entries == (None if unknown else 3)


def test_an_answer_of_stats_alone_does_not_contradict_ranges_that_it_does_not_have() -> None:
    shown = STATS_ALONE["subscriptions"]["s"] | {"nonContiguousDeletedMessagesRanges": 5}
    (found,) = parse_stats(json.dumps({"subscriptions": {"s": shown}}).encode(), "dump")
    assert (found.shows_cursor, found.contradictions) == (False, ())


@pytest.mark.parametrize(
    ("closed", "changes", "unknown"),
    [
        (49, {}, {DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS}),
        (50, {}, frozenset()),
        (50, {"cursors": cursor("5:50", "7:10", "[]")}, {DumpPart.ACKNOWLEDGMENTS, DumpPart.LEDGERS}),
        (50, {"cursors": cursor("5:39", "5:51", "[]")}, {DumpPart.DELIVERY}),
    ],
)
def test_a_closed_ledger_does_not_grow_while_the_broker_answers(
    closed: int, changes: dict[str, Any], unknown: frozenset[DumpPart]
) -> None:
    ledgers = [{"ledgerId": 5, "entries": closed}, {"ledgerId": 7, "entries": 0}]
    shown = {
        "ledgers": ledgers,
        "pendingAddEntriesCount": 100,
        "cursors": cursor("5:39", "7:10", "[(5:44..5:49]]"),
    }
    assert stats_of({**OVER_AN_END, **shown, **changes}).unknown == unknown
    # The newest ledger may grow.
    newest = {
        "ledgers": ledgers,
        "pendingAddEntriesCount": 100,
        "cursors": cursor("5:39", "7:10", "[(7:4..7:10]]"),
    }
    assert not stats_of({**OVER_AN_END, **newest}).unknown


def test_a_counter_that_is_off_is_named_and_changes_no_number() -> None:
    answer = no_cursor_ledger(state="Open", cursorLedger=8, cursorLedgerLastEntry=4)
    right = stats_of(answer)
    answer["stats"]["subscriptions"]["s"]["msgBacklog"] = 29_803
    found = stats_of(answer)
    assert (found.backlog_entries, found.unknown) == (right.backlog_entries, frozenset())
    assert "msgBacklog is 29,803" in str(found.contradictions[0])


def test_names_are_those_that_applications_use(tmp_path: Path) -> None:
    answer = internal()
    answer["cursors"] = {"team%3Aeu": answer["cursors"]["sub"]}
    source = tmp_path / "answer.json"
    source.write_text(
        json.dumps({"internalStats": answer, "stats": {"subscriptions": {"team:eu": {"type": "Shared"}}}})
    )
    for name in ("team:eu", "team%3Aeu"):
        assert command("what-if", "clear-backlog", source, name)[0] == 0
    (found,) = json.loads(command("doctor", "--format", "json", source)[1])["subscriptions"]
    assert (found["subscription"], found["delivery"]["code"]) == ("team:eu", "no-consumer")


def test_no_recorded_dump_of_a_healthy_broker_contradicts_itself() -> None:
    answers = [answer for case in recorded() for answer in case["answers"]]
    answers += [case.answer for case in lives()]
    assert len(answers) > 100
    for answer in answers:
        assert not subscription_of(answer).contradictions


@pytest.mark.parametrize(
    ("counted", "unknown"),
    [({"totalNonContiguousDeletedMessagesRange": 1}, ()), ({}, (DumpPart.ACKNOWLEDGMENTS,))],
)
def test_another_number_of_ranges_in_stats_is_a_change_if_the_cursor_proves_its_ranges(
    counted: dict[str, int], unknown: tuple[DumpPart, ...]
) -> None:
    told = {
        "numberOfEntries": 10,
        "ledgers": [{"ledgerId": 5, "entries": 10}],
        "cursors": cursor("5:2", "5:10", "[(5:4..5:6]]", **counted),
    }
    stats = {"subscriptions": {"s": {"nonContiguousDeletedMessagesRanges": 20, "consumers": []}}}
    (found,) = from_answer({"internalStats": told, "stats": stats}, "t", "dump")
    assert isinstance(found, SubscriptionStats)
    (only,) = [each for each in found.contradictions if each.name == "number of ranges"]
    assert only.unknown == frozenset(unknown)


@pytest.mark.parametrize(
    ("consumed", "unknown"),
    [(3, ()), ("3", (DumpPart.ACKNOWLEDGMENTS,)), (None, (DumpPart.ACKNOWLEDGMENTS,))],
)
def test_a_backlog_that_only_stats_contradicts_is_unknown_if_a_counter_is_damaged(
    consumed: object, unknown: tuple[DumpPart, ...]
) -> None:
    told = {
        "numberOfEntries": 10,
        "entriesAddedCounter": 10,
        "ledgers": [{"ledgerId": 5, "entries": 10}],
        "cursors": cursor("5:2", "5:10", "[]", messagesConsumedCounter=consumed),
    }
    stats = {"subscriptions": {"s": {"msgBacklog": 5, "consumers": []}}}
    found, *_ = from_answer({"internalStats": told, "stats": stats}, "t", "dump")
    assert isinstance(found, SubscriptionStats)
    (only,) = [each for each in found.contradictions if each.name == "shown backlog"]
    assert only.unknown == frozenset(unknown)
