"""The pump: brings what a subscription decides to its consumers' connections.

It reads the positions that the subscription names, shows it what the entries say of themselves, and writes
each entry to the consumer that the subscription chose. Nothing here decides who gets what.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from ackwell.ack_sets import from_words
from ackwell.position import Position
from ackwell.protocol.hot import message_frame, message_frames
from ackwell.replay.events import Kind
from ackwell.subscription.consumer import NO_EPOCH
from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.devbroker.entries import Entry
    from ackwell.devbroker.subscriptions import Subscriber, TopicSubscription
    from ackwell.subscription import Delivery
    from ackwell.subscription.consumer import ConsumerKey

READ_MAX: Final = 1_000
"""Entries read at a time; a consumer's default queue holds as many messages."""


def deliver(source: TopicSubscription) -> None:
    """Deliver what can be delivered, and come back when a delay is over."""
    if not source.waits:
        _pump(source)
    if not source.topic.name.persistent:
        # Nothing waits there, and nothing comes again.
        source.subscription.clear_backlog()
        return
    due_ms = source.subscription.next_wakeup_ms()
    if due_ms is not None and source.consumers:
        source.topic.broker.wake_at(source, due_ms)


def _pump(source: TopicSubscription) -> None:
    """Deliver all that can be delivered now."""
    before: tuple[object, ...] | None = None
    while source.consumers and all(each.connection.writable for each in source.consumers.values()):
        wanted = sum(max(each.permits, 0) for each in source.consumers.values())
        limit = max(min(READ_MAX, wanted), 1)
        round_ = _read(source, limit)
        if round_ is None:
            continue
        places, entries = round_
        delivered = _dispatch(source, places, entries) if places else False
        now = (places[0], len(places), limit) if places else None
        if now is None or (not delivered and now == before):
            return
        before = now


def _read(source: TopicSubscription, limit: int) -> tuple[list[tuple[int, int]], list[Entry]] | None:
    """Read what comes next, up to where the topic may be read; None after skipping what is no message."""
    topic = source.topic
    ledger_ids, entry_ids = source.subscription.next_reads_many(limit, topic.clock.now_ms())
    places = list(zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True))
    if topic.transactions.held_from is not None:
        held_from = topic.transactions.held_from
        places = [place for place in places if place < held_from]
    entries = [topic.log.read(*place) for place in places]
    skipped = source.no_messages(places, entries)
    for place in skipped:
        source.acknowledge_unseen(place)
    return None if skipped else (places, entries)


def _dispatch(source: TopicSubscription, places: list[tuple[int, int]], entries: list[Entry]) -> bool:
    """Let the subscription choose, and write; return whether anybody got anything."""
    subscription, now_ms = source.subscription, source.topic.clock.now_ms()
    hashes = source.key_hashes(entries)
    deliver_at = source.delivery_times(entries)
    if len(places) == 1:
        (place,), (entry,) = places, entries
        key = subscription.dispatch(
            *place,
            now_ms,
            batch_size=entry.batch_size,
            sticky_key_hash=hashes[0] if hashes else 0,
            deliver_at_ms=deliver_at[0] if deliver_at else 0,
        )
        if isinstance(key, Undelivered):
            return False
        ack_set = subscription.ack_set(*place) if entry.batch_size > 1 else None
        _send(source, key, place, entry, subscription.redelivery_count(*place), ack_set or ())
        return True
    by_place = dict(zip(places, entries, strict=True))
    sizes = [entry.batch_size for entry in entries]
    deliveries = subscription.dispatch_many(
        [place[0] for place in places],
        [place[1] for place in places],
        now_ms,
        batch_sizes=sizes if max(sizes) > 1 else None,
        sticky_key_hashes=hashes,
        deliver_at_ms=deliver_at,
    )
    for delivery in deliveries:
        _deliver(source, delivery, by_place)
    return bool(deliveries)


def _deliver(source: TopicSubscription, delivery: Delivery, entries: dict[tuple[int, int], Entry]) -> None:
    """Write a run of entries to its consumer."""
    consumer = source.consumers[delivery.consumer]
    ledger_ids, entry_ids = delivery.ledger_ids.tolist(), delivery.entry_ids.tolist()
    places = list(zip(ledger_ids, entry_ids, strict=True))
    counts = None if delivery.redelivery_counts is None else delivery.redelivery_counts.tolist()
    if delivery.ack_sets or consumer.epoch != NO_EPOCH or (counts and any(counts)):
        for place, count in zip(places, counts or repeat(0)):  # noqa: B905  # what repeats has no end
            ack_set = delivery.ack_sets.get(Position(*place), ())
            _send(source, delivery.consumer, place, entries[place], count, ack_set)
        return
    run = [entries[place] for place in places]
    payloads = [entry.data for entry in run]
    sizes = [entry.batch_size for entry in run]
    _count(source, consumer, len(run), sum(sizes), sum(map(len, payloads)))
    frames = message_frames(consumer.consumer_id, ledger_ids, entry_ids, payloads, source.topic.partition)
    consumer.connection.send_messages(consumer, frames)
    source.record_run(Kind.DISPATCH, consumer, ledger_ids, entry_ids, sizes, counts)


def _count(source: TopicSubscription, consumer: Subscriber, entries: int, messages: int, nbytes: int) -> None:
    consumer.permits -= messages
    consumer.messages_out += messages
    average = messages / entries
    consumer.messages_per_entry = (
        round(0.9 * consumer.messages_per_entry + 0.1 * average)
        if consumer.messages_per_entry
        else round(average)
    )
    consumer.bytes_out += nbytes
    source.messages_out += messages
    source.bytes_out += nbytes


def _send(
    source: TopicSubscription,
    key: ConsumerKey,
    place: tuple[int, int],
    entry: Entry,
    count: int,
    ack_set: Sequence[int],
) -> None:
    """Write one entry to its consumer."""
    consumer = source.consumers[key]
    messages = from_words(ack_set).bit_count() if ack_set else entry.batch_size
    _count(source, consumer, 1, messages, len(entry.data))
    if count:
        consumer.redelivered += messages
    data = message_frame(
        consumer.consumer_id,
        *place,
        entry.data,
        partition=source.topic.partition,
        redelivery_count=count,
        ack_set=ack_set,
        epoch=consumer.epoch if consumer.epoch != NO_EPOCH else None,
    )
    consumer.connection.send_messages(consumer, (data,))
    source.record(
        Kind.DISPATCH,
        place,
        consumer=consumer.name,
        batch_size=entry.batch_size,
        ack_set=tuple(ack_set) or None,
        redelivery_count=count,
    )
