"""Limits of unacknowledged messages and of ranges to save; the domains of arguments and settings."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ackwell import Ledgers, LimitError, Position, ProtocolError
from ackwell.cursor.ack_sets import BATCH_SIZE_MAX
from ackwell.subscription import (
    NonDelivery,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
)
from tests.subscription.helpers import FULL, deliver, opened


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_limits_that_are_set_later_hold_from_then_on(kind: str) -> None:
    subscription = opened(kind, 10)
    subscription.limit_unacked(4, 0)
    assert deliver(subscription) == {"a": [0, 1, 2, 3]}
    subscription.limit_unacked(0, 6)
    subscription.ack("a", 3, 0)
    subscription.ack("a", 3, 1)
    assert deliver(subscription) == {"a": [4, 5, 6, 7]}
    subscription.limit_unacked(0, 0)
    subscription.ack("a", 3, 2)
    assert deliver(subscription) == {"a": [8, 9]}


@pytest.mark.parametrize("timeout_ms", [0, 1_000])
def test_a_blocked_consumer_gets_a_message_again_that_waited_long_enough(timeout_ms: int) -> None:
    subscription = opened("Shared", max_unacked_per_consumer=4, ack_timeout_ms=timeout_ms)
    for entry_id in range(4):
        # Only the first one has waited long enough.
        assert (
            subscription.dispatch(3, entry_id, now_ms=FULL if timeout_ms and entry_id else 0).consumer == "a"
        )
    if not timeout_ms:
        subscription.nack("a", 3, 0, now_ms=0)
    assert subscription.stall is NonDelivery.CONSUMER_BLOCKED
    assert subscription.next_reads(1, FULL - 1) == [(3, 0)]
    assert subscription.dispatch(3, 0, now_ms=FULL).consumer == "a"


def test_bad_names_numbers_and_bytes_are_refused_and_nothing_changes() -> None:
    subscription = opened("Shared")
    with pytest.raises(ProtocolError, match="already connected"):
        subscription.add_consumer("a")
    with pytest.raises(ValueError, match="expected 0 to"):
        subscription.flow("a", -1)
    with pytest.raises(ProtocolError, match="hash ranges"):
        subscription.add_consumer("b", hash_ranges=[(0, 1)])
    assert subscription.consumers == ["a"]
    with pytest.raises(ValueError, match="batch size 0"):
        subscription.dispatch_many([3], [0], 0, batch_sizes=[0])
    with pytest.raises(ValueError, match="batch size 0"):
        subscription.dispatch(3, 0, now_ms=0, batch_size=0)
    with pytest.raises(LimitError, match="batch size"):
        subscription.dispatch(3, 0, now_ms=0, batch_size=BATCH_SIZE_MAX + 1)
    assert deliver(subscription) == {"a": [*range(10)]}
    with pytest.raises(ValueError, match="is not a subscription type"):
        Subscription("Sahred", Ledgers({1: 1}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="multiplier"):
        RedeliveryBackoff(1, 2, 0.5)
    with pytest.raises(ValueError, match="max_unacked_per_consumer"):
        SubscriptionSettings(max_unacked_per_consumer=-1)


def test_a_limit_that_holds_back_is_named() -> None:
    for kind in ("Shared", "Key_Shared"):
        consumer = opened(kind, max_unacked_per_consumer=1)
        assert consumer.dispatch(3, 0, now_ms=0, sticky_key_hash=1).consumer == "a"
        assert consumer.stall is NonDelivery.CONSUMER_BLOCKED
        assert consumer.dispatch(3, 1, now_ms=0, sticky_key_hash=2).reason is NonDelivery.CONSUMER_BLOCKED
        whole = opened(kind, max_unacked_per_subscription=1)
        assert whole.dispatch(3, 0, now_ms=0, sticky_key_hash=1).consumer == "a"
        assert whole.stall is NonDelivery.SUBSCRIPTION_BLOCKED
        assert whole.dispatch(3, 1, now_ms=0, sticky_key_hash=2).reason is NonDelivery.SUBSCRIPTION_BLOCKED


def test_settings_out_of_their_domain_are_refused() -> None:
    for name in ("round_robin_batch_size", "ack_timeout_tick_ms"):
        with pytest.raises(ValueError, match=f"{name} is 0; expected at least 1"):
            SubscriptionSettings(**{name: 0})  # type: ignore[arg-type]
        SubscriptionSettings(**{name: 1})  # type: ignore[arg-type]
    for name in ("max_unacked_per_consumer", "max_unacked_per_subscription", "ack_timeout_ms"):
        with pytest.raises(ValueError, match=f"{name} is -1; expected at least 0"):
            SubscriptionSettings(**{name: -1})  # type: ignore[arg-type]
        SubscriptionSettings(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_limits_end_turns_in_runs_as_for_single_entries(seed: int) -> None:
    numbers = random.Random(seed)
    settings: dict[str, Any] = {
        "round_robin_batch_size": numbers.randint(1, 3),
        "max_unacked_per_subscription": numbers.choice((0, 9, 20)),
        "max_unacked_per_consumer": numbers.choice((0, 7, 15)),
    }
    whole, single = (opened("Shared", 60, **settings) for _ in range(2))
    names = "bcd"[: numbers.randint(1, 3)]
    for subscription in (whole, single):
        subscription.remove_consumer("a")
    for name in names:
        priority, permits = numbers.choice((0, 0, 0, 1)), numbers.choice((1, 2, 3, 10, 40, 40, 40))
        for subscription in (whole, single):
            subscription.add_consumer(name, priority=priority)
            subscription.flow(name, permits)
    got: list[Position] = []
    for _ in range(12):
        reads = whole.next_reads(numbers.choice((1, 3, 7, 25)), 0)
        assert single.next_reads(len(reads), 0) == reads
        # The entries are dispatched in two calls, so a turn may continue in the second.
        middle = numbers.randint(0, len(reads))
        for part in filter(None, (reads[:middle], reads[middle:])):
            columns = [p.ledger_id for p in part], [p.entry_id for p in part]
            owners = {
                entry: each.consumer
                for each in whole.dispatch_many(*columns, 0)
                for entry in each.entry_ids.tolist()
            }
            one_by_one = {p.entry_id: single.dispatch(p, now_ms=0) for p in part}
            assert owners == {e: outcome.consumer for e, outcome in one_by_one.items() if outcome}
            got += [Position(3, entry_id) for entry_id in owners]
        # Some are acknowledged, and some more are asked for.
        acked = [position for position in got if numbers.random() < 0.4]
        got = [position for position in got if position not in acked]
        name, permits = numbers.choice(names), numbers.choice((0, 1, 5))
        for subscription in (whole, single):
            for position in acked:
                subscription.ack(None, *position)
            if permits:
                subscription.flow(name, permits)
        assert whole == single
    whole.validate()


def test_the_limit_of_a_subscription_ends_a_round_that_each_consumer_has_permits_for() -> None:
    settings: dict[str, Any] = {"round_robin_batch_size": 1, "max_unacked_per_subscription": 20}
    whole, single = (opened("Shared", 60, **settings) for _ in range(2))
    for subscription in (whole, single):
        for name in "bc":
            subscription.add_consumer(name)
            subscription.flow(name, 1000)
        assert len(subscription.next_reads(25, 0)) == 25
    deliveries = whole.dispatch_many([3] * 25, list(range(25)), 0)
    owners = {entry: each.consumer for each in deliveries for entry in each.entry_ids.tolist()}
    answers = [single.dispatch(3, entry_id, now_ms=0) for entry_id in range(25)]
    assert owners == {entry_id: outcome.consumer for entry_id, outcome in enumerate(answers) if outcome}
    assert len(owners) == 20
    assert whole == single


def test_times_up_to_half_of_int64_are_times() -> None:
    subscription = opened("Shared")
    subscription.advance(2**62)
    with pytest.raises(ValueError, match="4611686018427387905"):
        subscription.advance(2**62 + 1)


def test_a_consumer_has_at_most_as_many_messages_as_a_broker_lets_it_have() -> None:
    subscription = opened("Shared", 200_000, permits=FULL)
    delivery = subscription.dispatch_many(np.full(60_000, 3), np.arange(60_000), 0)
    assert [len(each.entry_ids) for each in delivery] == [50_000]


@pytest.mark.parametrize("at_read", [False, True])
def test_a_subscription_at_its_limit_gets_nothing_new_until_less_than_half_is_left(*, at_read: bool) -> None:
    subscription = opened("Shared", max_unacked_per_subscription=4, subscription_limit_at_read=at_read)
    for entry_id in range(4):
        assert subscription.dispatch(3, entry_id, now_ms=0).consumer == "a"
    subscription.ack_many("a", [3, 3], [0, 1])
    assert subscription.stall is NonDelivery.SUBSCRIPTION_BLOCKED
    subscription.ack("a", 3, 2)
    assert subscription.stall is None


def test_a_full_consumer_that_asked_for_redelivery_is_blocked_again_when_it_grants_permits() -> None:
    subscription = opened("Shared", max_unacked_per_consumer=2, redelivery_unblocks=True)
    assert all(subscription.dispatch(3, entry_id, now_ms=0) for entry_id in (0, 1))
    subscription.redeliver("a", [(3, 9)])
    assert subscription.stall is None
    subscription.flow("a", 1)
    assert subscription.stall is NonDelivery.CONSUMER_BLOCKED


@pytest.mark.parametrize(
    ("version", "unblocks"), [("4.0", True), ("4.2", True), ("5.0.0-M1", True), ("5.0", False)]
)
def test_a_request_for_entries_that_are_not_pending_unblocks_up_to_5_0_0_m1(
    version: str, unblocks: bool
) -> None:
    preset = SubscriptionSettings.pulsar(version)
    rules = ("redelivery_unblocks", "empty_redelivery_unblocks")
    kept = {rule: getattr(preset, rule) for rule in rules}
    subscription = opened("Shared", max_unacked_per_consumer=2, **kept)
    assert all(subscription.dispatch(3, entry_id, now_ms=0) for entry_id in (0, 1))
    subscription.redeliver("a", [(3, 9)])
    assert subscription.stall is (None if unblocks else NonDelivery.CONSUMER_BLOCKED)
    subscription.redeliver("a")
    assert subscription.stall is None


def test_reading_pauses_above_as_many_ranges_as_can_be_saved() -> None:
    subscription = opened("Shared", pause_above_ranges=2)
    subscription.ack_many(None, [3, 3], [2, 4])
    assert subscription.stall is None
    subscription.ack(None, 3, 6)
    assert subscription.stall is NonDelivery.PAUSED


def test_a_subscription_that_is_blocked_names_its_limit_and_not_the_permits() -> None:
    """The limit blocks until half of it is acknowledged."""
    subscription = opened("Shared", permits=4, max_unacked_per_subscription=4)
    assert deliver(subscription) == {"a": [0, 1, 2, 3]}
    subscription.ack("a", 3, 0)
    stalls = [subscription.stall]
    subscription.ack_many(None, [3, 3, 3], [1, 2, 3])
    stalls.append(subscription.stall)
    assert stalls == [NonDelivery.SUBSCRIPTION_BLOCKED, NonDelivery.NO_PERMITS]


@pytest.mark.parametrize("value", [1.5, "1", True, None])
@pytest.mark.parametrize("name", ["ack_timeout_ms", "max_unacked_per_consumer", "read_batch_size"])
def test_a_setting_that_is_not_an_integer_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name} is .*; expected an integer"):
        SubscriptionSettings(**{name: value})  # type: ignore[arg-type]


def test_an_optional_limit_is_an_integer_or_absent() -> None:
    assert SubscriptionSettings(max_redeliver_count=None, pause_above_ranges=None) == SubscriptionSettings()
    with pytest.raises(TypeError, match=r"max_redeliver_count is 2\.5"):
        SubscriptionSettings(max_redeliver_count=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_redeliver_count is -1; expected at least 0"):
        SubscriptionSettings(max_redeliver_count=-1)
