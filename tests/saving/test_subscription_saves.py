"""A saved and loaded subscription equals the original, even after a save by a cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ackwell import (
    CorruptStateError,
    Cursor,
    CursorSettings,
    Ledgers,
    Position,
    PositionInfo,
    StoreError,
    _native,
)
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import CommandAck, MessageId, Subscription, SubscriptionSettings, TransactionId
from ackwell.subscription.saved import decode_transactions
from ackwell.wire import bytes_field, int_field
from tests import reference

if TYPE_CHECKING:
    from ackwell.engine import Engine

LEDGERS = Ledgers({3: 100})
FIRST, SECOND = TransactionId(1, 1), TransactionId(0, 2)


def hold(subscription: Subscription, transaction: TransactionId, entry_id: int) -> None:
    ids = (MessageId(3, entry_id),)
    subscription.handle("a", CommandAck(1, message_ids=ids, transaction=transaction))


def deliver(subscription: Subscription, limit: int, sticky_key_hash: int = 0) -> list[Position]:
    if "a" not in subscription.consumers:
        subscription.add_consumer("a")
        subscription.flow("a", 1000)
    reads = subscription.next_reads(limit, 0)
    for position in reads:
        assert subscription.dispatch(*position, now_ms=0, sticky_key_hash=sticky_key_hash).consumer == "a"
    return reads


def used() -> Subscription:
    """Return a subscription with acks, a redelivery count, and two open transactions."""
    subscription = Subscription("Shared", LEDGERS)
    deliver(subscription, 10)
    subscription.ack("a", 3, 4)
    subscription.redeliver("a", [(3, 6)])
    hold(subscription, FIRST, 8)
    hold(subscription, SECOND, 9)
    return subscription


def load(store: MemoryStore) -> Subscription:
    return Subscription.load("Shared", store, LEDGERS)


def test_a_cursor_that_saves_in_between_loses_nothing_of_a_subscription() -> None:
    store = MemoryStore()
    used().save(store)
    for entry_id in (20, 21, 22, 23):
        cursor = Cursor.load(store, LEDGERS)
        cursor.ack(3, entry_id)
        cursor.save(store)
    again = load(store)
    assert again.redelivery_count(3, 6) == 1
    assert again.transactions == [FIRST, SECOND]
    assert again.cursor.is_acked(3, 23)
    assert again.commit(FIRST) == 1
    assert again.cursor.is_acked(3, 8)
    again.validate()


def test_a_subscription_keeps_the_fields_of_others_that_it_loaded() -> None:
    store = MemoryStore()
    theirs = bytes([0xF8, 0x01, 7])
    Journal(store).save(PositionInfo(3, 5, idle_since=1234, unknown_fields=theirs))
    for entry_id in (20, 22, 24):
        subscription = load(store)
        subscription.ack(None, 3, entry_id)
        subscription.save(store)
    info = Journal(store).load().position_info
    assert info is not None
    assert info.idle_since == 1234
    assert info.unknown_fields.startswith(theirs)
    assert info.unknown_fields.count(theirs) == 1
    assert info.unknown_fields.count(b"Shared") == 1


def test_the_cursor_of_a_subscription_gives_the_state_of_all_of_it() -> None:
    subscription = used()
    assert subscription.cursor.to_position_info() == subscription.stage().info
    assert subscription.cursor.to_position_info().redelivery_counts[Position(3, 6)] == 1


@pytest.mark.parametrize("unacked_bits", [0b011, 0b000, 0b110])
def test_a_part_that_a_transaction_holds_is_loaded_wherever_it_ends(unacked_bits: int) -> None:
    store = MemoryStore()
    subscription = Subscription("Shared", LEDGERS)
    subscription.add_consumer("a")
    part = MessageId(3, 5, ack_set=(unacked_bits,), batch_size=3)
    subscription.handle("a", CommandAck(1, message_ids=(part,), transaction=FIRST))
    subscription.save(store)
    again = load(store)
    assert again.commit(FIRST) == 1
    assert again.cursor.is_acked(3, 5) == (unacked_bits == 0)
    assert again.cursor.unacked_bits(3, 5) == (unacked_bits or None)


def test_subscriptions_that_will_save_different_fields_of_others_differ() -> None:
    stores = MemoryStore(), MemoryStore(), MemoryStore()
    for store, theirs in zip(stores, (7, 7, 8), strict=True):
        Journal(store).save(PositionInfo(3, 5, unknown_fields=bytes([0xF8, 0x01, theirs])))
    one, same, other = (load(store) for store in stores)
    assert one == same
    assert one != other


@pytest.mark.parametrize("engine", [_native, reference])
def test_a_loaded_subscription_takes_acknowledgments_as_its_settings_say(engine: Engine) -> None:
    settings = SubscriptionSettings(cursor=CursorSettings(batch_index_acks=False))
    store = MemoryStore()
    used().save(store)
    again = Subscription.load("Shared", store, LEDGERS, settings=settings, engine=engine)
    assert not again.ack(None, 3, 20, (0b10,))
    assert again.cursor.unacked_bits(3, 20) is None


def test_the_cursor_of_a_subscription_saves_all_of_it_and_its_receipts_wait() -> None:
    ledger = MemoryLedger()
    store, subscription = MemoryStore(ledger), used()
    subscription.save(store)
    command = CommandAck(1, message_ids=(MessageId(3, 5),), request_id=7)
    subscription.handle("a", command)
    subscription.cursor.save(store)
    again = load(MemoryStore(ledger))
    assert again.cursor.is_acked(3, 5)
    assert again.redelivery_count(3, 6) == 1
    assert again.transactions == [FIRST, SECOND]
    subscription = used()
    subscription.handle("a", command)
    subscription.cursor.save(MemoryStore())
    assert [receipt.request_id for receipt in subscription.save(MemoryStore())] == [7]


def test_options_that_no_subscription_has_take_no_store_from_its_owner() -> None:
    ledger = MemoryLedger()
    used().save(MemoryStore(ledger))
    store, generation = MemoryStore(ledger), ledger.generation
    with pytest.raises(TypeError):
        Subscription.load("Shared", store, LEDGERS, colour="red")
    with pytest.raises(ValueError, match="partition"):
        Subscription.load("Shared", store, LEDGERS, partition=-1)
    assert (store.generation, ledger.generation) == (0, generation)


def test_a_loaded_cursor_makes_the_subscription_that_was_saved() -> None:
    store = MemoryStore()
    used().save(store)
    subscription = Subscription("Shared", cursor=Cursor.load(store, LEDGERS))
    assert subscription.redelivery_count(3, 6) == 1
    assert subscription.transactions == [FIRST, SECOND]
    subscription.ack(None, 3, 30)
    subscription.save(store)
    assert load(store).redelivery_count(3, 6) == 1
    assert load(store).cursor.is_acked(3, 30)


def test_a_subscription_is_not_saved_over_what_it_did_not_load() -> None:
    ledger = MemoryLedger()
    used().save(MemoryStore(ledger))
    other = Subscription("Shared", LEDGERS)
    other.add_consumer("a")
    other.handle("a", CommandAck(1, message_ids=(MessageId(3, 0),), request_id=7))
    with pytest.raises(StoreError, match="replace=True"):
        other.save(MemoryStore(ledger))
    assert (ledger.generation, ledger.last_id) == (1, 0)
    assert other.durable_mark_delete_position == (3, -1)
    assert [receipt.request_id for receipt in other.save(MemoryStore(ledger), replace=True)] == [7]
    assert load(MemoryStore(ledger)).transactions == []


def test_loading_says_how_and_as_what_the_state_was_saved() -> None:
    store = MemoryStore()
    assert Subscription("Shared", LEDGERS).recovery is None
    used().save(store)
    recovery = load(store).recovery
    assert recovery is not None
    assert (recovery.saved_as, recovery.loaded_as, recovery.entry_id) == ("Shared", "Shared", 0)
    assert "saved as" not in str(recovery)
    for type_name in ("Exclusive", "Key_Shared", "Failover"):
        recovery = Subscription.load(type_name, store, LEDGERS).recovery
        assert recovery is not None
        assert (recovery.saved_as, recovery.loaded_as) == ("Shared", type_name)
        assert f"saved as Shared, loaded as {type_name}" in str(recovery)
    cursor = Cursor.load(store, LEDGERS)
    assert "saved as Shared, loaded as cursor" in str(cursor.recovery)
    # The state keeps the type Shared after a save by a cursor.
    cursor.ack(3, 50)
    cursor.save(store)
    recovery = load(store).recovery
    assert recovery is not None
    assert recovery.saved_as == "Shared"
    plain = MemoryStore()
    Cursor(LEDGERS).save(plain)
    assert "saved as cursor, loaded as Shared" in str(load(plain).recovery)


# Transactions survive deltas and restarts.


@pytest.mark.parametrize("restart", [False, True])
def test_transactions_that_open_and_end_are_saved_as_deltas(restart: bool) -> None:
    store = MemoryStore()
    subscription = Subscription("Shared", LEDGERS)
    deliver(subscription, 50)
    kinds = []
    steps: list[Callable[[], object]] = [
        lambda: subscription.ack("a", 3, 0),
        lambda: subscription.ack("a", 3, 2),
        lambda: hold(subscription, FIRST, 4),
        lambda: hold(subscription, SECOND, 6),
        lambda: subscription.commit(FIRST),
        lambda: subscription.abort(SECOND),
        lambda: subscription.ack("a", 3, 7),
    ]
    for step in steps:
        step()
        before = store.last_id
        subscription.save(store)
        kinds.append(store.last_id - before)
        expected = subscription.transactions
        again = load(MemoryStore(store._ledger, read_only=True))
        assert again.transactions == expected
        assert again.cursor.is_acked(3, 4) == subscription.cursor.is_acked(3, 4)
        if restart:
            subscription = load(store)
            assert subscription.transactions == expected
            deliver(subscription, 50)
    assert kinds == [1] * len(steps)
    recovery = load(store).recovery
    assert recovery is not None
    assert recovery.full_last_id <= 1


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_an_ended_transaction_stays_ended_through_any_number_of_restarts(how: str) -> None:
    store = MemoryStore()
    used().save(store)
    for _ in range(4):
        subscription = load(store)
        getattr(subscription, how)(FIRST)
        assert subscription.transactions == [SECOND]
        subscription.save(store)
    for _ in range(3):
        subscription = load(store)
        assert subscription.transactions == [SECOND]
        assert subscription.cursor.is_acked(3, 8) == (how == "commit")
        subscription.ack(None, 3, 60)
        subscription.save(store)


def test_an_aborted_entry_keeps_its_hash_and_its_batch_size_through_a_restart() -> None:
    store = MemoryStore()
    subscription = Subscription("Key_Shared", LEDGERS)
    subscription.add_consumer("a")
    subscription.flow("a", 1000)
    for position in subscription.next_reads(4, 0):
        subscription.dispatch(*position, now_ms=0, batch_size=7, sticky_key_hash=12_345)
    ids = (MessageId(3, 2, batch_size=7, ack_set=(0b1111110,)),)
    subscription.handle("a", CommandAck(1, message_ids=ids, transaction=FIRST))
    expected = decode_transactions(subscription.stage().info.unknown_fields).open[FIRST].entries
    assert [(held.batch_size, held.sticky_key_hash) for held in expected.values()] == [(7, 12_345)]
    subscription.save(store)
    again = Subscription.load("Key_Shared", store, LEDGERS)
    assert decode_transactions(again.stage().info.unknown_fields).open[FIRST].entries == expected


def test_an_entry_acknowledged_behind_an_open_transaction_is_held_no_more() -> None:
    store = MemoryStore()
    used().save(store)
    cursor = Cursor.load(store, LEDGERS)
    cursor.ack(3, 8)
    cursor.save(store)
    subscription = load(store)
    assert subscription.transactions == [FIRST, SECOND]
    assert subscription.summary(0).in_transactions == 1
    assert subscription.commit(FIRST) == 0
    subscription.validate()


def entry(entry_id: int, *, size: int = 1, words: tuple[int, ...] = (), hash_: int = 0) -> bytes:
    place = int_field(1, 3) + int_field(2, entry_id) + int_field(3, size) + int_field(4, hash_)
    return bytes_field(3, place + b"".join(int_field(5, word) for word in words))


def transaction(least: int, *content: bytes) -> bytes:
    return bytes_field(20_601, int_field(1, 0) + int_field(2, least) + b"".join(content))


CUMULATIVE = bytes_field(4, int_field(1, 3) + int_field(2, 9))


@pytest.mark.parametrize(
    "fields",
    [
        transaction(1, entry(5), entry(5)),
        transaction(1, entry(5)) + transaction(2, entry(5)),
        transaction(1, entry(5, size=4, words=(3,))) + transaction(2, entry(5, size=4, words=(6,))),
        transaction(1, entry(5, size=4, words=(1,)), entry(5, size=4, words=(2,))),
        transaction(1, entry(5)) + transaction(1, entry(6)),
        transaction(1, CUMULATIVE) + transaction(2, CUMULATIVE),
        transaction(1, entry(5, size=0)),
        transaction(1, entry(5, size=1 << 40)),
        transaction(1, entry(5, size=2, words=(4,))),
        transaction(1, entry(5, size=2, words=(0,))),
        transaction(1, entry(5, hash_=1 << 31)),
        transaction(1, entry(5, hash_=-1)),
        transaction(1, entry(-1)),
        transaction(1, bytes_field(3, int_field(1, 3))),
        transaction(1, bytes_field(3, int_field(1, -3) + int_field(2, 5))),
    ],
)
def test_saved_transactions_that_contradict_are_refused_and_nobody_is_fenced(fields: bytes) -> None:
    ledger = MemoryLedger()
    Journal(MemoryStore(ledger)).save(PositionInfo(3, 1, unknown_fields=fields))
    store = MemoryStore(ledger)
    with pytest.raises(CorruptStateError):
        load(store)
    assert (store.generation, ledger.generation) == (0, 1)


def test_saved_transactions_may_share_a_batch() -> None:
    store = MemoryStore()
    fields = transaction(1, entry(5, size=4, words=(1,))) + transaction(2, entry(5, size=4, words=(2,)))
    Journal(store).save(PositionInfo(3, 1, unknown_fields=fields))
    subscription = load(store)
    subscription.validate()
    assert subscription.commit(TransactionId(0, 1)) == 1
    assert subscription.cursor.batch_deleted == {(3, 5): (0b1110,)}


def test_a_redelivery_count_that_no_subscription_has_is_refused() -> None:
    store = MemoryStore()
    Journal(store).save(PositionInfo(3, 1, redelivery_counts={(3, 5): 1 << 31}))
    with pytest.raises(CorruptStateError, match="redelivery count 2147483648 of 3:5"):
        load(store)
    Journal(store).save(PositionInfo(3, 1, redelivery_counts={(3, 5): (1 << 31) - 1}), replace=True)
    assert load(store).redelivery_count(3, 5) == (1 << 31) - 1


def test_a_count_that_a_part_ends_stays_ended_after_a_restart() -> None:
    store, settings = MemoryStore(), SubscriptionSettings(partial_ack_resets_count=True)
    subscription = Subscription("Shared", LEDGERS, settings=settings)
    deliver(subscription, 9)
    subscription.redeliver("a", [(3, 1), (3, 2)])
    # The third save is the first that can be a delta.
    for entry_id, ack_set in ((5, ()), (6, ()), (2, (6,))):
        subscription.ack("a", 3, entry_id, ack_set)
        subscription.save(store)
    assert [load(store).redelivery_count(3, entry_id) for entry_id in (1, 2)] == [1, 0]


def test_counts_that_end_with_the_last_consumer_stay_ended_after_a_restart() -> None:
    store, settings = MemoryStore(), SubscriptionSettings(idle_clears_counts=True)
    subscription = Subscription("Shared", LEDGERS, settings=settings)
    deliver(subscription, 3)
    subscription.redeliver("a", [(3, 1)])
    subscription.save(store)
    subscription.remove_consumer("a")
    subscription.save(store)
    assert load(store).redelivery_count(3, 1) == 0


@pytest.mark.parametrize("with_consumer", [False, True])
def test_counts_of_a_trimmed_ledger_stay_ended_after_a_restart(*, with_consumer: bool) -> None:
    store, ledgers = MemoryStore(), Ledgers({3: 3, 5: 3})
    subscription = Subscription("Shared", ledgers)
    deliver(subscription, 6)
    subscription.redeliver("a", [(3, 1), (5, 1)])
    if with_consumer:
        assert deliver(subscription, 6) == [(3, 1), (5, 1)]
    subscription.save(store)
    ledgers.trim_before(5)
    subscription.next_reads(1, 0)
    subscription.save(store)
    again = Subscription.load("Shared", store, Ledgers({3: 3, 5: 3}))
    assert [again.redelivery_count(*position) for position in ((3, 1), (5, 1))] == [0, 1]


def test_a_saved_count_of_what_is_acknowledged_is_dropped() -> None:
    store = MemoryStore()
    counts = {(3, entry_id): 2 for entry_id in (1, 3, 4)}
    Journal(store).save(PositionInfo(3, 1, [(3, 2, 3)], redelivery_counts=counts))
    again = load(store)
    assert [again.redelivery_count(3, entry_id) for entry_id in (1, 3, 4)] == [0, 0, 2]
    again.validate()


def test_what_was_redelivered_too_often_before_a_restart_is_a_dead_letter_after_it() -> None:
    store, settings = MemoryStore(), SubscriptionSettings(max_redeliver_count=0)
    subscription = Subscription("Shared", LEDGERS, settings=settings)
    deliver(subscription, 3)
    subscription.redeliver("a", [(3, 1)])
    subscription.save(store)
    again = Subscription.load("Shared", store, LEDGERS, settings=settings)
    again.add_consumer("a")
    again.flow("a", 10)
    (delivery,) = again.dispatch_many([3, 3, 3], [0, 1, 2], 0)
    assert delivery.entry_ids.tolist() == [0, 2]
    assert again.dead_letters == [(3, 1)]
    again.validate()


@pytest.mark.parametrize(
    "end",
    [
        lambda subscription: subscription.ack("a", 3, 1),
        lambda subscription: subscription.ack_many("a", [3, 3], [1, 2]),
        lambda subscription: subscription.skip(2),
        lambda subscription: subscription.clear_backlog(),
    ],
)
@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("engine", [_native, reference])
def test_a_count_that_an_acknowledgment_ended_does_not_come_back_with_a_seek(
    engine: Engine, saves: bool, end: Callable[[Subscription], object]
) -> None:
    store = MemoryStore()
    subscription = Subscription("Shared", LEDGERS, engine=engine)
    deliver(subscription, 5)
    subscription.redeliver("a", [(3, 1)])
    subscription.save(store)
    end(subscription)
    if saves:
        subscription.save(store)
    subscription.seek(3, 0)
    subscription.save(store)
    again = load(store)
    assert again.redelivery_count(3, 1) == 0
    assert not again.cursor.is_acked(3, 1)
    again.validate()


@pytest.mark.parametrize("engine", [_native, reference])
def test_counts_of_all_that_a_consumer_gave_back_are_in_the_next_save(engine: Engine) -> None:
    store = MemoryStore()
    subscription = Subscription("Shared", LEDGERS, engine=engine)
    deliver(subscription, 4)
    subscription.save(store)
    for times in (1, 2):
        subscription.redeliver("a")
        subscription.save(store)
        again = load(store)
        assert [again.redelivery_count(3, entry_id) for entry_id in range(5)] == [times] * 4 + [0]
        deliver(subscription, 4)
