"""The pump: sends the entries of a subscription to its consumers' connections.

The subscription makes every dispatch decision: it returns the positions to read, and it selects a consumer
for each entry. The pump reads the entries, gives their batch sizes, key hashes and delivery times to the
subscription, and writes each entry to the connection of the selected consumer.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from ackwell.cursor.ack_sets import from_words
from ackwell.position import Position
from ackwell.protocol.fast_frames import message_frame, message_frames
from ackwell.replay.events import Kind
from ackwell.subscription.consumer import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.devbroker.entry import LogEntry
    from ackwell.devbroker.subscriptions import ConnectedConsumer, TopicSubscription
    from ackwell.subscription import Delivery
    from ackwell.subscription.consumer import ConsumerKey

READ_MAX: Final = 1_000
"""The maximum number of entries that are read at a time: the default queue size of a consumer."""

READ_BYTES_MAX: Final = 5 << 20
"""The maximum number of bytes that are read at a time (`dispatcherMaxReadSizeBytes`). At least one entry is
read."""


def deliver(source: TopicSubscription) -> None:
    """Deliver all deliverable entries.

    Schedule a wake-up for the time at which the next delayed entry is due.
    """
    if not source.is_in_failover_delay:
        _pump(source)
    if not source.content.name.persistent:
        # A non-persistent topic does not store entries. An entry that was not sent to a consumer is lost.
        source.subscription.clear_backlog()
        return
    if source.content.facts and source.content.terminated:
        source.notify_end()
    due_ms = source.subscription.next_wakeup_ms()
    if due_ms is not None and source.consumers:
        source.content.shared.wake_at(source, due_ms)


def _pump(source: TopicSubscription) -> None:
    """Deliver all entries that can be delivered now."""
    before: tuple[object, ...] | None = None
    while source.consumers and all(each.connection.writable for each in source.consumers.values()):
        limit = max(min(READ_MAX, source.subscription.permits), 1)
        max_bytes = READ_BYTES_MAX
        if source.throttles:
            permitted, max_bytes = _permits(source, limit)
            if not (permitted and max_bytes):
                return
            limit = permitted
        batch = _read(source, limit, max_bytes)
        if batch is None:
            continue
        positions, entries = batch
        delivered = _dispatch(source, positions, entries) if positions else False
        progress = (positions[0], len(positions), limit) if positions else None
        if progress is None or (not delivered and progress == before):
            return
        before = progress


def _permits(source: TopicSubscription, limit: int) -> tuple[int, int]:
    """Return the maximum numbers of entries and bytes that the dispatch rates permit now.

    The number of entries is at most `limit`. If one of the numbers is 0, a wake-up is scheduled for the time
    at which the rates permit an entry again.
    """
    max_bytes = READ_BYTES_MAX
    for each in source.throttles:
        messages, nbytes = each.permits()
        limit, max_bytes = min(limit, messages), min(max_bytes, nbytes)
    if not (limit and max_bytes):
        ready_ms = max(each.ready_ms() for each in source.throttles)
        source.content.shared.wake_at(source, ready_ms)
    return limit, max_bytes


def _read(
    source: TopicSubscription, limit: int, max_bytes: int
) -> tuple[list[tuple[int, int]], list[LogEntry]] | None:
    """Return the next positions to deliver, and the entries at these positions.

    The positions end before the first entry of an open transaction. If some of the read entries are never
    delivered, acknowledge those entries and return None. The caller then calls this function again.
    """
    content = source.content
    ledger_ids, entry_ids = source.subscription.next_reads_many(limit, content.clock.now_ms())
    positions = list(zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True))
    if content.transactions.blocked_from is not None:
        held_from = content.transactions.blocked_from
        positions = [position for position in positions if position < held_from]
    entries = [content.log.read(*position) for position in positions]
    if content.log.largest_entry_bytes * len(entries) > max_bytes:
        count = _count_within(entries, max_bytes)
        del positions[count:], entries[count:]
    skipped = source.undeliverable(positions, entries)
    for position in skipped:
        source.ack_undeliverable(position)
    return None if skipped else (positions, entries)


def _count_within(entries: list[LogEntry], max_bytes: int) -> int:
    """Return how many of the first entries fit into `max_bytes` together; at least 1."""
    total = 0
    for count, entry in enumerate(entries):
        total += len(entry.data)
        if total > max_bytes:
            return max(count, 1)
    return len(entries)


def _dispatch(source: TopicSubscription, positions: list[tuple[int, int]], entries: list[LogEntry]) -> bool:
    """Dispatch entries to the consumers that the subscription selects. Return whether any entry was sent."""
    subscription, now_ms = source.subscription, source.content.clock.now_ms()
    hashes = source.key_hashes(entries)
    deliver_at = source.delivery_times(entries)
    if len(positions) == 1:
        (position,), (entry,) = positions, entries
        outcome = subscription.dispatch(
            position,
            now_ms=now_ms,
            batch_size=entry.batch_size,
            sticky_key_hash=hashes[0] if hashes else None,
            deliver_at_ms=deliver_at[0] if deliver_at else 0,
        )
        if outcome.consumer is None:
            return False
        ack_set = subscription.ack_set(*position) if entry.batch_size > 1 else None
        _send(
            source, outcome.consumer, position, entry, subscription.redelivery_count(*position), ack_set or ()
        )
        return True
    by_position = dict(zip(positions, entries, strict=True))
    sizes = [entry.batch_size for entry in entries]
    deliveries = subscription.dispatch_many(
        [position[0] for position in positions],
        [position[1] for position in positions],
        now_ms,
        batch_sizes=sizes if max(sizes) > 1 else None,
        sticky_key_hashes=hashes,
        deliver_at_ms=deliver_at,
    )
    for delivery in deliveries:
        _deliver(source, delivery, by_position)
    return bool(deliveries)


def _deliver(source: TopicSubscription, delivery: Delivery, entries: dict[tuple[int, int], LogEntry]) -> None:
    """Write all entries of one `Delivery` to the connection of its consumer."""
    consumer = source.consumers[delivery.consumer]
    ledger_ids, entry_ids = delivery.ledger_ids.tolist(), delivery.entry_ids.tolist()
    positions = list(zip(ledger_ids, entry_ids, strict=True))
    counts = None if delivery.redelivery_counts is None else delivery.redelivery_counts.tolist()
    if delivery.ack_sets or consumer.epoch != NO_EPOCH or source.reads_compacted or (counts and any(counts)):
        for position, count in zip(positions, counts or repeat(0)):  # noqa: B905  # `repeat` is endless
            ack_set = delivery.ack_sets.get(Position(*position), ())
            _send(source, delivery.consumer, position, entries[position], count, ack_set)
        return
    run = [entries[position] for position in positions]
    payloads = [entry.data for entry in run]
    sizes = [entry.batch_size for entry in run]
    nbytes = sum(map(len, payloads))
    _count(source, consumer, len(run), sum(sizes), nbytes)
    frames = message_frames(consumer.consumer_id, ledger_ids, entry_ids, payloads, source.content.partition)
    consumer.connection.send_messages(consumer, frames, nbytes)
    columns = (ledger_ids, entry_ids, sizes, counts) if counts else (ledger_ids, entry_ids, sizes)
    source.record_run(Kind.DISPATCH, consumer, *columns)


def _count(
    source: TopicSubscription, consumer: ConnectedConsumer, entries: int, messages: int, nbytes: int
) -> None:
    consumer.messages_out += messages
    consumer.consumed_ms = source.content.clock.now_ms()
    average = messages / entries
    consumer.messages_per_entry = (
        round(0.9 * consumer.messages_per_entry + 0.1 * average)
        if consumer.messages_per_entry
        else round(average)
    )
    consumer.bytes_out += nbytes
    source.messages_out += messages
    source.bytes_out += nbytes
    for each in source.throttles:
        each.use(messages, nbytes)


def _send(
    source: TopicSubscription,
    key: ConsumerKey,
    position: tuple[int, int],
    entry: LogEntry,
    count: int,
    ack_set: Sequence[int],
) -> None:
    """Write one entry to the connection of its consumer.

    An entry that a compacted read skips is not written.
    """
    consumer = source.consumers[key]
    messages = from_words(ack_set).bit_count() if ack_set else entry.batch_size
    if source.reads_compacted and source.content.is_compacted_out(position):
        # The entry stays unacknowledged, as in a Pulsar broker.
        source.subscription.flow(key, messages)
        return
    _count(source, consumer, 1, messages, len(entry.data))
    if count:
        consumer.redelivered += messages
    data = message_frame(
        consumer.consumer_id,
        *position,
        entry.data,
        partition=source.content.partition,
        redelivery_count=count,
        ack_set=ack_set,
        epoch=consumer.epoch if consumer.epoch != NO_EPOCH else None,
    )
    consumer.connection.send_messages(consumer, (data,), len(data))
    source.record(
        Kind.DISPATCH,
        position,
        consumer=consumer.name,
        batch_size=entry.batch_size,
        ack_set=tuple(ack_set) or None,
        redelivery_count=count,
    )
