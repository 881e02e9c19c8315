"""The history checker accepts valid histories and finds each kind of violation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ackwell.cli import app
from ackwell.replay.events import Event, Kind, event_from_fields
from ackwell.replay.history_check import RECEIPT, HistoryChecker, Rule, check_history

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
    result = CliRunner().invoke(app, ["history", "--format", "json", "--at-rest", str(trace)])
    assert [each["rule"] for each in json.loads(result.stdout)] == ["overtaken", *["never-delivered"] * 3]
    assert not result.stderr
    trace.write_text("\n".join(lines))
    result = CliRunner().invoke(app, ["history", str(trace)])
    none = "the events contain no delivery (`dispatch`)"
    assert (result.exit_code, result.stdout) == (0, f"nothing is checked: {none}\n")
    assert result.stderr == f"{none}, so neither order nor redelivery is checked\n"
    # The check at rest needs no delivery, but messages.
    place = {"topic": "t", "subscription": "s", "ledger_id": 3}
    acked = [json.dumps(place | said("ack", entry)) for entry in range(4)]
    partly = "nothing is wrong in the checks that the events permit\n"
    for acks, words in ((acked, partly), (acked[:0], "t s: 3:0 never-delivered\n")):
        trace.write_text("\n".join([*lines, *acks]))
        result = CliRunner().invoke(app, ["history", "--at-rest", str(trace)])
        assert result.stdout.startswith(words)
        assert result.stderr == f"{none}, so neither order nor redelivery is checked\n"
    trace.write_text("\n".join([lines[-1], *(each.replace('"key"', '"other"') for each in whole)]))
    result = CliRunner().invoke(app, ["history", str(trace)])
    assert (result.exit_code, result.stdout) == (0, partly)
    assert result.stderr == ("t s: the order of 2 deliveries is not checked: no earlier event has the key\n")


def unchecked(*lines: dict[str, Any], in_flight_ms: int = 0) -> list[str]:
    checker = HistoryChecker(in_flight_ms)
    for event in events(*lines):
        checker.feed(event)
    return [*checker.unchecked()]


def test_a_check_that_the_events_do_not_permit_is_a_sentence() -> None:
    assert unchecked(*PUBLISHED, *OPEN, got(0), got(1)) == []
    # Keys may arrive after the delivery, whose order is then unknown.
    assert unchecked(*OPEN, got(0), got(1), *PUBLISHED, got(0)) == [
        "t s: the order of 2 deliveries is not checked: no earlier event has the key"
    ]
    assert unchecked(*PUBLISHED, *OPEN, got(0), said("ack", 0, subscription="other")) == [
        "1 of 2 subscriptions have no delivery (`dispatch`), such as t other; neither their order nor their "
        "redelivery is checked"
    ]
    for kind in ("Shared", "Exclusive"):
        assert unchecked({**OPEN[0], "detail": kind}, got(0)) == []
    assert unchecked(
        got(0, key="k"), {**OPEN[0], "detail": None}, got(1, key="k"), *OPEN, got(2, key="k")
    ) == [
        "t s: the order per key of 2 deliveries is not checked: "
        "no earlier `consumer_open` event has the subscription type"
    ]


def test_times_that_go_back_are_named_if_deliveries_may_be_in_flight() -> None:
    back = [got(0, time_ms=1_000), said("nack", 0, time_ms=999), got(0, time_ms=949), got(1, time_ms=1_000)]
    lines: list[dict[str, Any]] = [*PUBLISHED, *OPEN, *back]
    assert unchecked(*lines, in_flight_ms=50) == unchecked(*lines) == []
    assert unchecked(*lines, in_flight_ms=49) == [
        "t s: the times of the events go back by up to 50 ms, "
        "so a violation may look like a delivery in flight"
    ]


CRASH = {"kind": "broker_restart", "detail": "crash"}
ANSWERED = {"kind": "result", "detail": RECEIPT}
AGAIN = [(Rule.ACKED_AGAIN, 0)]


def test_a_violation_in_words_and_as_json() -> None:
    (found,) = check_history(events(*PUBLISHED, *OPEN, got(0), said("nack", 0), got(1)))
    assert str(found) == "t s: event 8, 3:1 overtaken 3:0"
    assert found.to_json() == {
        "rule": "overtaken",
        "topic": "t",
        "subscription": "s",
        "position": "3:1",
        "sequence": 8,
        "other": "3:0",
    }
    (found,) = check_history(events(*PUBLISHED, got(0), said("ack", 0), got(0)))
    assert str(found) == "t s: event 7, 3:0 acked-again"
    assert found.to_json()["other"] is None
    (found,) = check_history(events(*PUBLISHED[:1], *OPEN), at_rest=True)
    assert str(found) == "t s: 3:0 never-delivered"


def test_the_least_that_waits_is_the_one_that_is_overtaken() -> None:
    back = [said("nack", 2), said("nack", 0), said("nack", 1)]
    found = check_history(events(*PUBLISHED, *OPEN, got(0), got(1), got(2), *back, got(3), got(1)))
    assert [(each.position.entry_id, each.other) for each in found] == [(3, (3, 0)), (1, (3, 0))]
    # A message that is returned twice waits once, until its delivery.
    assert broken(got(0), said("nack", 0), said("nack", 0), got(0), got(1)) == []
    assert broken(got(0), said("nack", 0), got(0), said("nack", 0), got(1)) == [(Rule.OVERTAKEN, 1)]
    # An earlier message of the key does not overtake a later one.
    assert broken(got(0), got(1), said("nack", 0), said("nack", 1), got(0), got(2)) == [(Rule.OVERTAKEN, 2)]
    assert broken(got(0), got(1), said("nack", 1), said("nack", 0), got(0), got(1), got(2)) == []


def test_every_later_message_of_a_key_is_out_of_order_until_the_last_one_is_passed() -> None:
    assert broken(got(2), got(0), got(1), got(3)) == [(Rule.OUT_OF_ORDER, 0), (Rule.OUT_OF_ORDER, 1)]
    (first, _) = check_history(events(*PUBLISHED, *OPEN, got(2), got(0), got(1)))
    assert first.other == (3, 2)
    # Only first deliveries are checked.
    assert broken(got(0), got(1), said("nack", 0), said("nack", 1), got(0), got(1)) == []
    # Other types have no order, and without a `consumer_open` the type is unknown.
    for opened in ({**OPEN[0], "detail": "Shared"}, {**OPEN[0], "detail": None}):
        found = check_history(events(*PUBLISHED, opened, got(2), got(0)))
        assert found == []
    # A `consumer_open` without a type keeps the known type.
    assert broken({**OPEN[0], "detail": None}, got(2), got(0)) == [(Rule.OUT_OF_ORDER, 0)]


def test_a_key_may_come_with_the_delivery() -> None:
    lines = [*OPEN, got(0, key="k"), said("nack", 0), got(1, key="k")]
    assert [each.rule for each in check_history(events(*lines))] == [Rule.OVERTAKEN]
    # The key of the first event is used.
    lines = [*OPEN, got(0, key="k"), said("nack", 0), got(1, key="l"), got(1, key="k")]
    assert check_history(events(*lines)) == []


def test_subscriptions_and_topics_are_judged_apart() -> None:
    def of(subscription: str, topic: str = "t") -> list[dict[str, Any]]:
        lines = [*OPEN, got(0), said("nack", 0), got(1)]
        return [{"subscription": subscription, "topic": topic} | line for line in lines]

    both = events(*PUBLISHED, *of("s"), *of("r"))
    assert [(each.topic, each.subscription) for each in check_history(both)] == [("t", "s"), ("t", "r")]
    # The keys of one topic do not apply to another.
    assert check_history(events(*PUBLISHED, *of("s", "u"))) == []
    # A restart of the broker applies to every subscription of the topic.
    restarted = events(*PUBLISHED, *of("s")[:2], *of("r")[:2], CRASH, *of("s")[3:], *of("r")[3:])
    assert [each.subscription for each in check_history(restarted)] == ["s", "r"]


def test_a_part_of_a_batch_is_not_the_entry() -> None:
    assert broken(got(0), said("ack", 0, batch_index=0, batch_size=2), said("nack", 0), got(0)) == []
    cumulative = said("ack_cumulative", 1, batch_index=0, batch_size=2)
    assert broken(got(0), got(1), cumulative, got(1)) == []
    assert broken(got(0), got(1), cumulative, got(0)) == AGAIN
    assert broken(got(0), got(1), said("ack_cumulative", 1, ack_set=[2]), got(1)) == []
    # It resets the redelivery count.
    counted = [got(0, redelivery_count=2), said("ack", 0, batch_index=0, batch_size=2), said("nack", 0)]
    assert broken(*counted, got(0)) == []


def test_a_cumulative_acknowledgment_never_goes_back_and_one_in_a_transaction_waits() -> None:
    lines = [got(0), got(1), said("ack_cumulative", 1), said("ack_cumulative", 0)]
    assert broken(*lines, got(1)) == [(Rule.ACKED_AGAIN, 1)]
    assert broken(got(0), said("ack_cumulative", 0, transaction="1:1"), got(0)) == []
    # Skipped messages are no longer pending, and their counts restart.
    assert broken(got(0, redelivery_count=3), said("ack_cumulative", 0), got(0)) == AGAIN
    assert broken(got(0), got(1), said("ack_cumulative", 0), said("nack", 1), got(2)) == [(Rule.OVERTAKEN, 2)]


def test_a_nack_without_a_name_is_of_whoever_has_the_message() -> None:
    nack = {"kind": "nack", "entry_id": 0}
    assert broken(got(0), nack, got(1)) == [(Rule.OVERTAKEN, 1)]
    # No consumer has the message, so nothing is returned.
    assert broken(said("nack", 0), got(1)) == []
    assert broken(got(0), said("ack", 0), said("nack", 0), got(1)) == []


def test_only_a_receipt_says_that_an_acknowledgment_is_durable() -> None:
    acked = [got(0), said("ack", 0)]
    receipt = ANSWERED | {"entry_id": 0}
    assert broken(*acked, receipt, got(0)) == [(Rule.RECEIPT_LOST, 0)]
    assert broken(*acked, receipt | {"detail": "other"}, CRASH, got(0)) == []
    assert broken(*acked, ANSWERED | {"entry_id": 1}, CRASH, got(0)) == []
    # A receipt can precede its acknowledgment.
    assert broken(got(0), receipt, said("ack", 0), CRASH, got(0)) == [(Rule.RECEIPT_LOST, 0)]
    upto = [got(0), got(1), got(2), said("ack_cumulative", 1)]
    assert broken(*upto, ANSWERED | {"entry_id": 1}, CRASH, got(0)) == AGAIN
    assert broken(*upto, ANSWERED | {"entry_id": 0}, CRASH, got(0)) == []
    # A crash voids an acknowledgment without a receipt only once.
    assert broken(*acked, CRASH, got(0), said("ack", 0), receipt, CRASH, got(0)) == [(Rule.RECEIPT_LOST, 0)]


@pytest.mark.parametrize("kind", ["skip", "expire"])
def test_what_the_broker_moved_itself_is_durable(kind: str) -> None:
    assert broken(got(0), got(1), said(kind, 0), CRASH, got(0)) == AGAIN
    assert broken(got(0), got(1), said(kind, 0), got(1)) == []


def test_a_trim_is_of_what_comes_before() -> None:
    assert broken(got(0), got(1), said("trim", 1), got(0)) == AGAIN
    assert broken(got(0), got(1), said("trim", 1), got(1)) == []


def test_a_seek_begins_anew_with_its_position() -> None:
    lines = [got(0, redelivery_count=1), got(1), said("ack", 1), said("seek", 1)]
    assert broken(*lines, got(1), got(2)) == []
    assert broken(*lines, got(0)) == AGAIN
    assert broken(got(2), said("seek", 0), got(0)) == []


def test_a_cleared_backlog_is_everything_that_was_published() -> None:
    assert broken({"kind": "clear_backlog"}, got(3)) == [(Rule.ACKED_AGAIN, 3)]
    assert broken({"kind": "clear_backlog"}, at_rest=True) == []
    assert check_history(events({"kind": "clear_backlog"}, got(0))) == []


def test_redelivery_counts_are_forgotten_with_the_last_consumer_alone() -> None:
    two = [{"kind": "consumer_open", "consumer": "b", "detail": "Key_Shared"}]
    left = {"kind": "consumer_close", "consumer": "b"}
    counted = got(0, redelivery_count=2)
    assert broken(*two, counted, left, got(0)) == [(Rule.COUNT_FELL, 0)]
    assert broken(*two, counted, left, {**left, "consumer": "a"}, got(0)) == []
    assert broken(*two, counted, {"kind": "client_closed"}, got(0)) == []
    # All consumers have left, so the next one that leaves is again the last.
    gone = [{"kind": "client_closed"}, *OPEN, counted, {**left, "consumer": "a"}]
    assert broken(*two, *gone, got(0)) == []


def test_a_consumer_that_leaves_gives_back_its_own_alone() -> None:
    two = {"kind": "consumer_open", "consumer": "b", "detail": "Key_Shared"}
    lines = [two, got(0), got(1) | {"consumer": "b"}]
    for left in ("consumer_close", "redeliver_unacked"):
        # The other consumer has entry 1, so entry 2 overtakes only entry 0.
        found = check_history(events(*PUBLISHED, *OPEN, *lines, {"kind": left, "consumer": "a"}, got(2)))
        assert [each.other for each in found] == [(3, 0)]
        found = check_history(events(*PUBLISHED, *OPEN, *lines, {"kind": left, "consumer": "b"}, got(2)))
        assert [each.other for each in found] == [(3, 1)]
    # A message that another consumer has received since is not returned.
    lines = [two, got(0), got(0) | {"consumer": "b"}, {"kind": "consumer_close", "consumer": "a"}]
    assert broken(*lines, got(1)) == []


def test_a_transaction_acknowledges_when_it_is_committed_and_gives_back_when_it_is_aborted() -> None:
    one, two = (said("ack", number, transaction=f"1:{number}") for number in (0, 1))
    commit, abort = ({"kind": kind, "transaction": "1:0"} for kind in ("commit", "abort"))
    assert broken(got(0), got(1), one, two, commit, got(0), got(1)) == AGAIN
    assert broken(got(0), got(1), one, two, abort, got(2)) == [(Rule.OVERTAKEN, 2)]
    found = check_history(events(*PUBLISHED, *OPEN, got(0), got(1), one, two, abort, got(2)))
    assert [each.other for each in found] == [(3, 0)]
    # A second end changes nothing.
    assert broken(got(0), one, commit, abort, got(1)) == []
    # At rest, a message in an open transaction is not a violation.
    held = [got(0), one, {"kind": "consumer_close", "consumer": "a"}]
    assert (Rule.NEVER_DELIVERED, 0) not in broken(*held, at_rest=True)


def test_what_an_aborted_transaction_published_need_not_come() -> None:
    published = [{**each, "transaction": f"1:{at % 2}"} for at, each in enumerate(PUBLISHED)]
    lines = events(*published, {"kind": "abort", "transaction": "1:1", "subscription": ""}, *OPEN)
    assert [each.position.entry_id for each in check_history(lines, at_rest=True)] == [0, 2]
    # The abort of a subscription concerns its acknowledgments.
    lines = events(*published, *OPEN, {"kind": "abort", "transaction": "1:1"})
    assert len(check_history(lines, at_rest=True)) == 4


def test_after_a_crash_what_may_be_acknowledged_need_not_come_but_may() -> None:
    lines = [got(0), got(1), said("ack", 0), CRASH]
    assert broken(*lines, got(1), got(2), got(3), at_rest=True) == []
    assert broken(*lines, got(0), said("nack", 0), got(1), at_rest=True)[0] == (Rule.OVERTAKEN, 1)
    assert (Rule.NEVER_DELIVERED, 0) in broken(*lines, got(0), said("nack", 0), at_rest=True)
    # A cumulative acknowledgment includes its own entry, and entries whose delivery was not recorded.
    for delivered in ([got(0), got(1)], []):
        lines = [*delivered, said("ack_cumulative", 1), CRASH, got(2), got(3)]
        assert broken(*lines, at_rest=True) == []
    # The consumer's pending messages wait.
    assert broken(got(0), got(1), CRASH, got(2)) == [(Rule.OVERTAKEN, 2)]
    # A graceful unload loses nothing.
    unload = {"kind": "unload"}
    assert broken(got(0), said("ack", 0), unload, got(0)) == AGAIN


def test_what_was_under_way_when_a_client_spoke_breaks_nothing() -> None:
    def found(late_ms: int, acknowledgment: dict[str, Any]) -> list[Rule]:
        lines = (
            got(0, time_ms=0),
            got(1, time_ms=0),
            got(2, time_ms=0),
            said("nack", 0, time_ms=100),
            acknowledgment,
        )
        late = (got(1, time_ms=100 + late_ms), got(2, time_ms=100 + late_ms))
        history = events(*PUBLISHED, *OPEN, *lines, *late)
        return [each.rule for each in check_history(history, in_flight_ms=50)]

    one = said("ack", 2, time_ms=100)
    assert found(49, one) == []
    assert set(found(50, one)) == {Rule.OVERTAKEN, Rule.ACKED_AGAIN}
    all_three = said("ack_cumulative", 2, time_ms=100)
    assert found(49, all_three) == []
    assert set(found(50, all_three)) == {Rule.ACKED_AGAIN}
    # Before the first time, the time is 0.
    for time_ms, rules in ((49, []), (50, [Rule.OVERTAKEN])):
        history = events(*PUBLISHED, *OPEN, got(0), said("nack", 0), got(1, time_ms=time_ms))
        assert [each.rule for each in check_history(history, in_flight_ms=50)] == rules


def test_a_client_that_closed_counts_for_nobody_that_comes_after_it() -> None:
    b = {"kind": "consumer_open", "consumer": "b", "detail": "Key_Shared"}
    counted = got(0, redelivery_count=2)
    left = {"kind": "consumer_close", "consumer": "b"}
    assert broken({"kind": "client_closed"}, *OPEN, b, counted, left, got(0)) == [(Rule.COUNT_FELL, 0)]


def test_what_an_abort_gives_back_and_was_acknowledged_meanwhile_does_not_wait() -> None:
    held = [got(0), said("ack", 0, transaction="1:1"), said("ack", 0)]
    assert broken(*held, {"kind": "abort", "transaction": "1:1"}, got(1)) == []


def test_what_one_crash_may_have_lost_the_next_one_does_not() -> None:
    again = [got(0), said("ack", 0, transaction="1:1"), {"kind": "commit", "transaction": "1:1"}]
    assert broken(got(0), said("ack", 0), CRASH, *again, CRASH, got(0)) == AGAIN


def test_what_was_never_published_need_not_come() -> None:
    whole = [got(entry_id) for entry_id in range(4)]
    for kind in ("seek", "skip", "trim", "result"):
        assert not any(
            position > 3 for _, position in broken({"kind": kind, "entry_id": 9}, *whole, at_rest=True)
        )


def test_keys_of_deliveries_are_used_if_the_events_of_publishing_have_none() -> None:
    published = [{name: value for name, value in each.items() if name != "key"} for each in PUBLISHED]

    def found(*lines: dict[str, Any]) -> list[tuple[Rule, int]]:
        keyed = [{**each, "key": "k"} if each["kind"] == "dispatch" else each for each in lines]
        return [
            (each.rule, each.position.entry_id) for each in check_history(events(*published, *OPEN, *keyed))
        ]

    assert found(got(0), said("nack", 0), got(1)) == [(Rule.OVERTAKEN, 1)]
    assert found(got(1), got(0)) == [(Rule.OUT_OF_ORDER, 0)]
    assert found(got(0), said("nack", 0), got(0), got(1)) == []
    # The later event of publishing may have the key.
    lines = [*OPEN, got(0), said("nack", 0), *PUBLISHED, got(0), said("nack", 0), got(1)]
    assert [each.rule for each in check_history(events(*lines))] == [Rule.OVERTAKEN]
    # A key in the event of publishing is not replaced.
    other = [{**each, "key": f"k{each['entry_id']}"} for each in published]
    lines = [got(0, key="x"), said("nack", 0), got(1, key="x")]
    assert check_history(events(*other, *OPEN, *lines)) == []


def test_an_acknowledged_message_has_no_redelivery_count() -> None:
    again = [got(0, redelivery_count=1), said("ack", 0), got(0)]
    assert broken(*again) == AGAIN


def test_an_event_without_an_entry_has_no_position() -> None:
    ledger_only = [Event("t", "s", 9, kind, ledger_id=3) for kind in (Kind.SEEK, Kind.DISPATCH, Kind.ACK)]
    entry_only = [each._replace(ledger_id=None, entry_id=0) for each in ledger_only]
    assert check_history([*events(*PUBLISHED, *OPEN), *ledger_only, *entry_only]) == []
