"""A crash counts as a try: the entries in hand, not the prefetched ones; and suspects are delivered alone."""

from __future__ import annotations

import pytest

from ackwell import Ledgers, Position
from ackwell.store import MemoryStore
from ackwell.subscription import LostCounts, Subscription, SubscriptionSettings, Undelivered
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
        again = Subscription.load(kind, store, Ledgers({3: 8}))
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
    assert subscription.stall is Undelivered.QUARANTINE
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
            got.setdefault(str(subscription.dispatch(*position, 0)), []).append(position.entry_id)
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
