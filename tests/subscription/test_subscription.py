"""What a subscription does, claim by claim."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import Ledgers, LimitError, Position, ProtocolError
from ackwell.ack_sets import BATCH_SIZE_MAX
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AckType,
    AutoSplit,
    CommandAck,
    ConsumerKey,
    MessageId,
    Receipt,
    RedeliveryBackoff,
    StickyRanges,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    Undelivered,
    ValidationError,
)

FULL = 10**6


def opened(
    kind: str, entries: int = 10, consumers: str = "a", permits: int = FULL, **options: object
) -> Subscription:
    subscription = Subscription(kind, Ledgers({3: entries}), **options)  # type: ignore[arg-type]
    for name in consumers:
        subscription.add_consumer(name)
        subscription.flow(name, permits)
    return subscription


def deliver(subscription: Subscription, now_ms: int = 0, **values: int) -> dict[ConsumerKey, list[int]]:
    got: dict[ConsumerKey, list[int]] = {}
    for position in subscription.next_reads(10**4, now_ms):
        name = subscription.dispatch(*position, now_ms, **values)
        if not isinstance(name, Undelivered):
            got.setdefault(name, []).append(position.entry_id)
    return got


def test_shared_hands_out_turns_of_a_few_entries() -> None:
    settings = SubscriptionSettings(round_robin_batch_size=2)
    subscription = opened("Shared", 10, "abc", settings=settings)
    assert deliver(subscription) == {"a": [0, 1, 6, 7], "b": [2, 3, 8, 9], "c": [4, 5]}


def test_shared_serves_a_lower_priority_only_when_the_higher_has_no_permits() -> None:
    subscription = opened("Shared", 6, "")
    for name, priority, permits in (("low", 1, 10), ("high", 0, 2)):
        subscription.add_consumer(name, priority=priority)
        subscription.flow(name, permits)
    assert deliver(subscription) == {"high": [0, 1], "low": [2, 3, 4, 5]}


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
    settings = SubscriptionSettings(
        round_robin_batch_size=numbers.randint(1, 5), max_unacked_per_consumer=numbers.choice([0, 30, 200])
    )
    permits = {name: numbers.choice([15, 60, 5000]) for name in names}
    sizes = [numbers.randint(1, 4) for _ in range(300)] if seed % 2 else None
    hashes = [numbers.randint(1, 65_535) for _ in range(300)] if kind == "Key_Shared" else None
    found = []
    for at_once in (False, True):
        subscription = opened(kind, 300, "", settings=settings)
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
                name_or_why = subscription.dispatch(
                    *position,
                    0,
                    batch_size=1 if sizes is None else sizes[position.entry_id],
                    sticky_key_hash=0 if hashes is None else hashes[position.entry_id],
                )
                if not isinstance(name_or_why, Undelivered):
                    owner[position] = name_or_why
        subscription.validate()
        found.append((owner, subscription.summary(0).consumers))
    assert found[0] == found[1]
    assert found[0][0]


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


def test_a_cumulative_acknowledgment_is_illegal_where_consumers_share() -> None:
    for kind in ("Shared", "Key_Shared"):
        subscription = opened(kind)
        command = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 5),))
        with pytest.raises(ProtocolError, match="illegal"):
            subscription.handle("a", command)
        assert subscription.cursor.backlog_entries == 10


def test_without_ledgers_every_position_is_ahead_of_the_last() -> None:
    subscription = Subscription("Exclusive", Ledgers())
    acknowledgments: tuple[Callable[[], object], ...] = (
        lambda: subscription.ack(None, 3, 0),
        lambda: subscription.ack(None, 3, 0, (0b10,)),
        lambda: subscription.ack_many(None, [3], [0]),
        lambda: subscription.ack_cumulative(None, 3, 0),
    )
    for acknowledge in acknowledgments:
        with pytest.raises(ProtocolError, match="ahead of the last position none"):
            acknowledge()


def test_nobody_who_is_not_connected_acknowledges() -> None:
    subscription = opened("Exclusive")
    deliver(subscription)
    acknowledgments: tuple[Callable[[], object], ...] = (
        lambda: subscription.ack("b", 3, 4),
        lambda: subscription.ack_many("b", [3], [4]),
        lambda: subscription.ack_cumulative("b", 3, 4),
        lambda: subscription.handle("b", CommandAck(1, message_ids=(MessageId(3, 4),))),
    )
    for acknowledge in acknowledgments:
        with pytest.raises(ProtocolError, match="no consumer 'b'"):
            acknowledge()
    assert subscription.cursor.backlog_entries == 10


def test_a_cumulative_acknowledgment_names_exactly_one_message() -> None:
    subscription = opened("Exclusive")
    for ids in ((), (MessageId(3, 1), MessageId(3, 2))):
        with pytest.raises(ProtocolError, match="expected one"):
            subscription.handle("a", CommandAck(1, AckType.CUMULATIVE, ids))
    subscription.handle("a", CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 2, ack_set=(0b10,)),)))
    assert subscription.cursor.mark_delete_position == (3, 1)
    assert subscription.cursor.unacked_bits(3, 2) == 0b10


def test_acknowledgments_of_what_is_not_there_follow_the_brokers_rule() -> None:
    ledgers = Ledgers({2: 5, 3: 10, 7: 10})
    subscription = Subscription("Shared", ledgers)
    subscription.add_consumer("a")
    assert not subscription.ack("a", 3, 10)  # past the end of a closed ledger
    assert not subscription.ack("a", 5, 0)  # a ledger that is unknown, and older than the newest
    assert subscription.ack_many("a", [3, 3, 5], [10, 4, 1]) == 1
    for ahead in ((7, 10), (8, 0)):
        with pytest.raises(ProtocolError, match="ahead of the last position"):
            subscription.ack("a", *ahead)
        with pytest.raises(ProtocolError, match="ahead of the last position"):
            subscription.ack_many("a", [3, ahead[0]], [5, ahead[1]])
    assert not subscription.cursor.is_acked(3, 5)
    assert subscription.cursor.backlog_entries == 24
    ledgers.trim_before(3)
    assert not subscription.ack("a", 2, 0)
    with pytest.raises(ProtocolError, match="no consumer 'z'"):
        subscription.ack("z", 3, 0)
    subscription.validate()


def test_an_acknowledgment_through_another_consumer_frees_the_one_that_has_the_message() -> None:
    subscription = opened("Shared", 2, "ab", settings=SubscriptionSettings(round_robin_batch_size=1))
    assert deliver(subscription) == {"a": [0], "b": [1]}
    assert subscription.ack("a", 3, 1)
    assert [each.unacked for each in subscription.summary(0).consumers] == [1, 0]
    assert not subscription.ack("b", 3, 1)


def test_messages_thrown_away_by_the_client_are_acknowledged_and_counted_by_kind() -> None:
    subscription = opened("Shared")
    error = ValidationError.CHECKSUM_MISMATCH
    ids = (MessageId(3, 0), MessageId(3, 1))
    subscription.handle("a", CommandAck(1, message_ids=ids, validation_error=error).encode())
    assert subscription.validation_errors == {error: 2}
    assert subscription.cursor.mark_delete_position == (3, 1)


def test_properties_are_saved_with_the_cursor() -> None:
    subscription, store = opened("Exclusive"), MemoryStore()
    command = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 2),), properties=(("offset", 42),))
    subscription.handle("a", command.encode())
    subscription.save(store)
    again = Subscription.load("Exclusive", store, subscription.cursor.ledgers)
    assert again.cursor.properties == {"offset": 42}


def test_a_first_chunk_acknowledges_only_the_entries_that_are_known_to_be_of_its_message() -> None:
    subscription = opened("Shared")
    chunked = MessageId(3, 4, first_chunk=MessageId(3, 2))
    assert subscription.handle("a", CommandAck(1, message_ids=(chunked,)).encode()) == 1
    assert str(subscription.cursor.individually_deleted) == "[(3:3..3:4]]"
    interleaved = opened("Shared", chunk_entries=lambda first, last: [first, last])
    interleaved.handle("a", CommandAck(1, message_ids=(chunked,)))
    assert str(interleaved.cursor.individually_deleted) == "[(3:1..3:2],(3:3..3:4]]"


def test_a_receipt_is_given_once_and_only_by_the_save_that_holds_its_acknowledgment() -> None:
    subscription, store = opened("Shared"), MemoryStore()
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 0),), request_id=1))
    staged = subscription.stage()
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 1),), request_id=2))
    assert subscription.confirm(staged) == [Receipt("a", 1)]
    assert subscription.durable_mark_delete_position == (3, 0)
    assert subscription.confirm(staged) == []
    assert subscription.save(store) == [Receipt("a", 2)]
    for request_id in (3, 4):
        subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 2),), request_id=request_id))
    assert subscription.confirm(staged) == []
    assert subscription.save(store) == [Receipt("a", 3), Receipt("a", 4)]


def test_receipts_of_a_consumer_that_left_bring_no_other_receipt_forward() -> None:
    subscription = opened("Shared", consumers="ab")
    for request_id, name in ((1, "a"), (2, "a"), (3, "b")):
        ack = CommandAck(1, message_ids=(MessageId(3, request_id),), request_id=request_id)
        subscription.handle(name, ack)
    first = subscription.stage()
    subscription.remove_consumer("a")
    second = subscription.stage()
    assert subscription.confirm(first) == [Receipt("b", 3)]
    subscription.handle("b", CommandAck(1, message_ids=(MessageId(3, 4),), request_id=4))
    assert subscription.confirm(second) == []
    assert subscription.confirm(subscription.stage()) == [Receipt("b", 4)]


def test_a_log_is_kept_from_where_a_saved_seek_went_back_to() -> None:
    subscription, store = opened("Exclusive"), MemoryStore()
    subscription.ack_cumulative("a", 3, 5)
    subscription.save(store)
    subscription.seek(3, 2)
    assert subscription.durable_mark_delete_position == (3, 5)
    subscription.save(store)
    assert subscription.durable_mark_delete_position == (3, 1)


def test_a_negative_acknowledgment_waits_longer_each_time() -> None:
    settings = SubscriptionSettings(nack_backoff=RedeliveryBackoff(100, 1000, 3))
    subscription = opened("Shared", 1, settings=settings)
    now_ms, waits = 0, []
    for _ in range(4):
        assert deliver(subscription, now_ms) == {"a": [0]}
        assert subscription.nack("a", 3, 0, now_ms)
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
    subscription.nack("a", 3, 0, 0)
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
    subscription.nack("a", 3, 0, 0)
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
    assert not subscription.nack("a", 3, 2, 0)
    assert subscription.next_wakeup_ms() is None


@pytest.mark.parametrize("timeout_ms", [0, 1_000])
def test_a_blocked_consumer_gets_a_message_again_that_waited_long_enough(timeout_ms: int) -> None:
    settings = SubscriptionSettings(max_unacked_per_consumer=4, ack_timeout_ms=timeout_ms)
    subscription = opened("Shared", settings=settings)
    for entry_id in range(4):
        # Only the first one has waited long enough.
        assert subscription.dispatch(3, entry_id, FULL if timeout_ms and entry_id else 0) == "a"
    if not timeout_ms:
        subscription.nack("a", 3, 0, 0)
    assert subscription.stall is Undelivered.CONSUMER_BLOCKED
    assert subscription.next_reads(1, FULL - 1) == [(3, 0)]
    assert subscription.dispatch(3, 0, FULL) == "a"


def test_a_second_negative_acknowledgment_begins_the_back_off_anew() -> None:
    settings = SubscriptionSettings(nack_backoff=RedeliveryBackoff(60_000, 60_000))
    subscription = opened("Shared", settings=settings)
    deliver(subscription)
    subscription.nack("a", 3, 0, 0)
    subscription.nack("a", 3, 0, 30_000)
    assert subscription.next_wakeup_ms() == 90_000
    assert [subscription.advance(now_ms) for now_ms in (60_000, 89_999, 90_000)] == [0, 0, 1]


def test_a_single_message_that_was_taken_back_has_only_its_next_deadline() -> None:
    subscription = opened("Shared", settings=SubscriptionSettings(ack_timeout_ms=1_000))
    subscription.dispatch(3, 0, 0)
    subscription.dispatch(3, 1, 5_000)
    subscription.redeliver("a", [(3, 1)])
    assert subscription.dispatch(3, 1, 5_500) == "a"
    assert [subscription.advance(now_ms) for now_ms in (6_000, 6_999, 7_000)] == [1, 0, 1]


def test_a_message_not_acknowledged_in_time_comes_again_and_never_early() -> None:
    settings = SubscriptionSettings(ack_timeout_ms=5_000, ack_timeout_tick_ms=1_000)
    subscription = opened("Shared", 3, settings=settings)
    assert deliver(subscription, 300) == {"a": [0, 1, 2]}
    subscription.ack("a", 3, 1)
    assert subscription.next_wakeup_ms() == 6_000
    assert subscription.advance(5_999) == 0
    assert subscription.advance(6_000) == 2
    assert deliver(subscription, 6_000) == {"a": [0, 2]}
    assert subscription.redelivery_count(3, 0) == 1
    # What went back by itself meanwhile has only its new deadline.
    subscription.redeliver("a", [(3, 0)])
    assert deliver(subscription, 9_000) == {"a": [0]}
    assert subscription.advance(11_000) == 1
    assert subscription.advance(14_000) == 1
    subscription.validate()


@pytest.mark.parametrize("back", [lambda each: each.redeliver("a"), lambda each: each.seek(3, 0)])
def test_a_message_that_was_taken_back_has_the_deadline_of_its_next_delivery(
    back: Callable[[Subscription], object],
) -> None:
    subscription = opened("Shared", 2, settings=SubscriptionSettings(ack_timeout_ms=1_000))
    deliver(subscription)
    back(subscription)
    assert deliver(subscription, now_ms=500) == {"a": [0, 1]}
    assert subscription.next_wakeup_ms() == 2_000
    assert [subscription.advance(now_ms) for now_ms in (1_000, 1_999, 2_000)] == [0, 0, 2]


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
            if subscription.dispatch(*position, now_ms, deliver_at_ms=at):
                got[position.entry_id] = now_ms
    assert got == deliver_at_ms
    assert subscription.summary(0).delayed == 0


def test_a_change_of_type_begins_and_ends_delays() -> None:
    subscription = Subscription("Shared", Ledgers({3: 1}), delayed=DelayedDeliveryTracker())
    for kind, answer in (
        ("Exclusive", "a"),
        ("Key_Shared", Undelivered.DELAYED),
        ("Failover", "a"),
        ("Shared", Undelivered.DELAYED),
    ):
        subscription.change_type(kind)
        subscription.add_consumer("a")
        subscription.flow("a", 1)
        assert subscription.dispatch(3, 0, 0, deliver_at_ms=FULL) == answer
        subscription.remove_consumer("a")


def test_exclusive_and_failover_do_not_delay() -> None:
    for kind in ("Exclusive", "Failover"):
        subscription = opened(kind, 1, delayed=DelayedDeliveryTracker(strict=True))
        assert deliver(subscription, deliver_at_ms=10**9) == {"a": [0]}


def test_a_key_stays_with_its_consumer_until_that_one_has_finished() -> None:
    subscription = opened("Key_Shared", 4, "", selector=AutoSplit())
    subscription.add_consumer("a")
    subscription.flow("a", FULL)
    key = 5  # of the lower half, which b will take
    for position in subscription.next_reads(2, 0):
        assert subscription.dispatch(*position, 0, sticky_key_hash=key) == "a"
    subscription.add_consumer("b")
    subscription.flow("b", FULL)
    for position in subscription.next_reads(2, 0):
        assert subscription.dispatch(*position, 0, sticky_key_hash=key) is Undelivered.KEY_WAITS
    subscription.ack("a", 3, 1)
    assert subscription.next_reads(10, 0) == []
    subscription.ack("a", 3, 0)
    assert [p.entry_id for p in subscription.next_reads(10, 0)] == [2, 3]
    assert subscription.dispatch(3, 2, 0, sticky_key_hash=key) == "b"
    subscription.validate()


def test_a_key_that_waits_does_not_hold_back_the_others() -> None:
    subscription = opened("Key_Shared", 4, "", selector=StickyRanges())
    subscription.add_consumer("full", hash_ranges=[(0, 99)])
    subscription.add_consumer("free", hash_ranges=[(100, 199)])
    subscription.flow("free", 10)
    keys = [50, 150, 50, 151]
    got = [
        subscription.dispatch(*p, 0, sticky_key_hash=keys[p.entry_id]) for p in subscription.next_reads(9, 0)
    ]
    assert got == [Undelivered.NO_PERMITS, "free", Undelivered.KEY_WAITS, "free"]
    subscription.flow("full", 10)
    assert [p.entry_id for p in subscription.next_reads(9, 0)] == [0, 2]


def test_a_transaction_holds_its_messages_until_it_ends() -> None:
    subscription = opened("Shared", 3)
    deliver(subscription)
    first, second = TransactionId(1, 1), TransactionId(1, 2)
    command = CommandAck(1, message_ids=(MessageId(3, 0),), transaction=first)
    subscription.handle("a", command)
    assert subscription.summary(0).unacked == 2
    assert subscription.cursor.backlog_entries == 3
    both = (MessageId(3, 1), MessageId(3, 0))
    with pytest.raises(ProtocolError, match=r"transaction \(1, 1\), which is open"):
        subscription.handle("a", CommandAck(1, message_ids=both, transaction=second))
    assert subscription.transactions == [first]
    assert subscription.abort(first) == 1
    assert subscription.next_reads(10, 0) == [(3, 0)]
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 1),), transaction=second))
    store = MemoryStore()
    subscription.save(store)
    again = Subscription.load("Shared", store, subscription.cursor.ledgers)
    again.add_consumer("b")
    again.flow("b", FULL)
    assert deliver(again) == {"b": [0, 2]}
    assert again.commit(second) == 1
    assert again.commit(second) == 0
    assert again.cursor.is_acked(3, 1)
    again.validate()


def test_only_one_transaction_acknowledges_cumulatively_at_a_time() -> None:
    subscription = opened("Exclusive", 10)
    deliver(subscription)

    def cumulative(transaction: int, entry_id: int) -> None:
        command = CommandAck(
            1, AckType.CUMULATIVE, (MessageId(3, entry_id),), transaction=TransactionId(0, transaction)
        )
        subscription.handle("a", command.encode())

    cumulative(1, 4)
    with pytest.raises(ProtocolError, match="has acknowledged cumulatively"):
        cumulative(2, 6)
    with pytest.raises(ProtocolError, match="has already acknowledged up to"):
        cumulative(1, 4)
    cumulative(1, 5)
    assert subscription.cursor.backlog_entries == 10
    store = MemoryStore()
    subscription.save(store)
    subscription = Subscription.load("Exclusive", store, subscription.cursor.ledgers)
    subscription.add_consumer("a")
    subscription.flow("a", FULL)
    assert subscription.commit(TransactionId(0, 1)) == 1
    assert subscription.cursor.mark_delete_position == (3, 5)
    cumulative(2, 7)
    subscription.abort(TransactionId(0, 2))
    assert subscription.cursor.mark_delete_position == (3, 5)
    assert [p.entry_id for p in subscription.next_reads(10, 0)] == [6, 7, 8, 9]


def test_part_of_a_batch_in_a_transaction_needs_the_batch_size() -> None:
    subscription = opened("Shared", 1)
    deliver(subscription, batch_size=4)
    command = CommandAck(
        1, message_ids=(MessageId(3, 0, ack_set=(0b1110,)),), transaction=TransactionId(0, 1)
    )
    with pytest.raises(ProtocolError, match="needs the batch's size"):
        subscription.handle("a", command)
    assert subscription.summary(0).unacked == 4


def test_a_seek_starts_over_from_its_position_with_nobody_having_anything() -> None:
    subscription = opened("Shared", 6, delayed=DelayedDeliveryTracker(strict=True))
    subscription.dispatch(3, 0, 0, deliver_at_ms=5_000)
    deliver(subscription)
    subscription.ack("a", 3, 4)
    subscription.redeliver("a", [(3, 5)])
    subscription.nack("a", 3, 1, 0)
    subscription.seek(3, 2)
    subscription.validate()
    assert subscription.cursor.mark_delete_position == (3, 1)
    assert subscription.next_wakeup_ms() is None
    assert subscription.summary(0).unacked == 0
    assert deliver(subscription, 10_000) == {"a": [2, 3, 4, 5]}
    assert subscription.redelivery_count(3, 5) == 0


def test_a_summary_knows_the_oldest_hole_and_since_when() -> None:
    subscription = opened("Shared", 5)
    deliver(subscription, 1_000)
    assert subscription.summary(1_500).oldest_hole == (3, 0)
    subscription.ack_many("a", [3, 3], [0, 2])
    assert subscription.summary(4_000).oldest_hole_age_ms == 0
    summary = subscription.summary(9_000)
    assert (summary.oldest_hole, summary.oldest_hole_age_ms) == ((3, 1), 5_000)
    subscription.ack_many("a", [3, 3, 3], [1, 3, 4])
    assert subscription.summary(9_000).oldest_hole is None


def test_the_oldest_hole_is_as_old_as_the_first_call_with_a_time_that_saw_it() -> None:
    subscription = opened("Shared", 5)
    subscription.advance(1_000)
    assert subscription.summary(6_000).oldest_hole_age_ms == 5_000


@given(
    nacked=st.frozensets(st.integers(0, 9)),
    up_to=st.integers(0, 9),
    kind=st.sampled_from(["Exclusive", "Failover"]),
)
def test_a_cumulative_ack_forgets_everything_up_to_it(nacked: frozenset[int], up_to: int, kind: str) -> None:
    subscription = opened(kind, 10)
    deliver(subscription)
    for entry_id in nacked:
        assert subscription.nack("a", 3, entry_id, 0)
    subscription.ack_cumulative("a", 3, up_to)
    waits = any(entry_id > up_to for entry_id in nacked)
    assert (subscription.next_wakeup_ms() is not None) == waits
    left = subscription.next_reads(100, now_ms=10**6)
    assert left == [Position(3, entry_id) for entry_id in range(up_to + 1, 10) if waits]
    subscription.validate()


def test_fixed_delays_stop_reading_until_one_is_due_or_a_message_is_plain() -> None:
    tracker = DelayedDeliveryTracker.pulsar(strict=True, fixed_delay_lookahead=3)
    subscription = Subscription("Shared", Ledgers({3: 6}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    for entry_id in range(3):
        assert subscription.stall is None
        assert subscription.dispatch(3, entry_id, 0, deliver_at_ms=10_240) is Undelivered.DELAYED
    assert subscription.stall is Undelivered.FIXED_DELAY
    assert subscription.next_reads(10, now_ms=10_239) == []
    assert subscription.next_reads(10, now_ms=10_240) == [Position(3, entry_id) for entry_id in range(6)]
    for entry_id in range(3):
        assert subscription.dispatch(3, entry_id, 10_240, deliver_at_ms=10_240) == "a"
    assert subscription.dispatch(3, 3, 10_240) == "a"
    assert subscription.dispatch(3, 4, 10_240, deliver_at_ms=20_480) is Undelivered.DELAYED
    subscription.validate()


@pytest.mark.parametrize("batch", [False, True])
def test_a_plain_message_ends_the_pause_of_fixed_delays(*, batch: bool) -> None:
    """The broker delivered 30 of 30 plain messages that it read beside delayed ones."""
    tracker = DelayedDeliveryTracker.pulsar(fixed_delay_lookahead=2)
    subscription = Subscription("Shared", Ledgers({3: 40}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    for entry_id in (0, 1):
        subscription.dispatch(3, entry_id, 0, deliver_at_ms=60_000)
    assert subscription.stall is Undelivered.FIXED_DELAY
    # Read before the pause, as one batch with the delayed ones.
    if batch:
        assert subscription.dispatch_many([3], [2], 0)
    else:
        assert subscription.dispatch(3, 2, 0) == "a"
    assert subscription.stall is None
    assert len(subscription.next_reads(100, now_ms=0)) == 37


def test_an_audit_describes_a_counter_that_drifted() -> None:
    subscription = opened("Shared", 2)
    deliver(subscription)
    subscription._state.consumers["a"].unacked += 5
    assert subscription.audit() == ["a: unacked is 7, its entries sum to 2"]
    with pytest.raises(AssertionError, match="sum to 2"):
        subscription.validate()


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
        subscription.dispatch(3, 0, 0, batch_size=0)
    with pytest.raises(LimitError, match="batch size"):
        subscription.dispatch(3, 0, 0, batch_size=BATCH_SIZE_MAX + 1)
    assert deliver(subscription) == {"a": [*range(10)]}
    with pytest.raises(ValueError, match="is not a valid SubscriptionType"):
        Subscription("Sahred", Ledgers({1: 1}))
    with pytest.raises(ValueError, match="back-off"):
        RedeliveryBackoff(1, 2, 0.5)
    with pytest.raises(ValueError, match="max_unacked_per_consumer"):
        SubscriptionSettings(max_unacked_per_consumer=-1)


def test_a_topic_whose_entries_are_all_trimmed_has_nothing_to_skip_or_clear() -> None:
    ledgers = Ledgers({3: 7})
    subscription = Subscription("Exclusive", ledgers)
    assert subscription.clear_backlog() == 7
    ledgers.close(3)
    ledgers.add(5)
    ledgers.trim_before(5)
    assert (subscription.clear_backlog(), subscription.skip(3), subscription.expire(3, 6)) == (0, 0, 0)
    subscription.validate()
