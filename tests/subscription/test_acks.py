"""Acknowledgments: whole entries, parts of batches, cumulative ones, refused ones, and their receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import Cursor, CursorSettings, Ledgers, Position, ProtocolError, _native
from ackwell.errors import ErrorCode
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AckType,
    AutoSplit,
    CommandAck,
    MessageId,
    Receipt,
    StickyRanges,
    Subscription,
    SubscriptionSettings,
    TransactionId,
    ValidationError,
)
from tests import reference
from tests.subscription.helpers import deliver, opened

if TYPE_CHECKING:
    from ackwell.engine import Engine


def test_a_cumulative_acknowledgment_is_illegal_on_shared_types() -> None:
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


def test_an_unknown_consumer_cannot_acknowledge() -> None:
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


def test_acknowledgments_of_missing_entries_follow_the_brokers_rule() -> None:
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
    subscription = opened("Shared", 2, "ab", round_robin_batch_size=1)
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


def test_a_log_is_kept_from_the_position_of_a_saved_seek() -> None:
    subscription, store = opened("Exclusive"), MemoryStore()
    subscription.ack_cumulative("a", 3, 5)
    subscription.save(store)
    subscription.seek(3, 2)
    assert subscription.durable_mark_delete_position == (3, 5)
    subscription.save(store)
    assert subscription.durable_mark_delete_position == (3, 1)


@given(
    nacked=st.frozensets(st.integers(0, 9)),
    up_to=st.integers(0, 9),
    kind=st.sampled_from(["Exclusive", "Failover"]),
)
def test_a_cumulative_ack_forgets_everything_up_to_it(nacked: frozenset[int], up_to: int, kind: str) -> None:
    subscription = opened(kind, 10)
    deliver(subscription)
    for entry_id in nacked:
        assert subscription.nack("a", 3, entry_id, now_ms=0)
    subscription.ack_cumulative("a", 3, up_to)
    waits = any(entry_id > up_to for entry_id in nacked)
    assert (subscription.next_wakeup_ms() is not None) == waits
    left = subscription.next_reads(100, now_ms=10**6)
    assert left == [Position(3, entry_id) for entry_id in range(up_to + 1, 10) if waits]
    subscription.validate()


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


def test_a_reader_saves_nothing_and_gets_its_receipts_at_once() -> None:
    store = MemoryStore()
    subscription = Subscription("Exclusive", Ledgers({3: 4}), durable=False)
    subscription.add_consumer("a")
    subscription.handle("a", CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 1),), request_id=5))
    assert subscription.save(store) == [Receipt("a", 5)]
    assert store.last_id == -1
    assert subscription.durable_mark_delete_position == (3, 1)


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_many_acknowledged_at_once_leave_the_queue_the_waits_and_the_counts(kind: str) -> None:
    subscription = opened(kind)
    for position in subscription.next_reads(6, 0):
        assert subscription.dispatch(*position, now_ms=0, sticky_key_hash=9).consumer == "a"
    subscription.redeliver("a", [(3, 0), (3, 1), (3, 2)])
    assert subscription.nack("a", 3, 4, now_ms=0)
    assert subscription.ack_many("a", [3, 3, 3], [0, 2, 4]) == 3
    subscription.validate()
    assert subscription.next_reads(2, 100_000) == [(3, 1), (3, 6)]
    assert subscription.next_wakeup_ms() is None
    assert [subscription.redelivery_count(3, entry) for entry in range(3)] == [0, 1, 0]
    assert subscription.summary(0).unacked == 2


def test_ids_that_name_no_entry_are_passed_over_beside_whole_and_partial_acks() -> None:
    subscription = opened("Shared")
    for entry_id in range(4):
        assert subscription.dispatch(3, entry_id, now_ms=0, batch_size=2).consumer == "a"
    nowhere = [MessageId(-1, -1), MessageId(3, -1), MessageId(-1, 2)]
    partial = MessageId(3, 3, ack_set=(0b10,), batch_size=2)
    whole = [MessageId(3, 0), MessageId(3, 1)]
    subscription.handle("a", CommandAck(1, message_ids=(*nowhere, partial, *whole)))
    assert subscription.cursor.mark_delete_position == Position(3, 1)
    assert subscription.ack_set(3, 3) == (0b10,)
    assert [position.entry_id for position in subscription.pending("a")] == [2, 3]
    subscription.validate()


def test_acknowledging_a_part_returns_whether_it_changed_anything_and_resets_the_count() -> None:
    subscription = opened("Shared", partial_ack_resets_count=True)
    subscription.dispatch(3, 0, now_ms=0, batch_size=2)
    assert [subscription.ack("a", 3, 0, (0b10,)) for _ in range(2)] == [True, False]
    subscription.redeliver("a")
    assert subscription.redelivery_count(3, 0) == 1
    assert not subscription.ack("a", 3, 0, (0b10,))
    assert subscription.redelivery_count(3, 0) == 0
    assert [subscription.ack("a", 3, 0, (0b01,)) for _ in range(2)] == [True, False]


def test_properties_come_with_an_acknowledgment_that_takes_effect() -> None:
    for transaction, expected in ((None, {"x": 1}), (TransactionId(0, 1), {})):
        subscription = opened("Shared")
        message = (MessageId(3, 0),)
        command = CommandAck(1, message_ids=message, properties=(("x", 1),), transaction=transaction)
        subscription.handle("a", command)
        assert subscription.cursor.properties == expected


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
        assert subscription.dispatch(3, entry_id, now_ms=0, batch_size=messages).consumer == "a"
    assert subscription.summary(0).unacked == len(subscription.pending("a")) == 2
    subscription.ack_many("a", [3] * len(taken), taken)
    assert subscription.summary(0).unacked == (0 if 2 in taken else 2)
    assert subscription.audit() == []
