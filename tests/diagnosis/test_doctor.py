"""The doctor: verdicts, numbers, and remedies that were tried out."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Ledgers, Position, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.codes import codes
from ackwell.broker.stats import SubscriptionStats, parse_stats
from ackwell.broker.writes import Restart
from ackwell.diagnosis.checkup import Checkup, JudgedBroker
from ackwell.diagnosis.doctor import Verdict, diagnose
from ackwell.diagnosis.limits import RANGE_LIMIT
from ackwell.diagnosis.prometheus import prometheus_text
from ackwell.errors import StatsError
from tests.broker.answers import answer, holes, subscription
from tests.broker.test_stats import stats

if TYPE_CHECKING:
    from ackwell.broker.dispatch import DispatchStats
    from ackwell.broker.writes import CursorLedger, Restart

RANGES_FORM = BrokerSettings.of("4.0")
GRACEFUL: tuple[Restart, ...] = ("graceful",)


def test_a_small_state_is_fine() -> None:
    found = diagnose(subscription(holes(5)), restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost, found.reasons, found.remedies) == (
        Verdict.FINE,
        Bounds(0, 0),
        (),
        (),
    )


def test_a_crash_before_the_last_acks_are_written_is_unproven_with_the_same_bound_everywhere() -> None:
    found = diagnose(subscription(holes(5)))
    assert found.verdict is Verdict.UNPROVEN
    crash = found.to_json()["restarts"]["crash"]
    assert crash["ackedMessagesLostBeforeFlush"] == {"min": 0, "max": 5, "exact": False}
    assert found.messages_lost == Bounds(0, 5)


def batches(messages: int, **changes: Any) -> SubscriptionStats:
    """100 entries of `messages` in all, and no word of which messages inside them are acknowledged."""
    told = answer("[]", entries=100)
    told["stats"] = stats(messages) | changes
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    return found


def test_hidden_acks_inside_batches_are_unproven_with_an_interval() -> None:
    found = diagnose(batches(1_000), restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost) == (Verdict.UNPROVEN, Bounds(0, 800))
    assert [reason.code for reason in found.reasons] == ["batch-index-hidden"]
    unproven = diagnose(batches(0), restarts=GRACEFUL)
    assert (unproven.verdict, unproven.messages_lost) == (Verdict.UNPROVEN, Bounds(0, None))


def test_nothing_is_hidden_in_a_backlog_that_the_broker_counted_without_a_batch() -> None:
    told = answer("[]", entries=100)
    told["stats"] = stats(1_000)
    for messages, most in ((200, 0), (230, 30)):
        counted = {"entries": 200, "messages": messages, "aborted": False}
        (found,) = parse_stats(json.dumps({**told, "backlogs": {"sub": counted}}).encode(), "answer.json")
        assert diagnose(found, restarts=GRACEFUL).messages_lost == Bounds(0, most)
    # A count that was cut off, or is of another moment, says nothing.
    for changes in ({"aborted": True}, {"entries": 199}):
        counted = {"entries": 200, "messages": 200, "aborted": False, **changes}
        (found,) = parse_stats(json.dumps({**told, "backlogs": {"sub": counted}}).encode(), "answer.json")
        assert diagnose(found, restarts=GRACEFUL).messages_lost == Bounds(0, 800)


def test_nothing_is_hidden_of_a_subscription_that_nobody_used_since_it_was_loaded() -> None:
    told = answer("[]", entries=100)
    told["stats"] = stats(1_000)
    told["stats"]["subscriptions"] = {"sub": {"type": "None", "consumers": []}}
    told["internalStats"]["cursors"]["sub"] |= {"state": "NoLedger", "cursorLedger": -1}
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    assert diagnose(found).verdict is Verdict.FINE
    # 5.0 read ack sets from the metadata store. A crash leaves them there; a close may write fewer of them.
    limited = BrokerSettings.of("5.0.1").with_values(["managedLedgerMaxBatchDeletedIndexToPersist=1"])
    assert diagnose(found, limited, restarts=("crash",)).verdict is Verdict.FINE
    assert diagnose(found, limited, restarts=GRACEFUL).verdict is Verdict.UNPROVEN
    told["internalStats"]["cursors"]["sub"]["cursorLedger"] = 7
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    # What its ledger holds is there after a crash, and a close does not write there.
    assert diagnose(found, restarts=("crash",)).verdict is Verdict.FINE
    assert diagnose(found, restarts=GRACEFUL).verdict is Verdict.UNPROVEN
    told["internalStats"]["cursors"]["sub"]["cursorLedger"] = -1
    told["stats"]["subscriptions"]["sub"]["type"] = "Shared"
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    assert diagnose(found).verdict is Verdict.UNPROVEN


def test_acks_of_which_no_whole_entry_shows_are_a_risk() -> None:
    told = answer("[]", entries=100)
    told["stats"] = stats(1_000)
    consumer = {"consumerName": "a", "unackedMessages": 900, "lastAckedTimestamp": 5}
    told["stats"]["subscriptions"] = {"sub": {"type": "Shared", "consumers": [consumer]}}
    told["internalStats"]["cursors"]["sub"] |= {"state": "NoLedger", "cursorLedger": -1}
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    assert diagnose(found).verdict is Verdict.AT_RISK


def test_what_comes_back_never_exceeds_what_can_have_been_acknowledged() -> None:
    told = answer(holes(40), entries=100)
    told["stats"] = stats(1_000)
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    crash = diagnose(found, restarts=("crash",)).messages_lost
    # Each of the 160 other entries has a message that is not acknowledged.
    assert crash == Bounds(0, 840)


def test_a_cursor_that_is_the_same_in_two_dumps_is_written() -> None:
    before, now = quiet(10_000), quiet(199_000)
    before = replace(before, time_ms=78_999, dispatch=replace_consumers(before))
    now = replace(now, dispatch=replace_consumers(now))
    assert diagnose(now, before=before).messages_lost == Bounds(0, 0)
    assert diagnose(now, before=replace(before, time_ms=79_000)).messages_lost == Bounds(0, 5)
    moved = replace(before, mark_delete_position=Position(3, -1), individually_deleted=PositionRangeSet())
    assert diagnose(now, before=moved).messages_lost == Bounds(0, 5)


def replace_consumers(told: SubscriptionStats) -> DispatchStats:
    assert told.dispatch is not None
    return replace(told.dispatch, consumers=(), consumed=40)


def test_nothing_is_hidden_where_each_entry_is_one_message_or_batch_indexes_are_off() -> None:
    assert diagnose(batches(200), restarts=GRACEFUL).verdict is Verdict.FINE
    assert diagnose(batches(1_000), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.FINE


def test_a_mean_of_messages_in_an_entry_never_makes_a_number_exact() -> None:
    told = answer(holes(12_000))
    told["stats"] = stats(1_000_000, average=10)
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    lost = diagnose(found, RANGES_FORM, restarts=GRACEFUL).messages_lost
    assert lost == Bounds(1_999, 1_000_000 - (200_000 - 1_999))


def test_ack_sets_at_or_below_the_mark_delete_position_are_not_lost() -> None:
    memory = {"name": "sub", "batchDeletedIndexes": {"3:0": [1], "3:6": [1]}}
    told = subscription("[(3:5..3:6]]", **memory)
    found = diagnose(replace(told, mark_delete_position=Position(3, 2)), restarts=GRACEFUL)
    assert found.messages_lost == Bounds(0, 0)


def test_a_broker_of_5_0_keeps_exactly_the_limit() -> None:
    ranges_form = (
        "managedLedgerPersistIndividualAckAsLongArray=false",
        "managedLedgerMaxUnackedRangesToPersist=10000",
    )
    lost = [
        diagnose(
            subscription(holes(10_001)),
            BrokerSettings.of(version).with_values(ranges_form),
            restarts=GRACEFUL,
        ).messages_lost
        for version in ("4.2", "5.0.0-M1", "5.0")
    ]
    assert lost == [Bounds(0, 0), Bounds(1, 1), Bounds(1, 1)]


def test_the_long_array_form_of_5_0_counts_the_last_ledger_too() -> None:
    """Four ledgers of 5,000 entries, every second one acknowledged: 10,000 acknowledged entries."""
    found = {}
    for version in ("5.0.0-M1", "5.0.1"):
        limits = [
            "managedLedgerMaxUnackedRangesToPersist=8000",
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore=1",
        ]
        ranges = PositionRangeSet(
            [(ledger, entry, entry + 1) for ledger in range(3, 7) for entry in range(0, 5_000, 2)]
        )
        told = replace(
            subscription(holes(1)),
            individually_deleted=ranges,
            ledgers=Ledgers([(ledger, 5_000) for ledger in range(3, 8)]),
        )
        settings = BrokerSettings.of(version).with_values(limits)
        found[version] = diagnose(told, settings, restarts=GRACEFUL)
    assert [each.usage[0].used for each in found.values()] == [7_500, 10_000]
    assert found["5.0.0-M1"].verdict is Verdict.AT_RISK
    assert found["5.0.1"].verdict is Verdict.LOSING
    (setting,) = found["5.0.1"].remedies[0].settings
    assert setting == "managedLedgerMaxUnackedRangesToPersist=20000"


def test_a_share_of_the_limit_of_5_0_names_the_last_ledger() -> None:
    told = replace(
        subscription(holes(1)),
        individually_deleted=PositionRangeSet(
            [(ledger, entry, entry + 1) for ledger in (3, 4) for entry in range(0, 5_000, 2)]
        ),
    )
    limits = [
        "managedLedgerMaxUnackedRangesToPersist=5200",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore=1",
    ]
    found = diagnose(told, BrokerSettings.of("5.0.1").with_values(limits), restarts=GRACEFUL)
    assert found.verdict is Verdict.AT_RISK
    assert any(
        "after 201 more acknowledged entries, the 2,500 of ledger 4 are lost" in each for each in found.notes
    )


def test_past_the_limit_it_loses_and_names_settings_that_mend_it() -> None:
    found = diagnose(subscription(holes(12_000)), RANGES_FORM, restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost.exact) == (Verdict.LOSING, 1_999)
    assert found.reasons[0].issues == ("apache/pulsar#25540", "apache/pulsar#25548")
    changed = RANGES_FORM.with_values(found.remedies[0].settings)
    assert diagnose(found.stats, changed, restarts=GRACEFUL).messages_lost == Bounds(0, 0)


def test_near_the_limit_it_is_at_risk() -> None:
    assert diagnose(subscription(holes(7_000)), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.FINE
    assert diagnose(subscription(holes(9_000)), RANGES_FORM, restarts=GRACEFUL).verdict is Verdict.AT_RISK


def test_the_worse_of_both_restarts_counts() -> None:
    two_ledgers = "[(3:0..3:20000],(4:-1..4:4999]]"
    found = diagnose(subscription(two_ledgers))
    assert {loss.restart: loss.messages.exact for loss in found.restarts} == {"graceful": 0, "crash": 5_000}
    assert found.messages_lost == Bounds(5_000, 25_000)
    assert found.reasons
    assert found.reasons == diagnose(subscription(two_ledgers), restarts=("crash",)).reasons
    assert diagnose(subscription(two_ledgers), restarts=("graceful",)).messages_lost.exact == 0


def test_the_limit_counts_the_entries_before_the_last_ledger() -> None:
    usage = diagnose(subscription("[(3:0..3:20],(4:-1..4:4]]")).usage[0]
    assert (usage.what, usage.used) == ("acknowledged entries before the last ledger", 20)


@pytest.mark.parametrize("version", ["4.0", "4.2", "5.0.0-M1", "5.0.1"])
@pytest.mark.parametrize("limit", [-1, 0, 5, 40])
def test_a_limit_that_loses_acknowledgments_is_used_to_more_than_its_whole(version: str, limit: int) -> None:
    ledgers: tuple[CursorLedger, ...] = ("open", "read-only", "none")
    lost = 0
    for ledger, in_metadata_store, later, count in product(ledgers, (3, 100), (False, True), (6, 41, 50)):
        settings = BrokerSettings.of(version).with_values(
            [
                f"managedLedgerMaxUnackedRangesToPersist={limit}",
                f"managedLedgerMaxUnackedRangesToPersistInMetadataStore={in_metadata_store}",
            ]
        )
        told = replace(subscription(holes(count)), cursor_ledger=ledger)
        found = diagnose(told, settings, restarts=GRACEFUL, later=[settings] if later else [])
        (usage,) = (each for each in found.usage if each.setting == RANGE_LIMIT)
        if {each.code for each in found.reasons} & {"range-limit", "entry-limit"}:
            lost += 1
            assert usage.share > 1, (ledger, in_metadata_store, later, count, usage)
    assert lost
    broker = JudgedBroker(version=version, settings=settings, source="the test")
    text = prometheus_text(Checkup(diagnoses=(found,), histories={}, unread=(), broker=broker))
    ratio = "+Inf" if usage.limit <= 0 else repr(usage.used / usage.limit)
    assert f'setting="{RANGE_LIMIT}"}} {ratio}\n' in text


def test_batch_indexes_are_counted_where_the_source_has_them() -> None:
    memory = {"name": "sub", "batchDeletedIndexes": {"3:0": [33], "3:1": [33]}}
    told = subscription("[(3:5..3:6]]", **memory)
    found = diagnose(replace(told, batch_sizes=replace(told.batch_sizes, each=10)))
    assert found.messages_lost.exact == 16
    assert {each.code for each in found.reasons} == {"batch-index-not-read-back", "write-not-confirmed"}
    assert found.remedies[0].settings == ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",)


def test_a_release_that_reads_batch_indexes_back_is_a_line_of_the_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ackwell.broker import broker_settings

    name = "batch-index-not-read-back"
    changed = {**codes(), name: replace(codes()[name], fixed_in=("4.2.9",))}
    monkeypatch.setattr(broker_settings, "codes", lambda: changed)
    told = subscription("[(3:5..3:6]]", name="sub", batchDeletedIndexes={"3:0": [33]})
    told = replace(told, batch_sizes=replace(told.batch_sizes, each=10))
    lost = {
        version: diagnose(told, BrokerSettings.nearest(version), restarts=GRACEFUL).messages_lost.exact
        for version in ("4.2.8", "4.2.9", "4.3.0", "5.0.1")
    }
    assert lost == {"4.2.8": 8, "4.2.9": 0, "4.3.0": 8, "5.0.1": 8}


def test_an_unknown_batch_size_gives_an_interval_and_says_why() -> None:
    told = subscription(holes(12_000))
    found = diagnose(replace(told, batch_sizes=replace(told.batch_sizes, each=None)), RANGES_FORM)
    assert found.to_json()["ackedMessagesLostOnRestart"] == {"min": 1_999, "max": None, "exact": False}
    assert "interval" in found.notes[0]


def test_a_reader_keeps_its_own_place() -> None:
    found = diagnose(replace(subscription(holes(12_000)), durable=False), RANGES_FORM)
    assert (found.verdict, found.messages_lost) == (Verdict.FINE, Bounds(0, 0))


def test_the_oldest_unacknowledged_entry_is_the_one_after_the_mark_delete_position() -> None:
    from ackwell.diagnosis.holes import oldest_unacked

    assert oldest_unacked(subscription(holes(3))) == Position(3, 0)
    everything = replace(
        subscription("[]"), mark_delete_position=Position(4, 99_999), individually_deleted=PositionRangeSet()
    )
    assert oldest_unacked(everything) is None


_MOST = 2**63 - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"markDeletePosition": text}
        for text in ("-1:-1", f"{_MOST}:{_MOST}", f"{_MOST + 5}:3", f"3:{_MOST}", "x", None, 7, "-3:0")
    ]
    + [
        {"individuallyDeletedMessages": text}
        for text in (f"[(3:0..3:{_MOST}]]", "[(3:5..3:2]]", "[(9:0..9:1]]", None, "[(3:-5..3:0]]")
    ]
    + [
        {"ledgers": ledgers}
        for ledgers in (
            [{"ledgerId": 3, "entries": -5}],
            [{"ledgerId": 3, "entries": _MOST}, {"ledgerId": 4, "entries": _MOST}],
            [{"ledgerId": "a", "entries": 1}],
            [1],
            None,
            [],
        )
    ]
    + [{"lastConfirmedEntry": text} for text in (f"4:{_MOST}", f"4:{_MOST + 1}", None)]
    + [{"entriesAddedCounter": None}, {"numberOfEntries": "x"}, {"cursorLedger": "x"}],
)
def test_an_odd_answer_is_judged_or_refused_by_name_and_never_a_traceback(changes: dict[str, Any]) -> None:
    told = answer(holes(3))
    internal = told["internalStats"]
    for name, value in changes.items():
        (internal["cursors"]["sub"] if name in internal["cursors"]["sub"] else internal)[name] = value
    refusal = None
    try:
        for found in parse_stats(json.dumps(told).encode(), "answer.json"):
            diagnose(found).to_json()
    except StatsError as error:
        refusal = error
    assert refusal is None or (refusal.source == "answer.json" and "\n" not in str(refusal))


def test_a_cursor_that_was_never_used_is_before_the_first_entry() -> None:
    told = answer("[]")
    told["internalStats"]["cursors"]["sub"]["markDeletePosition"] = "-1:-1"
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    assert found.mark_delete_position == Position(3, -1)
    assert found.backlog_entries == 200_000


def test_the_worst_case_begins_at_the_position_on_disk() -> None:
    told = replace(subscription("[(3:9..3:10]]"), mark_delete_position=Position(3, 7))
    for persisted, most in ((None, 8 + 1), (Position(3, 5), 2 + 1), (Position(3, 7), 1)):
        found = diagnose(replace(told, persisted_mark_delete=persisted), restarts=("crash",))
        assert found.messages_lost == Bounds(0, most)


def test_a_loss_without_a_bound_is_worse_than_none() -> None:
    told = subscription(holes(5))
    unproven = replace(told, batch_sizes=BatchSizes(each=None))
    found = diagnose(unproven, RANGES_FORM)
    assert [loss.messages_before_flush for loss in found.restarts] == [Bounds(0, 0), Bounds(0, None)]
    assert found.messages_lost == Bounds(0, None)


def test_a_limit_that_counts_entries_is_raised_above_the_entries_and_not_the_ranges() -> None:
    found = diagnose(subscription("[(3:0..3:20000],(4:-1..4:4999]]"), restarts=("crash",))
    changed = BrokerSettings().with_values(found.remedies[0].settings)
    assert diagnose(found.stats, changed, restarts=("crash",)).messages_lost.at_least == 0


def test_hidden_acks_are_kept_by_closing_to_the_cursor_ledger() -> None:
    told = answer("[(3:0..3:1]]", entries=100)
    told["stats"] = stats(1_000)
    (hidden,) = parse_stats(json.dumps(told).encode(), "answer.json")
    found = diagnose(hidden, restarts=GRACEFUL)
    assert [reason.code for reason in found.reasons] == ["batch-index-hidden"]
    assert found.remedies[0].settings == ("managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",)


def test_a_remedy_is_tried_on_the_restarts_that_are_judged_and_on_no_other() -> None:
    # A crash keeps the ack set, and a graceful restart, which is not asked for, loses it.
    told = subscription("[(3:0..3:20],(4:-1..4:4]]", name="sub", batchDeletedIndexes={"3:30": [1]})
    settings = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=10"])
    found = diagnose(told, settings, restarts=("crash",))
    assert found.remedies[0].settings == ("managedLedgerMaxUnackedRangesToPersist=50",)
    assert "no acknowledgment is lost" in found.remedies[0].text


def test_batches_lost_in_part_are_an_interval_that_is_said_to_be_one() -> None:
    told = subscription("[(3:5..3:6]]", name="sub", batchDeletedIndexes={"3:0": [1]})
    found = diagnose(replace(told, batch_sizes=BatchSizes(each=None)), restarts=GRACEFUL)
    assert [(loss.entries, loss.partial_entries) for loss in found.restarts] == [(0, 1)]
    assert "interval" in found.notes[0]


def quiet(last_acked_ms: int, *, out: int = 5) -> SubscriptionStats:
    """A dump at 200 s of a subscription with five holes; its consumer acknowledged at `last_acked_ms`."""
    told = answer(holes(5)) | {"t": 200_000}
    consumer = {"consumerName": "a", "msgOutCounter": 5, "lastAckedTimestamp": last_acked_ms}
    shown = {"type": "Shared", "msgBacklog": 9, "msgOutCounter": out, "consumers": [consumer]}
    told["stats"]["subscriptions"] = {"sub": shown}
    (found,) = parse_stats(json.dumps(told).encode(), "answer.json")
    return found


@pytest.mark.parametrize(
    ("values", "age_ms"),
    [
        ({}, 121_000),
        ({"bookkeeperClientTimeoutInSeconds": 5}, 71_000),
        ({"managedLedgerCursorPositionFlushSeconds": 2}, 63_000),
        ({"managedLedgerDefaultMarkDeleteRateLimit": "0.1"}, 130_000),
        ({"managedLedgerDefaultMarkDeleteRateLimit": 0}, 121_000),
        ({"managedLedgerDefaultMarkDeleteRateLimit": 10.0}, 121_000),
    ],
)
def test_an_acknowledgment_is_written_after_the_flush_interval_and_two_timeouts_of_the_bookies(
    values: dict[str, object], age_ms: int
) -> None:
    settings = BrokerSettings().with_values(f"{name}={value}" for name, value in values.items())
    written = diagnose(quiet(200_000 - age_ms - 1), settings, restarts=("crash",))
    assert (written.verdict, written.messages_lost, written.reasons) == (Verdict.FINE, Bounds(0, 0), ())
    waiting = diagnose(quiet(200_000 - age_ms), settings, restarts=("crash",))
    assert (waiting.verdict, waiting.messages_lost) == (Verdict.UNPROVEN, Bounds(0, 5))
    (reason,) = waiting.reasons
    assert reason.code == "write-not-confirmed"
    assert f"is {age_ms // 1_000} s old, and its write is proven after {age_ms // 1_000} s" in reason.text
    assert diagnose(quiet(200_000 - age_ms), settings, restarts=GRACEFUL).verdict is Verdict.FINE


def test_an_unknown_timeout_of_the_bookies_does_not_prove_a_write() -> None:
    name = "bookkeeperClientTimeoutInSeconds"
    found = diagnose(quiet(70_000), restarts=("crash",), assumed=(name,))
    assert (found.verdict, found.messages_lost) == (Verdict.UNPROVEN, Bounds(0, 5))
    assert f"{name} ≤ 34; the default is 30" in found.reasons[-1].text
    stated = BrokerSettings().with_values([f"{name}=34"])
    assert diagnose(quiet(70_000), stated, restarts=("crash",)).messages_lost == Bounds(0, 0)
    above = BrokerSettings().with_values([f"{name}=35"])
    assert diagnose(quiet(70_000), above, restarts=("crash",)).messages_lost == Bounds(0, 5)


@pytest.mark.parametrize(("standby_acked_ms", "most"), [(0, 0), (None, 5), (150_000, 5)])
def test_a_consumer_that_acknowledged_nothing_does_not_hide_the_last_acknowledgment(
    standby_acked_ms: int | None, most: int
) -> None:
    found = quiet(70_000)
    assert found.dispatch is not None
    (active,) = found.dispatch.consumers
    standby = replace(active, name="b", messages_out=0, last_acked_ms=standby_acked_ms)
    both = replace(found, dispatch=replace(found.dispatch, consumers=(active, standby)))
    assert diagnose(both, restarts=("crash",)).messages_lost == Bounds(0, most)
    none = tuple(replace(each, last_acked_ms=0) for each in (active, standby))
    idle = replace(found, dispatch=replace(found.dispatch, consumers=none))
    assert diagnose(idle, restarts=("crash",)).messages_lost == Bounds(0, 5)


def test_a_limit_is_raised_without_a_loss_if_every_acknowledgment_is_written() -> None:
    limited = RANGES_FORM.with_values(["managedLedgerMaxUnackedRangesToPersist=5"])
    found = diagnose(quiet(70_000), limited)
    assert (found.verdict, found.messages_lost) == (Verdict.AT_RISK, Bounds(0, 0))
    raised, *others = [remedy.text for remedy in found.remedies]
    assert raised.endswith("and loses nothing now")
    assert not any("ackwell rescue" in text for text in others)
    (raised, through, *_) = [remedy.text for remedy in diagnose(quiet(150_000), limited).remedies]
    assert raised.endswith("and may lose acknowledgments")
    assert "ackwell rescue" in through


def test_a_consumer_that_left_may_have_acknowledged_last() -> None:
    assert diagnose(quiet(70_000, out=6)).messages_lost == Bounds(0, 5)


def test_what_was_acknowledged_since_an_older_dump_bounds_a_crash() -> None:
    before, now = quiet(10_000), quiet(199_000)
    assert before.dispatch is not None
    assert now.dispatch is not None
    before = replace(before, time_ms=78_999, dispatch=replace(before.dispatch, consumed=40))
    now = replace(now, dispatch=replace(now.dispatch, consumed=42))
    assert diagnose(now, before=before).messages_lost == Bounds(0, 2)
    assert diagnose(now, before=replace(before, time_ms=79_000)).messages_lost == Bounds(0, 5)
    limited = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=6"])
    assert diagnose(now, limited, before=before, restarts=("crash",)).messages_lost == Bounds(0, 5)


def test_before_the_cliff_it_says_what_is_forgotten_then_and_what_helps() -> None:
    found = diagnose(subscription("[(3:0..3:10000],(4:-1..4:2499]]"), restarts=GRACEFUL)
    assert (found.verdict, found.messages_lost) == (Verdict.AT_RISK, Bounds(0, 0))
    assert "used to 100%" in found.notes[0]
    assert "the 2,500 of that ledger and of all later ones are lost" in found.notes[0]
    assert "When the open ledger rolls over" in found.notes[0]
    assert found.remedies[0].settings == ("managedLedgerMaxUnackedRangesToPersist=20000",)
    beyond = diagnose(subscription("[(3:0..3:10001],(4:-1..4:2499]]"), restarts=("crash",))
    assert beyond.messages_lost.at_least == 2_500


def dated(day: int, ranges: int) -> SubscriptionStats:
    return replace(subscription(holes(ranges)), time_ms=1_795_000_000_000 + day * 86_400_000)


def test_dumps_of_several_days_say_when_a_limit_is_reached() -> None:
    found = Checkup.of(
        [dated(0, 1_000), dated(1, 2_000), dated(2, 3_000)], JudgedBroker.of("4.0", others_are_defaults=True)
    )
    notes = found.diagnoses[0].notes
    # 1,000 ranges more a day, and 7,001 left on 2026-11-20.
    limit = "managedLedgerMaxUnackedRangesToPersist: at the rate since Wednesday, 2026-11-18 11:06 UTC"
    assert f"{limit} its limit is reached on Friday, 2026-11-27 11:08 UTC" in notes
    assert any(note.startswith("the mark-delete position has not moved since") for note in notes)
    assert any(note.startswith("the number of ranges grew by 2,000 since") for note in notes)
    # With an open cursor ledger, 4.2 counts entries, and with one that is only read, ranges.
    loaded = replace(dated(2, 3_000), cursor_ledger="read-only")
    judged = JudgedBroker.of("4.2", others_are_defaults=True)
    found = Checkup.of([dated(0, 1_000), loaded], judged)
    assert [each.usage[0].what for each in found.diagnoses] == ["ranges"]
    assert not any(note.startswith("managedLedgerMaxUnackedRanges") for note in found.diagnoses[0].notes)


def test_dumps_a_moment_apart_are_no_trend() -> None:
    now = dated(0, 2_000)
    before = replace(dated(0, 1_000), time_ms=now.time_ms - 60_000 if now.time_ms else 0)
    notes = Checkup.of([before, now], JudgedBroker.of("4.0", others_are_defaults=True)).diagnoses[0].notes
    assert not any("since" in note for note in notes)


def test_properties_that_an_unreadable_cursor_ledger_cost_are_named_between_two_dumps() -> None:
    before = replace(subscription(holes(3)), properties={"CompactedTopicLedger": 17})
    before = replace(before, mark_delete_position=Position(3, 5), individually_deleted=PositionRangeSet())
    back = replace(before, mark_delete_position=Position(3, 2), properties={})
    (note,) = (each for each in diagnose(back, before=before).notes if "26483" in each)
    assert "went back from 3:5 to 3:2" in note
    assert "CompactedTopicLedger" in note
    assert all(issue in note for issue in codes()["properties-discarded"].issues)
    onward = replace(before, mark_delete_position=Position(3, 9), properties={})
    for now, then in ((onward, before), (before, before), (back, back), (back, None)):
        assert not any("26483" in each for each in diagnose(now, before=then).notes)


def test_a_verdict_that_a_load_of_the_topic_made_worse_is_explained() -> None:
    before = replace(
        subscription(holes(1_500), batchDeletedIndexes={"3:0": [1]}), batch_sizes=BatchSizes(each=10)
    )
    loaded = replace(before, cursor_ledger="read-only")
    found = []
    cases: list[tuple[SubscriptionStats, Restart]] = [
        (before, "graceful"),
        (loaded, "graceful"),
        (loaded, "crash"),
    ]
    for now, restart in cases:
        diagnosis = diagnose(now, BrokerSettings.of("4.2.4"), restarts=(restart,))
        found.append([each for each in diagnosis.notes if "since the topic was loaded" in each])
    assert list(map(len, found)) == [0, 1, 0]
    assert found[1][0].endswith("a graceful restart redelivers 0")
