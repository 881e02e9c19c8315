"""Dispatch: turns, permits, the active consumer, reasons for no delivery, and the metadata of a delivery."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ackwell import Ledgers, Position, ProtocolError
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import (
    ActiveChange,
    CommandAck,
    ConsistentHashing,
    ConsumerKey,
    MessageId,
    NonDelivery,
    Outcome,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    dispatcher,
)
from tests.subscription.helpers import deliver, opened


def test_the_place_in_the_round_is_a_number_as_in_the_broker() -> None:
    """Seen live on 4.0.7, 4.2.4 and 5.0.1: after a leave the next consumer is the one at the same place."""
    subscription = opened("Shared", 20, "abc", 0, round_robin_batch_size=1)
    entries = iter(range(20))

    def served(permits: dict[str, int], count: int) -> str:
        for consumer, number in permits.items():
            subscription.flow(consumer, number)
        return "".join(str(subscription.dispatch(3, next(entries), now_ms=0).consumer) for _ in range(count))

    assert served({"b": 1}, 1) == "b"
    assert served({"a": 1}, 1) == "a"
    subscription.ack("a", 3, 1)
    subscription.remove_consumer("a")
    assert served({"b": 9, "c": 9}, 4) == "cbcb"
    subscription.add_consumer("d", priority=-1)
    assert served({}, 3) == "bcb"
    assert served({"d": 2}, 4) == "ddbc"


def test_shared_hands_out_turns_of_a_few_entries() -> None:
    subscription = opened("Shared", 10, "abc", round_robin_batch_size=2)
    assert deliver(subscription) == {"a": [0, 1, 6, 7], "b": [2, 3, 8, 9], "c": [4, 5]}


def test_shared_serves_a_lower_priority_only_when_the_higher_has_no_permits() -> None:
    subscription = opened("Shared", 6, "")
    for name, priority, permits in (("low", 1, 10), ("high", 0, 2)):
        subscription.add_consumer(name, priority=priority)
        subscription.flow(name, permits)
    assert deliver(subscription) == {"high": [0, 1], "low": [2, 3, 4, 5]}


def test_permits_are_messages_and_a_batch_may_overdraw_them() -> None:
    subscription = opened("Shared", 5, "a", permits=4)
    assert deliver(subscription, batch_size=3) == {"a": [0, 1]}
    assert subscription.summary(0).consumers[0].permits == -2
    assert subscription.next_reads(10, 0) == []
    subscription.flow("a", 2)
    assert subscription.next_reads(10, 0) == []
    subscription.flow("a", 1)
    assert deliver(subscription, batch_size=3) == {"a": [2]}


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Exclusive"])
@pytest.mark.parametrize("seed", range(15))
def test_many_at_once_are_decided_as_one_by_one(kind: str, seed: int) -> None:
    numbers = random.Random(seed)
    names = "a" if kind == "Exclusive" else "abcdef"
    settings: dict[str, Any] = {
        "round_robin_batch_size": numbers.randint(1, 5),
        "max_unacked_per_consumer": numbers.choice([0, 30, 200]),
    }
    permits = {name: numbers.choice([15, 60, 5000]) for name in names}
    sizes = [numbers.randint(1, 4) for _ in range(300)] if seed % 2 else None
    hashes = [numbers.randint(1, 65_535) for _ in range(300)] if kind == "Key_Shared" else None
    found = []
    for at_once in (False, True):
        subscription = opened(kind, 300, "", **settings)
        for name in names:
            subscription.add_consumer(name)
            subscription.flow(name, permits[name])
        owner: dict[Position, ConsumerKey] = {}
        for _ in range(6):
            reads = subscription.next_reads(40, 0)
            if at_once and reads:
                columns = np.array(reads).T
                offered = {
                    "batch_sizes": None if sizes is None else [sizes[p.entry_id] for p in reads],
                    "sticky_key_hashes": None if hashes is None else [hashes[p.entry_id] for p in reads],
                }
                for each in subscription.dispatch_many(columns[0], columns[1], 0, **offered):
                    for entry_id in each.entry_ids.tolist():
                        owner[Position(3, entry_id)] = each.consumer
            for position in [] if at_once else reads:
                outcome = subscription.dispatch(
                    position,
                    now_ms=0,
                    batch_size=1 if sizes is None else sizes[position.entry_id],
                    sticky_key_hash=0 if hashes is None else hashes[position.entry_id],
                )
                if outcome.consumer is not None:
                    owner[position] = outcome.consumer
        subscription.validate()
        found.append((owner, subscription.summary(0).consumers))
    assert found[0] == found[1]
    assert found[0][0]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Exclusive", "Failover"])
@pytest.mark.parametrize("seed", range(5))
def test_a_few_are_decided_as_many(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for few in (0, 20):
        monkeypatch.setattr(dispatcher, "SINGLE_ENTRIES_MAX", few)
        numbers = random.Random(seed)
        subscription = opened(kind, 400, "a" if kind == "Exclusive" else "abc", 150, round_robin_batch_size=3)
        got: list[dict[ConsumerKey, list[int]]] = []
        for _ in range(60):
            columns = subscription.next_reads_many(numbers.choice([1, 7, 20, 21]), 0)
            count = len(columns[0])
            deliveries = subscription.dispatch_many(
                *columns,
                0,
                batch_sizes=[numbers.randint(1, 4) for _ in range(count)] if seed % 2 else None,
                sticky_key_hashes=[numbers.randint(1, 65_535) for _ in range(count)],
            )
            got.append({each.consumer: each.entry_ids.tolist() for each in deliveries})
        subscription.validate()
        found.append((got, subscription))
    assert found[0] == found[1]
    assert sum(len(entry_ids) for each in found[0][0] for entry_ids in each.values()) > 50


def test_exclusive_refuses_a_second_consumer() -> None:
    subscription = opened("Exclusive")
    with pytest.raises(ProtocolError, match="already connected"):
        subscription.add_consumer("b")
    assert subscription.consumers == ["a"]


def test_failover_starts_over_with_the_next_consumer() -> None:
    subscription = opened("Failover", 5, "ab")
    assert subscription.active_consumer == "a"
    assert deliver(subscription) == {"a": [0, 1, 2, 3, 4]}
    subscription.ack("a", 3, 1)
    subscription.ack_cumulative("a", 3, 0)
    subscription.remove_consumer("a")
    assert subscription.active_consumer == "b"
    assert deliver(subscription) == {"b": [2, 3, 4]}


def test_failover_spreads_partitions_over_the_consumers_of_the_highest_priority() -> None:
    active = []
    for partition in range(4):
        subscription = opened("Failover", 1, "cab", partition=partition)
        subscription.add_consumer("lower", priority=1)
        active.append(subscription.active_consumer)
    assert active == ["a", "b", "c", "a"]


def test_without_a_consumer_there_is_no_consumer() -> None:
    for kind in ("Shared", "Key_Shared", "Exclusive", "Failover"):
        subscription = Subscription(kind, Ledgers({3: 1}))
        assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=1).reason is NonDelivery.NO_CONSUMER
        assert subscription.stall is subscription.summary(0).stall is NonDelivery.NO_CONSUMER
        assert subscription.next_reads(1, 0) == []


def test_a_position_is_one_argument_or_two() -> None:
    one, two = (opened("Shared", 4, nack_backoff=RedeliveryBackoff(1_000, 1_000)) for _ in range(2))
    for position in (Position(3, 0), Position(3, 1), (3, 2)):
        assert one.dispatch(position, now_ms=0) == two.dispatch(*position, now_ms=0) == Outcome("a")
    assert one.ack("a", (3, 0)) is two.ack("a", 3, 0) is True
    assert one.ack("a", Position(3, 1), ack_set=[0b1]) is two.ack("a", 3, 1, [0b1])
    assert one.nack("a", Position(3, 2), now_ms=5) is two.nack("a", 3, 2, now_ms=5) is True
    assert one.holder((3, 2)) == two.holder(3, 2) == "a"
    one.seek((3, 1))
    two.seek(3, 1)
    assert one == two
    wrong: Any
    for wrong in ((3,), (3, 1, 0), (3, "1"), ("3", 1), [3, 1], None, 3):
        with pytest.raises(TypeError):
            one.ack("a", wrong)
    with pytest.raises(TypeError):
        one.ack("a", (3, 1), 4)
    assert one == two


def test_the_outcome_of_a_consumer_with_id_0_is_true() -> None:
    subscription = opened("Shared", 1, "")
    subscription.add_consumer("a", consumer_id=0)
    assert not subscription.dispatch(3, 0, now_ms=0)
    subscription.flow(0, 1)
    outcome = subscription.dispatch(3, 0, now_ms=0)
    assert outcome
    assert outcome == (0, None)


def test_without_permits_there_are_no_permits() -> None:
    for kind in ("Shared", "Key_Shared", "Exclusive"):
        subscription = Subscription(kind, Ledgers({3: 1}))
        subscription.add_consumer("a")
        assert subscription.stall is NonDelivery.NO_PERMITS
        assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=1).reason is NonDelivery.NO_PERMITS


def test_an_undelivered_entry_has_a_reason() -> None:
    subscription = Subscription(
        "Shared",
        Ledgers({3: 5}),
        delayed=DelayedDeliveryTracker(strict=True),
        settings=SubscriptionSettings(max_redeliver_count=0),
    )
    subscription.add_consumer("a")
    subscription.flow("a", 1000)
    assert subscription.dispatch(3, 1, now_ms=0).reason is NonDelivery.NOT_NEXT
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=9).reason is NonDelivery.DELAYED
    assert subscription.dispatch(3, 0, now_ms=0).reason is NonDelivery.NOT_NEXT
    assert subscription.dispatch(3, 1, now_ms=0).consumer == "a"
    assert subscription.dispatch(3, 1, now_ms=0).reason is NonDelivery.NOT_NEXT
    subscription.redeliver("a", [(3, 1)])
    assert subscription.dispatch(3, 1, now_ms=0).reason is NonDelivery.DEAD_LETTER
    assert subscription.dead_letters == [(3, 1)]
    # It was in `next_reads` before another consumer acknowledged it.
    subscription.ack(None, 3, 2)
    assert subscription.dispatch(3, 3, now_ms=0).consumer == "a"
    assert subscription.dispatch(3, 4, now_ms=0).consumer == "a"
    assert subscription.dispatch(3, 5, now_ms=0).reason is NonDelivery.NOT_NEXT
    assert subscription.stall is None
    subscription.validate()


def test_an_entry_that_does_not_exist_is_not_delivered_at_the_read_position() -> None:
    for kind in ("Shared", "Exclusive"):
        subscription = opened(kind, entries=1)
        assert subscription.dispatch(3, 0, now_ms=0).consumer == "a"
        assert subscription.dispatch(3, 1, now_ms=0).reason is NonDelivery.NOT_NEXT
        assert not list(subscription.dispatch_many([3], [1], 0))


def test_a_look_ahead_that_is_used_up_and_a_pause_are_named() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", selector=selector, look_ahead_per_consumer=1)
    subscription.add_consumer("b")
    subscription.flow("b", 1)
    waiting = list(subscription.next_reads(9, 0))
    key_of_b = next(each for each in range(1, 60_000) if selector.select(each) == "b")
    assert subscription.dispatch(*waiting[0], now_ms=0, sticky_key_hash=key_of_b).consumer == "b"
    for position in waiting[1:3]:
        assert not subscription.dispatch(*position, now_ms=0, sticky_key_hash=key_of_b)
    assert subscription.stall is NonDelivery.LOOK_AHEAD
    paused = opened("Shared", pause_above_ranges=0)
    paused.ack("a", 3, 5)
    assert paused.stall is NonDelivery.PAUSED
    assert paused.next_reads(5, 0) == []


def test_a_change_of_the_active_consumer_is_told_to_all_and_else_to_the_newcomer() -> None:
    failover = Subscription("Failover", Ledgers({3: 1}))
    assert failover.add_consumer("b") == [ActiveChange("b", True)]
    assert failover.add_consumer("c") == [ActiveChange("c", False)]
    assert failover.add_consumer("a") == [
        ActiveChange("b", False),
        ActiveChange("c", False),
        ActiveChange("a", True),
    ]
    assert failover.remove_consumer("c").active_changes == []
    assert failover.remove_consumer("a").active_changes == [ActiveChange("b", True)]
    assert failover.remove_consumer("b").active_changes == []
    for kind in ("Shared", "Exclusive"):
        other = Subscription(kind, Ledgers({3: 1}))
        assert other.add_consumer("a") == []
        assert other.remove_consumer("a") == (0, [])


@pytest.mark.parametrize("ids", [([3, -1], [0, 1]), ([3, 3], [-1, 0]), ([3, 3], [0])])
def test_a_read_with_a_negative_id_or_columns_of_two_lengths_is_refused(
    ids: tuple[list[int], list[int]],
) -> None:
    subscription = opened("Shared", 3)
    with pytest.raises(ValueError, match=r"negative|length"):
        subscription.dispatch_many(*ids, 0)
    assert deliver(subscription) == {"a": [0, 1, 2]}


def test_a_consumer_without_an_epoch_has_the_default_of_the_protocol() -> None:
    subscription = opened("Exclusive", 3)
    assert subscription.summary(0).consumers[0].epoch == -1
    assert [each.epoch for each in subscription.dispatch_many([3], [0], 0)] == [-1]


@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_a_delivery_carries_the_unacknowledged_messages_of_each_batch(kind: str) -> None:
    subscription = opened(kind, permits=1000)
    subscription.ack("a", 3, 1, (0b0110,))
    if kind == "Shared":
        held = MessageId(3, 2, ack_set=(0b0111,), batch_size=4)
        subscription.handle("a", CommandAck(1, message_ids=(held,), transaction=TransactionId(0, 1)))
    (delivery,) = subscription.dispatch_many([3, 3, 3], [0, 1, 2], 0, batch_sizes=[4, 4, 4])
    expected = {Position(3, 1): (0b0110,)} | ({Position(3, 2): (0b0111,)} if kind == "Shared" else {})
    assert delivery.ack_sets == expected
    assert subscription.ack_set(3, 1) == (0b0110,)
    assert subscription.ack_set(3, 0) is None
    assert subscription.summary(0).consumers[0].permits == 1000 - 4 - 2 - (3 if kind == "Shared" else 4)


def test_a_delivery_carries_the_epoch_of_its_consumer() -> None:
    subscription = Subscription("Exclusive", Ledgers({3: 4}))
    subscription.add_consumer("a", epoch=1)
    subscription.flow("a", 10)
    reads = subscription.next_reads_many(2, 0)
    assert [each.epoch for each in subscription.dispatch_many(*reads, 0)] == [1]
    late = subscription.next_reads_many(2, 0)
    subscription.redeliver("a", epoch=2)
    # Entries that were read before the request are out of date.
    assert subscription.dispatch_many(*late, 0) == []
    subscription.redeliver("a", epoch=1)
    reads = subscription.next_reads_many(2, 0)
    assert reads[1].tolist() == [0, 1]
    assert [each.epoch for each in subscription.dispatch_many(*reads, 0)] == [2]
    assert subscription.summary(0).consumers[0].epoch == 2


@pytest.mark.parametrize("seed", range(10))
def test_turns_go_on_from_one_batch_to_the_next_as_they_do_one_by_one(seed: int) -> None:
    numbers = random.Random(seed)
    size, names = numbers.randint(1, 7), "abcde"[: numbers.randint(1, 5)]
    whole, single = (opened("Shared", 400, round_robin_batch_size=size) for _ in range(2))
    for subscription in (whole, single):
        for priority, name in enumerate(names):
            subscription.add_consumer(name * 2, priority=priority // 3)
            subscription.flow(name * 2, 1000)
    given = 0
    while reads := whole.next_reads(numbers.randint(1, 30), 0):
        assert single.next_reads(len(reads), 0) == reads
        columns = [p.ledger_id for p in reads], [p.entry_id for p in reads]
        deliveries = whole.dispatch_many(*columns, 0)
        owners = {entry: each.consumer for each in deliveries for entry in each.entry_ids.tolist()}
        assert [owners[p.entry_id] for p in reads] == [single.dispatch(p, now_ms=0).consumer for p in reads]
        given += len(reads)
    assert given == 400
    assert not single.next_reads(1, 0)
    assert whole == single


def test_a_recorded_delivery_counts_its_messages_and_queues_the_skipped_entries() -> None:
    subscription = opened("Shared")
    subscription.delivered("a", 3, 3, now_ms=0, batch_size=4)
    assert subscription.pending("a")[Position(3, 3)].remaining == 4
    subscription.delivered("a", 3, 5, now_ms=0)
    assert subscription.pending("a")[Position(3, 5)].remaining == 1
    # In whatever order they were delivered: 0 to 2 and 4 are still to come, before 6.
    assert [position.entry_id for position in subscription.next_reads(6, 0)] == [0, 1, 2, 4, 6, 7]
    subscription.validate()


def test_nothing_is_remembered_of_how_an_acknowledged_batch_was_delivered() -> None:
    subscription = opened("Shared", partial_ack_lowers_pending=False)
    subscription.ack(None, 3, 0, (0b110,))
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)
    consumer = subscription._state.consumers.by_key["a"]
    assert consumer.as_delivered
    subscription.ack("a", 3, 0)
    assert not consumer.as_delivered


def test_nothing_comes_after_the_last_entry_wherever_reading_stands() -> None:
    subscription = opened("Shared", entries=2)
    assert all(subscription.dispatch(3, entry_id, now_ms=0) for entry_id in (0, 1))
    assert subscription.dispatch(3, 7, now_ms=0).reason is NonDelivery.NOT_NEXT
    assert subscription.dispatch(4, 0, now_ms=0).reason is NonDelivery.NOT_NEXT


def test_a_broker_counts_a_pending_batch_as_it_was_delivered() -> None:
    for lowers, expected in ((True, 2), (False, 3)):
        subscription = opened("Shared", partial_ack_lowers_pending=lowers)
        subscription.ack(None, 3, 0, (0b110,))
        subscription.dispatch(3, 0, now_ms=0, batch_size=3)
        assert subscription.pending("a")[Position(3, 0)].remaining == expected
        subscription.dispatch(3, 1, now_ms=0, batch_size=3)
        for bits in (0b101, 0b011):
            subscription.ack("a", 3, 1, (bits,))
        assert subscription.pending("a")[Position(3, 1)].remaining == (1 if lowers else 3)
        subscription.ack(None, 3, 2, (0b110,))
        subscription.delivered("a", 3, 2, now_ms=0, batch_size=3)
        assert subscription.pending("a")[Position(3, 2)].remaining == expected


@pytest.mark.parametrize(
    "leave",
    [
        lambda subscription: subscription.ack("a", 3, 0),
        lambda subscription: subscription.ack("b", 3, 0),
        lambda subscription: subscription.ack_many("a", [3], [0]),
        lambda subscription: subscription.ack_many("b", [3], [0]),
        lambda subscription: subscription.ack("a", 3, 0, (0,)),
        lambda subscription: subscription.redeliver("a"),
        lambda subscription: subscription.redeliver("a", [(3, 0)]),
        lambda subscription: subscription.delivered("b", 3, 0, now_ms=0, batch_size=3),
        lambda subscription: subscription.skip(1),
        lambda subscription: subscription.seek(3, 0),
    ],
)
def test_nothing_is_kept_of_a_batch_that_left_its_consumer(leave: Callable[[Subscription], object]) -> None:
    subscription = opened("Shared", partial_ack_lowers_pending=False)
    subscription.add_consumer("b")
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)
    subscription.ack("a", 3, 0, (0b100,))
    consumer = subscription._state.consumers["a"]
    assert consumer.as_delivered == {(3, 0): 3}
    leave(subscription)
    assert not consumer.as_delivered
    subscription.validate()
