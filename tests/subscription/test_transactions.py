"""What a transaction holds of a batch or a queue, and what its end leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackwell import CursorSettings, Ledgers, Position, ProtocolError, _native
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import (
    AckType,
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    Undelivered,
)
from tests import reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.engine import Engine

FIRST, SECOND = TransactionId(0, 1), TransactionId(0, 2)

both_engines = pytest.mark.parametrize("engine", [_native, reference])


def opened(kind: str, engine: Engine | None = None, **settings: object) -> Subscription:
    delayed = DelayedDeliveryTracker() if kind == "Shared" else None
    chosen = SubscriptionSettings(**settings)  # type: ignore[arg-type]
    subscription = Subscription(kind, Ledgers({3: 10}), settings=chosen, delayed=delayed, engine=engine)
    subscription.add_consumer("a")
    subscription.flow("a", 1000)
    return subscription


def hold(subscription: Subscription, *messages: MessageId, transaction: TransactionId = FIRST) -> int:
    return subscription.handle("a", CommandAck(1, message_ids=messages, transaction=transaction))


def part(unacked_bits: int, size: int = 3, entry_id: int = 0) -> MessageId:
    return MessageId(3, entry_id, ack_set=(unacked_bits,), batch_size=size)


@both_engines
def test_a_consumer_has_neither_what_is_acknowledged_of_a_batch_nor_what_is_held(engine: Engine) -> None:
    subscription = opened("Shared", engine)
    subscription.dispatch(3, 0, 0, batch_size=4)
    hold(subscription, part(0b1110, 4))
    assert subscription.pending("a")[Position(3, 0)].remaining == 3
    subscription.ack("a", 3, 0, (0b1101,))
    assert subscription.pending("a")[Position(3, 0)].remaining == 2
    subscription.validate()


def test_one_command_may_hold_parts_of_a_batch_but_no_message_twice() -> None:
    subscription = opened("Shared")
    subscription.dispatch(3, 0, 0, batch_size=3)
    for twice in ((part(0b110), part(0b010)), (MessageId(3, 1), MessageId(3, 1))):
        with pytest.raises(ProtocolError, match="listed twice"):
            hold(subscription, *twice)
    assert subscription.transactions == []
    assert hold(subscription, part(0b110), part(0b101)) == 1
    subscription.commit(FIRST)
    assert subscription.cursor.unacked_bits(3, 0) == 0b100


def test_what_is_acknowledged_cumulatively_is_not_once_more_in_a_transaction() -> None:
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
def test_a_batch_that_was_acknowledged_whole_and_is_read_again_conflicts_no_more(
    end: Callable[[Subscription], object],
) -> None:
    subscription = opened("Shared", plain_acks_conflict=True)
    subscription.dispatch(3, 0, 0, batch_size=3)
    subscription.ack("a", 3, 0, (0b100,))
    end(subscription)
    assert subscription.cursor.is_acked(3, 0)
    subscription.seek(3, 0)
    assert hold(subscription, MessageId(3, 0), transaction=SECOND) == 1


@both_engines
def test_an_abort_gives_back_what_was_not_looked_at_with_its_delay(engine: Engine) -> None:
    subscription = opened("Shared", engine)
    hold(subscription, MessageId(3, 0))
    assert subscription.next_reads(1, 0) == [(3, 1)]
    subscription.dispatch(3, 1, 0)
    subscription.abort(FIRST)
    assert subscription.next_reads(1, 0) == [(3, 0)]
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=5_000) is Undelivered.DELAYED
    subscription.validate()


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@both_engines
def test_an_abort_delivers_nothing_twice_that_was_held_unread(engine: Engine, kind: str) -> None:
    subscription = opened(kind, engine)
    hold(subscription, MessageId(3, 5))
    subscription.abort(FIRST)
    reads = subscription.next_reads(100, 0)
    assert reads == [(3, entry_id) for entry_id in range(10)]
    assert [subscription.dispatch(*each, 0, sticky_key_hash=1) for each in reads] == ["a"] * 10
    subscription.validate()


@both_engines
def test_an_entry_that_was_held_in_the_queue_keeps_its_key_behind_it(engine: Engine) -> None:
    subscription = opened("Key_Shared", engine)
    subscription.dispatch(3, 0, 0, sticky_key_hash=7)
    subscription.redeliver("a")
    hold(subscription, MessageId(3, 0))
    assert subscription.next_reads(1, 0) == [(3, 1)]
    subscription.abort(FIRST)
    assert subscription.dispatch(3, 1, 0, sticky_key_hash=7) is Undelivered.KEY_WAITS
    assert subscription.dispatch(3, 2, 0, sticky_key_hash=8) == "a"
    subscription.validate()


def test_what_is_held_waits_for_no_back_off() -> None:
    subscription = opened("Shared")
    subscription.dispatch(3, 0, 0)
    assert subscription.nack("a", 3, 0, 0)
    assert subscription.next_wakeup_ms() is not None
    hold(subscription, MessageId(3, 0))
    assert subscription.next_wakeup_ms() is None


@both_engines
def test_an_abort_leaves_a_delayed_message_to_its_time(engine: Engine) -> None:
    subscription = opened("Shared", engine)
    assert subscription.dispatch(3, 0, 0, deliver_at_ms=50_000) is Undelivered.DELAYED
    hold(subscription, MessageId(3, 0))
    subscription.abort(FIRST)
    assert subscription.next_reads(1, 0) == [(3, 1)]
    assert subscription.next_reads(1, 50_000) == [(3, 0)]
    subscription.validate()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_commit_of_what_was_acknowledged_beyond_meanwhile_changes_nothing(*, refuses: bool) -> None:
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
def test_a_batch_is_delivered_with_what_is_neither_acknowledged_nor_held(
    engine: Engine, size: int, acked: int, remaining: int
) -> None:
    # The client that acknowledged in the transaction may be wrong about the size of the batch.
    subscription = opened("Shared", engine)
    if acked != 0b111:
        subscription.ack(None, 3, 0, (acked,))
    hold(subscription, part(0b11101 if size == 3 else 0b11000, size))
    assert subscription.dispatch(3, 0, 0, batch_size=3) == "a"
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
def test_what_was_not_looked_at_is_forgotten_when_it_is_acknowledged(
    engine: Engine, end: Callable[[Subscription], object]
) -> None:
    subscription = opened("Shared", engine)
    hold(subscription, MessageId(3, 0))
    subscription.dispatch(3, 1, 0)
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
def test_a_cumulative_acknowledgment_that_is_committed_conflicts_no_more(
    *, individual: bool, hides: bool
) -> None:
    subscription = opened("Exclusive", cumulative_hides_individual=hides)
    if individual:
        hold(subscription, MessageId(3, 8))
    subscription.handle("a", cumulative(2))
    subscription.commit(FIRST)
    assert subscription.transactions == ([FIRST] if individual and hides else [])
    subscription.handle("a", cumulative(4, transaction=SECOND))
    subscription.commit(SECOND)
    assert subscription.cursor.mark_delete_position == (3, 4)
