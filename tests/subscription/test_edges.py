"""Where rules end: limits, the last entry, a tracker that is full, parts that do not conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from ackwell import Cursor, CursorSettings, Ledgers, LimitError, Position, ProtocolError, _native
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.pending_ack import PendingAck
from ackwell.subscription import (
    AckType,
    CommandAck,
    MessageId,
    StickyRanges,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    Undelivered,
)
from ackwell.subscription.sticky_key import SLOTS
from tests import reference
from tests.subscription.test_answers import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.engine import Engine


def test_a_consumer_has_at_most_as_many_messages_as_a_broker_lets_it_have() -> None:
    subscription = Subscription("Shared", Ledgers({3: 200_000}))
    subscription.add_consumer("a")
    subscription.flow("a", 10**6)
    delivery = subscription.dispatch_many(np.full(60_000, 3), np.arange(60_000), 0)
    assert [len(each.entry_ids) for each in delivery] == [50_000]


def test_nothing_comes_after_the_last_entry_wherever_reading_stands() -> None:
    subscription = opened("Shared", entries=2)
    assert [subscription.dispatch(3, entry_id, 0) for entry_id in (0, 1)] == ["a", "a"]
    assert subscription.dispatch(3, 7, 0) is Undelivered.NOT_NEXT
    assert subscription.dispatch(4, 0, 0) is Undelivered.NOT_NEXT


def test_every_slot_of_keys_is_dealt_at_once_to_its_owner() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: SLOTS}))
    for name in ("a", "b", "c"):
        subscription.add_consumer(name)
        subscription.flow(name, 10**6)
    policy = subscription._state.policy
    hashes = np.arange(SLOTS)
    owners = policy.choose_many(list(subscription._state.consumers), None, hashes, SLOTS)
    assert owners is not None
    names = np.array(subscription.consumers)[owners]
    assert names.tolist() == [policy.selector.select(slot) for slot in range(SLOTS)]  # type: ignore[attr-defined]


def test_a_tracker_that_is_full_refuses_the_first_entry_and_ends_a_batch_at_a_later_one() -> None:
    tracker = DelayedDeliveryTracker(strict=True, max_bytes=0)
    subscription = Subscription("Shared", Ledgers({3: 9}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    late = 10**9
    with pytest.raises(LimitError):
        subscription.dispatch_many([3] * 3, range(3), 0, deliver_at_ms=[late] * 3)
    assert subscription.pending("a") == {}
    (delivery,) = subscription.dispatch_many([3] * 3, range(3), 0, deliver_at_ms=[0, late, late])
    assert delivery.entry_ids.tolist() == [0]
    assert list(subscription.pending("a")) == [(3, 0)]
    subscription.validate()


def test_a_broker_counts_a_pending_batch_as_it_was_delivered() -> None:
    for lowers, expected in ((True, 2), (False, 3)):
        subscription = opened("Shared", partial_ack_lowers_pending=lowers)
        subscription.ack(None, 3, 0, (0b110,))
        subscription.dispatch(3, 0, 0, batch_size=3)
        assert subscription.pending("a")[Position(3, 0)].remaining == expected
        subscription.dispatch(3, 1, 0, batch_size=3)
        for bits in (0b101, 0b011):
            subscription.ack("a", 3, 1, (bits,))
        assert subscription.pending("a")[Position(3, 1)].remaining == (1 if lowers else 3)
        subscription.ack(None, 3, 2, (0b110,))
        subscription.delivered("a", 3, 2, 0, batch_size=3)
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
        lambda subscription: subscription.delivered("b", 3, 0, 0, batch_size=3),
        lambda subscription: subscription.skip(1),
        lambda subscription: subscription.seek(3, 0),
    ],
)
def test_nothing_is_kept_of_a_batch_that_left_its_consumer(leave: Callable[[Subscription], object]) -> None:
    subscription = opened("Shared", partial_ack_lowers_pending=False)
    subscription.add_consumer("b")
    subscription.dispatch(3, 0, 0, batch_size=3)
    subscription.ack("a", 3, 0, (0b100,))
    consumer = subscription._state.consumers["a"]
    assert consumer.as_delivered == {(3, 0): 3}
    leave(subscription)
    assert not consumer.as_delivered
    subscription.validate()


@pytest.mark.parametrize("at_read", [False, True])
def test_a_subscription_at_its_limit_gets_nothing_new_until_less_than_half_is_left(*, at_read: bool) -> None:
    subscription = opened("Shared", max_unacked_per_subscription=4, subscription_limit_at_read=at_read)
    for entry_id in range(4):
        assert subscription.dispatch(3, entry_id, 0) == "a"
    subscription.ack_many("a", [3, 3], [0, 1])
    assert subscription.stall is Undelivered.SUBSCRIPTION_BLOCKED
    subscription.ack("a", 3, 2)
    assert subscription.stall is None


def test_a_full_consumer_that_asked_for_redelivery_is_blocked_again_when_it_grants_permits() -> None:
    subscription = opened("Shared", max_unacked_per_consumer=2, redelivery_unblocks=True)
    assert [subscription.dispatch(3, entry_id, 0) for entry_id in (0, 1)] == ["a", "a"]
    subscription.redeliver("a", [(3, 9)])
    assert subscription.stall is None
    subscription.flow("a", 1)
    assert subscription.stall is Undelivered.CONSUMER_BLOCKED


def test_a_key_whose_messages_are_skipped_waits_for_its_old_consumer_no_more() -> None:
    subscription = opened("Key_Shared")
    hashes = {subscription.sticky_key_hash(f"k{number}") for number in range(50)}
    for entry_id, key_hash in enumerate(sorted(hashes)[:8]):
        subscription.dispatch(3, entry_id, 0, sticky_key_hash=key_hash)
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    moved = [value.sticky_key_hash for value in subscription.pending("a").values()]
    theirs = next(each for each in moved if subscription._state.policy.selector.select(each) == "b")  # type: ignore[attr-defined]
    assert subscription.dispatch(3, 8, 0, sticky_key_hash=theirs) is Undelivered.KEY_WAITS
    assert subscription.skip(8) == 8
    assert subscription.next_reads(1, 0) == [(3, 8)]
    assert subscription.dispatch(3, 8, 0, sticky_key_hash=theirs) == "b"
    subscription.validate()


def test_a_delayed_message_that_is_due_by_the_tick_is_not_delayed_again() -> None:
    tracker = DelayedDeliveryTracker()
    subscription = Subscription("Shared", Ledgers({3: 1}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=5_000) is Undelivered.DELAYED
    due_ms = subscription.next_wakeup_ms()
    assert due_ms is not None
    assert due_ms < 5_000
    assert subscription.next_reads(1, due_ms) == [(3, 0)]
    assert subscription.dispatch(3, 0, due_ms, deliver_at_ms=5_000) == "a"


def test_a_delayed_message_whose_ledger_was_trimmed_does_not_come_back() -> None:
    ledgers = Ledgers({3: 1, 5: 1})
    subscription = Subscription("Shared", ledgers, delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 2)
    for ledger_id in (3, 5):
        delayed = subscription.dispatch(ledger_id, 0, 0, deliver_at_ms=5_000)
        assert delayed is Undelivered.DELAYED
    ledgers.trim_before(5)
    assert subscription.advance(5_000) == 1
    assert subscription.summary(5_000).to_redeliver == 1
    assert subscription.next_reads(2, 5_000) == [(5, 0)]


def test_a_delayed_message_that_somebody_else_delivers_is_delayed_no_more() -> None:
    subscription = Subscription("Shared", Ledgers({3: 1}), delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=50_000) is Undelivered.DELAYED
    subscription.delivered("a", 3, 0, 1_000)
    subscription.validate()
    assert subscription.next_wakeup_ms() is None
    assert subscription.advance(50_000) == 0


def test_a_delayed_message_comes_back_where_not_every_hash_has_an_owner() -> None:
    tracker = DelayedDeliveryTracker()
    subscription = Subscription("Key_Shared", Ledgers({3: 1}), delayed=tracker, selector=StickyRanges())
    subscription.add_consumer("a", hash_ranges=[(100, 200)])
    subscription.flow("a", 1)
    late = subscription.dispatch(3, 0, 0, sticky_key_hash=150, deliver_at_ms=5_000)
    assert late is Undelivered.DELAYED
    assert subscription.next_reads(1, 5_000) == [(3, 0)]
    assert subscription.dispatch(3, 0, 5_000, sticky_key_hash=150) == "a"


def test_a_tracker_that_is_full_takes_nothing_back_that_was_delivered_again() -> None:
    tracker = DelayedDeliveryTracker(strict=True, max_bytes=0)
    subscription = Subscription("Shared", Ledgers({3: 2}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 2)
    assert subscription.dispatch(3, 0, 0) == "a"
    subscription.redeliver("a")
    (delivery,) = subscription.dispatch_many([3, 3], [0, 1], 0, deliver_at_ms=[0, 5_000])
    assert delivery.entry_ids.tolist() == [0]
    assert subscription.read_position == (3, 1)


def test_what_others_deliver_is_counted_while_a_key_drains() -> None:
    subscription = opened("Key_Shared")
    subscription.add_consumer("b")
    owner = subscription._state.policy.selector.select(7)  # type: ignore[attr-defined]
    (other,) = {"a", "b"} - {owner}
    for entry_id, consumer in enumerate((other, owner, owner, other)):
        subscription.delivered(consumer, 3, entry_id, 0, sticky_key_hash=7)
        subscription.validate()
    for entry_id in range(4):
        subscription.ack(None, 3, entry_id)
        subscription.validate()


@pytest.mark.parametrize("before", [0, 1])
def test_a_search_expires_the_only_entry_that_is_not_acknowledged(before: int) -> None:
    subscription = opened("Shared", expires_by_search=True)
    kept = [entry_id for entry_id in range(10) if entry_id != before]
    subscription.ack_many(None, [3] * 9, kept)
    assert subscription.expire(3, 9) == 1
    assert subscription.cursor.mark_delete_position == (3, 9)


@pytest.mark.parametrize("skipped", [0, 2, 4])
@pytest.mark.parametrize("last", [0, 1, 4, 8])
def test_a_search_expires_up_to_its_entry_over_ledgers(skipped: int, last: int) -> None:
    ledgers = Ledgers({3: 5})
    ledgers.close(3)
    ledgers.add(5)
    ledgers.grow(5, 10)
    settings = SubscriptionSettings(expires_by_search=True)
    subscription = Subscription("Shared", ledgers, settings=settings)
    subscription.skip(skipped)
    assert subscription.expire(5, last) == 5 - skipped + last + 1
    assert subscription.cursor.mark_delete_position == (5, last)


def test_expiry_up_to_a_ledger_that_is_gone_changes_nothing_that_is_acknowledged() -> None:
    settings = SubscriptionSettings(cursor=CursorSettings(refuse_cumulative_behind=True))
    subscription = Subscription("Shared", Ledgers({3: 5, 5: 2}), settings=settings)
    subscription.skip(5)
    assert subscription.expire(4, 0) == 0
    assert subscription.cursor.backlog_entries == 2


def test_after_a_seek_no_key_waits_for_what_was_to_be_delivered_again() -> None:
    subscription = opened("Key_Shared")
    subscription.dispatch(3, 0, 0, sticky_key_hash=7)
    subscription.redeliver("a")
    subscription.seek(3, 1)
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=7) == "a"
    subscription.validate()


def test_a_key_that_had_to_wait_waits_for_the_next_round() -> None:
    subscription = Subscription("Key_Shared", Ledgers({3: 3}))
    subscription.add_consumer("a")
    subscription.flow("a", 2)
    assert [subscription.dispatch(3, entry_id, 0, sticky_key_hash=7) for entry_id in (0, 1)] == ["a", "a"]
    subscription.redeliver("a")
    assert subscription.dispatch(3, 0, 0, sticky_key_hash=7) is Undelivered.NO_PERMITS
    subscription.flow("a", 2)
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=7) is Undelivered.KEY_WAITS
    reads = subscription.next_reads(2, 0)
    assert [subscription.dispatch(*each, 0, sticky_key_hash=7) for each in reads] == ["a", "a"]
    subscription.validate()
    subscription.flow("a", 1)
    assert subscription.dispatch(3, 2, 0, sticky_key_hash=7) == "a"


def test_reading_pauses_above_as_many_ranges_as_can_be_saved() -> None:
    subscription = opened("Shared", pause_above_ranges=2)
    subscription.ack_many(None, [3, 3], [2, 4])
    assert subscription.stall is None
    subscription.ack(None, 3, 6)
    assert subscription.stall is Undelivered.PAUSED


def test_a_key_is_with_its_old_consumer_until_each_of_its_messages_is_acknowledged_once() -> None:
    subscription = opened("Key_Shared")
    selector = subscription._state.policy.selector  # type: ignore[attr-defined]
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    theirs = next(each for each in range(1, SLOTS) if selector.select(each) == "b")
    subscription.remove_consumer("b")
    for entry_id in range(3):
        assert subscription.dispatch(3, entry_id, 0, sticky_key_hash=theirs) == "a"
    subscription.add_consumer("b")
    subscription.flow("b", 10)
    subscription.ack_many("a", [3, 3], [0, 0])
    subscription.validate()
    subscription.ack_many("a", [3], [1])
    assert subscription.dispatch(3, 3, 0, sticky_key_hash=theirs) is Undelivered.KEY_WAITS
    subscription.ack_many("a", [3, 3], [2, 2])
    assert subscription.next_reads(1, 0) == [(3, 3)]
    assert subscription.dispatch(3, 3, 0, sticky_key_hash=theirs) == "b"
    subscription.validate()


def test_advancing_counts_the_delayed_messages_that_are_to_be_delivered() -> None:
    tracker = DelayedDeliveryTracker(strict=True)
    subscription = Subscription("Shared", Ledgers({3: 4}), delayed=tracker)
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    for entry_id, due_ms in enumerate((50, 50, 50, 90)):
        assert isinstance(subscription.dispatch(3, entry_id, 0, deliver_at_ms=due_ms), Undelivered)
    subscription.ack(None, 3, 1)
    assert [subscription.advance(now_ms) for now_ms in (49, 50, 89, 90, 91)] == [0, 2, 0, 1, 0]


def test_a_part_says_whether_it_changed_anything_and_ends_the_count_either_way() -> None:
    subscription = opened("Shared", partial_ack_resets_count=True)
    subscription.dispatch(3, 0, 0, batch_size=2)
    assert [subscription.ack("a", 3, 0, (0b10,)) for _ in range(2)] == [True, False]
    subscription.redeliver("a")
    assert subscription.redelivery_count(3, 0) == 1
    assert not subscription.ack("a", 3, 0, (0b10,))
    assert subscription.redelivery_count(3, 0) == 0
    assert [subscription.ack("a", 3, 0, (0b01,)) for _ in range(2)] == [True, False]


def test_an_entry_that_was_acknowledged_in_part_conflicts_as_a_whole_only() -> None:
    subscription = opened("Shared", plain_acks_conflict=True)
    subscription.dispatch(3, 0, 0, batch_size=3)
    subscription.ack("a", 3, 0, (0b011,))

    def ack(message: MessageId) -> None:
        subscription.handle("a", CommandAck(1, message_ids=(message,), transaction=TransactionId(0, 1)))

    with pytest.raises(ProtocolError, match="in part outside of the transaction"):
        ack(MessageId(3, 0))
    ack(MessageId(3, 0, ack_set=(0b110,), batch_size=3))
    assert subscription.transactions == [TransactionId(0, 1)]


@pytest.mark.parametrize("engine", [_native, reference])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_abort_gives_back_no_entry_that_another_transaction_holds_the_rest_of(
    engine: Engine, end: str
) -> None:
    subscription = Subscription("Shared", Ledgers({3: 1}), engine=engine)
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    subscription.dispatch(3, 0, 0, batch_size=3)

    def ack(number: int, ack_set: int) -> None:
        message = MessageId(3, 0, ack_set=(ack_set,), batch_size=3)
        subscription.handle("a", CommandAck(1, message_ids=(message,), transaction=TransactionId(0, number)))

    ack(1, 0b001)
    subscription.ack("a", 3, 0, (0b001,))
    ack(2, 0b110)
    subscription.abort(TransactionId(0, 1))
    subscription.validate()
    assert subscription.next_reads(1, 0) == []
    getattr(subscription, end)(TransactionId(0, 2))
    subscription.validate()
    assert subscription.next_reads(1, 0) == ([] if end == "commit" else [(3, 0)])
    assert subscription.cursor.is_acked(3, 0) == (end == "commit")


def test_only_a_cumulative_acknowledgment_leaves_individual_ones_held() -> None:
    def ended(*, cumulative: bool) -> int:
        settings = SubscriptionSettings(cumulative_hides_individual=True)
        subscription = Subscription("Exclusive", Ledgers({3: 10}), settings=settings)
        subscription.add_consumer("a")
        held = TransactionId(0, 1)
        subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 8),), transaction=held))
        if cumulative:
            command = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 4),), transaction=held)
            subscription.handle("a", command)
        subscription.commit(held)
        assert subscription.cursor.mark_delete_position == ((3, 4) if cumulative else (3, -1))
        return len(subscription.cursor.individually_deleted)

    assert (ended(cumulative=False), ended(cumulative=True)) == (1, 0)


def test_properties_come_with_an_acknowledgment_that_takes_effect() -> None:
    for transaction, expected in ((None, {"x": 1}), (TransactionId(0, 1), {})):
        subscription = opened("Shared")
        message = (MessageId(3, 0),)
        command = CommandAck(1, message_ids=message, properties=(("x", 1),), transaction=transaction)
        subscription.handle("a", command)
        assert subscription.cursor.properties == expected


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
    subscription.dispatch(3, 0, 0)
    subscription.redeliver("a")
    assert subscription.dispatch(3, 0, 0) is Undelivered.DEAD_LETTER
    assert subscription.dead_letters == [(3, 0)]
    end(subscription)
    assert subscription.dead_letters == []
    subscription.validate()


def test_without_a_limit_nothing_can_be_a_dead_letter() -> None:
    for limit, limited in ((None, False), (0, True), (3, True)):
        settings = SubscriptionSettings(max_redeliver_count=limit)
        assert Subscription("Shared", Ledgers({3: 1}), settings=settings)._state.counts.limited is limited


def test_validation_reaches_what_every_consumer_has() -> None:
    subscription = Subscription("Shared", Ledgers({3: 9}), engine=reference)
    subscription.add_consumer("a")
    subscription.flow("a", 10)
    subscription.dispatch(3, 0, 0)
    subscription.validate()
    pending = subscription._state.consumers.by_key["a"].pending
    pending._values[Position(3, 0)] = PendingAck(-1, 0)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        subscription._state.consumers.validate()


def test_a_part_that_an_aborted_transaction_gives_back_waits_for_no_back_off() -> None:
    subscription = opened("Shared", entries=2)
    assert subscription.dispatch(3, 0, 0, batch_size=3) == "a"
    subscription.nack("a", 3, 0, 0)
    part = MessageId(3, 0, ack_set=(6,), batch_size=3)
    transaction = TransactionId(0, 1)
    subscription.handle("a", CommandAck(1, message_ids=(part,), transaction=transaction))
    subscription.abort(transaction)
    subscription.validate()
    assert subscription.next_reads(9, 0)[0] == (3, 0)
    assert subscription.dispatch(3, 0, 0, batch_size=3) == "a"
    assert subscription.redelivery_count(3, 0) == 1
    assert subscription.advance(100_000) == 0
    assert subscription.redelivery_count(3, 0) == 1


def test_all_delays_that_end_at_once_end_at_once() -> None:
    entries = np.arange(10_001)
    subscription = Subscription("Shared", Ledgers({3: len(entries)}), delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 10**6)
    due_ms = np.full(len(entries), 5_000)
    subscription.dispatch_many(np.full(len(entries), 3), entries, 0, deliver_at_ms=due_ms)
    assert subscription.advance(10_000) == len(entries)


def test_a_cleared_backlog_has_nothing_unread_and_nothing_delayed() -> None:
    subscription = Subscription("Shared", Ledgers({3: 9}), delayed=DelayedDeliveryTracker())
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=5_000) is Undelivered.DELAYED
    assert subscription.clear_backlog() == 9
    assert subscription.read_position == (3, 9)
    assert subscription.summary(0).delayed == 0
    assert subscription.next_wakeup_ms() is None


@pytest.mark.parametrize("taken", [[1], [2], [1, 2]])
@pytest.mark.parametrize("engine", [_native, reference])
def test_an_entry_without_a_message_left_takes_nothing_from_the_count_of_another(
    engine: Engine, taken: list[int]
) -> None:
    settings = SubscriptionSettings(cursor=CursorSettings(replace_ack_sets=True))
    cursor = Cursor(Ledgers({3: 10}), settings=settings.cursor, engine=engine)
    # Such a broker keeps the entry unacknowledged, and delivers it with no message to be read.
    cursor.ack_cumulative(3, 1, (0,))
    subscription = Subscription("Shared", cursor=cursor, settings=settings, engine=engine)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    for entry_id, messages in ((1, 3), (2, 2)):
        assert subscription.dispatch(3, entry_id, 0, batch_size=messages) == "a"
    assert subscription.summary(0).unacked == len(subscription.pending("a")) == 2
    subscription.ack_many("a", [3] * len(taken), taken)
    assert subscription.summary(0).unacked == (0 if 2 in taken else 2)
    assert subscription.audit() == []
