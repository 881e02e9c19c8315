"""Key_Shared: one consumer a key, in the order of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from ackwell import Ledgers
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AutoSplit,
    CommandAck,
    ConsistentHashing,
    MessageId,
    NonDelivery,
    StickyRanges,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
    sticky_key_hash,
)
from ackwell.subscription.stall import ConsumerView, explain_stall
from ackwell.subscription.sticky_key import SLOTS
from tests.subscription.helpers import FULL, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackwell.subscription import ConsumerKey, Selector


def test_a_key_stays_with_its_consumer_until_that_one_has_finished() -> None:
    subscription = opened("Key_Shared", 4, "", selector=AutoSplit())
    subscription.add_consumer("a")
    subscription.flow("a", FULL)
    key = 5  # of the lower half, which b will take
    for position in subscription.next_reads(2, 0):
        assert subscription.dispatch(*position, now_ms=0, sticky_key_hash=key).consumer == "a"
    subscription.add_consumer("b")
    subscription.flow("b", FULL)
    for position in subscription.next_reads(2, 0):
        assert subscription.dispatch(*position, now_ms=0, sticky_key_hash=key).reason is NonDelivery.KEY_WAITS
    subscription.ack("a", 3, 1)
    assert subscription.next_reads(10, 0) == []
    subscription.ack("a", 3, 0)
    assert [p.entry_id for p in subscription.next_reads(10, 0)] == [2, 3]
    assert subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=key).consumer == "b"
    subscription.validate()


@pytest.mark.parametrize("left", [4, 5])
def test_a_consumer_that_returned_a_message_gets_none_while_it_is_at_its_limit(left: int) -> None:
    subscription = opened("Key_Shared", 4, max_unacked_per_consumer=4, redelivery_unblocks=True)
    for entry_id, size in enumerate((3, left)):
        assert subscription.dispatch(3, entry_id, now_ms=0, batch_size=size, sticky_key_hash=entry_id)
    subscription.redeliver("a", [(3, 0)])
    third = subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=2)
    assert third.reason is NonDelivery.CONSUMER_BLOCKED


@pytest.mark.parametrize("ignores", [True, False])
def test_a_blocked_consumer_below_its_limit_gets_a_message_as_at_a_broker(ignores: bool) -> None:
    subscription = opened("Key_Shared", 6, max_unacked_per_consumer=4, key_shared_ignores_blocked=ignores)
    assert all(subscription.dispatch(3, each, now_ms=0, sticky_key_hash=each) for each in range(4))
    for entry_id, left in ((4, 4), (5, 3)):
        subscription.ack_many("a", [3] * (4 - left), [*range(4 - left)])
        found = subscription.dispatch(3, entry_id, now_ms=0, sticky_key_hash=entry_id)
        assert bool(found) == (ignores and left < 4)


@pytest.mark.parametrize(
    ("permits", "unacked", "reads"),
    [(1, 9, True), (0, 9, False), (-1, 9, False), (1, 10, False), (1, 11, False)],
)
def test_a_broker_reads_for_a_blocked_consumer_below_its_limit(
    permits: int, unacked: int, reads: bool
) -> None:
    settings = SubscriptionSettings.pulsar("4.2", max_unacked_per_consumer=10)
    # The first consumer starts the read, because a request for redelivery unblocked it.
    views = [ConsumerView("a", 5, 10, False), ConsumerView("b", permits, unacked, True)]
    stall, reasons = explain_stall(SubscriptionType.KEY_SHARED, views, settings)
    assert stall is (None if reads else NonDelivery.CONSUMER_BLOCKED)
    assert reasons[0] is None
    # Without the first consumer, a broker begins no read.
    stall, _ = explain_stall(SubscriptionType.KEY_SHARED, views[1:], settings)
    assert stall is (NonDelivery.CONSUMER_BLOCKED if permits > 0 else NonDelivery.NO_PERMITS)


def test_key_shared_refuses_a_message_without_its_hash() -> None:
    subscription = opened("Key_Shared", 2)
    with pytest.raises(ValueError, match=r"pass sticky_key_hash=subscription\.sticky_key_hash\(key\)"):
        subscription.dispatch(3, 0, now_ms=0)
    with pytest.raises(ValueError, match="sticky_key_hash"):
        subscription.dispatch_many([3, 3], [0, 1], 0)
    assert subscription == opened("Key_Shared", 2)
    assert subscription.dispatch_many([], [], 0) == []
    assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=subscription.sticky_key_hash("ann"))


def test_a_key_that_waits_does_not_hold_back_the_others() -> None:
    subscription = opened("Key_Shared", 4, "", selector=StickyRanges())
    subscription.add_consumer("full", hash_ranges=[(0, 99)])
    subscription.add_consumer("free", hash_ranges=[(100, 199)])
    subscription.flow("free", 10)
    keys = [50, 150, 50, 151]
    got = [
        subscription.dispatch(p, now_ms=0, sticky_key_hash=keys[p.entry_id])
        for p in subscription.next_reads(9, 0)
    ]
    assert [each.consumer for each in got] == [None, "free", None, "free"]
    assert (got[0].reason, got[2].reason) == (NonDelivery.NO_PERMITS, NonDelivery.KEY_WAITS)
    subscription.flow("full", 10)
    assert [p.entry_id for p in subscription.next_reads(9, 0)] == [0, 2]


def test_a_key_that_waits_is_named_and_so_is_one_without_owner() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 4}), selector=StickyRanges())
    subscription.add_consumer("a", hash_ranges=[(0, 9)])
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=20).reason is NonDelivery.NO_CONSUMER
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=5).consumer == "a"
    assert subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=5).reason is NonDelivery.NO_PERMITS
    subscription.flow("a", 10)
    assert subscription.dispatch(3, 3, now_ms=0, sticky_key_hash=5).reason is NonDelivery.KEY_WAITS


def test_a_hash_ring_places_two_consumers_of_one_name_apart() -> None:
    selector = ConsistentHashing()
    subscription = Subscription("Key_Shared", Ledgers({3: 1}), selector=selector)
    for consumer_id in (7, 8):
        subscription.add_consumer("a", consumer_id=consumer_id)
    assert {selector.select(each) for each in range(1, 60_000, 7)} == {7, 8}
    one = Subscription("Key_Shared", Ledgers({3: 1}))
    one.add_consumer("a", consumer_id=9)
    # The first consumer of a name has the points of a single one, and the second takes them over.
    subscription.remove_consumer(7)
    subscription.add_consumer("a", consumer_id=9)
    subscription.remove_consumer(8)
    assert [selector.select(each) for each in range(1, 60_000, 7)] == [9] * len(range(1, 60_000, 7))
    assert subscription.summary(0).consumers[0].name == "a"
    assert subscription.consumers == [9]


def test_messages_without_a_key_are_spread_by_producer_and_sequence_id() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", 1, "ab", selector=selector)
    hashes = [
        subscription.sticky_key_hash(None, producer_name="standalone-0-1", sequence_id=number)
        for number in range(60)
    ]
    assert hashes == [sticky_key_hash(f"standalone-0-1-{number}") for number in range(60)]
    owners = [selector.select(each) for each in hashes]
    assert 20 < owners.count("a") < 40
    assert subscription.sticky_key_hash("k", producer_name="p", sequence_id=1) == sticky_key_hash("k")
    assert subscription.sticky_key_hash(None) == sticky_key_hash("NONE_KEY")


def test_an_abort_after_a_restart_keeps_the_order_of_keys() -> None:
    store, ledgers = MemoryStore(), Ledgers({3: 4})
    subscription = Subscription("Key_Shared", ledgers)
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=7)
    held = CommandAck(1, message_ids=(MessageId(3, 0),), transaction=TransactionId(0, 1))
    subscription.handle("a", held)
    subscription.save(store)
    again = Subscription.load("Key_Shared", store, ledgers)
    again.add_consumer("b")
    assert again.next_reads(1, 0) == []
    again.flow("b", 1)
    # It is held, so the next of its key may go; aborted, it comes before the one after.
    assert again.dispatch(3, 1, now_ms=0, sticky_key_hash=7).consumer == "b"
    assert again.abort(TransactionId(0, 1)) == 1
    again.flow("b", 1)
    assert again.dispatch(3, 2, now_ms=0, sticky_key_hash=7).reason is NonDelivery.KEY_WAITS
    assert again.next_reads(1, 0) == [(3, 0)]
    assert again.dispatch(3, 0, now_ms=0, sticky_key_hash=7).consumer == "b"
    again.validate()


def test_a_key_is_free_as_soon_as_its_old_consumer_gives_everything_back() -> None:
    subscription = opened("Key_Shared", 2, permits=10, selector=AutoSplit())
    assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=5).consumer == "a"
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    # The key is now that of b, which waits for a.
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=5).reason is NonDelivery.KEY_WAITS
    assert subscription.redeliver("a") == 1
    assert subscription.next_reads(9, 0) == [(3, 0), (3, 1)]
    assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=5).consumer == "b"
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=5).consumer == "b"
    subscription.validate()


def test_messages_sent_to_the_new_owner_of_a_draining_key_keep_it_draining() -> None:
    subscription = opened("Key_Shared", 4, permits=10, selector=AutoSplit())
    for _ in range(2):
        (position,) = subscription.next_reads(1, 0)
        assert subscription.dispatch(*position, now_ms=0, sticky_key_hash=5).consumer == "a"
    subscription.add_consumer("b")
    # A recorded delivery gives one to b, the new owner, early.
    subscription.delivered("b", 3, 2, now_ms=0, sticky_key_hash=5)
    subscription.validate()
    subscription.ack("a", 3, 0)
    subscription.flow("b", 10)
    assert subscription.dispatch(3, 3, now_ms=0, sticky_key_hash=5).reason is NonDelivery.KEY_WAITS
    subscription.ack("a", 3, 1)
    subscription.validate()
    assert subscription.next_reads(9, 0) == [(3, 3)]
    assert subscription.dispatch(3, 3, now_ms=0, sticky_key_hash=5).consumer == "b"


def test_every_slot_of_keys_is_dealt_at_once_to_its_owner() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", SLOTS, "abc", selector=selector, max_unacked_per_consumer=0)
    slots = np.arange(SLOTS)
    given = subscription.dispatch_many(np.full(SLOTS, 3), slots, 0, sticky_key_hashes=slots)
    owners = {slot: delivery.consumer for delivery in given for slot in delivery.entry_ids.tolist()}
    assert owners == {slot: selector.select(slot) for slot in range(SLOTS)}


def test_a_key_whose_messages_are_skipped_does_not_wait_for_its_old_consumer() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", selector=selector)
    hashes = {subscription.sticky_key_hash(f"k{number}") for number in range(50)}
    for entry_id, key_hash in enumerate(sorted(hashes)[:8]):
        subscription.dispatch(3, entry_id, now_ms=0, sticky_key_hash=key_hash)
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    moved = [value.sticky_key_hash for value in subscription.pending("a").values()]
    theirs = next(each for each in moved if selector.select(each) == "b")
    assert subscription.dispatch(3, 8, now_ms=0, sticky_key_hash=theirs).reason is NonDelivery.KEY_WAITS
    assert subscription.skip(8) == 8
    assert subscription.next_reads(1, 0) == [(3, 8)]
    assert subscription.dispatch(3, 8, now_ms=0, sticky_key_hash=theirs).consumer == "b"
    subscription.validate()


def test_recorded_deliveries_are_counted_while_a_key_drains() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", selector=selector)
    subscription.add_consumer("b")
    owner = selector.select(7)
    assert owner
    (other,) = {"a", "b"} - {owner}
    for entry_id, consumer in enumerate((other, owner, owner, other)):
        subscription.delivered(consumer, 3, entry_id, now_ms=0, sticky_key_hash=7)
        subscription.validate()
    for entry_id in range(4):
        subscription.ack(None, 3, entry_id)
        subscription.validate()


@pytest.mark.parametrize("owner", ["a", "b"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_recorded_delivery_to_another_consumer_blocks_its_key_only_in_key_order(
    waits: bool, owner: str
) -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", selector=selector, allow_out_of_order_delivery=not waits)
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    theirs = next(each for each in range(1, SLOTS) if selector.select(each) == owner)
    (other,) = {"a", "b"} - {owner}
    subscription.delivered(other, 3, 0, now_ms=0, sticky_key_hash=theirs)
    found = subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=theirs)
    assert (found.consumer, found.reason) == ((None, NonDelivery.KEY_WAITS) if waits else (owner, None))


def test_after_a_seek_no_key_waits_for_queued_messages() -> None:
    subscription = opened("Key_Shared")
    subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=7)
    subscription.redeliver("a")
    subscription.seek(3, 1)
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=7).consumer == "a"
    subscription.validate()


def test_a_key_that_had_to_wait_waits_for_the_next_round() -> None:
    subscription = opened("Key_Shared", 3, permits=2)
    assert all(subscription.dispatch(3, entry_id, now_ms=0, sticky_key_hash=7) for entry_id in (0, 1))
    subscription.redeliver("a")
    assert subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=7).reason is NonDelivery.NO_PERMITS
    subscription.flow("a", 2)
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=7).reason is NonDelivery.KEY_WAITS
    reads = subscription.next_reads(2, 0)
    assert [bool(subscription.dispatch(each, now_ms=0, sticky_key_hash=7)) for each in reads] == [True, True]
    subscription.validate()
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=7).consumer == "a"


def test_a_key_is_with_its_old_consumer_until_each_of_its_messages_is_acknowledged_once() -> None:
    selector = ConsistentHashing()
    subscription = opened("Key_Shared", selector=selector)
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    theirs = next(each for each in range(1, SLOTS) if selector.select(each) == "b")
    subscription.remove_consumer("b")
    for entry_id in range(3):
        assert subscription.dispatch(3, entry_id, now_ms=0, sticky_key_hash=theirs).consumer == "a"
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    subscription.ack_many("a", [3, 3], [0, 0])
    subscription.validate()
    subscription.ack_many("a", [3], [1])
    assert subscription.dispatch(3, 3, now_ms=0, sticky_key_hash=theirs).reason is NonDelivery.KEY_WAITS
    subscription.ack_many("a", [3, 3], [2, 2])
    assert subscription.next_reads(1, 0) == [(3, 3)]
    assert subscription.dispatch(3, 3, now_ms=0, sticky_key_hash=theirs).consumer == "b"
    subscription.validate()


HASHES = [*range(30), *range(5_000, 60_000, 5_000)]


def found_by(
    subscription: Subscription, entry_ids: range, hashes: Sequence[int] = HASHES, *, batched: bool
) -> dict[int, ConsumerKey]:
    """Dispatch entries at once or one by one; return their consumers."""
    of_entries = [hashes[each % len(hashes)] for each in entry_ids]
    if batched:
        columns = [3] * len(entry_ids), [*entry_ids]
        many = subscription.dispatch_many(*columns, 0, sticky_key_hashes=of_entries)
        return {each: one.consumer for one in many for each in one.entry_ids.tolist()}
    found = {}
    for each, key_hash in zip(entry_ids, of_entries, strict=True):
        consumer = subscription.dispatch(3, each, now_ms=0, sticky_key_hash=key_hash).consumer
        if consumer is not None:
            found[each] = consumer
    return found


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("selector", [AutoSplit, ConsistentHashing, StickyRanges])
@pytest.mark.parametrize("outside", [[], [SLOTS, SLOTS + 5, 2**31 - 1], [*range(-60_000, 0, 5_000)]])
def test_a_batch_goes_to_the_owners_of_its_hashes_before_and_after_a_consumer_left(
    outside: list[int], selector: Callable[[], Selector], reads: bool
) -> None:
    hashes, found = [*HASHES, *outside], []
    first, second = range(len(hashes)), range(len(hashes), 2 * len(hashes))
    for batched in (True, False):
        subscription = opened("Key_Shared", 200, "", selector=selector(), reads_by_permits=reads)
        # The slots from 10 to 19 have no owner.
        for name, ranges in (("a", [(0, 9)]), ("b", [(20, SLOTS - 1)])):
            subscription.add_consumer(name, hash_ranges=ranges if selector is StickyRanges else ())
            subscription.flow(name, FULL)
        with_both = found_by(subscription, first, hashes, batched=batched)
        subscription.ack_many(None, [3] * len(with_both), sorted(with_both))
        subscription.remove_consumer("a")
        found.append((with_both, found_by(subscription, second, hashes, batched=batched)))
        subscription.validate()
    assert found[0] == found[1]
    assert {*found[0][0].values()} == {"a", "b"}
    assert {*found[0][1].values()} == {"b"}


@pytest.mark.parametrize("batched", [True, False])
def test_new_entries_do_not_overtake_a_queued_one_of_their_hash(batched: bool) -> None:
    subscription = opened("Key_Shared", 90)
    assert len(found_by(subscription, range(41), batched=batched)) == 41
    subscription.redeliver("a", [(3, 3)])
    later = found_by(subscription, range(41, 82), batched=batched)
    assert sorted(later) == [each for each in range(41, 82) if each != 44]
    assert subscription.next_reads(2, 0) == [(3, 3), (3, 44)]
    subscription.validate()


@pytest.mark.parametrize("reads", [False, True])
def test_a_batch_gives_the_new_owner_no_entry_of_a_draining_hash(reads: bool) -> None:
    given = []
    for batched in (True, False):
        selector = ConsistentHashing()
        subscription = opened("Key_Shared", 400, selector=selector, reads_by_permits=reads)
        for slot in range(100):
            assert subscription.dispatch(3, slot, now_ms=0, sticky_key_hash=slot * 600).consumer == "a"
        subscription.add_consumer("b")
        for name in "ab":
            subscription.flow(name, 1_000)
        later = np.arange(100, 300)
        hashes = (later % 100) * 600
        moved = {int(each) for each in hashes if selector.select(int(each)) == "b"}
        assert len(moved) > 10
        found: dict[int, str | int] = {}
        if batched:
            for delivery in subscription.dispatch_many(np.full(200, 3), later, 0, sticky_key_hashes=hashes):
                found |= dict.fromkeys(delivery.entry_ids.tolist(), delivery.consumer)
        else:
            for entry_id, sticky_key_hash in zip(later.tolist(), hashes.tolist(), strict=True):
                chosen = subscription.dispatch(
                    3, entry_id, now_ms=0, sticky_key_hash=sticky_key_hash
                ).consumer
                if chosen is not None:
                    found[entry_id] = chosen
        subscription.validate()
        assert {int(hashes[entry_id - 100]) for entry_id in found}.isdisjoint(moved)
        given.append(found)
    # By permits, a batch is one read, and each single delivery is another one.
    assert reads or given[0] == given[1]
    assert set(given[0].values()) == {"a"}
