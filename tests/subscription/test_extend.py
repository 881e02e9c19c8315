"""Leases: an ack timeout that its consumer extends."""

from __future__ import annotations

import random

import pytest

from ackwell import Ledgers, ProtocolError
from ackwell.subscription import (
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)


def opened(kind: str = "Shared", timeout_ms: int = 10_000, tick_ms: int = 1_000) -> Subscription:
    settings = SubscriptionSettings(ack_timeout_ms=timeout_ms, ack_timeout_tick_ms=tick_ms)
    subscription = Subscription(SubscriptionType(kind), Ledgers({3: 20}), settings=settings)
    subscription.add_consumer("a")
    subscription.flow("a", 10_000)
    return subscription


def deliver(subscription: Subscription, now_ms: int) -> list[int]:
    reads = subscription.next_reads(20, now_ms)
    return [p.entry_id for p in reads if subscription.dispatch(*p, now_ms=now_ms)]


def test_extended_messages_time_out_later_and_the_others_on_time() -> None:
    subscription = opened()
    deliver(subscription, 0)
    assert subscription.extend("a", [(3, 0), (3, 5)], now_ms=4_000) == 2
    assert subscription.next_wakeup_ms() == 10_000
    assert subscription.advance(10_000) == 18
    assert subscription.next_wakeup_ms() == 14_000
    assert [subscription.advance(now_ms) for now_ms in (13_999, 14_000)] == [0, 2]
    subscription.validate()


def test_a_message_queued_by_an_abort_has_only_the_deadline_of_its_next_delivery() -> None:
    subscription = opened()
    deliver(subscription, 0)
    subscription.extend("a", [(3, 1)], now_ms=1_000)
    transaction = TransactionId(0, 1)
    command = CommandAck(1, message_ids=(MessageId(3, 0), MessageId(3, 1)), transaction=transaction)
    subscription.handle("a", command)
    assert subscription.abort(transaction) == 2
    assert deliver(subscription, 9_000) == [0, 1]
    assert subscription.advance(10_000) == 18
    assert [subscription.advance(now_ms) for now_ms in (11_000, 18_999, 19_000)] == [0, 0, 2]
    subscription.validate()


def test_a_recorded_redelivery_has_only_its_own_deadline() -> None:
    subscription = opened()
    deliver(subscription, 0)
    subscription.delivered("a", 3, 0, now_ms=9_000)
    assert [subscription.advance(now_ms) for now_ms in (10_000, 18_999, 19_000)] == [19, 0, 1]


def test_the_next_wakeup_follows_when_all_is_extended() -> None:
    subscription = opened()
    deliver(subscription, 0)
    for now_ms in range(1_000, 60_000, 1_000):
        assert subscription.extend("a", now_ms=now_ms) == 20
        assert subscription.next_wakeup_ms() == now_ms + 10_000
        assert subscription.advance(now_ms) == 0
    assert subscription.advance(69_000) == 20
    assert subscription.next_wakeup_ms() is None


def test_only_pending_entries_are_extended() -> None:
    subscription = opened()
    subscription.add_consumer("b")
    deliver(subscription, 0)
    subscription.ack("a", 3, 1)
    assert subscription.extend("a", [(3, 0), (3, 1), (3, 99), (3, 0)], now_ms=0) == 2
    assert subscription.extend("b", [(3, 0)], now_ms=0) == subscription.extend("b", now_ms=0) == 0
    with pytest.raises(ProtocolError):
        subscription.extend("c", now_ms=0)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared"])
def test_without_a_timeout_there_is_nothing_to_extend(kind: str) -> None:
    subscription = opened(kind, timeout_ms=0)
    deliver(subscription, 0)
    assert subscription.extend("a", now_ms=0) == 0
    assert subscription.next_wakeup_ms() is None


def test_a_message_that_went_back_has_only_the_deadline_of_its_next_delivery() -> None:
    subscription = opened()
    deliver(subscription, 0)
    subscription.ack_many("a", [3] * 19, range(1, 20))
    subscription.extend("a", now_ms=2_000)
    subscription.redeliver("a", [(3, 0)])
    assert deliver(subscription, 3_000) == [0]
    assert [subscription.advance(now_ms) for now_ms in (12_000, 12_999, 13_000)] == [0, 0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_deliveries_and_extensions_is_that_of_one_deadline_each(seed: int) -> None:
    chance = random.Random(seed)
    subscription = opened(tick_ms=100)
    deadlines: dict[int, int] = {}
    now_ms = 0
    for _ in range(300):
        now_ms += chance.choice((0, 30, 100, 900, 4_000))
        due = {entry_id for entry_id, deadline_ms in deadlines.items() if deadline_ms <= now_ms}
        assert subscription.advance(now_ms) == len(due)
        for entry_id in deliver(subscription, now_ms):
            deadlines[entry_id] = -(-(now_ms + 10_000) // 100) * 100
        assert due <= {entry_id for entry_id, deadline_ms in deadlines.items() if deadline_ms > now_ms}
        chosen = chance.sample(range(20), 3)
        if chance.random() < 0.2:
            subscription.redeliver("a", [(3, entry_id) for entry_id in chosen])
            for entry_id in chosen:
                deadlines.pop(entry_id, None)
        else:
            subscription.extend("a", [(3, entry_id) for entry_id in chosen], now_ms=now_ms)
            deadlines.update(dict.fromkeys(deadlines.keys() & chosen, -(-(now_ms + 10_000) // 100) * 100))
        assert subscription.next_wakeup_ms() == min(deadlines.values(), default=None)
