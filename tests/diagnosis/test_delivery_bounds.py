"""The delivery verdict at the bounds of each number that it depends on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Position, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.codes import codes
from ackwell.broker.contradictions import Contradiction, DumpPart
from ackwell.broker.dispatch import HOLD, ConsumerStats, DispatchStats
from ackwell.broker.stats import SubscriptionOverview
from ackwell.diagnosis.delivery import DeliveryDiagnosis, DeliveryFacts, DeliveryVerdict, delivery_of
from ackwell.diagnosis.limits import RANGE_LIMIT
from ackwell.protocol.constants import SubscriptionType
from tests.diagnosis.test_delivery import subscription_of, told

if TYPE_CHECKING:
    from ackwell.broker.stats import SubscriptionStats

WRONG = Contradiction("ledgers", "the ledgers are wrong", frozenset({DumpPart.LEDGERS}))
OF_DISPATCH = {field.name for field in fields(DispatchStats)}
SETTINGS = BrokerSettings()
HOLES = PositionRangeSet.parse("[(3:1..3:2]]")
FULL = replace(SETTINGS, max_unacked_messages_per_consumer=7)


def stats(base: SubscriptionStats | None = None, /, **changes: Any) -> SubscriptionStats:
    """Return a Shared subscription that has lost its read, with changed fields."""
    base = subscription_of(told()) if base is None else base
    assert base.dispatch is not None
    changed = {name: changes.pop(name) for name in [*changes] if name in OF_DISPATCH}
    return replace(base, dispatch=replace(base.dispatch, **changed), **changes)


def consumer(name: str = "a", permits: int = 100, unacked: int = 0, **changes: Any) -> ConsumerStats:
    (found,) = dispatch(stats()).consumers
    return replace(found, name=name, permits=permits, unacked=unacked, **changes)


def dispatch(of: SubscriptionStats) -> DispatchStats:
    assert of.dispatch is not None
    return of.dispatch


def still(now: SubscriptionStats, settings: BrokerSettings = SETTINGS, **options: Any) -> DeliveryDiagnosis:
    """Return the verdict if nothing moved since an equal dump."""
    return delivery_of(now, settings, now, **options)


def code(now: SubscriptionStats, settings: BrokerSettings = SETTINGS, **options: Any) -> str:
    return still(now, settings, **options).code.code


def facts(now: SubscriptionStats, settings: BrokerSettings = SETTINGS) -> DeliveryFacts:
    return DeliveryFacts(now, dispatch(now), settings, still=True)


READ = {"read_position": Position(4, 10), "pending_read": False}
"""The fields of a subscription that has delivered every entry."""
ALL_READ = stats(**READ, consumers=(consumer(unacked=20),), unacked=20, backlog_messages=20)


def test_the_verdicts_have_an_order_and_reasons() -> None:
    assert [each.severity for each in DeliveryVerdict] == [0, 1, 2, 3, 4]
    lost, idle = still(stats()), still(stats(mark_delete_position=Position(4, 9)))
    waits, expected = still(stats(consumers=())), still(ALL_READ)
    suspected = delivery_of(stats(), SETTINGS)
    assert [each.is_stuck for each in (lost, idle, waits, expected, suspected)] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert [each.reason for each in (lost, idle, waits, expected, suspected)] == [
        "read-lost-shared",
        "",
        "no-consumer",
        "with-consumers",
        "read-lost-shared",
    ]
    delivering = delivery_of(stats(rate_out=0.1), SETTINGS)
    assert (delivering.reason, delivering.is_stuck) == ("", False)


def test_a_verdict_as_json_has_the_texts_of_the_suspected_defect() -> None:
    now = stats(last_acked_ms=5)
    found, lost = delivery_of(now, SETTINGS), codes()["read-lost-shared"]
    assert found.to_json(now) == {
        "verdict": "cannot tell",
        "code": "second-dump",
        "text": codes()["second-dump"].what,
        "consumer": None,
        "details": ["the oldest unacknowledged entry is 3:0"],
        "sinceMs": 5,
        "until": None,
        "suspected": "read-lost-shared",
        "issues": list(lost.issues),
        "fixedIn": list(lost.fixed_in),
        "saveFirst": lost.save or None,
        "remedies": codes()["second-dump"].steps(now.topic, now.subscription),
    }
    assert lost.issues
    waits = still(stats(consumers=(consumer(permits=0),)))
    shown = waits.to_json(now)
    assert (shown["suspected"], shown["consumer"], shown["until"]) == (None, "a", waits.until(now))
    assert shown["until"]


def test_a_fixed_delay_stops_reading_from_the_lookahead_on() -> None:
    for lookahead, delayed, waits in ((1, 1, True), (2, 1, False), (0, 0, False), (0, 5, False)):
        settings = replace(SETTINGS, fixed_delay_lookahead=lookahead)
        assert (code(stats(delayed=delayed), settings) == "fixed-delay") is waits


def test_a_consumer_or_a_subscription_is_blocked_if_the_broker_shows_it() -> None:
    now = stats(consumers=(consumer(unacked=9, blocked=True),), unacked=9)
    assert code(now, FULL) == "consumer-blocked"
    free = stats(now, consumers=(consumer(unacked=9),))
    limited = replace(FULL, max_unacked_messages_per_subscription=2)
    assert code(free, limited) == "read-lost-shared"
    assert code(stats(free, blocked=True), limited) == "subscription-blocked"


def test_a_policy_of_pauses_replaces_the_setting_of_the_broker() -> None:
    ranges = replace(SETTINGS, max_unacked_ranges_to_persist=0, pause_on_ack_state=True)
    holes = stats(individually_deleted=HOLES)
    assert code(holes, ranges) == "paused"
    assert code(stats(holes, pauses=False), ranges) == "read-lost-shared"
    assert code(stats(holes, pauses=True), replace(ranges, pause_on_ack_state=False)) == "paused"


def test_numbers_below_zero_are_defects_and_zero_is_not() -> None:
    for total, permits, expected in ((-1, 1, True), (-1, 0, False), (0, 1, False), (None, 1, False)):
        found = facts(stats(total_permits=total, consumers=(consumer(permits=permits),)))
        assert found.negative_total is expected
    for unacked, own, expected in ((-1, 0, True), (0, -1, True), (0, 0, False)):
        found = facts(stats(unacked=unacked, consumers=(consumer(unacked=own),)))
        assert found.negative_unacked is expected
    for blocked, unacked, expected in ((True, 0, True), (True, 1, False), (False, 0, False)):
        assert facts(stats(blocked=blocked, unacked=unacked)).blocked_without_unacked is expected
        alone = consumer(unacked=unacked, blocked=blocked)
        assert facts(stats(consumers=(alone,))).blocked_without_unacked is expected
    for kind in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER):
        found = facts(stats(kind=kind, blocked=True, consumers=(consumer(permits=-1, blocked=True),)))
        assert (found.blocked_without_unacked, found.negative_permits, found.individual) == (
            False,
            False,
            False,
        )
        assert found.one_active


def test_a_closed_cursor_is_a_defect_of_a_durable_subscription_without_reads() -> None:
    for changes, closed in (
        ({"cursor_state": "Closed"}, True),
        ({"cursor_state": "Closed", "durable": False}, False),
        ({"cursor_state": "Closed", "cursor_reads": True}, False),
        ({"cursor_state": "Closed", "cursor_reads": None}, True),
        ({"cursor_state": None}, False),
        ({"cursor_state": "Open"}, False),
        ({"cursor_state": "NoLedger"}, False),
        ({"cursor_state": "SwitchingLedger"}, False),
    ):
        assert facts(stats(**changes)).cursor_closed is closed
        assert (code(stats(**changes)) == "cursor-not-open") is closed


def test_draining_hashes_wait_for_a_consumer_that_still_has_messages() -> None:
    keyed = {"kind": SubscriptionType.KEY_SHARED, **READ, "in_replay": 1}
    for hashes, unacked, expected in (
        (1, 1, "key-waits"),
        (1, 0, "draining-hash-left"),
        (0, 1, "no-read-after-leave"),
    ):
        now = stats(**keyed, consumers=(consumer(unacked=unacked, draining_hashes=hashes),), unacked=unacked)
        assert code(now) == expected
    assert [facts(stats(delayed=each)).delayed for each in (0, 1)] == [False, True]
    pair = (consumer("busy", unacked=1), consumer("drains", unacked=1, draining_hashes=1))
    assert still(stats(**keyed, consumers=pair, unacked=2)).consumer == "drains"


def test_a_waiting_entry_may_be_for_a_consumer_that_cannot_receive() -> None:
    keyed = stats(**READ, kind=SubscriptionType.KEY_SHARED, in_replay=1, pending_replay_read=True)
    pair = (
        consumer("free", draining_hashes=0),
        consumer("full", permits=0, unacked=3, draining_hashes=0),
    )
    found = still(stats(keyed, consumers=pair, unacked=3))
    assert (found.code.code, found.consumer) == ("no-permits", "full")
    assert code(stats(keyed, consumers=pair[:1])) == "unexplained"
    # On Shared any consumer may receive it.
    shared = stats(keyed, consumers=pair, unacked=3, kind=SubscriptionType.SHARED)
    assert code(shared) == "unexplained"


def test_a_hold_an_open_transaction_and_markers_are_reasons() -> None:
    reads = stats(pending_read=True, cursor_reads=True)
    assert code(reads) == "unexplained"
    assert code(stats(reads, open_transactions=1)) == "open-transaction"
    assert code(stats(reads, open_transactions=1, rate_limit=HOLD)) == "hold"
    assert code(stats(reads, rate_limit={**HOLD, "dispatchThrottlingRateInMsg": 5})) == "unexplained"
    # Permits are the nearer reason.
    assert code(stats(reads, rate_limit=HOLD, consumers=())) == "no-consumer"


def test_everything_delivered_waits_for_acknowledgments() -> None:
    assert code(ALL_READ) == "with-consumers"
    assert code(stats(ALL_READ, delayed=1)) == "delayed"
    assert code(stats(ALL_READ, consumers=())) == "no-consumer"
    # An older broker does not report the entries that wait for redelivery.
    older = stats(ALL_READ, in_replay=None, pending_read=True, cursor_reads=True)
    for unacked, delayed, expected in ((20, 0, "with-consumers"), (19, 0, "unexplained"), (19, 1, "delayed")):
        now = stats(older, unacked=unacked, delayed=delayed, consumers=(consumer(unacked=unacked),))
        assert code(now) == expected
    assert code(stats(older, unacked=0, consumers=(consumer(),), backlog_messages=None)) == "with-consumers"
    # One consumer of Exclusive or Failover has everything that was read.
    active = {"kind": SubscriptionType.FAILOVER, "active": "a", "unacked": 3}
    found = still(stats(older, **active, consumers=(consumer("b"), consumer("a", unacked=3))))
    assert (found.code.code, found.consumer) == ("with-consumers", "a")


def test_acknowledgments_in_open_transactions_leave_fewer_unacknowledged_messages() -> None:
    transactional = replace(SETTINGS, transaction_coordinator_enabled=True)
    for unacked, expected in ((0, True), (19, True), (20, False), (-1, False)):
        now = stats(ALL_READ, unacked=unacked, consumers=(consumer(unacked=max(unacked, 0)),))
        waits = code(now, transactional) == "acknowledged-in-transaction"
        assert waits is expected
        assert code(now) != "acknowledged-in-transaction"
    now = stats(ALL_READ, unacked=19)
    assert code(stats(now, consumers=()), transactional) == "no-consumer"
    assert code(stats(now, contradictions=(WRONG,), unacked=20), transactional) == "with-consumers"
    active = {"kind": SubscriptionType.EXCLUSIVE, "active": "a"}
    assert code(stats(now, **active), transactional) == "with-consumers"


def test_a_broker_may_pause_above_a_limit_of_ranges_that_is_unknown() -> None:
    parked = stats(individually_deleted=HOLES, pending_read=False)
    one = replace(SETTINGS, max_unacked_ranges_to_persist=1)
    assert code(parked, one) == "no-read"
    assert code(parked, replace(one, max_unacked_ranges_to_persist=0)) == "may-be-paused"
    assert code(parked, one, assumed=[RANGE_LIMIT]) == "may-be-paused"
    assert (
        code(stats(parked, individually_deleted=PositionRangeSet()), one, assumed=[RANGE_LIMIT]) == "no-read"
    )
    for changes in ({"pauses": False}, {"pending_read": True}, {"kind": SubscriptionType.EXCLUSIVE}):
        assert code(stats(parked, **changes), one, assumed=[RANGE_LIMIT]) != "may-be-paused"


def test_partly_acknowledged_batches_pause_above_their_limit() -> None:
    five = replace(
        BrokerSettings.of("5.0"),
        pause_on_ack_state=True,
        max_batch_deleted_index_to_persist=1,
        max_unacked_ranges_to_persist=1_000,
    )
    assert five.pauses_on_batch_indexes
    parked = stats(pending_read=False)
    sets = {Position(3, each): (1,) for each in range(2)}
    for batch_deleted, expected in ((sets, "paused"), (dict([*sets.items()][:1]), "no-read")):
        now = stats(parked, batch_deleted=batch_deleted)
        assert code(now, five, version="5.0") == expected
    hidden = stats(parked, batch_deleted=None)
    for sizes, expected in ((BatchSizes(each=None), "paused"), (BatchSizes(each=1), "no-read")):
        assert code(stats(hidden, batch_sizes=sizes), five, version="5.0") == expected
    unknown = stats(hidden, batch_sizes=BatchSizes(each=None))
    for limit, expected in ((19, "paused"), (20, "no-read")):
        settings = replace(five, max_batch_deleted_index_to_persist=limit)
        assert code(unknown, settings, version="5.0") == expected
    off = replace(five, acknowledgment_at_batch_index_level_enabled=False)
    assert code(unknown, off, version="5.0") == "no-read"


def test_without_positions_the_backlog_shows_whether_entries_are_unread() -> None:
    hidden = stats(contradictions=(WRONG,))
    for backlog, unread in ((6, False), (7, True), (None, False)):
        now = stats(hidden, unacked=1, delayed=2, in_replay=3, backlog_messages=backlog)
        assert facts(now).unread is unread
    for backlog, unread in ((3, False), (4, True)):
        now = stats(hidden, unacked=1, delayed=2, in_replay=None, backlog_messages=backlog)
        assert facts(now).unread is unread


def test_a_recent_rate_shows_delivery_if_no_consumer_is_at_a_limit() -> None:
    assert delivery_of(stats(rate_out=0.01), SETTINGS).code.code == "delivering"
    assert delivery_of(stats(rate_out=0.0), SETTINGS).code.code == "second-dump"
    assert delivery_of(stats(rate_out=-0.01), SETTINGS).code.code == "second-dump"
    # A second dump without movement is the stronger evidence.
    assert code(stats(rate_out=0.01)) == "read-lost-shared"
    full = stats(rate_out=0.01, consumers=(consumer(unacked=7, blocked=True),), unacked=7)
    assert delivery_of(full, FULL).code.code == "consumer-blocked"
    assert delivery_of(stats(rate_out=0.01, consumers=()), FULL).code.code == "delivering"


def test_a_dispatch_rate_is_the_reason_if_it_stopped_the_dispatcher_between_two_dumps() -> None:
    for then, now, expected in (
        (1, 2, "dispatch-rate"),
        (2, 2, "read-lost-shared"),
        (3, 2, "read-lost-shared"),
    ):
        before, after = stats(throttled=then), stats(throttled=now)
        assert delivery_of(after, SETTINGS, before).code.code == expected
    assert delivery_of(stats(throttled=2), SETTINGS, stats(throttled=None)).code.code == "read-lost-shared"
    assert delivery_of(stats(throttled=None), SETTINGS, stats(throttled=-1)).code.code == "dispatch-rate"
    before = stats(throttled=1)
    full = stats(throttled=2, consumers=(consumer(permits=0),))
    assert delivery_of(full, SETTINGS, before).code.code == "no-permits"
    held = stats(throttled=2, rate_limit=HOLD, cursor_reads=True)
    assert delivery_of(held, SETTINGS, before).code.code == "hold"
    done = stats(ALL_READ, throttled=2)
    assert delivery_of(done, SETTINGS, stats(ALL_READ, throttled=1)).code.code == "with-consumers"


@pytest.mark.parametrize(
    "moved",
    [
        {"messages_out": 6},
        {"consumed": 2},
        {"mark_delete_position": Position(3, 0)},
        {"read_position": Position(3, 1)},
        {"individually_deleted": HOLES},
    ],
)
def test_each_movement_between_two_dumps_is_delivery(moved: dict[str, Any]) -> None:
    before = stats(messages_out=5, consumed=1)
    assert delivery_of(before, SETTINGS, before).code.code == "read-lost-shared"
    assert delivery_of(stats(before, **moved), SETTINGS, before).code.code == "delivering"


def test_a_counter_that_fell_shows_a_reload_and_a_missing_one_shows_nothing() -> None:
    before = stats(messages_out=1)
    assert delivery_of(stats(messages_out=0), SETTINGS, before).code.code == "reloaded"
    assert delivery_of(stats(messages_out=None), SETTINGS, before).code.code == "reloaded"
    assert delivery_of(before, SETTINGS, stats(messages_out=None)).code.code == "delivering"
    for then in (None, 0):
        found = delivery_of(stats(messages_out=-1), SETTINGS, stats(messages_out=then))
        assert found.code.code == "reloaded"
    assert delivery_of(before, SETTINGS, replace(before, dispatch=None)).code.code == "second-dump"


def test_without_the_answer_of_stats_the_backlog_decides() -> None:
    none = replace(stats(), dispatch=None)
    assert code(none) == "no-stats"
    assert code(replace(none, mark_delete_position=Position(4, 9))) == "idle"
    assert code(replace(none, contradictions=(WRONG,))) == "contradiction"
    assert code(replace(none, persisted_only=True)) == "no-stats"
    assert code(replace(none, unreadable=("x",))) == "unreadable-field"
    surveyed = replace(none, shows_cursor=False)
    assert code(surveyed) == "idle"
    overview = SubscriptionOverview(backlog_entries=1, delivered_nothing=False)
    assert code(replace(surveyed, overview=overview)) == "delivering"
    assert code(replace(surveyed, overview=overview._replace(backlog_entries=0))) == "idle"


def test_stats_alone_show_rules_and_defects_and_otherwise_too_little() -> None:
    alone = stats(shows_cursor=False)
    assert code(stats(alone, backlog_messages=0)) == "idle"
    assert code(stats(alone, backlog_messages=1, consumers=())) == "no-consumer"
    assert code(stats(alone, pending_read=False, cursor_reads=None)) == "no-internal-stats"
    assert code(stats(alone, unacked=-1)) == "unacked-negative"


def test_fields_that_contradict_each_other_leave_a_suspicion() -> None:
    found = still(stats(contradictions=(WRONG,)))
    assert found.suspected is not None
    assert (found.code.code, found.suspected.code) == ("contradiction", "read-lost-shared")
    harmless = replace(WRONG, unknown=frozenset())
    assert code(stats(contradictions=(harmless,))) == "read-lost-shared"
    assert code(stats(contradictions=(harmless, WRONG))) == "contradiction"


def details(now: SubscriptionStats, settings: BrokerSettings = SETTINGS) -> list[str]:
    *found, oldest = still(now, settings).details
    assert oldest.startswith("the oldest unacknowledged entry is ")
    return found


def test_the_details_name_the_numbers_of_the_reason() -> None:
    since = "2026-01-02T03:04:05.678Z"
    blocks = consumer(permits=1_000, unacked=7_000, blocked=True, connected_since=since)
    full = stats(consumers=(blocks,), unacked=7_000)
    limit = replace(SETTINGS, max_unacked_messages_per_consumer=7_000)
    first = "1,000 permits, 7,000 unacknowledged messages, connected since 2026-01-02T03:04:05"
    set_here = "maxUnackedMessagesPerConsumer=7000"
    assert details(full, limit) == [first, f"{set_here}, if no policy sets another limit"]
    assert details(stats(full, consumer_limit=7_000), limit) == [first, set_here]
    assert details(stats(full, consumer_limit=7_000), FULL) == [first, f"{set_here}, set by a policy"]
    blocked = stats(full, consumers=(consumer("a", 5, 3, blocked=True),), unacked=3)
    plain = "5 permits, 3 unacknowledged messages"
    unknown = "the limit is unknown, a policy sets it; blocked at 3"
    for of_broker, is_unknown in ((5, False), (6, True), (7, True)):
        settings = replace(SETTINGS, max_unacked_messages_per_consumer=of_broker)
        assert (details(blocked, settings) == [plain, unknown]) is is_unknown
    rest = stats(blocked=True, unacked=4_000, consumers=(consumer(unacked=4_000),), subscription_limit=None)
    settings = replace(SETTINGS, max_unacked_messages_per_subscription=4_000)
    named = "maxUnackedMessagesPerSubscription=4000"
    assert details(rest, settings)[-2:] == [
        "4,000 unacknowledged in all",
        f"{named}, if no policy sets another limit",
    ]
    assert details(stats(rest, subscription_limit=4_000), settings)[-1] == named
    more = stats(consumers=(), delayed=2_000, in_replay=3_000, oldest_age_seconds=4_000)
    assert details(more) == [
        "2,000 messages are delayed",
        "3,000 entries were read and wait to be delivered",
        "the oldest message of the backlog is 4,000 s old",
    ]
    assert details(stats(consumers=(), oldest_age_seconds=0)) == [
        "the oldest message of the backlog is 0 s old"
    ]


def test_the_last_delivery_or_acknowledgment_is_named() -> None:
    for delivered, acked, since in ((5, 9, 9), (9, 5, 9), (None, 5, 5), (5, None, 5), (None, None, None)):
        found = still(stats(last_delivered_ms=delivered, last_acked_ms=acked))
        assert found.since_ms == since
