"""Order per key on Key_Shared: no message overtakes an older one of its hash that waits to go out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Ledgers, Position
from ackwell.cursor.ack_sets import to_words
from ackwell.engine import native_engine
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import (
    CommandAck,
    MessageId,
    NonDelivery,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    TransactionId,
)
from tests import reference

if TYPE_CHECKING:
    from ackwell.engine import Engine

ENGINES = [pytest.param(native_engine(), id="native"), pytest.param(reference, id="reference")]
BACKOFF = RedeliveryBackoff(1_000, 1_000)


KEY, OTHER = 7, 8
TXN = TransactionId(0, 1)


def opened(engine: Engine | None, entries: int, permits: int = 0, **settings: Any) -> Subscription:
    subscription = Subscription(
        "Key_Shared",
        Ledgers({3: entries}),
        settings=SubscriptionSettings(**{"nack_backoff": BACKOFF, **settings}),
        engine=engine,
    )
    subscription.add_consumer("a")
    subscription.flow("a", permits)
    return subscription


def deliver(
    subscription: Subscription, now_ms: int = 0, *, others: frozenset[int] = frozenset()
) -> list[int]:
    """Deliver all deliverable entries and return them. The entries in `others` have another key."""
    found = []
    for position in subscription.next_reads(100, now_ms):
        key = OTHER if position.entry_id in others else KEY
        if subscription.dispatch(*position, now_ms=now_ms, sticky_key_hash=key):
            found.append(position.entry_id)
    subscription.validate()
    return found


def deliver_many(subscription: Subscription, now_ms: int, others: frozenset[int] = frozenset()) -> list[int]:
    ledger_ids, entry_ids = subscription.next_reads_many(100, now_ms)
    hashes = [OTHER if entry_id in others else KEY for entry_id in entry_ids.tolist()]
    deliveries = subscription.dispatch_many(ledger_ids, entry_ids, now_ms, sticky_key_hashes=hashes)
    subscription.validate()
    return [entry_id for delivery in deliveries for entry_id in delivery.entry_ids.tolist()]


def ack_in_transaction(subscription: Subscription, entry_id: int, transaction: TransactionId = TXN) -> None:
    command = CommandAck(0, message_ids=(MessageId(3, entry_id),), transaction=transaction)
    subscription.handle("a", command)


def processed(subscription: Subscription, fails_once: set[int], *, at_once: bool) -> list[int]:
    """Give "a" one permit at a time; return the messages that it processed, in order."""
    order = []
    subscription.flow("a", 1)
    for now_ms in range(0, 10_000, 100):
        for entry_id in (deliver_many if at_once else deliver)(subscription, now_ms):
            order.append(entry_id)
            if entry_id in fails_once:
                fails_once.remove(entry_id)
                subscription.nack("a", 3, entry_id, now_ms=now_ms)
            else:
                subscription.ack("a", 3, entry_id)
            subscription.flow("a", 1)
    assert subscription.cursor.backlog_entries == 0
    return order


def test_one_call_returns_a_failed_message_and_the_later_ones_of_its_key() -> None:
    one, many = (opened(None, 4, 4) for _ in range(2))
    for subscription in (one, many):
        assert deliver(subscription) == [0, 1, 2, 3]
    later = many.later_of_key("a", 3, 0) if many.nack("a", 3, 0, now_ms=0) else []
    many.redeliver("a", later, counted=False)
    assert one.nack_in_order("a", (3, 0), now_ms=0) == later == [(3, 1), (3, 2), (3, 3)]
    assert one == many
    # A message that the consumer no longer has changes nothing.
    assert one.nack_in_order("a", 3, 1, now_ms=0) == []
    assert one == many
    assert one.redelivery_count(3, 1) == 0


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_nack_of_the_first_of_five_messages_of_one_key_holds_back_the_others(
    engine: Engine, at_once: bool
) -> None:
    assert processed(opened(engine, 5), {0}, at_once=at_once) == [0, 0, 1, 2, 3, 4]
    assert processed(opened(engine, 5), {0, 2, 3}, at_once=at_once) == [0, 0, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("at_once", [False, True])
def test_under_the_preset_the_others_overtake_it_as_at_a_broker(at_once: bool) -> None:
    subscription = opened(None, 5, waiting_holds_key=False)
    assert processed(subscription, {0}, at_once=at_once) == [0, 1, 2, 3, 4, 0]
    for version in ("4.0", "4.2", "5.0"):
        assert not SubscriptionSettings.pulsar(version).waiting_holds_key


@pytest.mark.parametrize("engine", ENGINES)
def test_another_hash_is_not_held_back(engine: Engine) -> None:
    others = frozenset({2, 4})
    subscription = opened(engine, 6, 1)
    assert deliver(subscription, others=others) == [0]
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.flow("a", 10)
    assert deliver(subscription, others=others) == [2, 4]
    assert deliver_many(subscription, 999, others) == []
    # The first goes out with the next read, the others, whose turn comes with it, with the one after.
    assert deliver(subscription, 1_000) == [0, 1, 3, 5]


def nacked(subscription: Subscription) -> None:
    subscription.nack("a", 3, 0, now_ms=0)


def redelivered(subscription: Subscription) -> None:
    subscription.redeliver("a", [(3, 0)])


def timed_out(subscription: Subscription) -> None:
    subscription.advance(5_000)


def aborted(subscription: Subscription) -> None:
    ack_in_transaction(subscription, 0)
    subscription.abort(TXN)


def left(subscription: Subscription) -> None:
    subscription.remove_consumer("a")
    subscription.add_consumer("a")


CAUSES = [nacked, redelivered, timed_out, aborted, left]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cause", CAUSES)
def test_a_waiting_message_blocks_later_ones_of_its_hash_for_every_cause(
    cause: Callable[[Subscription], None], engine: Engine
) -> None:
    subscription = opened(engine, 3, 1, ack_timeout_ms=5_000)
    assert deliver(subscription) == [0]
    # Entries that were read before the message waited are checked again at dispatch.
    reads = subscription.next_reads(9, 0)
    cause(subscription)
    subscription.flow("a", 5)
    for position in [*reads, Position(3, 1), Position(3, 2)]:
        outcome = subscription.dispatch(position, now_ms=5_000, sticky_key_hash=KEY)
        assert outcome.reason is NonDelivery.KEY_WAITS
    subscription.validate()
    assert deliver(subscription, 6_000) + deliver(subscription, 6_000) == [0, 1, 2]


def test_of_the_queue_too_none_goes_out_ahead_of_an_earlier_one() -> None:
    subscription = opened(None, 3, 3)
    deliver(subscription)
    subscription.nack("a", 3, 1, now_ms=0)
    subscription.redeliver("a", [(3, 2)])
    subscription.flow("a", 5)
    assert subscription.dispatch(3, 2, now_ms=0, sticky_key_hash=KEY).reason is NonDelivery.KEY_WAITS
    assert subscription.next_reads(9, 0) == []
    reads = subscription.next_reads(9, 1_000)
    assert reads == [(3, 1), (3, 2)]
    # A message that is returned during the read is first again, also after a failed read.
    subscription.redeliver("a", [(3, 0)])
    for position in reads:
        outcome = subscription.dispatch(position, now_ms=1_000, sticky_key_hash=KEY)
        assert outcome.reason is NonDelivery.KEY_WAITS
    assert deliver(subscription, 1_000) == [0, 1, 2]


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("waits", [nacked, redelivered])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_waiting_message_acknowledged_in_a_transaction_blocks_its_key_until_the_commit(
    waits: Callable[[Subscription], None], end: str, restarts: bool
) -> None:
    store = MemoryStore(MemoryLedger())
    subscription = opened(None, 3, 1)
    deliver(subscription)
    waits(subscription)
    ack_in_transaction(subscription, 0)
    subscription.validate()
    if restarts:
        subscription.save(store)
        subscription = Subscription.load("Key_Shared", store, Ledgers({3: 3}))
        subscription.add_consumer("a")
    subscription.flow("a", 5)
    assert deliver(subscription, 9_000) == []
    getattr(subscription, end)(TXN)
    assert deliver(subscription, 9_000) == ([1, 2] if end == "commit" else [0, 1, 2])


def test_a_message_held_in_parts_before_its_delivery_blocks_its_key_after_a_restart() -> None:
    store = MemoryStore(MemoryLedger())
    subscription = opened(None, 3, 2)
    part = MessageId(3, 0, batch_size=2, ack_set=(0b10,))
    subscription.handle("a", CommandAck(0, message_ids=(part,), transaction=TXN))
    assert subscription.dispatch(3, 0, now_ms=0, batch_size=2, sticky_key_hash=KEY).consumer == "a"
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.ack("a", 3, 0, (0b01,))
    subscription.validate()
    subscription.save(store)
    subscription = Subscription.load("Key_Shared", store, Ledgers({3: 3}))
    subscription.add_consumer("a")
    subscription.flow("a", 5)
    assert deliver(subscription, 9_000, others=frozenset({2})) == [2]
    subscription.abort(TXN)
    assert deliver(subscription, 9_000) == [0, 1]


def test_after_a_restart_entries_before_a_waiting_message_are_delivered() -> None:
    store = MemoryStore(MemoryLedger())
    subscription = opened(None, 3, 2)
    deliver(subscription)
    subscription.nack("a", 3, 1, now_ms=0)
    ack_in_transaction(subscription, 1)
    subscription.save(store)
    subscription = Subscription.load("Key_Shared", store, Ledgers({3: 3}))
    subscription.add_consumer("a")
    subscription.flow("a", 5)
    assert deliver(subscription) == [0]
    subscription.abort(TXN)
    assert deliver(subscription) == [1, 2]


def test_a_message_that_did_not_wait_and_is_held_by_a_transaction_blocks_nothing() -> None:
    subscription = opened(None, 3, 1)
    deliver(subscription)
    ack_in_transaction(subscription, 0)
    subscription.flow("a", 5)
    assert deliver(subscription) == [1, 2]


def test_a_message_of_unknown_key_that_an_abort_gives_back_is_looked_at_before_any_later_one() -> None:
    subscription = opened(None, 3, 5)
    # No consumer has it, as after a restart, when a client acknowledges an earlier delivery.
    ack_in_transaction(subscription, 0)
    assert subscription.next_reads(1, 0) == [(3, 1)]
    assert subscription.dispatch(3, 1, now_ms=0, sticky_key_hash=OTHER).consumer == "a"
    reads = subscription.next_reads(1, 0)
    subscription.abort(TXN)
    assert subscription.dispatch(*reads[0], now_ms=0, sticky_key_hash=KEY).reason is NonDelivery.KEY_WAITS
    assert deliver(subscription) == [0, 2]


def test_an_acknowledgment_releases_the_key() -> None:
    for method, arguments in (
        ("ack", ("a", 3, 0)),
        ("ack", (None, 3, 0)),
        ("ack_many", ("a", [3], [0])),
        ("skip", (1,)),
        ("expire", (3, 0)),
        ("seek", (3, 1)),
    ):
        for until_acked in (False, True):
            subscription = opened(None, 3, 1, nack_holds_until_acked=until_acked)
            deliver(subscription)
            subscription.nack("a", 3, 0, now_ms=0)
            subscription.flow("a", 5)
            assert deliver(subscription) == []
            getattr(subscription, method)(*arguments)
            assert deliver(subscription) == [1, 2]


def test_a_part_of_a_batch_releases_nothing_however_often_it_is_acknowledged() -> None:
    subscription = opened(None, 2)
    subscription.flow("a", 3)
    assert subscription.dispatch(3, 0, now_ms=0, batch_size=3, sticky_key_hash=KEY).consumer == "a"
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.flow("a", 9)
    for _ in range(3):
        subscription.ack("a", 3, 0, to_words(0b110))
        assert deliver(subscription) == []
    subscription.ack("a", 3, 0, to_words(0))
    assert deliver(subscription) == [1]


@pytest.mark.parametrize("until_acked", [False, True])
def test_a_dead_letter_releases_its_key(until_acked: bool) -> None:
    subscription = opened(None, 3, 1, max_redeliver_count=0, nack_holds_until_acked=until_acked)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.flow("a", 5)
    assert deliver(subscription) == []
    assert [*deliver(subscription, 1_000), *deliver(subscription, 1_000)] == [1, 2]
    assert subscription.dead_letters == [(3, 0)]


def test_a_consumer_that_joins_gets_no_later_message_either() -> None:
    subscription = opened(None, 40, 1)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    for name in "bcd":
        subscription.add_consumer(name)
        subscription.flow(name, 5)
    assert deliver(subscription) == []
    subscription.remove_consumer("a")
    assert deliver(subscription)[0] == 0


def test_later_messages_of_the_key_can_be_returned_uncounted_and_wait() -> None:
    others = frozenset({2})
    subscription = opened(None, 5, 4, max_redeliver_count=0)
    assert deliver(subscription, others=others) == [0, 1, 2, 3]
    subscription.nack("a", 3, 1, now_ms=0)
    later = subscription.later_of_key("a", 3, 1)
    assert later == [(3, 3)]
    assert subscription.redeliver("a", later, counted=False) == 1
    assert [subscription.redelivery_count(3, entry_id) for entry_id in range(5)] == [0] * 5
    subscription.flow("a", 9)
    assert deliver(subscription) == []
    subscription.ack("a", 3, 1)
    assert deliver(subscription) == [3, 4]
    assert subscription.later_of_key("a", 3, 1) == []
    assert Subscription("Shared", Ledgers({3: 1})).consumers == []


def test_all_of_a_consumer_can_be_given_back_uncounted() -> None:
    subscription = opened(None, 3, 3)
    deliver(subscription)
    assert subscription.redeliver("a", counted=False) == 3
    assert subscription.redelivery_count(3, 0) == 0


def test_without_order_per_key_nothing_is_held_back() -> None:
    subscription = opened(None, 3, 1, allow_out_of_order_delivery=True, nack_holds_until_acked=True)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.flow("a", 5)
    assert deliver(subscription) == [1, 2]


@pytest.mark.parametrize("waiting_holds_key", [False, True])
def test_under_pip_493_one_message_of_a_key_is_out_until_it_is_acknowledged(waiting_holds_key: bool) -> None:
    subscription = opened(None, 4, 1, nack_holds_until_acked=True, waiting_holds_key=waiting_holds_key)
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.flow("a", 9)
    assert deliver(subscription, 500) == []
    assert deliver(subscription, 1_000) == [0]
    assert deliver(subscription, 1_000) == []
    # Its consumer leaves: it goes to the next one, and still holds back the others.
    subscription.remove_consumer("a")
    subscription.add_consumer("b")
    subscription.flow("b", 9)
    assert deliver(subscription, 1_000) == [0]
    assert deliver(subscription, 1_000) == []
    subscription.ack("b", 3, 0)
    assert deliver(subscription, 1_000) == [1, 2, 3]


def acknowledged_while_it_waits(subscription: Subscription) -> None:
    """Deliver 3:0, give it back, and acknowledge it in a transaction before its back-off is over."""
    deliver(subscription)
    subscription.nack("a", 3, 0, now_ms=0)
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 0),), transaction=TXN))


def test_a_held_message_is_not_overtaken_after_two_changes_of_type() -> None:
    subscription = opened(None, 4, 1)
    acknowledged_while_it_waits(subscription)
    subscription.remove_consumer("a")
    for kind in ("Shared", "Exclusive", "Key_Shared"):
        subscription.change_type(kind)
        subscription.validate()
    subscription.add_consumer("a")
    subscription.flow("a", 9)
    assert deliver(subscription) == []
    assert subscription.abort(TXN) == 1
    assert deliver(subscription) == [0, 1, 2, 3]


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_batch_of_which_a_transaction_names_a_wrong_size_is_not_lost(ends: str) -> None:
    subscription = opened(None, 3, 4)
    subscription.dispatch(*subscription.next_reads(1, 0)[0], now_ms=0, batch_size=4, sticky_key_hash=KEY)
    subscription.nack("a", 3, 0, now_ms=0)
    half = MessageId(3, 0, ack_set=tuple(to_words(0b11_1111_0000)), batch_size=10)
    subscription.handle("a", CommandAck(1, message_ids=(half,), transaction=TXN))
    subscription.validate()
    assert list(subscription.pending("a")) == [(3, 0)]
    getattr(subscription, ends)(TXN)
    subscription.validate()
    subscription.flow("a", 9)
    assert deliver(subscription, 1_000) == [0, 1, 2]


def test_a_held_message_that_is_trimmed_is_not_an_audit_difference() -> None:
    ledgers = Ledgers({3: 2, 5: 2})
    subscription = Subscription("Key_Shared", ledgers)
    subscription.add_consumer("a")
    subscription.flow("a", 1)
    acknowledged_while_it_waits(subscription)
    ledgers.trim_before(5)
    subscription.validate()
    subscription.flow("a", 9)
    assert deliver(subscription) == [0, 1]
    subscription.validate()


def test_memory_follows_the_messages_that_wait_not_the_keys() -> None:
    subscription = opened(None, 4_000, 4_000)
    for position in subscription.next_reads(4_000, 0):
        subscription.dispatch(*position, now_ms=0, sticky_key_hash=1 + position.entry_id)
    before = subscription.summary(0).nbytes["redelivery"]
    for entry_id in range(4_000):
        subscription.nack("a", 3, entry_id, now_ms=0)
    waiting = subscription.summary(0).nbytes["redelivery"]
    assert before < 2_000 < waiting < 4_000 * 500
    subscription.ack_many("a", [3] * 4_000, range(4_000))
    assert len(subscription._state.retrying) == 0
    subscription.validate()
