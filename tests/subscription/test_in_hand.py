"""A crash counts as a try: the entries in hand, not the prefetched ones; and suspects are delivered alone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ackwell import Cursor, Ledgers, PendingAcks, Position, PositionInfo
from ackwell.errors import CorruptStateError
from ackwell.store import MemoryStore
from ackwell.subscription import (
    CommandAck,
    LostCounts,
    MessageId,
    NonDelivery,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from ackwell.subscription.in_hand import IN_HAND_FIELD, DeliveryTracker
from ackwell.wire import varint
from tests.subscription.helpers import deliver

INDIVIDUAL = ("Shared", "Key_Shared")
ALL = (*INDIVIDUAL, "Exclusive", "Failover")


def of(kind: str, *names: str, concurrency: int | None = 1, **settings: object) -> Subscription:
    made = Subscription(kind, Ledgers({3: 8}), settings=SubscriptionSettings(**settings))  # type: ignore[arg-type]
    for name in names:
        join(made, name, concurrency)
    return made


def join(subscription: Subscription, name: str, concurrency: int | None = 1) -> None:
    subscription.add_consumer(name, concurrency=concurrency)
    subscription.flow(name, 100)


def load(kind: str, store: MemoryStore, rule: str) -> Subscription:
    settings = SubscriptionSettings(lost_counts=LostCounts(rule))
    return Subscription.load(SubscriptionType(kind), store, Ledgers({3: 8}), settings=settings)


def counts(subscription: Subscription) -> list[int]:
    return [subscription.redelivery_count(3, entry_id) for entry_id in range(8)]


@pytest.mark.parametrize("kind", ALL)
def test_only_the_entries_in_hand_of_a_lost_consumer_count(kind: str) -> None:
    subscription = of(kind, "a")
    deliver(subscription)
    subscription.ack("a", 3, 0)
    assert subscription.in_hand("a") == [(3, 1)]
    subscription.remove_consumer("a")
    assert counts(subscription) == [0, 1, 0, 0, 0, 0, 0, 0]
    assert subscription.suspects == [(3, 1)]
    subscription.validate()


@pytest.mark.parametrize("kind", ALL)
def test_a_load_counts_the_entries_that_were_in_hand_at_the_save_once(kind: str) -> None:
    store = MemoryStore()
    subscription = of(kind, "a", concurrency=2)
    deliver(subscription)
    subscription.save(store)
    for _ in range(2):
        again = Subscription.load(SubscriptionType(kind), store, Ledgers({3: 8}))
        assert counts(again) == [1, 1, 0, 0, 0, 0, 0, 0]
        assert again.suspects == [(3, 0), (3, 1)]
        again.validate()


@pytest.mark.parametrize("kind", ALL)
def test_a_suspect_is_delivered_alone(kind: str) -> None:
    subscription = of(kind, "a")
    deliver(subscription)
    subscription.remove_consumer("a")
    join(subscription, "b")
    assert deliver(subscription) == {"b": [0]}
    assert subscription.stall is NonDelivery.QUARANTINE
    subscription.ack("b", 3, 0)
    assert subscription.stall is None
    assert deliver(subscription) == {"b": [1, 2, 3, 4, 5, 6, 7]}
    subscription.validate()


@pytest.mark.parametrize("kind", ALL)
def test_a_poison_entry_dies_after_its_tries_and_takes_no_others(kind: str) -> None:
    subscription = of(kind, max_redeliver_count=2)
    for name in "abc":
        join(subscription, name)
        deliver(subscription)
        subscription.remove_consumer(name)
    join(subscription, "d")
    assert 0 not in deliver(subscription).get("d", [])
    deliver(subscription)
    assert subscription.dead_letters == [(3, 0)]
    assert counts(subscription) == [3, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", INDIVIDUAL)
def test_a_consumer_with_entries_makes_room_for_a_suspect(kind: str) -> None:
    subscription = of(kind, "a", "b")
    got = deliver(subscription, sticky_key_hash=1) if kind == "Key_Shared" else {}
    if kind == "Shared":
        for position in subscription.next_reads(8, 0):
            subscription._state.policy.begin_round()
            got.setdefault(str(subscription.dispatch(position, now_ms=0).consumer), []).append(
                position.entry_id
            )
    lost, other = ("a", "b") if "a" in got else ("b", "a")
    subscription.remove_consumer(lost)
    suspect = subscription.suspects[0]
    for _ in range(20):
        deliver(subscription, sticky_key_hash=1 if kind == "Key_Shared" else 0)
        if subscription.holder(*suspect):
            break
        for position in list(subscription.pending(other)):
            subscription.ack(other, *position)
    assert list(subscription.pending(other)) == [suspect]


def test_started_reports_single_entries() -> None:
    subscription = of("Shared", "a", concurrency=None)
    deliver(subscription)
    assert subscription.started("a", 3, 5)
    subscription.remove_consumer("a")
    assert subscription.suspects == [Position(3, 5)]


@pytest.mark.parametrize(
    ("rule", "expected"), [("never", [0, 0]), ("in hand", [1, 0]), ("every delivery", [1, 1])]
)
@pytest.mark.parametrize("kind", ALL)
def test_the_setting_chooses(kind: str, rule: str, expected: list[int]) -> None:
    subscription = of(kind, "a", lost_counts=LostCounts(rule))
    deliver(subscription)
    subscription.remove_consumer("a")
    assert counts(subscription)[:2] == expected


@pytest.mark.parametrize(("rule", "tries"), [("never", 0), ("in hand", 1), ("every delivery", 0)])
@pytest.mark.parametrize("kind", ALL)
def test_a_load_counts_by_its_own_setting(kind: str, rule: str, tries: int) -> None:
    store, subscription = MemoryStore(), of(kind, "a", concurrency=2)
    deliver(subscription)
    subscription.save(store)
    found = load(kind, store, rule)
    assert counts(found)[:3] == [tries, tries, 0]
    assert found.suspects == [(3, 0), (3, 1)][: 2 * tries]
    found.save(store)
    again = load(kind, store, "in hand")
    assert (counts(again), again.suspects) == (counts(found), found.suspects)
    never = load(kind, store, "never")
    assert (counts(never), never.suspects) == (counts(found), [])


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_back_off_of_the_consumer_before_hides_no_entry_in_hand(kind: str) -> None:
    subscription = of(kind, "a")
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.remove_consumer("a")
    join(subscription, "b")
    deliver(subscription)
    assert 0 in [position.entry_id for position in subscription.in_hand("b")]


@pytest.mark.parametrize("kind", ALL)
def test_an_entry_that_was_started_and_returned_is_not_in_hand_when_it_is_delivered_again(kind: str) -> None:
    subscription = of(kind, "a", concurrency=None)
    deliver(subscription)
    subscription.started("a", 3, 0)
    subscription.redeliver("a", counted=False)
    deliver(subscription)
    assert subscription.in_hand("a") == []


@pytest.mark.parametrize("kind", ALL)
def test_an_entry_that_was_started_and_acknowledged_in_a_transaction_is_not_in_hand_after_the_abort(
    kind: str,
) -> None:
    subscription = of(kind, "a", concurrency=None)
    deliver(subscription)
    subscription.started("a", 3, 0)
    command = CommandAck(0, message_ids=(MessageId(3, 0),), transaction=TransactionId(0, 1))
    subscription.handle("a", command)
    subscription.abort(TransactionId(0, 1))
    deliver(subscription)
    assert subscription.in_hand("a") == []


@pytest.fixture
def late() -> Subscription:
    """Return a subscription whose consumer `a` timed out with entry 0 in hand, which `b` has now."""
    subscription = of("Shared", ack_timeout_ms=1_000)
    subscription.add_consumer("a", priority=1, concurrency=1)
    subscription.flow("a", 100)
    deliver(subscription, limit=4)
    return subscription


def time_out(subscription: Subscription) -> list[int]:
    """Time out the deliveries; return the entries that `a` has then."""
    subscription.add_consumer("b")
    subscription.flow("b", 1)
    assert 0 in deliver(subscription, now_ms=5_000)["b"]
    assert subscription.in_hand("a") == []
    return [position.entry_id for position in subscription.pending("a")]


def test_a_late_consumer_has_nothing_else_in_hand_until_it_finishes_another_entry(late: Subscription) -> None:
    held = time_out(late)
    late.ack("a", 3, held[0])
    assert [position.entry_id for position in late.in_hand("a")] == held[1:2]


def test_a_negative_acknowledgment_finishes_an_entry_like_an_acknowledgment(late: Subscription) -> None:
    held = time_out(late)
    late.nack("a", 3, held[0], now_ms=5_000)
    assert [position.entry_id for position in late.in_hand("a")] == held[1:2]


def test_an_entry_that_was_finished_before_the_timeout_does_not_show_that_it_ended(
    late: Subscription,
) -> None:
    late.ack("a", 3, 2)
    time_out(late)
    late.validate()


@pytest.mark.parametrize("kind", INDIVIDUAL)
@pytest.mark.parametrize("before", [0, 2])
def test_a_suspect_is_in_no_read_of_a_broker(kind: str, before: int) -> None:
    settings = SubscriptionSettings.pulsar("4.2", lost_counts="in hand", idle_clears_counts=False)
    subscription = Subscription(SubscriptionType(kind), Ledgers({3: 8}), settings=settings)
    join(subscription, "a")

    def at_once() -> list[int]:
        ledger_ids, entry_ids = subscription.next_reads_many(8, 0)
        found = subscription.dispatch_many(ledger_ids, entry_ids, 0, sticky_key_hashes=ledger_ids)
        return [entry_id for each in found for entry_id in each.entry_ids.tolist()]

    assert at_once() == [*range(8)]
    for entry_id in range(before):
        subscription.ack("a", 3, entry_id)
    # Everything is read again, because the last consumer leaves.
    subscription.remove_consumer("a")
    join(subscription, "b")
    assert at_once() == [before]
    assert at_once() == []
    subscription.ack("b", 3, before)
    assert at_once() == [*range(before + 1, 8)]
    subscription.validate()


@pytest.mark.parametrize("body", ["", "1200", "08031a0101120aff" + "ffffffffffffffff01"])
def test_an_entry_in_hand_without_a_position_is_refused(body: str) -> None:
    """The field 20603 without a ledger, or with a negative entry."""
    content = bytes.fromhex(body)
    field = varint(IN_HAND_FIELD << 3 | 2) + varint(len(content)) + content
    info = PositionInfo(3, -1, unknown_fields=field)
    cursor = Cursor.from_position_info(info, Ledgers({3: 8}))
    with pytest.raises(CorruptStateError, match="an entry in hand has no position"):
        Subscription("Shared", cursor=cursor)


@pytest.mark.parametrize("kind", INDIVIDUAL)
def test_a_suspect_after_its_last_try_waits_for_no_consumer(kind: str) -> None:
    subscription = of(kind, "a", max_redeliver_count=0)
    deliver(subscription, limit=4, sticky_key_hash=1)
    subscription.add_consumer("b")
    subscription.remove_consumer("a")
    # The only consumer has not requested anything.
    deliver(subscription, sticky_key_hash=1)
    assert subscription.dead_letters == [(3, 0)]


@pytest.mark.parametrize("seed", range(4))
def test_many_deliveries_at_once_are_in_hand_in_the_order_of_single_ones(seed: int) -> None:
    """One of two equal consumers gets the new entries of a turn at once, the other one singly."""
    chance = random.Random(seed)
    settings = SubscriptionSettings(ack_timeout_ms=1_000, ack_timeout_tick_ms=100)
    many, singly = (Subscription("Shared", Ledgers({3: 4_000}), settings=settings) for _ in range(2))
    for each in (many, singly):
        each.add_consumer("a", concurrency=3 + 300 * (seed % 2))
        each.flow("a", 10_000)
    for turn in range(80):
        now_ms = 100 * turn
        ledger_ids, entry_ids = many.next_reads_many(60, now_ms)
        many.dispatch_many(ledger_ids, entry_ids, now_ms)
        for position in singly.next_reads(60, now_ms):
            singly.dispatch(position, now_ms=now_ms)
        in_hand = (many if turn % 3 else singly).in_hand("a")
        done = in_hand[: chance.randrange(9)]
        done += chance.sample([*many.pending("a")], chance.randrange(len(many.pending("a")) + 1))
        for each in (many, singly):
            for position in done:
                each.ack("a", *position)
            if turn % 5 == 0:
                each.nack("a", 3, int(entry_ids.max(initial=0)), now_ms=now_ms)
                each.redeliver("a", in_hand[-2:])
            each.advance(now_ms)
        if turn % 4 == 0:
            assert many.in_hand("a") == singly.in_hand("a")
            assert many.pending("a") == singly.pending("a")
    assert many.in_hand("a") == singly.in_hand("a")
    assert many.read_position > (3, 1_000)


def test_entries_that_are_delivered_at_once_to_a_late_consumer_show_that_it_finished() -> None:
    pending = PendingAcks(((3, entry_id), (1, 0)) for entry_id in range(6))
    tracker = DeliveryTracker(2)
    tracker.deliver_many(np.array([3, 3, 3]), np.array([0, 1, 2]), pending)
    tracker.drop_removed(pending)
    tracker.time_out(Position(3, 0))
    pending.remove(3, 0)
    tracker.deliver_many(np.array([3, 3, 3]), np.array([3, 4, 5]), pending)
    tracker.finish(Position(3, 5))
    assert tracker.positions(pending) == [(3, 1), (3, 2)]


def test_single_deliveries_come_after_those_at_once() -> None:
    places = [Position(3, entry_id) for entry_id in range(400)]
    pending = PendingAcks((place, (1, 0)) for place in places)
    tracker = DeliveryTracker(300)
    tracker.deliver_many(np.full(350, 3), np.arange(350), pending)
    tracker.deliver(places[0], pending)
    assert tracker.positions(pending) == places[1:301]
    tracker.deliver_many(np.full(50, 3), np.arange(350, 400), pending)
    tracker.clear()
    tracker.deliver(places[1], pending)
    assert tracker.positions(pending) == [places[1]]
    tracker.clear()
    tracker.deliver_many(np.full(350, 3), np.arange(350), pending)
    assert tracker.positions(pending) == places[:300]
