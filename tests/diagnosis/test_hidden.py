"""Bounds on acknowledged messages inside batches, from the counters of a broker.

The numbers are those of subscriptions of real brokers that were restarted (`python -m tests.pulsar.lives`).
"""

from __future__ import annotations

from typing import Any

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.diagnosis.doctor import Verdict, diagnose
from ackwell.diagnosis.hidden import hidden_parts

ENTRIES, MESSAGES = 10, 100
ALL = BrokerSettings()


def told(
    unacked: int,
    *,
    kind: str = "Shared",
    cursor: dict[str, Any] | None = None,
    shown: dict[str, Any] | None = None,
    consumer: dict[str, Any] | None = None,
    backlog: dict[str, Any] | None = None,
    internal: dict[str, Any] | None = None,
) -> SubscriptionStats:
    """Ten batches of ten, all of them with one consumer, none acknowledged whole."""
    consumers = [
        {"consumerName": "a", "msgOutCounter": MESSAGES, "unackedMessages": unacked, "lastAckedTimestamp": 5}
    ]
    consumers[0] |= consumer or {}
    of = {
        "type": kind,
        "msgInReplay": 0,
        "msgOutCounter": MESSAGES,
        "unackedMessages": unacked,
        "consumers": consumers,
    }
    counted = {"entries": ENTRIES, "messages": MESSAGES, "aborted": False, "lastMessageId": "26:9"}
    dump = {
        "internalStats": {
            "entriesAddedCounter": ENTRIES,
            "numberOfEntries": ENTRIES,
            "lastConfirmedEntry": "26:9",
            "ledgers": [{"ledgerId": 26, "entries": 0, "size": 0}],
            **(internal or {}),
            "cursors": {
                "sub": {
                    "markDeletePosition": "26:-1",
                    "readPosition": "26:10",
                    "individuallyDeletedMessages": "[]",
                    "waitingReadOp": True,
                    "pendingReadOps": 0,
                    "cursorLedger": -1,
                    "state": "NoLedger",
                    **(cursor or {}),
                }
            },
        },
        "stats": {"msgInCounter": MESSAGES, "subscriptions": {"sub": of | (shown or {})}},
        "backlogs": {"sub": counted | (backlog or {})},
    }
    (found,) = from_answer(dump, "topic", "dump")
    assert isinstance(found, SubscriptionStats), found
    return found


def test_what_the_consumers_have_is_not_acknowledged() -> None:
    assert hidden_parts(told(MESSAGES), ALL) == Bounds(0, 0)
    assert diagnose(told(MESSAGES)).verdict is Verdict.FINE


def test_what_the_consumers_lack_of_a_backlog_that_was_all_delivered_is_acknowledged() -> None:
    assert hidden_parts(told(63), ALL) == Bounds(1, 37)
    found = diagnose(told(63), restarts=["graceful"])
    assert (found.verdict, found.messages_lost) == (Verdict.LOSING, Bounds(1, 37))
    assert "prove" in str(found.reasons[0])


@pytest.mark.parametrize(
    "changes",
    [
        # Not all is with the consumers.
        {"shown": {"msgInReplay": 1}},
        {"shown": {"msgDelayed": 1}},
        {"cursor": {"readPosition": "26:9"}},
        {"cursor": {"waitingReadOp": False}},
        # Counted at another moment, or not seen to be the whole.
        {"backlog": {"lastMessageId": "26:8"}},
        {"backlog": {"lastMessageId": None}},
        # Wholly acknowledged entries may have been counted twice.
        {"cursor": {"state": "Open", "cursorLedger": 7}},
        # No consumer shows an acknowledgment.
        {"consumer": {"lastAckedTimestamp": 0, "msgOutCounter": 1}},
    ],
)
def test_what_is_missing_is_an_upper_bound_alone_if_it_may_be_elsewhere(changes: dict[str, Any]) -> None:
    assert hidden_parts(told(63, **changes), ALL) == Bounds(0, 37)


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        # Only Shared and Key_Shared count unacknowledged messages.
        (ALL, {"kind": "Exclusive"}),
        # In a transaction an entry may be with two consumers.
        (ALL.with_values(["transactionCoordinatorEnabled=true"]), {}),
        # The count of the backlog is of another moment, or missing.
        (ALL, {"backlog": {"entries": 9}}),
        (ALL, {"backlog": {"aborted": True}}),
        # 4.0 may count skipped and expired messages.
        (
            BrokerSettings.of("4.0").with_values(["acknowledgmentAtBatchIndexLevelEnabled=true"]),
            {"internal": {"entriesAddedCounter": 9}},
        ),
    ],
)
def test_counts_that_may_be_of_something_else_bound_nothing(
    settings: BrokerSettings, changes: dict[str, Any]
) -> None:
    found = hidden_parts(told(63, **changes), settings)
    assert found.at_least == 0
    assert found.at_most is None or found.at_most == MESSAGES - ENTRIES


def test_4_0_counts_what_is_of_the_backlog_as_long_as_nothing_was_passed() -> None:
    older = BrokerSettings.of("4.0").with_values(["acknowledgmentAtBatchIndexLevelEnabled=true"])
    assert hidden_parts(told(63), older) == Bounds(1, 37)
    passed = {"markDeletePosition": "26:0", "state": "Open", "cursorLedger": 7}
    backlog = {"entries": 9, "messages": 90}
    assert hidden_parts(told(63, cursor=passed, backlog=backlog), older) == Bounds(0, 81)
    assert hidden_parts(told(63, cursor=passed, backlog=backlog), ALL) == Bounds(0, 27)


def test_more_with_the_consumers_than_in_the_backlog_bounds_nothing() -> None:
    assert hidden_parts(told(MESSAGES + 1), ALL) == Bounds(0, None)


def test_the_less_favourable_of_two_counters_decides() -> None:
    assert hidden_parts(told(63, shown={"unackedMessages": 60}), ALL) == Bounds(1, 40)
    assert hidden_parts(told(63, shown={"unackedMessages": MESSAGES}), ALL) == Bounds(0, 37)


NEVER = {"consumer": {"lastAckedTimestamp": 0}}


def test_a_topic_of_which_nobody_acknowledged_anything_since_it_was_loaded_hides_nothing() -> None:
    assert hidden_parts(told(0, kind="Exclusive", **NEVER), ALL) == Bounds(0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        # A disconnected consumer may have acknowledged messages.
        {"shown": {"msgOutCounter": MESSAGES + 1}},
        {"shown": {"consumers": []}},
        # Some entries are older, and may be known to a client from before.
        {"internal": {"entriesAddedCounter": 9}},
        # A seek into a batch acknowledges the earlier messages and opens the cursor ledger.
        {"cursor": {"state": "Open", "cursorLedger": 7}},
        # A broker that does not show it.
        {"consumer": {"lastAckedTimestamp": None}},
        {"consumer": {"lastAckedTimestamp": 5}},
    ],
)
def test_somebody_may_have_acknowledged_inside_of_a_batch(changes: dict[str, Any]) -> None:
    found = hidden_parts(told(0, kind="Exclusive", **{**NEVER, **changes}), ALL)
    assert found.at_least == 0
    assert found.at_most != 0


def test_fewer_hidden_messages_than_the_limit_of_ack_sets_are_all_kept() -> None:
    limit = [
        "managedLedgerMaxBatchDeletedIndexToPersist=3",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore=0",
    ]
    settings = ALL.with_values(limit)
    cursor = {"state": "Open", "cursorLedger": 7, "individuallyDeletedMessages": "[(26:3..26:4]]"}
    backlog = {"entries": 9, "messages": 90}
    for hidden, most in ((3, 0), (4, 4)):
        stats = told(90 - hidden, cursor=cursor, backlog=backlog)
        assert diagnose(stats, settings, restarts=["graceful"]).messages_lost == Bounds(0, most)
