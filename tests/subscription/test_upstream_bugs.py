"""What went wrong in Apache Pulsar, one test a bug: none of it happens here."""

from __future__ import annotations

from itertools import chain

import pytest

from ackwell import Ledgers, PositionInfo, PositionRangeSet, StateTooLargeError, StoreError
from ackwell.cursor import Cursor
from ackwell.cursor.ack_sets import to_words
from ackwell.store import MemoryStore
from ackwell.subscription import (
    CommandAck,
    MessageId,
    Receipt,
    Subscription,
    SubscriptionSettings,
)
from tests.subscription.helpers import deliver, opened


def restarted(subscription: Subscription, store: MemoryStore) -> Subscription:
    subscription.save(store)
    return Subscription.load(subscription.type, store, subscription.cursor.ledgers)


def test_7554_ranges_of_all_ledgers_come_back_after_a_restart() -> None:
    """apache/pulsar#7554: acknowledged ranges beyond the first ledger were dropped on recovery."""
    ledgers = Ledgers({3: 10, 5: 10, 8: 10})
    subscription = Subscription("Shared", ledgers)
    for ledger_id in (3, 5, 8):
        subscription.ack_many(None, [ledger_id] * 4, [1, 2, 5, 9])
    before = str(subscription.cursor.individually_deleted)
    again = restarted(subscription, MemoryStore())
    assert before == str(again.cursor.individually_deleted)
    assert again.cursor.backlog_entries == 18
    assert before.count("8:") == 6


def test_23759_long_arrays_hold_everything_whatever_the_representation() -> None:
    """apache/pulsar#23759: with the open-cache set off, the long-array form lost every acknowledgment."""
    acked = PositionRangeSet([(3, 0, 7), (3, 70, 200), (5, -1, 0), (9, 63, 64)])
    info = PositionInfo.decode(PositionInfo(3, -1, acked).encode("pulsar-long-array"))
    assert info.individually_deleted == acked
    cursor = Cursor.from_position_info(info, Ledgers({3: 300, 5: 10, 9: 100}))
    assert cursor.backlog_entries == 410 - (7 + 130 + 1 + 1)


def test_25548_a_limit_of_n_ranges_keeps_n_and_says_what_the_next_one_would_lose() -> None:
    """apache/pulsar#25548: the limit of ranges to persist was off by one."""
    ten = PositionRangeSet((3, entry, entry + 1) for entry in range(0, 20, 2))
    info = PositionInfo(3, -1, ten)
    assert len(PositionInfo.decode(info.encode("pulsar-ranges", max_ranges=10)).individually_deleted) == 10
    with pytest.raises(StateTooLargeError) as refusal:
        info.encode("pulsar-ranges", max_ranges=9)
    assert refusal.value.report is not None


@pytest.mark.parametrize("words", [(), (0,), (0, 0)])
def test_24406_an_empty_ack_set_means_the_whole_entry(words: tuple[int, ...]) -> None:
    """apache/pulsar#24406: an ack set without a bit left the entry neither acknowledged nor deliverable."""
    subscription = opened("Shared", 2)
    deliver(subscription, batch_size=3)
    message = MessageId(3, 0, ack_set=words, batch_size=3)
    assert subscription.handle("a", CommandAck(1, message_ids=(message,)).encode()) == 1
    assert subscription.cursor.is_acked(3, 0)
    assert not subscription.cursor.batch_deleted
    assert subscription.summary(0).unacked == 3
    subscription.validate()


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
@pytest.mark.parametrize("by", ["owner", "other", "batch index", "redeliver", "close"])
def test_22657_a_blocked_consumer_is_unblocked_whichever_way_its_messages_go(limit: int, by: str) -> None:
    """apache/pulsar#22657: the flag was looked at on some ways down only, and consumers hung for good."""
    consumers = "ab" if by == "other" else "a"
    subscription = opened(
        "Shared",
        30,
        consumers,
        round_robin_batch_size=1,
        max_unacked_per_consumer=limit,
        max_unacked_per_subscription=limit,
    )
    size = 2 if by == "batch index" else 1
    held = list(chain.from_iterable(deliver(subscription, batch_size=size).values()))
    assert held
    assert subscription.summary(0).blocked
    assert subscription.next_reads(1, 0) == []
    if by == "redeliver":
        subscription.redeliver("a")
    elif by == "close":
        subscription.remove_consumer("a")
        subscription.add_consumer("a")
        subscription.flow("a", 10**6)
    for entry_id in held:
        if by == "batch index":
            subscription.ack("a", 3, entry_id, ack_set=(0b10,))
            subscription.ack("a", 3, entry_id, ack_set=(0b01,))
        elif by in ("owner", "other"):
            subscription.ack("b" if by == "other" else "a", 3, entry_id)
    subscription.validate()
    assert not subscription.summary(0).blocked
    assert not any(consumer.blocked for consumer in subscription.summary(0).consumers)
    assert deliver(subscription, limit=1, batch_size=size)


def test_759_96_6510_unacked_is_right_after_repeated_acknowledgments_by_any_consumer() -> None:
    """apache/pulsar#759, #96, #6510: negative counters; the recorded trace `batch_partial` shows -1000."""
    subscription = opened("Shared", 10, "ab", round_robin_batch_size=1)
    deliver(subscription, batch_size=10)
    assert subscription.summary(0).unacked == 100
    for _ in range(3):
        subscription.ack("b", 3, 0, ack_set=(0b1111100000,))  # a's entry: five of its ten messages
        assert subscription.summary(0).unacked == 95
    # A client that acknowledges singly repeats an earlier acknowledgment.
    for through in range(10):
        subscription.ack("b", 3, 0, ack_set=to_words(0b1111111111 & ~((1 << through + 1) - 1)) or (0,))
    assert subscription.summary(0).unacked == 90
    subscription.ack("a", 3, 0)
    subscription.ack_many("a", [3, 3, 3], [1, 1, 2])
    assert subscription.summary(0).unacked == 70
    # An ack set with more bits than the batch has messages takes nothing away that is not there.
    subscription.ack("a", 3, 4, ack_set=(-1, -1))
    subscription.ack("a", 3, 4, ack_set=(-2, -1))
    assert 0 <= subscription.summary(0).unacked <= 70
    assert subscription.audit() == []


def test_25528_a_failed_save_confirms_nothing_and_the_next_one_covers_it() -> None:
    """apache/pulsar#25528: the mark-delete position moved in memory, and was acted on, before the write."""

    class FailingStore(MemoryStore):
        fails = True

        def append(self, data: bytes) -> int:
            if self.fails:
                raise StoreError("disk full")
            return super().append(data)

    store = FailingStore()
    subscription = opened("Shared", 5)
    deliver(subscription)
    command = CommandAck(1, message_ids=(MessageId(3, 0), MessageId(3, 1)), request_id=77)
    subscription.handle("a", command)
    with pytest.raises(StoreError):
        subscription.save(store)
    # In memory the messages are acknowledged and not redelivered; no receipt was sent.
    assert subscription.cursor.mark_delete_position == (3, 1)
    assert subscription.durable_mark_delete_position == (3, -1)
    assert Subscription.load("Shared", store, subscription.cursor.ledgers).cursor.backlog_entries == 5
    store.fails = False
    assert subscription.save(store) == [Receipt("a", 77)]
    assert subscription.durable_mark_delete_position == (3, 1)
    assert subscription.save(store) == []
    assert Subscription.load("Shared", store, subscription.cursor.ledgers).cursor.backlog_entries == 3


def test_25533_redelivery_counts_survive_a_restart() -> None:
    """apache/pulsar#25533: a broker forgot them, so that no message ever became a dead letter."""
    subscription = opened("Shared", 3, max_redeliver_count=2)
    for _ in range(2):
        deliver(subscription)
        subscription.redeliver("a", [(3, 1)])
    again = restarted(subscription, MemoryStore())
    assert [again.redelivery_count(3, entry) for entry in range(3)] == [0, 2, 0]


def test_a_message_redelivered_too_often_is_a_dead_letter_also_after_a_restart() -> None:
    store = MemoryStore()
    settings = SubscriptionSettings(max_redeliver_count=1)
    subscription = Subscription("Shared", Ledgers({3: 2}), settings=settings)
    for _ in range(3):
        subscription.add_consumer("a")
        subscription.flow("a", 100)
        delivered = deliver(subscription)
        subscription.redeliver("a", [(3, 0)])
        subscription.save(store)
        subscription = Subscription.load("Shared", store, subscription.cursor.ledgers, settings=settings)
    # Delivered twice, then a dead letter, which waits to be written elsewhere and acknowledged.
    assert delivered == {"a": [1]}
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    assert deliver(subscription) == {"a": [1]}
    assert subscription.dead_letters == [(3, 0)]
    subscription.ack(None, 3, 0)
    assert subscription.dead_letters == []
    assert subscription.cursor.mark_delete_position == (3, 0)
    subscription.validate()
