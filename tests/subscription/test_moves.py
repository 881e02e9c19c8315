"""Seek, skip, expire, clear, and a change of type: the read position and the remaining state."""

from __future__ import annotations

import random

import pytest

from ackwell import CursorSettings, Ledgers, Position
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import (
    NonDelivery,
    Subscription,
    SubscriptionSettings,
)
from tests.subscription.helpers import deliver, opened


def test_a_seek_restarts_at_its_position_without_pending_entries() -> None:
    subscription = opened("Shared", 6, delayed=DelayedDeliveryTracker(strict=True))
    subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=5_000)
    deliver(subscription)
    subscription.ack("a", 3, 4)
    subscription.redeliver("a", [(3, 5)])
    subscription.nack("a", 3, 1, now_ms=0)
    subscription.seek(3, 2)
    subscription.validate()
    assert subscription.cursor.mark_delete_position == (3, 1)
    assert subscription.next_wakeup_ms() is None
    assert subscription.summary(0).unacked == 0
    assert deliver(subscription, 10_000) == {"a": [2, 3, 4, 5]}
    assert subscription.redelivery_count(3, 5) == 0


def test_a_topic_whose_entries_are_all_trimmed_has_nothing_to_skip_or_clear() -> None:
    ledgers = Ledgers({3: 7})
    subscription = Subscription("Exclusive", ledgers)
    assert subscription.clear_backlog() == 7
    ledgers.close(3)
    ledgers.add(5)
    ledgers.trim_before(5)
    assert (subscription.clear_backlog(), subscription.skip(3), subscription.expire(3, 6)) == (0, 0, 0)
    subscription.validate()


@pytest.mark.parametrize("move", ["expire", "skip", "clear_backlog", "ack_cumulative"])
def test_nothing_is_left_of_entries_that_a_move_acknowledged(move: str) -> None:
    settings = SubscriptionSettings(max_redeliver_count=1, ack_timeout_ms=10_000)
    subscription = Subscription("Shared", Ledgers({3: 8}), settings=settings)
    for name in "ab":
        subscription.add_consumer(name)
        subscription.flow(name, 100)
    for position in subscription.next_reads(8, 0):
        subscription.dispatch(*position, now_ms=0, batch_size=2)
    for _ in range(2):
        for name in "ab":
            subscription.redeliver(name, [(3, 0), (3, 1)])
        for position in subscription.next_reads(8, 0):
            subscription.dispatch(*position, now_ms=0, batch_size=2)
    assert subscription.dead_letters == [(3, 0), (3, 1)]
    subscription.ack("a", 3, 2, (0b10,))
    subscription.redeliver("a", [(3, 3)])
    subscription.nack("a", 3, 4, now_ms=10)
    if move == "ack_cumulative":
        # Counts survive a change of the type, and are dropped with their entries.
        for name in "ab":
            subscription.remove_consumer(name)
        subscription.change_type("Exclusive")
        subscription.add_consumer("a")
        subscription.flow("a", 100)
        subscription.ack_cumulative("a", 3, 6)
    elif move == "expire":
        assert subscription.expire(3, 6) == 7
    elif move == "skip":
        assert subscription.skip(7) == 7
    else:
        assert subscription.clear_backlog() == 8
    subscription.validate()
    summary = subscription.summary(20)
    left = 0 if move in ("clear_backlog", "ack_cumulative") else 2
    assert (summary.unacked, summary.to_redeliver, summary.backing_off, summary.dead_letters) == (
        left,
        0,
        0,
        0,
    )
    assert not [entry for entry in range(7) if subscription.redelivery_count(3, entry)]
    assert not subscription.cursor.batch_deleted
    assert subscription.advance(100_000) == left // 2
    assert subscription.next_reads(9, 100_000) == ([] if move == "clear_backlog" else [(3, 7)])


def test_a_move_past_the_end_or_to_an_acknowledged_position_is_limited() -> None:
    subscription = Subscription("Shared", Ledgers({2: 3, 5: 3}))
    assert subscription.skip(0) == 0
    subscription.ack(None, 2, 1)
    assert subscription.skip(1) == 1
    assert subscription.cursor.mark_delete_position == (2, 1)
    assert subscription.expire(2, 0) == 0
    # A position between two ledgers is that of the last entry before it.
    assert subscription.expire(3, 7) == 1
    assert subscription.expire(9, 0) == 3
    assert subscription.skip(5) == subscription.clear_backlog() == 0
    assert Subscription("Shared", Ledgers()).clear_backlog() == 0


def test_skip_counts_only_unacknowledged_entries_for_any_holes() -> None:
    ledgers = {1: 5, 4: 7, 6: 3}
    existing = [Position(ledger, entry) for ledger, count in ledgers.items() for entry in range(count)]
    for seed in range(200):
        numbers = random.Random(seed)
        subscription = Subscription("Shared", Ledgers(ledgers))
        acked = set(numbers.sample(existing, numbers.randint(0, len(existing))))
        for position in acked:
            subscription.ack(None, *position)
        left = [position for position in existing if position not in acked]
        count = numbers.randint(0, len(existing))
        assert subscription.skip(count) == min(count, len(left))
        after = [position for position in existing if not subscription.cursor.is_acked(*position)]
        assert after == left[count:]


def of_a_topic_that_is_written(entries: int) -> Subscription:
    ledgers = Ledgers({2: 4})
    ledgers.grow(3, entries)
    assert (ledgers.state(2), ledgers.state(3)) == ("closed", "open")
    return Subscription("Shared", ledgers, settings=SubscriptionSettings(expires_by_search=True))


@pytest.mark.parametrize("entries", [1, 2, 3, 7, 20])
def test_expiry_in_a_ledger_that_is_written_ends_at_the_entry_that_is_old_enough(entries: int) -> None:
    for wanted in (*((2, entry) for entry in range(4)), *((3, entry) for entry in range(entries))):
        for up_to in (None, (2, 1), (3, 0)):
            subscription = of_a_topic_that_is_written(entries)
            if up_to is not None:
                subscription.expire(*up_to)
            subscription.expire(*wanted)
            assert subscription.cursor.mark_delete_position == max(wanted, up_to or wanted)


def test_expiry_in_the_open_ledger_stops_early_if_the_newest_entries_are_acknowledged() -> None:
    for newest_unacked in range(1, 19):
        for wanted in range(newest_unacked, 20):
            subscription = of_a_topic_that_is_written(20)
            for entry_id in range(newest_unacked + 1, 20):
                subscription.ack(None, 3, entry_id)
            # The broker probes the last entry first, finds nothing after it, and keeps the first.
            subscription.expire(3, wanted)
            assert subscription.cursor.mark_delete_position == Position(2, 0)
    # In a closed ledger it does not search.
    subscription.expire(2, 2)
    assert subscription.cursor.mark_delete_position == Position(2, 2)


@pytest.mark.parametrize("before", [0, 1])
def test_a_search_expires_the_only_entry_that_is_not_acknowledged(before: int) -> None:
    subscription = opened("Shared", expires_by_search=True)
    kept = [entry_id for entry_id in range(10) if entry_id != before]
    subscription.ack_many(None, [3] * 9, kept)
    assert subscription.expire(3, 9) == 1
    assert subscription.cursor.mark_delete_position == (3, 9)


@pytest.mark.parametrize("skipped", [0, 2, 4])
@pytest.mark.parametrize("last", [0, 1, 4, 8])
def test_a_search_expires_up_to_its_entry_over_ledgers(skipped: int, last: int) -> None:
    ledgers = Ledgers({3: 5})
    ledgers.close(3)
    ledgers.add(5)
    ledgers.grow(5, 10)
    settings = SubscriptionSettings(expires_by_search=True)
    subscription = Subscription("Shared", ledgers, settings=settings)
    subscription.skip(skipped)
    assert subscription.expire(5, last) == 5 - skipped + last + 1
    assert subscription.cursor.mark_delete_position == (5, last)


def test_expiry_up_to_a_ledger_that_is_gone_changes_nothing_that_is_acknowledged() -> None:
    settings = SubscriptionSettings(cursor=CursorSettings(refuse_cumulative_behind=True))
    subscription = Subscription("Shared", Ledgers({3: 5, 5: 2}), settings=settings)
    subscription.skip(5)
    assert subscription.expire(4, 0) == 0
    assert subscription.cursor.backlog_entries == 2


def test_a_cleared_backlog_has_nothing_unread_and_nothing_delayed() -> None:
    subscription = opened("Shared", 9, permits=100, delayed=DelayedDeliveryTracker())
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=5_000).reason is NonDelivery.DELAYED
    assert subscription.clear_backlog() == 9
    assert subscription.read_position == (3, 9)
    assert subscription.summary(0).delayed == 0
    assert subscription.next_wakeup_ms() is None
