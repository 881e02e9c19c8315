"""Messages that a transaction holds, and the state after its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ackwell import CursorSettings, Ledgers, Position, ProtocolError, _native
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.errors import ErrorCode
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AckType,
    CommandAck,
    MessageId,
    NonDelivery,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from tests import reference
from tests.subscription.helpers import FULL, deliver, opened

if TYPE_CHECKING:
    from ackwell.engine import Engine


def test_a_transaction_holds_its_messages_until_it_ends() -> None:
    subscription = opened("Shared", 3)
    deliver(subscription)
    first, second = TransactionId(1, 1), TransactionId(1, 2)
    command = CommandAck(1, message_ids=(MessageId(3, 0),), transaction=first)
    subscription.handle("a", command)
    assert subscription.summary(0).unacked == 2
    assert subscription.cursor.backlog_entries == 3
    both = (MessageId(3, 1), MessageId(3, 0))
    with pytest.raises(ProtocolError, match="transaction 1:1, which is open"):
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


@pytest.mark.parametrize(
    ("missing", "code", "text"),
    [
        ((3, 3), ErrorCode.NOT_ALLOWED_ERROR, "ahead of the last position 3:2"),
        ((2, 0), ErrorCode.TRANSACTION_CONFLICT, "does not exist"),
    ],
)
def test_a_transaction_acknowledges_no_missing_entry(
    missing: tuple[int, int], code: ErrorCode, text: str
) -> None:
    subscription = opened("Shared", 3)
    command = CommandAck(
        1, message_ids=(MessageId(3, 0), MessageId(*missing)), transaction=TransactionId(0, 1)
    )
    with pytest.raises(ProtocolError, match=text) as refusal:
        subscription.handle("a", command)
    assert refusal.value.code == code
    assert deliver(subscription) == {"a": [0, 1, 2]}


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


def test_parts_of_a_batch_in_one_transaction_are_committed_together() -> None:
    subscription = opened("Shared")
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, now_ms=0, batch_size=4)
    transaction = TransactionId(0, 1)
    for bits in (0b0001, 0b0110):
        message = MessageId(3, 0, ack_set=(0b1111 & ~bits,), batch_size=4)
        subscription.handle("a", CommandAck(1, message_ids=(message,), transaction=transaction))
    subscription.commit(transaction)
    assert subscription.cursor.unacked_bits(3, 0) == 0b1000
    subscription.validate()


@pytest.mark.parametrize(
    ("first", "second"), [(0b0010, 0b0001), (0b0001, 0b0011), (0b0110, 0b0100), (0b0100, 0b1011), (1, 1)]
)
def test_two_transactions_conflict_if_their_parts_of_a_batch_overlap(first: int, second: int) -> None:
    subscription = opened("Shared")
    assert subscription.next_reads(1, 0)
    subscription.dispatch(3, 0, now_ms=0, batch_size=4)

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


def test_an_entry_that_was_acknowledged_in_part_conflicts_as_a_whole_only() -> None:
    subscription = opened("Shared", plain_acks_conflict=True)
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)
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
    subscription = opened("Shared", 1, permits=10, engine=engine)
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)

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


def test_a_part_that_an_aborted_transaction_gives_back_waits_for_no_back_off() -> None:
    subscription = opened("Shared", entries=2)
    assert subscription.dispatch(3, 0, now_ms=0, batch_size=3).consumer == "a"
    subscription.nack("a", 3, 0, now_ms=0)
    part = MessageId(3, 0, ack_set=(6,), batch_size=3)
    transaction = TransactionId(0, 1)
    subscription.handle("a", CommandAck(1, message_ids=(part,), transaction=transaction))
    subscription.abort(transaction)
    subscription.validate()
    assert subscription.next_reads(9, 0)[0] == (3, 0)
    assert subscription.dispatch(3, 0, now_ms=0, batch_size=3).consumer == "a"
    assert subscription.redelivery_count(3, 0) == 1
    assert subscription.advance(100_000) == 0
    assert subscription.redelivery_count(3, 0) == 1


FIRST, SECOND = TransactionId(0, 1), TransactionId(0, 2)


both_engines = pytest.mark.parametrize("engine", [_native, reference])


def hold(subscription: Subscription, *messages: MessageId, transaction: TransactionId = FIRST) -> int:
    return subscription.handle("a", CommandAck(1, message_ids=messages, transaction=transaction))


def part(unacked_bits: int, size: int = 3, entry_id: int = 0) -> MessageId:
    return MessageId(3, entry_id, ack_set=(unacked_bits,), batch_size=size)


@both_engines
def test_acknowledged_and_held_messages_of_a_batch_are_not_pending(engine: Engine) -> None:
    subscription = opened("Shared", engine=engine)
    subscription.dispatch(3, 0, now_ms=0, batch_size=4)
    hold(subscription, part(0b1110, 4))
    assert subscription.pending("a")[Position(3, 0)].remaining == 3
    subscription.ack("a", 3, 0, (0b1101,))
    assert subscription.pending("a")[Position(3, 0)].remaining == 2
    subscription.validate()


def test_one_command_may_hold_parts_of_a_batch_but_no_message_twice() -> None:
    subscription = opened("Shared")
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)
    for twice in ((part(0b110), part(0b010)), (MessageId(3, 1), MessageId(3, 1))):
        with pytest.raises(ProtocolError, match="listed twice"):
            hold(subscription, *twice)
    assert subscription.transactions == []
    assert hold(subscription, part(0b110), part(0b101)) == 1
    subscription.commit(FIRST)
    assert subscription.cursor.unacked_bits(3, 0) == 0b100


def test_a_cumulatively_acknowledged_message_is_refused_in_a_transaction() -> None:
    subscription = opened("Exclusive")
    subscription.ack_cumulative("a", 3, 4)
    ack = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 4),), transaction=FIRST)
    with pytest.raises(ProtocolError, match="already acknowledged"):
        subscription.handle("a", ack)
    assert subscription.transactions == []


@pytest.mark.parametrize(
    "end",
    [
        lambda subscription: subscription.ack("a", 3, 0),
        lambda subscription: subscription.ack("a", 3, 0, (0b011,)),
        lambda subscription: subscription.ack_many("a", [3], [0]),
        lambda subscription: subscription.skip(1),
        lambda subscription: (hold(subscription, part(0b011)), subscription.commit(FIRST)),
    ],
)
def test_a_batch_acknowledged_whole_and_read_again_does_not_conflict(
    end: Callable[[Subscription], object],
) -> None:
    subscription = opened("Shared", plain_acks_conflict=True)
    subscription.dispatch(3, 0, now_ms=0, batch_size=3)
    subscription.ack("a", 3, 0, (0b100,))
    end(subscription)
    assert subscription.cursor.is_acked(3, 0)
    subscription.seek(3, 0)
    assert hold(subscription, MessageId(3, 0), transaction=SECOND) == 1


@both_engines
def test_an_abort_queues_an_unexamined_message_with_its_delay(engine: Engine) -> None:
    subscription = opened("Shared", delayed=DelayedDeliveryTracker(), engine=engine)
    hold(subscription, MessageId(3, 0))
    assert subscription.next_reads(1, 0) == [(3, 1)]
    subscription.dispatch(3, 1, now_ms=0)
    subscription.abort(FIRST)
    assert subscription.next_reads(1, 0) == [(3, 0)]
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=5_000).reason is NonDelivery.DELAYED
    subscription.validate()


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@both_engines
def test_an_abort_delivers_nothing_twice_that_was_held_unread(engine: Engine, kind: str) -> None:
    subscription = opened(kind, engine=engine)
    hold(subscription, MessageId(3, 5))
    subscription.abort(FIRST)
    reads = subscription.next_reads(100, 0)
    assert reads == [(3, entry_id) for entry_id in range(10)]
    assert all(subscription.dispatch(each, now_ms=0, sticky_key_hash=1) for each in reads)
    subscription.validate()


@both_engines
def test_an_entry_held_while_queued_blocks_its_key(engine: Engine) -> None:
    subscription = opened("Key_Shared", engine=engine)
    subscription.dispatch(3, 0, now_ms=0, sticky_key_hash=7)
    subscription.redeliver("a")
    hold(subscription, MessageId(3, 0))
    assert subscription.next_reads(1, 0) == [(3, 1)]
    subscription.abort(FIRST)
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=7).reason is NonDelivery.KEY_WAITS
    assert subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=8).consumer == "a"
    subscription.validate()


def test_a_held_message_has_no_back_off() -> None:
    subscription = opened("Shared")
    subscription.dispatch(3, 0, now_ms=0)
    assert subscription.nack("a", 3, 0, now_ms=0)
    assert subscription.next_wakeup_ms() is not None
    hold(subscription, MessageId(3, 0))
    assert subscription.next_wakeup_ms() is None


@both_engines
def test_an_abort_leaves_a_delayed_message_to_its_time(engine: Engine) -> None:
    subscription = opened("Shared", delayed=DelayedDeliveryTracker(), engine=engine)
    assert subscription.dispatch(3, 0, now_ms=0, deliver_at_ms=50_000).reason is NonDelivery.DELAYED
    hold(subscription, MessageId(3, 0))
    subscription.abort(FIRST)
    assert subscription.next_reads(1, 0) == [(3, 1)]
    assert subscription.next_reads(1, 50_000) == [(3, 0)]
    subscription.validate()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_commit_up_to_an_acknowledged_position_changes_nothing(*, refuses: bool) -> None:
    cursor = CursorSettings(refuse_cumulative_behind=refuses)
    subscription = opened("Exclusive", cursor=cursor)
    hold(subscription, MessageId(3, 8))
    ack = CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 4),), transaction=FIRST)
    subscription.handle("a", ack)
    subscription.ack_cumulative("a", 3, 6)
    assert subscription.commit(FIRST) == 1
    assert subscription.cursor.mark_delete_position == (3, 6)
    assert subscription.cursor.is_acked(3, 8)


@both_engines
@pytest.mark.parametrize(("size", "acked", "remaining"), [(3, 0b110, 1), (5, 0b111, 1), (3, 0b111, 2)])
def test_a_batch_is_delivered_without_acknowledged_and_held_messages(
    engine: Engine, size: int, acked: int, remaining: int
) -> None:
    # The client that acknowledged in the transaction may be wrong about the size of the batch.
    subscription = opened("Shared", engine=engine)
    if acked != 0b111:
        subscription.ack(None, 3, 0, (acked,))
    hold(subscription, part(0b11101 if size == 3 else 0b11000, size))
    assert subscription.dispatch(3, 0, now_ms=0, batch_size=3).consumer == "a"
    assert subscription.pending("a")[Position(3, 0)].remaining == remaining
    subscription.validate()


def test_many_deliveries_name_the_messages_of_a_batch_that_are_not_held() -> None:
    subscription = opened("Shared")
    hold(subscription, part(0b110))
    (delivery,) = subscription.dispatch_many([3, 3], [0, 1], 0, batch_sizes=[3, 3])
    assert delivery.ack_sets == {(3, 0): (0b110,)}
    assert [each.remaining for each in subscription.pending("a").values()] == [2, 3]


@pytest.mark.parametrize(
    "end",
    [
        lambda subscription: subscription.ack(None, 3, 0),
        lambda subscription: subscription.ack_many(None, [3, 3], [0, 1]),
        lambda subscription: subscription.skip(1),
        lambda subscription: subscription.seek(3, 1),
    ],
)
@both_engines
def test_an_unexamined_message_is_dropped_when_it_is_acknowledged(
    engine: Engine, end: Callable[[Subscription], object]
) -> None:
    subscription = opened("Shared", engine=engine)
    hold(subscription, MessageId(3, 0))
    subscription.dispatch(3, 1, now_ms=0)
    subscription.abort(FIRST)
    assert subscription.summary(0).to_redeliver == 1
    end(subscription)
    assert subscription.summary(0).to_redeliver == 0
    subscription.validate()


def cumulative(entry_id: int, unacked_bits: int = 0, transaction: TransactionId = FIRST) -> CommandAck:
    ack_set = (unacked_bits,) if unacked_bits else ()
    ids = (MessageId(3, entry_id, ack_set=ack_set),)
    return CommandAck(1, AckType.CUMULATIVE, ids, transaction=transaction)


def test_a_transaction_may_acknowledge_further_in_a_batch_and_no_less_far() -> None:
    subscription = opened("Exclusive")
    for unacked_bits in (0b100, 0b1000, 0):
        subscription.handle("a", cumulative(4, unacked_bits))
    for unacked_bits in (0, 0b1000):
        with pytest.raises(ProtocolError, match="already acknowledged up to"):
            subscription.handle("a", cumulative(4, unacked_bits))
    subscription.commit(FIRST)
    assert subscription.cursor.mark_delete_position == (3, 4)


@pytest.mark.parametrize("individual", [False, True])
@pytest.mark.parametrize("hides", [False, True])
def test_a_committed_cumulative_acknowledgment_does_not_conflict(*, individual: bool, hides: bool) -> None:
    subscription = opened("Exclusive", cumulative_hides_individual=hides)
    if individual:
        hold(subscription, MessageId(3, 8))
    subscription.handle("a", cumulative(2))
    subscription.commit(FIRST)
    assert subscription.transactions == ([FIRST] if individual and hides else [])
    subscription.handle("a", cumulative(4, transaction=SECOND))
    subscription.commit(SECOND)
    assert subscription.cursor.mark_delete_position == (3, 4)


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_a_batch_acknowledged_in_parts_is_not_delivered_if_the_broker_keeps_parts(
    kind: str,
) -> None:
    """As 4.2.4 does it: the cursor does not have it, and no consumer has or gets it."""
    settings = SubscriptionSettings.pulsar("4.2", transactions_keep_parts=True)
    settings = replace(settings, cursor=replace(settings.cursor, batch_index_acks=False))
    subscription = Subscription(SubscriptionType(kind), Ledgers({3: 2}), settings=settings)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    deliver(subscription, batch_size=3)
    for unacked in (0b110, 0b101):
        subscription.ack("a", 3, 0, [unacked])
        assert [*subscription.pending("a")] == [Position(3, 0), Position(3, 1)]
    subscription.ack("a", 3, 0, [0b011])
    assert [*subscription.pending("a")] == [Position(3, 1)]
    assert not subscription.cursor.is_acked(3, 0)
    subscription.remove_consumer("a")
    subscription.add_consumer("b")
    subscription.flow("b", 100)
    assert deliver(subscription, batch_size=3) == {"b": [1]}
    subscription.validate()
    assert subscription.ack("b", 3, 0)
    assert subscription.cursor.mark_delete_position == (3, 0)
    subscription.validate()


@pytest.mark.parametrize("keeps", [False, True])
def test_parts_replaced_by_a_cumulative_acknowledgment_stay_left_out_if_the_broker_keeps_parts(
    *, keeps: bool
) -> None:
    """Live seed 91019 on 4.0.7: the cursor has the new ack set, a delivery leaves out the old one, too."""
    settings = SubscriptionSettings.pulsar("4.0", transactions_keep_parts=keeps)
    subscription = Subscription("Exclusive", Ledgers({3: 1}), settings=settings)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    deliver(subscription, batch_size=3)
    in_part = MessageId(3, 0, batch_size=3, ack_set=(0b101,))
    subscription.handle("a", CommandAck(1, message_ids=(in_part,), transaction=FIRST))
    subscription.commit(FIRST)
    subscription.ack_cumulative("a", 3, 0, [0b110])
    assert subscription.cursor.unacked_bits(3, 0) == 0b110
    assert subscription.ack_set(3, 0) == ((0b100,) if keeps else (0b110,))
    subscription.redeliver("a")
    subscription.flow("a", 100)
    (delivery,) = subscription.dispatch_many([3], [0], 0, batch_sizes=[3], sticky_key_hashes=[0])
    assert delivery.ack_sets[Position(3, 0)] == ((0b100,) if keeps else (0b110,))
    subscription.validate()


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_held_entries_take_up_places_in_a_brokers_read(kind: str) -> None:
    """Seed 81230 on 4.2.4: the broker had read one entry less, so other entries were delayed then."""
    subscription = Subscription(
        SubscriptionType(kind), Ledgers({3: 4}), settings=SubscriptionSettings.pulsar("4.2")
    )
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    assert deliver(subscription) == {"a": [0]}
    command = CommandAck(1, message_ids=(MessageId(3, 0),), transaction=TransactionId(1, 1))
    subscription.handle("a", command)
    subscription.remove_consumer("a")
    subscription.add_consumer("b")
    subscription.flow("b", 2)
    reads = subscription.next_reads_many(10, 0)
    sizes, hashes = [10] * len(reads[0]), [1] * len(reads[0])
    (mine,) = subscription.dispatch_many(*reads, 0, batch_sizes=sizes, sticky_key_hashes=hashes)
    assert mine.entry_ids[0] == 1
    assert subscription.read_position == (3, 2)
