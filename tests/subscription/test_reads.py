"""Under a broker's preset, deciding a whole read gives the same result as deciding each entry."""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ackwell import Ledgers
from ackwell.subscription import NonDelivery, Subscription, SubscriptionSettings, SubscriptionType
from ackwell.subscription.reads import average
from ackwell.subscription.selectors import ConsistentHashing

if TYPE_CHECKING:
    from ackwell.subscription.consumer import ConsumerKey
    from ackwell.subscription.dispatcher import Delivery

ENTRIES = 4_000
LIMITS = [(0, 0), (50_000, 200_000), (60, 0), (0, 150), (40, 90), (7, 0)]


def opened(
    kind: str, limits: tuple[int, int], turn: int, *, at_once: bool, limit_at_read: bool = True
) -> Subscription:
    settings = SubscriptionSettings.pulsar(
        "4.2",
        max_unacked_per_consumer=limits[0],
        max_unacked_per_subscription=limits[1],
        round_robin_batch_size=turn,
        read_batch_size=100 if turn == 20 else 17,
        subscription_limit_at_read=limit_at_read,
    )
    subscription = Subscription(SubscriptionType(kind), Ledgers({3: ENTRIES}), settings=settings)
    if not at_once:
        policy: Any = subscription._state.policy
        policy.choose_many = lambda _: None
    return subscription


class Pair:
    """One subscription that decides whole reads, and one that decides each entry."""

    def __init__(self, kind: str, limits: tuple[int, int], turn: int, *, limit_at_read: bool = True) -> None:
        self.both = [
            opened(kind, limits, turn, at_once=at_once, limit_at_read=limit_at_read)
            for at_once in (True, False)
        ]

    def do(self, name: str, *arguments: Any, **named: Any) -> Any:
        first, second = [getattr(each, name)(*arguments, **named) for each in self.both]
        return first, second

    def deliver(self, limit: int, sizes: Any, hashes: Any) -> None:
        reads = [each.next_reads_many(limit, 0) for each in self.both]
        np.testing.assert_array_equal(reads[0], reads[1])
        entry_ids = reads[0][1]
        columns = {
            "batch_sizes": None if sizes is None else sizes[entry_ids],
            "sticky_key_hashes": hashes[entry_ids],
        }
        found = self.do("dispatch_many", *reads[0], 0, **columns)
        assert delivered(found[0]) == delivered(found[1])

    def check(self) -> None:
        states = []
        for each in self.both:
            state = each._state
            states.append(
                (
                    each.read_position,
                    [*state.replay.positions()],
                    [(one.key, one.permits, one.unacked, one.blocked) for one in state.consumers],
                    [round(one.mean_batch_size, 9) for one in state.consumers],
                    [each.pending(one.key) for one in state.consumers],
                )
            )
        assert states[0] == states[1]


def delivered(deliveries: list[Delivery]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for each in deliveries:
        found.setdefault(each.consumer, []).extend(each.entry_ids.tolist())
    return found


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_whole_reads_are_decided_as_entry_by_entry(kind: str, limits: tuple[int, int]) -> None:
    for seed in range(4):
        chance = random.Random(f"{kind} {limits} {seed}")
        draw = np.random.default_rng(seed)
        drawn = draw.integers(1, 20, ENTRIES), draw.choice([1, 1, 1, 70], ENTRIES)
        sizes = [None, *drawn, np.full(ENTRIES, 5)][seed % 4]
        hashes = draw.integers(1, 65_536, ENTRIES) if seed % 2 else draw.integers(1, 9, ENTRIES)
        pair = Pair(kind, limits, chance.choice((20, 20, 7)))
        for number in range(chance.randint(1, 5)):
            pair.do(
                "add_consumer", f"c{number}", priority=chance.choice((0, 0, 1)) if kind == "Shared" else 0
            )
        for _ in range(40):
            who = chance.choice(pair.both[0].consumers)
            what = chance.choice(("flow", "flow", "deliver", "deliver", "deliver", "ack", "redeliver"))
            if what == "flow":
                pair.do("flow", who, chance.choice((1, 5, 30, 300, 3_000)))
            elif what == "deliver":
                pair.deliver(chance.choice((1, 3, 50, 250, 1_000)), sizes, hashes)
            else:
                has = [*pair.both[0].pending(who)]
                some = chance.sample(has, chance.randint(0, len(has)))
                if what == "redeliver" and some:
                    pair.do("redeliver", who, some[:5])
                for position in some if what == "ack" else ():
                    pair.do("ack", who, *position)
            pair.check()
        for each in pair.both:
            each.validate()


def test_a_read_ends_at_the_limit_of_the_subscription_if_it_applies_to_each_entry() -> None:
    pair = Pair("Key_Shared", (0, 150), 20, limit_at_read=False)
    pair.do("add_consumer", "a")
    pair.do("flow", "a", 3_000)
    pair.deliver(100, np.full(ENTRIES, 5), np.full(ENTRIES, 7))
    pair.check()
    assert len(pair.both[0].pending("a")) == 30


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_read_begins_after_the_subscription_reached_its_limit(count: int) -> None:
    settings = SubscriptionSettings.pulsar("4.2", max_unacked_per_subscription=150)
    subscription = Subscription("Shared", Ledgers({3: 900}), settings=settings)
    for number in range(count):
        subscription.add_consumer(f"c{number}")
        subscription.flow(f"c{number}", 3_000)
    delivered = []
    # After the first deliveries, every entry has one message.
    for limit in (60, 250):
        reads = subscription.next_reads_many(limit, 0)
        found = subscription.dispatch_many(*reads, 0)
        delivered.append(sum(len(each.entry_ids) for each in found))
    assert delivered == [60, 100]


def test_each_read_begins_a_turn() -> None:
    subscription = Subscription("Shared", Ledgers({3: 4}))
    for name in "ab":
        subscription.add_consumer(name)
        subscription.flow(name, 100)
    taken = []
    for _ in range(4):
        (position,) = subscription.next_reads(1, 0)
        taken.append(subscription.dispatch(position, now_ms=0).consumer)
    assert taken == ["a", "b", "a", "b"]
    subscription.seek(3, 0)
    for position in subscription.next_reads(4, 0):
        assert subscription.dispatch(position, now_ms=0).consumer == "a"


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_read_has_the_permits_of_its_beginning(kind: str) -> None:
    settings = SubscriptionSettings.pulsar("4.2")
    subscription = Subscription(SubscriptionType(kind), Ledgers({3: 9}), settings=settings)
    subscription.add_consumer("a")
    subscription.flow("a", 3)
    taken = [
        subscription.dispatch(position, now_ms=0, batch_size=10) for position in subscription.next_reads(4, 0)
    ]
    assert [each.consumer for each in taken] == ["a"] * 3 + [None]
    assert taken[3].reason is NonDelivery.NO_PERMITS


def test_the_mean_size_of_an_entry_gives_each_read_a_tenth_of_the_weight() -> None:
    subscription = Subscription("Shared", Ledgers({3: 9}))
    subscription.add_consumer("a")
    consumer = subscription._state.consumers.by_key["a"]
    means = []
    for messages, entries in ((8, 2), (0, 0), (28, 2), (1, 1)):
        average(consumer, (messages,), (entries,))
        means.append(consumer.mean_batch_size)
    assert means == pytest.approx([4, 4, 5, 4.6])


def test_whole_reads_change_the_mean_size_of_their_consumer_only() -> None:
    pair = Pair("Key_Shared", (0, 0), 20)
    for name in ("a", "b"):
        pair.do("add_consumer", name)
        pair.do("flow", name, 10_000)
    hashes = np.full(ENTRIES, next(each for each in range(1, 65_536) if owner_of(each) == "a"))
    sizes = np.array([5] * 50 + [1] * 250 + [1, 3] * 1_850)
    pair.deliver(50, None, hashes)
    pair.check()
    assert [each.mean_batch_size for each in pair.both[0]._state.consumers] == [1, 0]
    pair.do("seek", 3, 0)
    for each in pair.both:
        each._state.consumers["a"].mean_batch_size = mean = 5.0
    # Reads of entries with one size, of a new size, and of two sizes.
    for limit, size, reads in ((50, 5, 1), (250, 1, 3), (50, 2, 1)):
        pair.deliver(limit, sizes, hashes)
        pair.check()
        for _ in range(reads):
            mean = mean * 0.9 + size * 0.1
        means = [each.mean_batch_size for each in pair.both[0]._state.consumers]
        assert means == pytest.approx([mean, 0])


@pytest.mark.parametrize("version", ["4.0", "4.2", "5.0.0-M1", "5.0"])
def test_an_acknowledged_entry_keeps_its_place_in_a_brokers_queue(version: str) -> None:
    """Seen live: the read of three permits takes 0, 1 and 2, of which 1 and 2 are acknowledged."""
    settings = SubscriptionSettings.pulsar(version)
    subscription = Subscription("Key_Shared", Ledgers({3: 8}), settings=settings)
    subscription.add_consumer("a")

    def served(permits: int) -> list[int]:
        subscription.flow("a", permits)
        ledger_ids, entry_ids = subscription.next_reads_many(10, 0)
        sizes = np.full(len(entry_ids), 10, dtype=np.int64)
        columns = {"batch_sizes": sizes, "sticky_key_hashes": entry_ids}
        found = subscription.dispatch_many(ledger_ids, entry_ids, 0, **columns)
        return [entry_id for each in found for entry_id in each.entry_ids.tolist()]

    assert served(6) == [0, 1, 2, 3, 4, 5]
    subscription.redeliver("a")
    subscription.ack_many("a", [3] * 4, [1, 2, 3, 4])
    assert served(57) == [0]
    subscription.validate()
    # The next read of three takes 3, 4 and 5.
    assert served(10) == [5]
    # No acknowledged position is left in the queue, so a read of two takes both new entries.
    assert served(9) == [6, 7]


@pytest.mark.parametrize(("drops", "delivered_entries"), [(True, [0, 1, 2, 4]), (False, [0, 1, 2])])
@pytest.mark.parametrize("version", ["4.0", "4.2", "5.0"])
def test_an_acknowledged_entry_without_its_hash_takes_no_place_of_its_consumer(
    version: str, drops: bool, delivered_entries: list[int]
) -> None:
    """Seen live on 4.0.7: the first read takes 0 to 5 and delivers two of them, and 3 leaves the queue."""
    settings = SubscriptionSettings.pulsar(
        version, redelivery_drops_hash=drops, max_unacked_per_consumer=10, max_unacked_per_subscription=20
    )
    subscription = Subscription("Key_Shared", Ledgers({3: 10}), settings=settings)
    subscription.add_consumer("a")
    sizes = np.array([1, 1, 50, 3, 10, 1, 10, 1, 1, 3])

    def served(permits: int) -> list[int]:
        subscription.flow("a", permits)
        found: list[int] = []
        while True:
            ledger_ids, entry_ids = subscription.next_reads_many(10, 0)
            columns = {"batch_sizes": sizes[entry_ids], "sticky_key_hashes": entry_ids + 1}
            deliveries = subscription.dispatch_many(ledger_ids, entry_ids, 0, **columns)
            if not deliveries:
                return found
            found += [entry_id for each in deliveries for entry_id in each.entry_ids.tolist()]

    assert served(77) == [*range(10)]
    subscription.redeliver("a")
    subscription.ack("a", 3, 3)
    assert served(10) == delivered_entries


@pytest.mark.parametrize(("drops", "delivered_entries"), [(True, [2]), (False, [2, 3])])
@pytest.mark.parametrize("all_of_them", [True, False])
def test_returned_entries_of_another_consumer_take_places_in_a_read(
    drops: bool, delivered_entries: list[int], all_of_them: bool
) -> None:
    settings = SubscriptionSettings.pulsar("5.0", redelivery_drops_hash=drops)
    subscription = Subscription("Key_Shared", Ledgers({3: 4}), settings=settings)
    theirs = next(each for each in range(1, 65_536) if owner_of(each) == "b")
    mine = next(each for each in range(1, 65_536) if owner_of(each) == "a")
    sizes, hashes = np.array([1, 1, 30, 1]), np.array([mine, mine, theirs, theirs])

    def deliver(limit: int) -> list[tuple[ConsumerKey, list[int]]]:
        ledger_ids, entry_ids = subscription.next_reads_many(limit, 0)
        columns = {"batch_sizes": sizes[entry_ids], "sticky_key_hashes": hashes[entry_ids]}
        found = subscription.dispatch_many(ledger_ids, entry_ids, 0, **columns)
        return [(each.consumer, each.entry_ids.tolist()) for each in found]

    subscription.add_consumer("a")
    subscription.flow("a", 4)
    assert deliver(10) == [("a", [0, 1, 2, 3])]
    subscription.redeliver("a", None if all_of_them else [(3, n) for n in range(4)])
    subscription.add_consumer("b")
    subscription.flow("b", 3)
    # The first two entries are those of "a", which has no permits.
    assert deliver(10) == [("b", delivered_entries)]


@pytest.mark.parametrize(("drops", "delivered_entries"), [(True, [3, 1, 4]), (False, [1, 3, 4])])
def test_new_entries_overtake_returned_entries_after_a_read_without_a_delivery(
    drops: bool, delivered_entries: list[int]
) -> None:
    # A directed sequence and seed 510426 on Pulsar 4.2.4: new entries of a key are delivered before a
    # returned one, because the read of the first returned entry delivers nothing.
    settings = SubscriptionSettings.pulsar("4.2", redelivery_drops_hash=drops)
    subscription = Subscription("Key_Shared", Ledgers({3: 5}), settings=settings)
    theirs = next(each for each in range(1, 65_536) if owner_of(each) == "b")
    mine = next(each for each in range(1, 65_536) if owner_of(each) == "a")
    hashes = np.array([mine, theirs, mine, theirs, theirs])

    def deliver() -> list[tuple[ConsumerKey, list[int]]]:
        ledger_ids, entry_ids = subscription.next_reads_many(10, 0)
        found = subscription.dispatch_many(ledger_ids, entry_ids, 0, sticky_key_hashes=hashes[entry_ids])
        return [(each.consumer, each.entry_ids.tolist()) for each in found]

    subscription.add_consumer("a")
    subscription.flow("a", 2)
    assert deliver() == [("a", [0, 1])]
    subscription.redeliver("a")
    subscription.add_consumer("b")
    for entry_id in delivered_entries:
        subscription.flow("b", 1)
        assert deliver() == [("b", [entry_id])]
        assert deliver() == []
    subscription.validate()


@pytest.mark.parametrize("entries", [2, 3])
def test_returned_entries_are_read_if_no_new_entry_can_be_read(entries: int) -> None:
    settings = SubscriptionSettings.pulsar("4.2", look_ahead_per_subscription=2)
    subscription = Subscription("Key_Shared", Ledgers({3: entries}), settings=settings)
    theirs = next(each for each in range(1, 65_536) if owner_of(each) == "b")
    mine = next(each for each in range(1, 65_536) if owner_of(each) == "a")
    hashes = np.array([mine, theirs, theirs])
    subscription.add_consumer("a")
    subscription.flow("a", 2)
    for consumer in ("a", "b"):
        reads = subscription.next_reads_many(10, 0)
        found = subscription.dispatch_many(*reads, 0, sticky_key_hashes=hashes[reads[1]])
        expected = [0, 1] if consumer == "a" else [1]
        assert [(each.consumer, each.entry_ids.tolist()) for each in found] == [(consumer, expected)]
        if consumer == "a":
            subscription.redeliver("a")
            subscription.add_consumer("b")
            subscription.flow("b", 1)


def test_returned_entries_are_read_after_a_read_whose_owner_has_the_permits() -> None:
    # A directed sequence on Pulsar 4.2.4: the hash of entry 1 drains, and only its owner has permits.
    settings = SubscriptionSettings.pulsar("4.2")
    subscription = Subscription("Key_Shared", Ledgers({3: 4}), settings=settings)
    first, second, third = islice((each for each in range(1, 65_536) if owner_of(each) == "b"), 3)
    hashes = np.array([first, first, second, third])
    subscription.add_consumer("a")
    subscription.flow("a", 3)
    reads = subscription.next_reads_many(10, 0)
    subscription.dispatch_many(*reads, 0, sticky_key_hashes=hashes[reads[1]])
    subscription.redeliver("a", [(3, 1), (3, 2)])
    subscription.add_consumer("b")
    for entry_id in (2, 3):
        subscription.flow("b", 1)
        reads = subscription.next_reads_many(10, 0)
        found = subscription.dispatch_many(*reads, 0, sticky_key_hashes=hashes[reads[1]])
        assert [(each.consumer, each.entry_ids.tolist()) for each in found] == [("b", [entry_id])]


def owner_of(sticky_key_hash: int) -> object:
    """Return the consumer that owns a hash if "a" and "b" are connected."""
    selector = ConsistentHashing()
    for name in ("a", "b"):
        selector.add(name, (), name=name)
    return selector.select(sticky_key_hash)
