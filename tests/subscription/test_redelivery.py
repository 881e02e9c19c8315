"""Redelivery: negative acknowledgments, back-offs, timeouts, counts, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackwell import Ledgers, Position
from ackwell.subscription import (
    NonDelivery,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
)
from tests.subscription.helpers import FULL, deliver, opened


def test_a_negative_acknowledgment_waits_longer_each_time() -> None:
    subscription = opened("Shared", 1, nack_backoff=RedeliveryBackoff(min_ms=100, max_ms=1000, multiplier=3))
    now_ms, waits = 0, []
    for _ in range(4):
        assert deliver(subscription, now_ms) == {"a": [0]}
        assert subscription.nack("a", 3, 0, now_ms=now_ms)
        assert subscription.summary(now_ms).backing_off == 1
        due = subscription.next_wakeup_ms()
        assert due is not None
        assert subscription.advance(due - 1) == 0
        waits.append(due - now_ms)
        now_ms = due
    assert waits == [100, 300, 900, 1000]
    assert subscription.redelivery_count(3, 0) == 3
    subscription.validate()


def test_an_acknowledgment_ends_the_back_off() -> None:
    subscription = opened("Shared", 1)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.ack("a", 3, 0)
    assert subscription.next_wakeup_ms() is None
    assert subscription.advance(10**9) == 0


def everything_again(subscription: Subscription) -> None:
    subscription.redeliver("a")
    subscription.remove_consumer("a")


@pytest.mark.parametrize(
    "back",
    [
        everything_again,
        lambda subscription: subscription.remove_consumer("a"),
        lambda subscription: subscription.redeliver("a", [(3, 0)]) and subscription.remove_consumer("a"),
        lambda subscription: subscription.seek(3, 0) or subscription.remove_consumer("a"),
    ],
)
def test_a_back_off_ends_when_its_message_goes_back(back: Callable[[Subscription], object]) -> None:
    subscription = opened("Shared", 1)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    back(subscription)
    assert subscription.next_wakeup_ms() is None
    subscription.add_consumer("b")
    subscription.flow("b", 2)
    assert deliver(subscription) == {"b": [0]}
    assert subscription.advance(FULL) == 0


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_an_acknowledged_message_cannot_be_given_back(kind: str) -> None:
    subscription = opened(kind)
    deliver(subscription)
    subscription.ack("a", 3, 2)
    assert not subscription.nack("a", 3, 2, now_ms=0)
    assert subscription.next_wakeup_ms() is None


def test_a_second_negative_acknowledgment_begins_the_back_off_anew() -> None:
    subscription = opened("Shared", nack_backoff=RedeliveryBackoff(60_000, 60_000))
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.nack("a", 3, 0, now_ms=30_000)
    assert subscription.next_wakeup_ms() == 90_000
    assert [subscription.advance(now_ms) for now_ms in (60_000, 89_999, 90_000)] == [0, 0, 1]


def test_a_single_message_that_was_taken_back_has_only_its_next_deadline() -> None:
    subscription = opened("Shared", ack_timeout_ms=1_000)
    subscription.dispatch(3, 0, now_ms=0)
    subscription.dispatch(3, 1, now_ms=5_000)
    subscription.redeliver("a", [(3, 1)])
    assert subscription.dispatch(3, 1, now_ms=5_500).consumer == "a"
    assert [subscription.advance(now_ms) for now_ms in (6_000, 6_999, 7_000)] == [1, 0, 1]


def test_a_message_not_acknowledged_in_time_is_redelivered_and_never_early() -> None:
    subscription = opened("Shared", 3, ack_timeout_ms=5_000, ack_timeout_tick_ms=1_000)
    assert deliver(subscription, 300) == {"a": [0, 1, 2]}
    subscription.ack("a", 3, 1)
    assert subscription.next_wakeup_ms() == 6_000
    assert subscription.advance(5_999) == 0
    assert subscription.advance(6_000) == 2
    assert deliver(subscription, 6_000) == {"a": [0, 2]}
    assert subscription.redelivery_count(3, 0) == 1
    # An entry that was redelivered in between has only its new deadline.
    subscription.redeliver("a", [(3, 0)])
    assert deliver(subscription, 9_000) == {"a": [0]}
    assert subscription.advance(11_000) == 1
    assert subscription.advance(14_000) == 1
    subscription.validate()


def test_times_before_earlier_ones_delay_redeliveries_and_lose_none() -> None:
    backoff = RedeliveryBackoff(1_000, 1_000)
    subscription = opened("Shared", 4, ack_timeout_ms=5_000, ack_timeout_tick_ms=1_000, nack_backoff=backoff)
    for entry_id, now_ms in enumerate((9_000, 2_000, 9_000, 2_000)):
        assert subscription.dispatch(3, entry_id, now_ms=now_ms).consumer == "a"
    # A back-off has its own end. An ack timeout ends with the latest one before it.
    assert subscription.nack("a", 3, 2, now_ms=9_000)
    assert subscription.nack("a", 3, 3, now_ms=2_000)
    assert [subscription.advance(now_ms) for now_ms in (3_000, 2_000, 9_999, 10_000)] == [1, 0, 0, 1]
    assert [subscription.advance(now_ms) for now_ms in (7_000, 13_999, 14_000)] == [0, 0, 2]
    subscription.validate()
    assert deliver(subscription, 1_000) == {"a": [0, 1, 2, 3]}
    assert [subscription.redelivery_count(3, each) for each in range(4)] == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_messages_of_one_read_that_are_not_acknowledged_in_time_are_redelivered(kind: str) -> None:
    subscription = opened(kind, 3, ack_timeout_ms=5_000, ack_timeout_tick_ms=1_000)
    (delivery,) = subscription.dispatch_many([3, 3, 3], [0, 1, 2], 300, sticky_key_hashes=[1, 2, 3])
    assert delivery.consumer == "a"
    subscription.ack("a", 3, 1)
    assert subscription.next_wakeup_ms() == 6_000
    assert [subscription.advance(now_ms) for now_ms in (5_999, 6_000)] == [0, 2]
    assert deliver(subscription, 6_000) == {"a": [0, 2]}


@pytest.mark.parametrize("back", [lambda each: each.redeliver("a"), lambda each: each.seek(3, 0)])
def test_a_message_that_was_taken_back_has_the_deadline_of_its_next_delivery(
    back: Callable[[Subscription], object],
) -> None:
    subscription = opened("Shared", 2, ack_timeout_ms=1_000)
    deliver(subscription)
    back(subscription)
    assert deliver(subscription, now_ms=500) == {"a": [0, 1]}
    assert subscription.next_wakeup_ms() == 2_000
    assert [subscription.advance(now_ms) for now_ms in (1_000, 1_999, 2_000)] == [0, 0, 2]


@pytest.mark.parametrize(
    "end",
    [
        lambda subscription: subscription.ack(None, 3, 0),
        lambda subscription: subscription.ack_many(None, [3], [0]),
        lambda subscription: subscription.skip(1),
        lambda subscription: subscription.seek(3, 0),
    ],
)
def test_a_dead_letter_that_is_acknowledged_or_read_again_is_none(
    end: Callable[[Subscription], object],
) -> None:
    subscription = opened("Shared", max_redeliver_count=0)
    subscription.dispatch(3, 0, now_ms=0)
    subscription.redeliver("a")
    assert subscription.dispatch(3, 0, now_ms=0).reason is NonDelivery.DEAD_LETTER
    assert subscription.dead_letters == [(3, 0)]
    end(subscription)
    assert subscription.dead_letters == []
    subscription.validate()


def test_without_a_limit_nothing_can_be_a_dead_letter() -> None:
    for limit, limited in ((None, False), (0, True), (3, True)):
        settings = SubscriptionSettings(max_redeliver_count=limit)
        assert Subscription("Shared", Ledgers({3: 1}), settings=settings)._state.counts.limited is limited


class Visited(dict[Position, int]):
    """Counts how many of its items are looked at one after the other."""

    visits = 0

    def __iter__(self) -> Iterator[Position]:
        for each in super().__iter__():
            self.visits += 1
            yield each

    def items(self) -> Any:
        return [(each, self[each]) for each in self]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_after_a_trim_a_read_does_not_examine_waiting_messages(kind: str) -> None:
    ledgers = Ledgers({3: 2, 5: 1_000})
    subscription = opened(kind, ledgers, nack_backoff=RedeliveryBackoff(100, 100))
    deliver(subscription)
    subscription.redeliver("a", [(3, 0)])
    for entry_id in range(900):
        subscription.nack("a", 5, entry_id, now_ms=0)
    subscription.nack("a", 3, 1, now_ms=0)
    ledgers.trim_before(5)
    backoffs = subscription._state.backoffs
    backoffs.due_ms = waiting = Visited(backoffs.due_ms)
    assert deliver(subscription) == {}
    assert waiting.visits == 0
    assert subscription.next_wakeup_ms() == 100
    # A trimmed entry is dropped when its back-off ends, and not delivered.
    assert subscription.advance(100) == 901
    assert deliver(subscription, 100) == {"a": [*range(900)]}
    assert subscription.next_wakeup_ms() is None
    subscription.validate()
