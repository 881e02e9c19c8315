"""Reading the state of delivery: the source of each field, and fields that older versions lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from ackwell.broker.dispatch import HOLD, THROTTLED, DispatchStats, dispatch_of
from ackwell.broker.stats import UnreadableSource, from_answer
from ackwell.protocol.constants import SubscriptionType

CONSUMER: dict[str, Any] = {
    "consumerName": "c",
    "availablePermits": 1,
    "unackedMessages": 2,
    "blockedConsumerOnUnackedMsgs": True,
    "msgOutCounter": 3,
    "drainingHashesCount": 4,
    "keyHashRangeArrays": [[0, 9], [20, 20]],
    "connectedSince": "noon",
    "lastAckedTimestamp": 5,
}
SHOWN: dict[str, Any] = {
    "type": "Key_Shared",
    "consumers": [CONSUMER],
    "activeConsumerName": "c",
    "msgBacklog": 11,
    "msgInReplay": 12,
    "msgDelayed": 13,
    "unackedMessages": 14,
    "blockedSubscriptionOnUnackedMsgs": True,
    "msgOutCounter": 15,
    "msgRateOut": 1.5,
    "availablePermits": 16,
    "allowOutOfOrderDelivery": True,
    "keySharedMode": "STICKY",
    "lastConsumedTimestamp": 17,
    "lastAckedTimestamp": 18,
    "oldestBacklogMessageAgeSeconds": 19,
    **{name: 1 << place for place, name in enumerate(THROTTLED)},
}
CURSOR: dict[str, Any] = {
    "waitingReadOp": False,
    "pendingReadOps": 1,
    "subscriptionHavePendingRead": True,
    "subscriptionHavePendingReplayRead": False,
    "messagesConsumedCounter": 20,
    "state": "Open",
}


def read(shown: Mapping[str, Any] = SHOWN, cursor: Mapping[str, Any] = CURSOR, **more: Any) -> DispatchStats:
    return dispatch_of(shown, cursor, more.get("topic", {}), more.get("policies", {}))


def test_every_field_comes_from_its_own_place() -> None:
    policies = {
        "dispatchRate": dict(HOLD),
        "maxUnackedMessagesOnConsumer": 22,
        "maxUnackedMessagesOnSubscription": 23,
        "dispatcherPauseOnAckStatePersistent": True,
    }
    found = read(topic={"ongoingTxnCount": 21}, policies=policies)
    values = asdict(found)
    (consumer,) = values.pop("consumers")
    assert consumer == {
        "name": "c",
        "permits": 1,
        "unacked": 2,
        "blocked": True,
        "messages_out": 3,
        "draining_hashes": 4,
        "slots": 11,
        "connected_since": "noon",
        "last_acked_ms": 5,
    }
    assert values == {
        "kind": SubscriptionType.KEY_SHARED,
        "active": "c",
        "backlog_messages": 11,
        "in_replay": 12,
        "delayed": 13,
        "unacked": 14,
        "blocked": True,
        "messages_out": 15,
        "rate_out": 1.5,
        "total_permits": 16,
        "out_of_order": True,
        "sticky": True,
        "open_transactions": 21,
        "throttled": 63,
        "rate_limit": HOLD,
        "consumer_limit": 22,
        "subscription_limit": 23,
        "pauses": True,
        "last_delivered_ms": 17,
        "last_acked_ms": 18,
        "oldest_age_seconds": 19,
        "pending_read": True,
        "pending_replay_read": False,
        "cursor_reads": True,
        "consumed": 20,
        "cursor_state": "Open",
    }


def test_what_is_not_shown_is_none_or_nothing() -> None:
    values = asdict(read({}, {}))
    nothing = {"consumers": (), "delayed": 0, "unacked": 0, "rate_out": 0.0, "open_transactions": 0}
    nothing |= {"blocked": False, "out_of_order": False, "sticky": False}
    assert values == dict.fromkeys(values) | nothing
    (consumer,) = read({"consumers": [{}]}, {}).consumers
    values = asdict(consumer)
    nothing = {"name": "", "permits": 0, "unacked": 0, "blocked": False}
    assert values == dict.fromkeys(values) | nothing


@pytest.mark.parametrize(
    ("cursor", "reads"),
    [
        ({}, None),
        ({"waitingReadOp": True}, True),
        ({"waitingReadOp": False}, False),
        ({"pendingReadOps": 0}, False),
        ({"pendingReadOps": 1}, True),
        ({"waitingReadOp": True, "pendingReadOps": 0}, True),
    ],
)
def test_a_cursor_reads_if_it_waits_or_has_a_read_under_way(
    cursor: dict[str, Any], reads: bool | None
) -> None:
    assert read(SHOWN, cursor).cursor_reads is reads


@pytest.mark.parametrize(("age", "seconds"), [(-1, None), (0, 0), (1, 1), (None, None)])
def test_an_age_below_nothing_is_none(age: int | None, seconds: int | None) -> None:
    assert read(SHOWN | {"oldestBacklogMessageAgeSeconds": age}).oldest_age_seconds == seconds


WRONG = {
    "type": 5,
    "consumers": [{}, 1],
    "activeConsumerName": 5,
    "msgBacklog": -1,
    "msgInReplay": -1,
    "msgDelayed": -1,
    "unackedMessages": "x",
    "blockedSubscriptionOnUnackedMsgs": 1,
    "msgOutCounter": -1,
    "msgRateOut": ["x"],
    "availablePermits": 1.5,
    "allowOutOfOrderDelivery": "true",
    "keySharedMode": 5,
    "lastConsumedTimestamp": "noon",
    "lastAckedTimestamp": 1 << 63,
    "oldestBacklogMessageAgeSeconds": [],
    THROTTLED[0]: None,
}
"""A value of a wrong type, or a negative count, for each field of a subscription."""
WRONG_OF_CONSUMERS: dict[str, Any] = {
    "consumerName": 5,
    "availablePermits": True,
    "unackedMessages": None,
    "blockedConsumerOnUnackedMsgs": "no",
    "msgOutCounter": -1,
    "drainingHashesCount": -1,
    "keyHashRangeArrays": [[0, "9"]],
    "connectedSince": 7,
    "lastAckedTimestamp": {},
}
WRONG_OF_CURSORS = {
    "waitingReadOp": "x",
    "pendingReadOps": "x",
    "subscriptionHavePendingRead": 1,
    "subscriptionHavePendingReplayRead": 0,
    "messagesConsumedCounter": 1.0,
    "state": 7,
}


def test_a_value_of_a_wrong_type_names_its_field() -> None:
    assert WRONG_OF_CURSORS.keys() == CURSOR.keys()
    assert WRONG_OF_CONSUMERS.keys() == CONSUMER.keys()
    assert {*WRONG, *THROTTLED} == SHOWN.keys()
    changed = [
        *((SHOWN | {name: value}, CURSOR, {}, name) for name, value in WRONG.items()),
        *(
            (SHOWN | {"consumers": [CONSUMER | {name: value}]}, CURSOR, {}, name)
            for name, value in WRONG_OF_CONSUMERS.items()
        ),
        *((SHOWN, CURSOR | {name: value}, {}, name) for name, value in WRONG_OF_CURSORS.items()),
        (SHOWN, CURSOR, {"topic": {"ongoingTxnCount": -1}}, "ongoingTxnCount"),
        (SHOWN, CURSOR, {"policies": {"dispatchRate": 5}}, "dispatchRate"),
    ]
    for shown, cursor, more, name in changed:
        with pytest.raises((TypeError, ValueError), match=f"^{name} is .*; expected "):
            read(shown, cursor, **more)
    pairs: list[Any] = ["x", [5], [[0, 9, 10]], [[True, 9]]]
    for ranges in pairs:
        with pytest.raises(TypeError, match=r"^keyHashRangeArrays is .*; expected an array of pairs"):
            read(SHOWN | {"consumers": [CONSUMER | {"keyHashRangeArrays": ranges}]})


def test_null_is_a_missing_value_and_a_rate_may_be_any_number() -> None:
    assert read(
        dict.fromkeys(SHOWN.keys() - THROTTLED - {"msgDelayed", "unackedMessages"})
        | {"lastConsumedTimestamp": 0},
        dict.fromkeys(CURSOR),
    ) == read({}, {})
    nothing: list[Any] = [[], None]
    for ranges in nothing:
        assert read({"consumers": [CONSUMER | {"keyHashRangeArrays": ranges}]}).consumers[0].slots is None
    assert read(SHOWN | {"type": "Other"}).kind is None
    assert not read(SHOWN | {"keySharedMode": "AUTO_SPLIT"}).sticky
    assert read(SHOWN | {"msgRateOut": 2}).rate_out == 2.0
    assert read(SHOWN | {"msgRateOut": 10**400}).rate_out > 0
    # A broker's JSON has no number for these.
    assert [read(SHOWN | {"msgRateOut": each}).rate_out for each in ("NaN", "Infinity")] == [0, 0]
    assert read(SHOWN, policies={"dispatchRate": None}).rate_limit is None
    assert read({THROTTLED[2]: 5}).throttled == 5
    assert read({THROTTLED[2]: 0}).throttled == 0


def test_a_hold_is_what_rescue_sets_whatever_is_beside_it() -> None:
    def held(rate: Any) -> bool:
        return read(SHOWN, policies={"dispatchRate": rate}).held

    assert held(dict(HOLD))
    assert held(HOLD | {"relativeToPublishRate": False})
    assert not held(None)
    for name in HOLD:
        assert not held(HOLD | {name: HOLD[name] + 1})


def test_what_drains_is_added_up_and_who_holds_the_most_comes_first() -> None:
    counts = {"a": 1, "b": 0, "c": 5}
    consumers = [CONSUMER | {"consumerName": name, "unackedMessages": n} for name, n in counts.items()]
    found = read(SHOWN | {"consumers": consumers})
    assert found.draining == 12
    assert [each.name for each in found.holders] == ["c", "a"]


# How long nothing was acknowledged


def quiet(time_ms: int | None, *consumers: dict[str, Any], moved_ms: int = 0, out: int | None = None) -> Any:
    total = sum(each["msgOutCounter"] for each in consumers) if out is None else out
    internal = {
        "lastConfirmedEntry": "3:9",
        "currentLedgerEntries": 10,
        "ledgers": [{"ledgerId": 3, "entries": 0, "size": 0}],
        "cursors": {"s": {"markDeletePosition": "3:0", "individuallyDeletedMessages": "[]"}},
    }
    shown: dict[str, Any] = {"consumers": list(consumers), "msgOutCounter": total}
    shown["lastMarkDeleteAdvancedTimestamp"] = moved_ms
    answer = {"internalStats": internal, "stats": {"subscriptions": {"s": shown}}, "t": time_ms}
    (found,) = from_answer(answer, "persistent://a/b/c", "x")
    assert not isinstance(found, UnreadableSource)
    return found.quiet_ms


def test_it_is_quiet_since_the_last_acknowledgment_that_shows() -> None:
    late = CONSUMER | {"lastAckedTimestamp": 70}
    assert quiet(100, CONSUMER) == 95
    assert quiet(100, CONSUMER, late) == 30
    assert quiet(100, CONSUMER, late, moved_ms=90) == 10
    assert quiet(60, CONSUMER, late) == 0
    assert quiet(None, CONSUMER) is None
    assert quiet(100) is None
    # One that left has acknowledged who knows when.
    assert quiet(100, CONSUMER, out=4) is None
    # A consumer that has acknowledged nothing has 0.
    assert quiet(100, CONSUMER, CONSUMER | {"lastAckedTimestamp": 0}) == 95
    assert quiet(100, CONSUMER | {"lastAckedTimestamp": 0}) is None
    assert quiet(100, CONSUMER, CONSUMER | {"lastAckedTimestamp": None}) is None
