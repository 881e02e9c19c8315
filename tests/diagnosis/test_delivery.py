"""The second verdict, on subscriptions of real brokers that delivered nothing, for reasons made on purpose.

`tests/vectors/stalls.jsonl.gz` has a line for each cause and version: two dumps a moment apart, recorded with
`python -m tests.pulsar.stalls.record`.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.codes import codes
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.diagnosis.delivery import (
    BY_DESIGN,
    DeliveryDiagnosis,
    DeliveryFacts,
    DeliveryVerdict,
    delivery_of,
)
from ackwell.releases import RELEASES
from tests.broker.answers import answer
from tests.commands import command
from tests.diagnosis.test_doctor_lives import recorded as lives

RECORDED = Path(__file__).parents[1] / "vectors" / "stalls.jsonl.gz"


@cache
def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def subscription_of(dump: dict[str, Any]) -> SubscriptionStats:
    (found,) = from_answer(dump, "topic", "dump")
    assert isinstance(found, SubscriptionStats), found
    return found


def judged(case: dict[str, Any], *, dumps: int = 2) -> DeliveryDiagnosis:
    values = [f"{name}={value}" for name, value in case["settings"].items()]
    settings = BrokerSettings.of(case["version"]).with_values(values)
    before, now = map(subscription_of, case["answers"])
    return delivery_of(now, settings, before if dumps == 2 else None, version=case["version"])


def test_every_recorded_cause_is_named() -> None:
    wrong = {
        (case["version"], case["name"]): found.code.code
        for case in recorded()
        if (found := judged(case)).code.code != case["code"]
    }
    assert not wrong
    named = {(case["version"], case["code"]) for case in recorded()}
    versions = {version for version, _ in named}
    assert versions == set(RELEASES)
    for version in versions:
        assert len({code for of, code in named if of == version}) >= 14
    # Every scene was made on every version.
    assert len(recorded()) == len(versions) * len({case["name"] for case in recorded()})


def test_one_dump_never_says_stalled() -> None:
    verdicts = {judged(case, dumps=1).verdict for case in recorded()}
    assert DeliveryVerdict.STALLED not in verdicts
    assert {DeliveryVerdict.WAITING, DeliveryVerdict.IDLE, DeliveryVerdict.CANNOT_TELL} <= verdicts


def test_one_dump_of_a_stall_names_what_it_looks_like() -> None:
    cases = [case for case in recorded() if judged(case).verdict is DeliveryVerdict.STALLED]
    assert cases
    for case in cases:
        found = judged(case, dumps=1)
        assert found.suspected is not None
        assert (found.code.code, found.suspected.code) == ("second-dump", case["code"])


def test_every_condition_of_a_defect_is_a_fact_and_every_reason_has_a_code() -> None:
    now = subscription_of(recorded()[0]["answers"][1])
    assert now.dispatch is not None
    facts = DeliveryFacts(now, now.dispatch, BrokerSettings(), still=True)
    defects = [code for code in codes().values() if code.when]
    assert len(defects) >= 10
    for defect in defects:
        assert defect.verdict == "stalled"
        for condition in defect.when:
            assert isinstance(getattr(facts, condition.removeprefix("!")), bool), condition
    assert set(BY_DESIGN.values()) <= codes().keys()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"unackedMessages": -3}, "unacked-negative"),
        ({"blockedSubscriptionOnUnackedMsgs": True}, "blocked-flag-left"),
        ({"availablePermits": -70}, "total-permits-negative"),
        (
            {"consumers": [{"consumerName": "a", "availablePermits": -1, "unackedMessages": 0}]},
            "permits-lost",
        ),
        ({"msgInReplay": 3}, "replay-not-read"),
        (
            {
                "type": "Key_Shared",
                "msgInReplay": 3,
                "msgDelayed": 2,
                "consumers": [
                    {
                        "consumerName": "a",
                        "availablePermits": 100,
                        "unackedMessages": 0,
                        "drainingHashesCount": 0,
                    }
                ],
            },
            "look-ahead-parked",
        ),
    ],
)
def test_the_numbers_of_a_defect_have_its_code(changes: dict[str, Any], code: str) -> None:
    dump = told({"pendingReadOps": 1}, **changes)
    found = delivery_of(subscription_of(dump), BrokerSettings(), subscription_of(dump))
    assert (found.verdict, found.code.code) == (DeliveryVerdict.STALLED, code)


def told(cursor: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A Shared subscription whose consumer has permits, and nothing moves."""
    dump = answer("[]", entries=10)
    consumer = {"consumerName": "a", "availablePermits": 100, "unackedMessages": 0}
    shown = {"type": "Shared", "msgBacklog": 10, "msgInReplay": 0, "consumers": [consumer], **changes}
    dump["stats"]["subscriptions"] = {"sub": shown}
    dump["internalStats"]["cursors"]["sub"] |= {
        "readPosition": "3:0",
        "waitingReadOp": False,
        "pendingReadOps": 0,
        "subscriptionHavePendingRead": True,
        "state": "Open",
        **(cursor or {}),
    }
    return dump


def test_a_read_that_the_dispatcher_believes_in_and_the_cursor_has_not_is_lost() -> None:
    found = delivery_of(subscription_of(told()), BrokerSettings(), subscription_of(told()))
    assert found.code.code == "read-lost-shared"
    reading = subscription_of(told({"pendingReadOps": 1}))
    assert delivery_of(reading, BrokerSettings(), reading).code.code == "unexplained"


def test_from_5_0_on_the_pause_counts_partly_acknowledged_batches() -> None:
    """Seen live on 5.0.1, which shows neither a read nor the partly acknowledged batches."""
    idle = subscription_of(told({"subscriptionHavePendingRead": False}))
    batches = replace(idle, batch_sizes=BatchSizes(each=None))
    singles = replace(idle, batch_sizes=BatchSizes(each=1))
    found = {}
    for version in ("4.2.4", "5.0.0-M1", "5.0.1"):
        for limit in (5, 50):
            settings = BrokerSettings.of(version).with_values(
                [
                    "dispatcherPauseOnAckStatePersistentEnabled=true",
                    f"managedLedgerMaxBatchDeletedIndexToPersist={limit}",
                ]
            )
            for kind, now in (("batches", batches), ("singles", singles)):
                found[version, limit, kind] = delivery_of(now, settings, now, version=version).code.code
    assert {key for key, code in found.items() if code == "paused"} == {("5.0.1", 5, "batches")}
    assert set(found.values()) == {"paused", "no-read"}
    off = BrokerSettings.of("5.0.1").with_values(["managedLedgerMaxBatchDeletedIndexToPersist=5"])
    # A policy may set the pause; its value is known only if the broker was asked for it.
    assert delivery_of(batches, off, batches, version="5.0.1").code.code == "may-be-paused"
    for pauses, code in ((False, "no-read"), (True, "paused")):
        assert batches.dispatch is not None
        asked = replace(batches, dispatch=replace(batches.dispatch, pauses=pauses))
        assert delivery_of(asked, off, asked, version="5.0.1").code.code == code


def test_a_pause_by_a_policy_that_the_source_does_not_show_is_no_stall() -> None:
    """On 4.2.4 it was called a stall, and the advice to unload forgot 7 of 10 acknowledgments."""
    dump = told(
        {"subscriptionHavePendingRead": False, "individuallyDeletedMessages": "[(3:2..3:3],(3:4..3:5]]"}
    )
    now = subscription_of(dump)
    few = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=1"])
    found = delivery_of(now, few, now)
    assert (found.verdict, found.code.code) == (DeliveryVerdict.CANNOT_TELL, "may-be-paused")
    assert "unload" not in " ".join(found.steps(now))
    assert delivery_of(now, BrokerSettings(), now).code.code == "no-read"
    assumed = delivery_of(now, BrokerSettings(), now, assumed=["managedLedgerMaxUnackedRangesToPersist"])
    assert assumed.code.code == "may-be-paused"
    dump["policies"] = {"sub": {"dispatcherPauseOnAckStatePersistent": True}}
    asked = subscription_of(dump)
    assert delivery_of(asked, few, asked).code.code == "paused"


@pytest.mark.parametrize(
    ("unacked", "policies", "detail"),
    [
        (100, {}, "the limit is unknown, a policy sets it; blocked at 100"),
        (100, {"maxUnackedMessagesOnConsumer": 100}, "maxUnackedMessagesPerConsumer=100, set by a policy"),
        (50_000, {"maxUnackedMessagesOnConsumer": 50_000}, "maxUnackedMessagesPerConsumer=50000"),
        (30_000, {}, "maxUnackedMessagesPerConsumer=50000, if no policy sets another limit"),
    ],
)
def test_a_limit_that_a_policy_sets_is_named_or_unknown(
    unacked: int, policies: dict[str, Any], detail: str
) -> None:
    dump = told()
    (consumer,) = dump["stats"]["subscriptions"]["sub"]["consumers"]
    consumer |= {"unackedMessages": unacked, "blockedConsumerOnUnackedMsgs": True}
    dump["policies"] = {"sub": policies}
    now = subscription_of(dump)
    found = delivery_of(now, BrokerSettings(), now)
    assert found.code.code == "consumer-blocked"
    assert detail in found.details


def test_messages_acknowledged_in_an_open_transaction_are_not_with_consumers() -> None:
    dump = told({"readPosition": "4:10"}, unackedMessages=6)
    now = subscription_of(dump)
    settings = BrokerSettings().with_values(["transactionCoordinatorEnabled=true"])
    assert delivery_of(now, settings, now).code.code == "acknowledged-in-transaction"
    assert delivery_of(now, BrokerSettings(), now).code.code == "with-consumers"
    whole = subscription_of(told({"readPosition": "4:10"}, unackedMessages=20))
    assert delivery_of(whole, settings, whole).code.code == "with-consumers"


def test_nobody_is_advised_to_remove_the_subscription_of_compaction() -> None:
    dump = told(consumers=[])
    for part in (dump["stats"]["subscriptions"], dump["internalStats"]["cursors"]):
        part["__compaction"] = part.pop("sub")
    now = subscription_of(dump)
    assert now.backlog_entries
    found = delivery_of(now, BrokerSettings(), now)
    assert (found.code.code, found.steps(now)) == ("internal-cursor", [])


def test_a_field_of_a_wrong_type_is_not_a_missing_answer() -> None:
    found, *unread = from_answer(told(availablePermits="many"), "topic", "dump")
    assert isinstance(found, SubscriptionStats)
    assert len(unread) == 1
    assert delivery_of(found, BrokerSettings()).code.code == "unreadable-field"


def test_a_defect_that_a_release_mends_is_not_named_for_it() -> None:
    cursor = {"waitingReadOp": True, "subscriptionHavePendingRead": False}
    now = subscription_of(told(cursor, type="Failover", activeConsumerName="a"))
    versions = ("4.0.7", "4.0.13", "4.2.4", "5.0.0-M1", "5.0.0", "5.0.1")
    lost = [delivery_of(now, BrokerSettings(), now, version=version).code.code for version in versions]
    assert [code == "read-lost-active" for code in lost] == [True, False, False, True, False, False]
    assert {*lost} == {"read-lost-active", "unexplained"}
    parked = codes()["look-ahead-parked"]
    assert [parked.has(version) for version in versions] == [True, False, False, True, False, False]


def test_movement_between_two_dumps_is_delivery_and_fewer_messages_than_before_is_a_reload() -> None:
    before, now = (subscription_of(told(msgOutCounter=count)) for count in (5, 6))
    assert delivery_of(now, BrokerSettings(), before).verdict is DeliveryVerdict.DELIVERING
    assert delivery_of(before, BrokerSettings(), now).code.code == "reloaded"


def test_what_the_source_does_not_show_is_said() -> None:
    dump = answer("[]", entries=10)
    del dump["stats"]
    assert delivery_of(subscription_of(dump), BrokerSettings()).code.code == "no-stats"


def test_a_cursor_of_the_broker_itself_has_no_consumers_to_wait_for() -> None:
    dump = told()
    dump["stats"]["subscriptions"] = {}
    assert delivery_of(subscription_of(dump), BrokerSettings()).code.code == "internal-cursor"


def test_what_was_with_the_last_consumer_waits_for_the_next_one() -> None:
    """Seen on a live broker: all entries were read, 12,000 remain, and no consumer is connected."""
    dump = {
        "internalStats": {
            "lastConfirmedEntry": "7:9",
            "ledgers": [{"ledgerId": 7, "entries": 0, "size": 0}],
            "cursors": {
                "life": {
                    "markDeletePosition": "7:3",
                    "readPosition": "7:10",
                    "individuallyDeletedMessages": "[(7:5..7:6]]",
                    "messagesConsumedCounter": 5,
                    "state": "Open",
                }
            },
        },
        "stats": {
            "subscriptions": {"life": {"type": "Shared", "msgBacklog": 5, "msgInReplay": 0, "consumers": []}}
        },
    }
    (now,) = from_answer(dump, "life", "life")
    assert isinstance(now, SubscriptionStats), now
    delivery = delivery_of(now, BrokerSettings())
    assert (delivery.verdict, delivery.code.code) == ("waiting", "no-consumer")


def test_no_recorded_life_of_a_healthy_broker_is_called_stalled() -> None:
    cases = lives()
    found = []
    for case in cases:
        for now in from_answer(case.answer, "life", "life"):
            assert isinstance(now, SubscriptionStats), now
            # Two equal dumps: the verdict on a healthy subscription must not depend on the second dump.
            found.append(delivery_of(now, BrokerSettings.of(case.version), now, version=case.version))
    assert len(found) >= 250
    assert DeliveryVerdict.STALLED not in {each.verdict for each in found}
    assert len({each.code.code for each in found}) >= 3


def test_what_drains_holds_back_what_waits_to_be_delivered_again_and_nothing_else() -> None:
    consumers: list[dict[str, Any]] = [
        {"consumerName": "a", "availablePermits": 100, "unackedMessages": 2, "drainingHashesCount": 1},
        {"consumerName": "b", "availablePermits": 100, "unackedMessages": 0, "drainingHashesCount": 0},
    ]
    for in_replay, code in ((1, "key-waits"), (0, "read-lost-shared")):
        shown: dict[str, Any] = {"type": "Key_Shared", "msgInReplay": in_replay, "consumers": consumers}
        now = subscription_of(told(**shown))
        assert delivery_of(now, BrokerSettings(), now).code.code == code


@pytest.mark.parametrize("delayed", [0, 2])
@pytest.mark.parametrize(
    ("hashes", "code"),
    [
        ((None, None), "draining-unknown"),
        ((0, None), "draining-unknown"),
        ((1, None), "key-waits"),
        ((0, 0), "a stall"),
    ],
)
def test_draining_hashes_that_the_answer_does_not_show_are_not_zero(
    hashes: tuple[int | None, ...], code: str, delayed: int
) -> None:
    consumers = [
        consumer(name, 100, 2) | ({} if count is None else {"drainingHashesCount": count})
        for name, count in zip("ab", hashes, strict=True)
    ]
    shown: dict[str, Any] = {"msgInReplay": 3, "msgDelayed": delayed, "consumers": consumers}
    for cursor in ({"pendingReadOps": 1}, {}):
        now = subscription_of(told(cursor, type="Key_Shared", **shown))
        found = delivery_of(now, BrokerSettings(), now, version="4.0.7")
        if code == "a stall":
            assert found.verdict is DeliveryVerdict.STALLED
        else:
            assert found.code.code == code
            assert "unload" not in " ".join(found.steps(now))
        if hashes == (None, None):
            # Hashes drain only on Key_Shared.
            shared = subscription_of(told(cursor, type="Shared", **shown))
            assert delivery_of(shared, BrokerSettings(), shared).verdict is DeliveryVerdict.STALLED


def consumer(name: str, permits: int, unacked: int, **shown: Any) -> dict[str, Any]:
    return {"consumerName": name, "availablePermits": permits, "unackedMessages": unacked, **shown}


def facts_of(dump: dict[str, Any]) -> DeliveryFacts:
    now = subscription_of(dump)
    assert now.dispatch is not None
    return DeliveryFacts(now, now.dispatch, BrokerSettings(), still=True)


def test_facts_are_what_the_numbers_say_at_their_bounds() -> None:
    for unacked, left in ((0, True), (1, False)):
        drains = consumer("a", 1, unacked, drainingHashesCount=1)
        assert facts_of(told(type="Key_Shared", consumers=[drains])).draining_without_unacked is left
    for permits, lost in (((-5, 0), True), ((-5, 1), False), ((0, 0), False)):
        pair = [consumer(str(number), each, 0) for number, each in enumerate(permits)]
        assert facts_of(told(consumers=pair)).negative_permits is lost
    assert not facts_of(told(consumers=[consumer("a", -5, 1)])).negative_permits
    last = subscription_of(told()).ledgers.last_position
    assert last is not None
    ledger, entry = last
    acked = f"[({ledger}:{entry - 1}..{last}]]"
    for read, ranges, unread in ((entry, "[]", True), (entry + 1, "[]", False), (entry, acked, False)):
        cursor = {"readPosition": f"{ledger}:{read}", "individuallyDeletedMessages": ranges}
        assert facts_of(told(cursor)).unread is unread
    for start in ("-1:-1", "0:0", f"{ledger}:-1"):
        assert facts_of(told({"readPosition": start})).unread


def test_what_a_source_does_not_show_of_the_cursor_proves_no_lost_read() -> None:
    dump = told()
    assert not facts_of(dump).cursor_reads
    del dump["internalStats"]["cursors"]["sub"]["waitingReadOp"]
    del dump["internalStats"]["cursors"]["sub"]["pendingReadOps"]
    assert facts_of(dump).cursor_reads


def test_the_fullest_consumer_is_named_and_the_last_thing_that_happened() -> None:
    pair = [
        consumer("few", 5, 3, blockedConsumerOnUnackedMsgs=True, lastConsumedTimestamp=70),
        consumer("many", 5, 9, blockedConsumerOnUnackedMsgs=True, lastAckedTimestamp=50),
    ]
    for consumers in (pair, pair[::-1]):
        dump = told(consumers=consumers, lastConsumedTimestamp=70, lastAckedTimestamp=50)
        found = delivery_of(subscription_of(dump), BrokerSettings(), subscription_of(dump))
        assert (found.code.code, found.consumer, found.since_ms) == ("consumer-blocked", "many", 70)
    dump = told(consumers=pair, lastConsumedTimestamp=70, lastAckedTimestamp=90)
    assert delivery_of(subscription_of(dump), BrokerSettings(), subscription_of(dump)).since_ms == 90


@pytest.mark.parametrize("written", [2**53 + 1, 2**63 - 1, -(2**63)])
def test_a_time_beyond_every_date_ends_no_report(written: int, tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    full = [consumer("a", 5, 3, blockedConsumerOnUnackedMsgs=True, lastConsumedTimestamp=written)]
    source.write_text(json.dumps(told(consumers=full, lastConsumedTimestamp=written)))
    _, shown = command("doctor", str(source))
    assert ("acknowledged since 9999-12-31" in shown) is (written > 0)


@pytest.mark.parametrize(("last", "code"), [(65_535, "unexplained"), (65_534, "no-owner")])
def test_a_hash_that_no_consumer_owns_holds_back_what_waits(last: int, code: str) -> None:
    owners = [consumer("a", 5, 0, drainingHashesCount=0, keyHashRangeArrays=[[1, last]])]
    shown: dict[str, Any] = {"type": "Key_Shared", "keySharedMode": "STICKY", "msgInReplay": 1}
    cursor = {"readPosition": "3:10", "subscriptionHavePendingReplayRead": True, "pendingReadOps": 1}
    now = subscription_of(told(cursor, consumers=owners, **shown))
    assert delivery_of(now, BrokerSettings(), now).code.code == code
    # If the broker assigns the hashes, each has an owner, even if the broker does not show it.
    shown["keySharedMode"] = "AUTO_SPLIT"
    now = subscription_of(told(cursor, consumers=owners, **shown))
    assert delivery_of(now, BrokerSettings(), now).code.code == "unexplained"


def test_the_oldest_unacknowledged_entry_is_named_with_its_consumer_and_since_when() -> None:
    full = [consumer("a", 5, 3, blockedConsumerOnUnackedMsgs=True), consumer("b", 0, 0)]
    cursor = {"readPosition": "3:5"}

    def said(**shown: Any) -> str:
        found = delivery_of(subscription_of(told(cursor, consumers=full, **shown)), BrokerSettings())
        return found.details[-1]

    assert said() == "the oldest unacknowledged entry is 3:0, with consumer a"
    assert said(lastMarkDeleteAdvancedTimestamp=1_000).endswith(
        "with consumer a, since 1970-01-01 00:00:01 UTC"
    )
    full[1]["unackedMessages"] = 1
    assert said() == "the oldest unacknowledged entry is 3:0"


@pytest.mark.parametrize(
    ("entries", "markers", "code"), [(0, 10, "only-markers"), (1, 9, "no-permits"), (0, 0, "no-permits")]
)
def test_markers_are_told_from_messages_if_the_broker_counted_them(
    entries: int, markers: int, code: str
) -> None:
    dump = told(consumers=[consumer("a", 0, 0)])
    counted = {"entries": entries, "messages": entries, "markerMessages": markers, "aborted": False}
    found = delivery_of(subscription_of({**dump, "backlogs": {"sub": counted}}), BrokerSettings())
    assert (found.verdict, found.code.code) == (DeliveryVerdict.WAITING, code)
