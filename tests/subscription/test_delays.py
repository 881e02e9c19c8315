"""Delayed messages: never early, counted once, and forgotten with their entries."""

from __future__ import annotations

import numpy as np
import pytest

from ackwell import Ledgers, LimitError, Position
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import (
    NonDelivery,
    StickyRanges,
    Subscription,
    SubscriptionType,
)
from tests.subscription.helpers import FULL, deliver, opened


@pytest.mark.parametrize("many", [False, True])
def test_a_delayed_message_is_not_delivered_before_its_time(many: bool) -> None:
    subscription = opened("Shared", 100, delayed=DelayedDeliveryTracker(strict=True))
    deliver_at_ms = {entry: 37 * entry % 50 * 100 for entry in range(100)}
    got: dict[int, int] = {}
    for now_ms in range(0, 5_000, 50):
        reads = subscription.next_reads(1000, now_ms)
        if many and reads:
            times = [deliver_at_ms[p.entry_id] for p in reads]
            columns = np.array(reads).T
            for each in subscription.dispatch_many(columns[0], columns[1], now_ms, deliver_at_ms=times):
                got |= dict.fromkeys(each.entry_ids.tolist(), now_ms)
            continue
        for position in reads:
            at = deliver_at_ms[position.entry_id]
            if subscription.dispatch(*position, now_ms=now_ms, deliver_at_ms=at):
                got[position.entry_id] = now_ms
    assert got == deliver_at_ms
    assert subscription.summary(0).delayed == 0


@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_a_delivery_time_without_a_tracker_is_refused(kind: str) -> None:
    subscription = opened(kind, 2)
    with pytest.raises(ValueError, match=r"delayed=DelayedDeliveryTracker\(\)"):
        subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=5)
    with pytest.raises(ValueError, match="needs a tracker"):
        subscription.dispatch_many([3, 3], [0, 1], 0, deliver_at_ms=[0, 5])
    assert subscription == opened(kind, 2)
    assert len(subscription.dispatch_many([3, 3], [0, 1], 0, deliver_at_ms=[0, 0])) == 1


def test_a_change_of_type_begins_and_ends_delays() -> None:
    subscription = Subscription("Shared", Ledgers({3: 1}), delayed=DelayedDeliveryTracker())
    for kind, answer in (
        ("Exclusive", "a"),
        ("Key_Shared", NonDelivery.DELAYED),
        ("Failover", "a"),
        ("Shared", NonDelivery.DELAYED),
    ):
        subscription.change_type(SubscriptionType(kind))
        subscription.add_consumer("a")
        subscription.flow("a", 1)
        outcome = subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=1, deliver_at_ms=FULL)
        assert (outcome.reason or outcome.consumer) == answer
        subscription.remove_consumer("a")


def test_exclusive_and_failover_do_not_delay() -> None:
    for kind in ("Exclusive", "Failover"):
        subscription = opened(kind, 1, delayed=DelayedDeliveryTracker(strict=True))
        assert deliver(subscription, deliver_at_ms=10**9) == {"a": [0]}


def test_fixed_delays_stop_reading_until_one_is_due_or_a_message_is_plain() -> None:
    tracker = DelayedDeliveryTracker.pulsar(strict=True, fixed_delay_lookahead=3)
    subscription = opened("Shared", 6, permits=100, delayed=tracker)
    for entry_id in range(3):
        assert subscription.stall is None
        assert (
            subscription.dispatch(3, entry_id, now_ms=0, deliver_at_ms=10_240).reason is NonDelivery.DELAYED
        )
    assert subscription.stall is NonDelivery.FIXED_DELAY
    assert subscription.next_reads(10, now_ms=10_239) == []
    assert subscription.next_reads(10, now_ms=10_240) == [Position(3, entry_id) for entry_id in range(6)]
    for entry_id in range(3):
        assert subscription.dispatch(3, entry_id, now_ms=10_240, deliver_at_ms=10_240).consumer == "a"
    assert subscription.dispatch(3, 3, now_ms=10_240).consumer == "a"
    assert subscription.dispatch(3, 4, now_ms=10_240, deliver_at_ms=20_480).reason is NonDelivery.DELAYED
    subscription.validate()


@pytest.mark.parametrize("batch", [False, True])
def test_a_plain_message_ends_the_pause_of_fixed_delays(*, batch: bool) -> None:
    """The broker delivered 30 of 30 plain messages that it read beside delayed ones."""
    tracker = DelayedDeliveryTracker.pulsar(fixed_delay_lookahead=2)
    subscription = opened("Shared", 40, permits=100, delayed=tracker)
    for entry_id in (0, 1):
        subscription.dispatch(3, entry_id, now_ms=0, deliver_at_ms=60_000)
    assert subscription.stall is NonDelivery.FIXED_DELAY
    # Read before the pause, as one batch with the delayed ones.
    if batch:
        assert subscription.dispatch_many([3], [2], 0)
    else:
        assert subscription.dispatch(3, 2, now_ms=0).consumer == "a"
    assert subscription.stall is None
    assert len(subscription.next_reads(100, now_ms=0)) == 37


def test_a_tracker_that_is_full_refuses_the_first_entry_and_ends_a_batch_at_a_later_one() -> None:
    tracker = DelayedDeliveryTracker(strict=True, max_bytes=0)
    subscription = opened("Shared", 9, permits=10, delayed=tracker)
    late = 10**9
    with pytest.raises(LimitError):
        subscription.dispatch_many([3] * 3, range(3), 0, deliver_at_ms=[late] * 3)
    assert subscription.pending("a") == {}
    (delivery,) = subscription.dispatch_many([3] * 3, range(3), 0, deliver_at_ms=[0, late, late])
    assert delivery.entry_ids.tolist() == [0]
    assert list(subscription.pending("a")) == [(3, 0)]
    subscription.validate()


def test_a_delayed_message_that_is_due_by_the_tick_is_not_delayed_again() -> None:
    tracker = DelayedDeliveryTracker()
    subscription = opened("Shared", 1, permits=1, delayed=tracker)
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=5_000).reason is NonDelivery.DELAYED
    due_ms = subscription.next_wakeup_ms()
    assert due_ms is not None
    assert due_ms < 5_000
    assert subscription.next_reads(1, due_ms) == [(3, 0)]
    assert subscription.dispatch(3, 0, now_ms=due_ms, deliver_at_ms=5_000).consumer == "a"


def test_a_delayed_message_whose_ledger_was_trimmed_is_not_delivered() -> None:
    ledgers = Ledgers({3: 1, 5: 1})
    subscription = Subscription("Shared", ledgers, delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 2)
    for ledger_id in (3, 5):
        delayed = subscription.dispatch(ledger_id, 0, now_ms=0, deliver_at_ms=5_000)
        assert delayed.reason is NonDelivery.DELAYED
    ledgers.trim_before(5)
    assert subscription.advance(5_000) == 1
    assert subscription.summary(5_000).to_redeliver == 1
    assert subscription.next_reads(2, 5_000) == [(5, 0)]


def test_a_recorded_delivery_of_a_delayed_message_ends_its_delay() -> None:
    subscription = opened("Shared", 1, permits=1, delayed=DelayedDeliveryTracker())
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=50_000).reason is NonDelivery.DELAYED
    subscription.delivered("a", 3, 0, now_ms=1_000)
    subscription.validate()
    assert subscription.next_wakeup_ms() is None
    assert subscription.advance(50_000) == 0


def test_a_delayed_message_is_queued_if_its_hash_has_no_owner() -> None:
    tracker = DelayedDeliveryTracker()
    subscription = Subscription("Key_Shared", Ledgers({3: 1}), delayed=tracker, selector=StickyRanges())
    subscription.add_consumer("a", hash_ranges=[(100, 200)])
    subscription.flow("a", 1)
    late = subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=150, deliver_at_ms=5_000)
    assert late.reason is NonDelivery.DELAYED
    assert subscription.next_reads(1, 5_000) == [(3, 0)]
    assert subscription.dispatch(3, 0, now_ms=5_000, sticky_key_hash=150).consumer == "a"


def test_a_tracker_that_is_full_takes_nothing_back_that_was_delivered_again() -> None:
    tracker = DelayedDeliveryTracker(strict=True, max_bytes=0)
    subscription = opened("Shared", 2, permits=2, delayed=tracker)
    assert subscription.dispatch(3, 0, now_ms=0).consumer == "a"
    subscription.redeliver("a")
    (delivery,) = subscription.dispatch_many([3, 3], [0, 1], 0, deliver_at_ms=[0, 5_000])
    assert delivery.entry_ids.tolist() == [0]
    assert subscription.read_position == (3, 1)


def test_advancing_counts_the_delayed_messages_that_are_to_be_delivered() -> None:
    tracker = DelayedDeliveryTracker(strict=True)
    subscription = opened("Shared", 4, permits=10, delayed=tracker)
    for entry_id, due_ms in enumerate((50, 50, 50, 90)):
        assert not subscription.dispatch(3, entry_id, now_ms=0, deliver_at_ms=due_ms)
    subscription.ack(None, 3, 1)
    assert [subscription.advance(now_ms) for now_ms in (49, 50, 89, 90, 91)] == [0, 2, 0, 1, 0]


def test_all_delays_that_end_at_once_end_at_once() -> None:
    entries = np.arange(10_001)
    subscription = Subscription("Shared", Ledgers({3: len(entries)}), delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 10**6)
    due_ms = np.full(len(entries), 5_000)
    subscription.dispatch_many(np.full(len(entries), 3), entries, 0, deliver_at_ms=due_ms)
    assert subscription.advance(10_000) == len(entries)
