"""What a subscription answers beyond who gets a message: reasons, codes, changes, receipts, ack sets."""

from __future__ import annotations

import random

import pytest

from ackwell import Ledgers, Position, ProtocolError
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.errors import ErrorCode
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AckType,
    ActiveChange,
    AutoSplit,
    CommandAck,
    MessageId,
    Receipt,
    StickyRanges,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    Undelivered,
    sticky_key_hash,
)


def opened(kind: str, entries: int = 10, **settings: int) -> Subscription:
    subscription = Subscription(kind, Ledgers({3: entries}), settings=SubscriptionSettings(**settings))  # type: ignore[arg-type]
    subscription.add_consumer("a")
    subscription.flow("a", 1000)
    return subscription


# Why nobody gets a message


def test_without_a_consumer_there_is_no_consumer() -> None:
    for kind in ("Shared", "Key_Shared", "Exclusive", "Failover"):
        subscription = Subscription(kind, Ledgers({3: 1}))
        assert subscription.dispatch(3, 0, 0) is Undelivered.NO_CONSUMER
        assert subscription.stall is subscription.summary(0).stall is Undelivered.NO_CONSUMER
        assert subscription.next_reads(1, 0) == []


def test_without_permits_there_are_no_permits() -> None:
    for kind in ("Shared", "Key_Shared", "Exclusive"):
        subscription = Subscription(kind, Ledgers({3: 1}))
        subscription.add_consumer("a")
        assert subscription.stall is Undelivered.NO_PERMITS
        assert subscription.dispatch(3, 0, 0) is Undelivered.NO_PERMITS


def test_a_limit_that_holds_back_is_named() -> None:
    for kind in ("Shared", "Key_Shared"):
        consumer = opened(kind, max_unacked_per_consumer=1)
        assert consumer.dispatch(3, 0, 0, sticky_key_hash=1) == "a"
        assert consumer.stall is Undelivered.CONSUMER_BLOCKED
        assert consumer.dispatch(3, 1, 0, sticky_key_hash=2) is Undelivered.CONSUMER_BLOCKED
        whole = opened(kind, max_unacked_per_subscription=1)
        assert whole.dispatch(3, 0, 0, sticky_key_hash=1) == "a"
        assert whole.stall is Undelivered.SUBSCRIPTION_BLOCKED
        assert whole.dispatch(3, 1, 0, sticky_key_hash=2) is Undelivered.SUBSCRIPTION_BLOCKED


def test_a_key_that_waits_is_named_and_so_is_one_without_owner() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 4}), selector=StickyRanges())
    subscription.add_consumer("a", hash_ranges=[(0, 9)])
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 0, 0, sticky_key_hash=20) is Undelivered.NO_CONSUMER
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=5) == "a"
    assert subscription.dispatch(3, 2, 0, sticky_key_hash=5) is Undelivered.NO_PERMITS
    subscription.flow("a", 10)
    assert subscription.dispatch(3, 3, 0, sticky_key_hash=5) is Undelivered.KEY_WAITS


def test_an_entry_that_nobody_is_to_get_says_why() -> None:
    subscription = Subscription(
        "Shared",
        Ledgers({3: 5}),
        delayed=DelayedDeliveryTracker(strict=True),
        settings=SubscriptionSettings(max_redeliver_count=0),
    )
    subscription.add_consumer("a")
    subscription.flow("a", 1000)
    assert subscription.dispatch(3, 1, 0) is Undelivered.NOT_NEXT
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=9) is Undelivered.DELAYED
    assert subscription.dispatch(3, 0, 0) is Undelivered.NOT_NEXT
    assert subscription.dispatch(3, 1, 0) == "a"
    assert subscription.dispatch(3, 1, 0) is Undelivered.NOT_NEXT
    subscription.redeliver("a", [(3, 1)])
    assert subscription.dispatch(3, 1, 0) is Undelivered.DEAD_LETTER
    assert subscription.dead_letters == [(3, 1)]
    # It was named before it was acknowledged by somebody else.
    subscription.ack(None, 3, 2)
    assert subscription.dispatch(3, 3, 0) == "a"
    assert subscription.dispatch(3, 4, 0) == "a"
    assert subscription.dispatch(3, 5, 0) is Undelivered.NOT_NEXT
    assert subscription.stall is None
    subscription.validate()


def test_an_entry_that_does_not_exist_is_not_delivered_at_the_read_position() -> None:
    for kind in ("Shared", "Exclusive"):
        subscription = opened(kind, entries=1)
        assert subscription.dispatch(3, 0, 0) == "a"
        assert subscription.dispatch(3, 1, 0) is Undelivered.NOT_NEXT
        assert not list(subscription.dispatch_many([3], [1], 0))


def test_a_look_ahead_that_is_used_up_and_a_pause_are_named() -> None:
    subscription = opened("Key_Shared", look_ahead_per_consumer=1)
    subscription.add_consumer("b")
    subscription.flow("b", 1)
    waiting = list(subscription.next_reads(9, 0))
    key_of_b = next(each for each in range(1, 60_000) if owner(subscription, each) == "b")
    assert subscription.dispatch(*waiting[0], 0, sticky_key_hash=key_of_b) == "b"
    for position in waiting[1:3]:
        assert not subscription.dispatch(*position, 0, sticky_key_hash=key_of_b)
    assert subscription.stall is Undelivered.LOOK_AHEAD
    paused = opened("Shared", pause_above_ranges=0)
    paused.ack("a", 3, 5)
    assert paused.stall is Undelivered.PAUSED
    assert paused.next_reads(5, 0) == []


def owner(subscription: Subscription, sticky_key_hash: int) -> object:
    return subscription._state.policy.selector.select(sticky_key_hash)  # type: ignore[attr-defined]


# Codes


def test_a_refusal_carries_the_code_that_a_broker_answers() -> None:
    def code(act: object) -> ErrorCode:
        with pytest.raises(ProtocolError) as refusal:
            act()  # type: ignore[operator]
        return refusal.value.code

    exclusive, shared = opened("Exclusive"), opened("Shared")
    assert code(lambda: exclusive.add_consumer("b")) is ErrorCode.CONSUMER_BUSY
    assert code(lambda: shared.add_consumer("a")) is ErrorCode.CONSUMER_BUSY
    assert code(lambda: shared.change_type("Exclusive")) is ErrorCode.CONSUMER_BUSY
    assert code(lambda: shared.flow("z", 1)) is ErrorCode.CONSUMER_NOT_FOUND
    assert code(lambda: shared.ack_cumulative("a", 3, 1)) is ErrorCode.NOT_ALLOWED_ERROR
    assert code(lambda: shared.ack("a", 3, 99)) is ErrorCode.NOT_ALLOWED_ERROR
    two = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 1), MessageId(3, 2)))
    assert code(lambda: exclusive.handle("a", two)) is ErrorCode.NOT_ALLOWED_ERROR
    sticky = Subscription("Key_Shared", Ledgers({3: 1}), selector=StickyRanges())
    sticky.add_consumer("a", hash_ranges=[(0, 9)])
    assert code(lambda: sticky.add_consumer("b", hash_ranges=[(9, 9)])) is ErrorCode.CONSUMER_ASSIGN_ERROR
    assert code(lambda: sticky.add_consumer("b")) is ErrorCode.CONSUMER_ASSIGN_ERROR
    assert code(lambda: shared.add_consumer("b", hash_ranges=[(0, 1)])) is ErrorCode.CONSUMER_ASSIGN_ERROR
    split = Subscription("Key_Shared", Ledgers({3: 1}), selector=AutoSplit(2))
    split.add_consumer("a")
    split.add_consumer("b")
    assert code(lambda: split.add_consumer("c")) is ErrorCode.CONSUMER_ASSIGN_ERROR
    held = CommandAck(1, message_ids=(MessageId(3, 1),), transaction=TransactionId(0, 1))
    shared.handle("a", held)
    assert code(lambda: shared.handle("a", held)) is ErrorCode.TRANSACTION_CONFLICT
    assert code(lambda: Ledgers({3: 1}).trim_before(9)) is ErrorCode.UNKNOWN_ERROR


# Identity


def test_a_hash_ring_places_two_consumers_of_one_name_apart() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 1}))
    for consumer_id in (7, 8):
        subscription.add_consumer("a", consumer_id=consumer_id)
    assert {owner(subscription, each) for each in range(1, 60_000, 7)} == {7, 8}
    one = Subscription("Key_Shared", Ledgers({3: 1}))
    one.add_consumer("a", consumer_id=9)
    # The first of a name is where it would be alone, and the second takes its place when it leaves.
    subscription.remove_consumer(7)
    subscription.add_consumer("a", consumer_id=9)
    subscription.remove_consumer(8)
    assert [owner(subscription, each) for each in range(1, 60_000, 7)] == [9] * len(range(1, 60_000, 7))
    assert subscription.summary(0).consumers[0].name == "a"
    assert subscription.consumers == [9]


def test_a_receipt_does_not_reach_the_next_consumer_of_that_name() -> None:
    subscription = opened("Shared")
    other = Receipt("b", 2)
    subscription.add_consumer("b")
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 0),), request_id=1))
    staged = subscription.stage()
    subscription.handle("b", CommandAck(1, message_ids=(MessageId(3, 1),), request_id=2))
    subscription.remove_consumer("a")
    subscription.add_consumer("a")
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 2),), request_id=3))
    assert subscription.confirm(staged) == []
    assert subscription.save(MemoryStore()) == [other, Receipt("a", 3)]


# Active consumers


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


# Ack sets and epochs


@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_a_delivery_carries_what_is_left_of_each_batch(kind: str) -> None:
    subscription = opened(kind)
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
    # What was read before the request is out of date.
    assert subscription.dispatch_many(*late, 0) == []
    subscription.redeliver("a", epoch=1)
    reads = subscription.next_reads_many(2, 0)
    assert reads[1].tolist() == [0, 1]
    assert [each.epoch for each in subscription.dispatch_many(*reads, 0)] == [2]
    assert subscription.summary(0).consumers[0].epoch == 2


# Cursors that are not durable


def test_a_reader_saves_nothing_and_gets_its_receipts_at_once() -> None:
    store = MemoryStore()
    subscription = Subscription("Exclusive", Ledgers({3: 4}), durable=False)
    subscription.add_consumer("a")
    subscription.handle("a", CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 1),), request_id=5))
    assert subscription.save(store) == [Receipt("a", 5)]
    assert store.last_id == -1
    assert subscription.durable_mark_delete_position == (3, 1)


# Keys


def test_messages_without_a_key_are_spread_by_producer_and_sequence_id() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 1}))
    for name in "ab":
        subscription.add_consumer(name)
    hashes = [
        subscription.sticky_key_hash(None, producer_name="standalone-0-1", sequence_id=number)
        for number in range(60)
    ]
    assert hashes == [sticky_key_hash(f"standalone-0-1-{number}") for number in range(60)]
    owners = [owner(subscription, each) for each in hashes]
    assert 20 < owners.count("a") < 40
    assert subscription.sticky_key_hash("k", producer_name="p", sequence_id=1) == sticky_key_hash("k")
    assert subscription.sticky_key_hash(None) == sticky_key_hash("NONE_KEY")


# What a move leaves behind


@pytest.mark.parametrize("move", ["expire", "skip", "clear_backlog", "ack_cumulative"])
def test_nothing_is_left_of_entries_that_a_move_acknowledged(move: str) -> None:
    settings = SubscriptionSettings(max_redeliver_count=1, ack_timeout_ms=10_000)
    subscription = Subscription("Shared", Ledgers({3: 8}), settings=settings)
    for name in "ab":
        subscription.add_consumer(name)
        subscription.flow(name, 100)
    for position in subscription.next_reads(8, 0):
        subscription.dispatch(*position, 0, batch_size=2)
    for _ in range(2):
        for name in "ab":
            subscription.redeliver(name, [(3, 0), (3, 1)])
        for position in subscription.next_reads(8, 0):
            subscription.dispatch(*position, 0, batch_size=2)
    assert subscription.dead_letters == [(3, 0), (3, 1)]
    subscription.ack("a", 3, 2, (0b10,))
    subscription.redeliver("a", [(3, 3)])
    subscription.nack("a", 3, 4, 10)
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


def test_a_move_past_the_end_or_to_what_is_acknowledged_does_what_it_can() -> None:
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


def test_skip_counts_unacknowledged_entries_only_whatever_holes_there_are() -> None:
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


def test_an_abort_after_a_restart_keeps_the_order_of_keys() -> None:
    store, ledgers = MemoryStore(), Ledgers({3: 4})
    subscription = Subscription("Key_Shared", ledgers)
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    subscription.dispatch(3, 0, 0, sticky_key_hash=7)
    held = CommandAck(1, message_ids=(MessageId(3, 0),), transaction=TransactionId(0, 1))
    subscription.handle("a", held)
    subscription.save(store)
    again = Subscription.load("Key_Shared", store, ledgers)
    again.add_consumer("b")
    assert again.next_reads(1, 0) == []
    again.flow("b", 1)
    # It is held, so the next of its key may go; aborted, it comes before the one after.
    assert again.dispatch(3, 1, 0, sticky_key_hash=7) == "b"
    assert again.abort(TransactionId(0, 1)) == 1
    again.flow("b", 1)
    assert again.dispatch(3, 2, 0, sticky_key_hash=7) is Undelivered.KEY_WAITS
    assert again.next_reads(1, 0) == [(3, 0)]
    assert again.dispatch(3, 0, 0, sticky_key_hash=7) == "b"
    again.validate()


def test_a_key_is_free_as_soon_as_its_old_consumer_gives_everything_back() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 2}), selector=AutoSplit())
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    assert subscription.dispatch(3, 0, 0, sticky_key_hash=5) == "a"
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    # The key is now that of b, which waits for a.
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=5) is Undelivered.KEY_WAITS
    assert subscription.redeliver("a") == 1
    assert subscription.next_reads(9, 0) == [(3, 0), (3, 1)]
    assert subscription.dispatch(3, 0, 0, sticky_key_hash=5) == "b"
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=5) == "b"
    subscription.validate()


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
        assert [owners[p.entry_id] for p in reads] == [single.dispatch(*p, 0) for p in reads]
        given += len(reads)
    assert given == 400
    assert not single.next_reads(1, 0)
    assert whole == single


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_many_acknowledged_at_once_leave_the_queue_the_waits_and_the_counts(kind: str) -> None:
    subscription = opened(kind)
    for position in subscription.next_reads(6, 0):
        assert subscription.dispatch(*position, 0, sticky_key_hash=9) == "a"
    subscription.redeliver("a", [(3, 0), (3, 1), (3, 2)])
    assert subscription.nack("a", 3, 4, 0)
    assert subscription.ack_many("a", [3, 3, 3], [0, 2, 4]) == 3
    subscription.validate()
    assert subscription.next_reads(2, 100_000) == [(3, 1), (3, 6)]
    assert subscription.next_wakeup_ms() is None
    assert [subscription.redelivery_count(3, entry) for entry in range(3)] == [0, 1, 0]
    assert subscription.summary(0).unacked == 2


def test_settings_out_of_their_domain_are_refused() -> None:
    for name in ("round_robin_batch_size", "ack_timeout_tick_ms"):
        with pytest.raises(ValueError, match=f"{name} is 0; expected at least 1"):
            SubscriptionSettings(**{name: 0})  # type: ignore[arg-type]
        SubscriptionSettings(**{name: 1})  # type: ignore[arg-type]
    for name in ("max_unacked_per_consumer", "max_unacked_per_subscription", "ack_timeout_ms"):
        with pytest.raises(ValueError, match=f"{name} is -1; expected at least 0"):
            SubscriptionSettings(**{name: -1})  # type: ignore[arg-type]
        SubscriptionSettings(**{name: 0})  # type: ignore[arg-type]


def test_messages_sent_to_the_new_owner_of_a_draining_key_keep_it_draining() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 4}), selector=AutoSplit())
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    for _ in range(2):
        (position,) = subscription.next_reads(1, 0)
        assert subscription.dispatch(*position, 0, sticky_key_hash=5) == "a"
    subscription.add_consumer("b")
    # Somebody else decided that b, the new owner, gets one already.
    subscription.delivered("b", 3, 2, 0, sticky_key_hash=5)
    subscription.validate()
    subscription.ack("a", 3, 0)
    subscription.flow("b", 10)
    assert subscription.dispatch(3, 3, 0, sticky_key_hash=5) is Undelivered.KEY_WAITS
    subscription.ack("a", 3, 1)
    subscription.validate()
    assert subscription.next_reads(9, 0) == [(3, 3)]
    assert subscription.dispatch(3, 3, 0, sticky_key_hash=5) == "b"


def test_ids_that_name_no_entry_are_passed_over_beside_whole_and_partial_acks() -> None:
    subscription = opened("Shared")
    for entry_id in range(4):
        assert subscription.dispatch(3, entry_id, 0, batch_size=2) == "a"
    nowhere = [MessageId(-1, -1), MessageId(3, -1), MessageId(-1, 2)]
    partial = MessageId(3, 3, ack_set=(0b10,), batch_size=2)
    whole = [MessageId(3, 0), MessageId(3, 1)]
    subscription.handle("a", CommandAck(1, message_ids=(*nowhere, partial, *whole)))
    assert subscription.cursor.mark_delete_position == Position(3, 1)
    assert subscription.ack_set(3, 3) == (0b10,)
    assert [position.entry_id for position in subscription.pending("a")] == [2, 3]
    subscription.validate()


def test_a_delivery_that_was_seen_counts_its_messages_and_leaves_what_it_passed_over_to_be_read() -> None:
    subscription = opened("Shared")
    subscription.delivered("a", 3, 3, 0, batch_size=4)
    assert subscription.pending("a")[Position(3, 3)].remaining == 4
    subscription.delivered("a", 3, 5, 0)
    assert subscription.pending("a")[Position(3, 5)].remaining == 1
    # In whatever order they were delivered: 0 to 2 and 4 are still to come, before 6.
    assert [position.entry_id for position in subscription.next_reads(6, 0)] == [0, 1, 2, 4, 6, 7]
    subscription.validate()


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


def test_expiry_in_a_ledger_that_is_written_stops_where_the_newest_entries_are_acknowledged() -> None:
    for newest_unacked in range(1, 19):
        for wanted in range(newest_unacked, 20):
            subscription = of_a_topic_that_is_written(20)
            for entry_id in range(newest_unacked + 1, 20):
                subscription.ack(None, 3, entry_id)
            # The broker looks at the last entry first, finds nothing behind it, and keeps the first.
            subscription.expire(3, wanted)
            assert subscription.cursor.mark_delete_position == Position(2, 0)
    # In a closed ledger it does not search.
    subscription.expire(2, 2)
    assert subscription.cursor.mark_delete_position == Position(2, 2)


@pytest.mark.parametrize("seed", range(20))
def test_limits_end_turns_at_once_where_they_do_one_by_one(seed: int) -> None:
    numbers = random.Random(seed)
    settings = {
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
        # What was read comes in two calls, so a turn may go on in the second.
        middle = numbers.randint(0, len(reads))
        for part in filter(None, (reads[:middle], reads[middle:])):
            columns = [p.ledger_id for p in part], [p.entry_id for p in part]
            owners = {
                entry: each.consumer
                for each in whole.dispatch_many(*columns, 0)
                for entry in each.entry_ids.tolist()
            }
            one_by_one = {p.entry_id: single.dispatch(*p, 0) for p in part}
            assert owners == {e: who for e, who in one_by_one.items() if isinstance(who, str)}
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
    settings = {"round_robin_batch_size": 1, "max_unacked_per_subscription": 20}
    whole, single = (opened("Shared", 60, **settings) for _ in range(2))
    for subscription in (whole, single):
        for name in "bc":
            subscription.add_consumer(name)
            subscription.flow(name, 1000)
        assert len(subscription.next_reads(25, 0)) == 25
    deliveries = whole.dispatch_many([3] * 25, list(range(25)), 0)
    owners = {entry: each.consumer for each in deliveries for entry in each.entry_ids.tolist()}
    answers = [single.dispatch(3, entry_id, 0) for entry_id in range(25)]
    assert owners == {entry_id: who for entry_id, who in enumerate(answers) if isinstance(who, str)}
    assert len(owners) == 20
    assert whole == single


def test_parts_of_a_batch_in_one_transaction_are_committed_together() -> None:
    subscription = opened("Shared")
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, 0, batch_size=4)
    transaction = TransactionId(0, 1)
    for bits in (0b0001, 0b0110):
        message = MessageId(3, 0, ack_set=(0b1111 & ~bits,), batch_size=4)
        subscription.handle("a", CommandAck(1, message_ids=(message,), transaction=transaction))
    subscription.commit(transaction)
    assert subscription.cursor.unacked_bits(3, 0) == 0b1000
    subscription.validate()


def test_nothing_is_remembered_of_how_an_acknowledged_batch_was_delivered() -> None:
    subscription = opened("Shared", partial_ack_lowers_pending=False)
    subscription.ack(None, 3, 0, (0b110,))
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, 0, batch_size=3)
    consumer = subscription._state.consumers.by_key["a"]
    assert consumer.as_delivered
    subscription.ack("a", 3, 0)
    assert not consumer.as_delivered


def test_times_up_to_half_of_int64_are_times() -> None:
    subscription = opened("Shared")
    subscription.advance(2**62)
    with pytest.raises(ValueError, match="4611686018427387905"):
        subscription.advance(2**62 + 1)


@pytest.mark.parametrize(
    ("first", "second"), [(0b0010, 0b0001), (0b0001, 0b0011), (0b0110, 0b0100), (0b0100, 0b1011), (1, 1)]
)
def test_two_transactions_conflict_where_their_parts_of_a_batch_overlap(first: int, second: int) -> None:
    subscription = opened("Shared")
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, 0, batch_size=4)

    def ack(number: int, bits: int) -> None:
        message = MessageId(3, 0, ack_set=(0b1111 & ~bits,), batch_size=4)
        subscription.handle("a", CommandAck(1, message_ids=(message,), transaction=TransactionId(0, number)))

    ack(1, first)
    if first & second:
        with pytest.raises(ProtocolError):
            ack(2, second)
    else:
        ack(2, second)
        subscription.commit(TransactionId(0, 2))
    subscription.commit(TransactionId(0, 1))
    acked = first if first & second else first | second
    left = 0b1111 & ~acked
    assert subscription.cursor.unacked_bits(3, 0) == (left or None)
    assert subscription.cursor.is_acked(3, 0) == (not left)
    subscription.validate()
