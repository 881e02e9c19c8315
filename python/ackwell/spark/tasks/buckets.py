"""Fold a micro-batch into partials for each bucket of topics, and merge them with the stored partials."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell.replay.columns import (
    CURSOR_SCHEMA,
    PARTIAL_SCHEMA,
    BatchReader,
    cursor_batches,
    merge_rows,
    partial_batches,
)
from ackwell.replay.fold import Fold
from ackwell.spark.tasks.fold_rows import with_lists

FOLDED: Final = "bucket int, payload binary"
"""The columns of `BucketFold`: a bucket, and its partials as an Arrow stream of the table `PARTIALS`."""

PACKED: Final = "payload binary"
"""The column with cursors, as an Arrow stream of the table `CURSORS`."""

YOUNG_BYTES_MAX: Final = 256 * 1024
"""The maximum size of the young blob in bytes. Every micro-batch with events of the bucket rewrites this
blob."""

_FOLDED_SCHEMA: Final = pa.schema([("bucket", pa.int32()), ("payload", pa.binary())])
_LAST_EVENT: Final = pa.field("last_event_ms", pa.int64())
_YOUNG: Final = 0

Name = tuple[str, str]
Key = TypeVar("Key")


class BucketFold:
    """Folds the events of a micro-batch into partials. Each result row has the partials of one bucket."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches of events, and yield rows of the table `FOLDED`."""
        fold, reader = Fold(), BatchReader()
        for batch in batches:
            if batch.num_rows:
                fold.feed(reader.columns(with_lists(batch)))
        fold.raise_flaw(all_flaws=False)
        parts = list(partial_batches(fold))
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        encoded = table.column("topic").combine_chunks().dictionary_encode()
        of_topic = np.array(
            [zlib.crc32(topic.encode()) % self._buckets for topic in encoded.dictionary.to_pylist()], np.int32
        )
        buckets = of_topic[encoded.indices.to_numpy(zero_copy_only=False)]
        table = table.take(pa.array(np.argsort(buckets, kind="stable")))
        numbers, starts = np.unique(np.sort(buckets), return_index=True)
        ends = [*starts[1:].tolist(), len(buckets)]
        payloads = [
            packed(table.slice(start, end - start).combine_chunks().to_batches(), PARTIAL_SCHEMA)
            for start, end in zip(starts.tolist(), ends, strict=True)
        ]
        yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(payloads)], schema=_FOLDED_SCHEMA)


class Bucket:
    """The state of the topics in one bucket: numbered blobs of partials.

    Blob 0 is the young blob (see `ackwell.spark.stream`).
    """

    def __init__(self, blobs: Mapping[int, bytes]) -> None:
        self._tables = {number: _unpacked(blob) for number, blob in blobs.items()}
        self._changed: set[int] = set()
        self._touched: set[Name] = set()

    def join(self, payloads: Iterable[bytes], last_event_ms: int | None) -> None:
        """Merge the partials of a micro-batch into the young blob.

        If the young blob becomes too large, its older partials move to a new blob.
        """
        arrived = pa.concat_tables(_unpacked(payload) for payload in payloads)
        self._touched.update(_names(arrived))
        times = pa.array([last_event_ms] * arrived.num_rows, pa.int64())
        arrived = arrived.append_column(_LAST_EVENT, times)
        young = self._tables.get(_YOUNG)
        merged = _merge_rows([arrived] if young is None else [young, arrived], last_event_ms)
        if merged.nbytes > YOUNG_BYTES_MAX:
            # The partials of this micro-batch stay in the young blob, because they are the most likely to
            # change again.
            number = max(self._tables, default=_YOUNG) + 1
            again = _among(merged, arrived)
            old, merged = merged.filter(pc.invert(again)), merged.filter(again)
            if not old.num_rows or merged.nbytes > YOUNG_BYTES_MAX:
                old, merged = pa.concat_tables([old, merged]), merged.slice(0, 0)
            self._tables[number] = old
            self._changed.add(number)
        self._tables[_YOUNG] = merged
        self._changed.add(_YOUNG)

    def cursors(self) -> Iterator[bytes]:
        """Yield the cursors of the subscriptions that the micro-batch changed, encoded as Arrow streams."""
        topics = {topic for topic, subscription in self._touched if not subscription}
        fold = Fold()
        for table in self._tables.values():
            wanted = np.array(
                [not name[1] or name[0] in topics or name in self._touched for name in _names(table)], bool
            )
            for batch in table.select(PARTIAL_SCHEMA.names).filter(pa.array(wanted)).to_batches():
                merge_rows(fold, batch)
        for batch in cursor_batches(fold):
            yield packed([batch], CURSOR_SCHEMA)

    def forget(self, before_ms: int) -> None:
        """Delete subscriptions without an event after `before_ms`, and topics without subscriptions."""
        gone = {name for name, at_ms in self._last_events().items() if at_ms <= before_ms}
        if not gone:
            return
        for number, table in self._tables.items():
            kept = [name not in gone for name in _names(table)]
            if not all(kept):
                self._tables[number] = table.filter(pa.array(kept, pa.bool_()))
                self._changed.add(number)

    def oldest_event_ms(self) -> int | None:
        """Find the subscription or topic that has had no event for the longest time.

        Return the time of its last event, in ms. Return None if the bucket is empty.
        """
        return min(self._last_events().values(), default=None)

    def _last_events(self) -> dict[Name, int]:
        """Return the time of the last event of each subscription and of each topic, in ms.

        An event of a topic counts for all subscriptions of the topic. An event of a subscription counts for
        its topic, too, because the acknowledgments of the subscription need the entries of the topic.
        """
        latest = _latest(self._tables.values(), _names)
        of_topics = {topic: at_ms for (topic, name), at_ms in latest.items() if not name}
        last: dict[str, int] = {}
        for (topic, _), at_ms in latest.items():
            last[topic] = max(last.get(topic, 0), at_ms)
        return {
            (topic, name): max(at_ms, of_topics.get(topic, 0)) if name else last[topic]
            for (topic, name), at_ms in latest.items()
        }

    def changed_blobs(self) -> dict[int, bytes | None]:
        """Return the blobs that changed, by number; None for a blob that is now empty."""
        return {
            number: packed(self._tables[number].to_batches(), self._tables[number].schema)
            if self._tables[number].num_rows
            else None
            for number in sorted(self._changed)
        }


def _merge_rows(tables: list[pa.Table], last_event_ms: int | None) -> pa.Table:
    """Merge partials into one row for each (topic, subscription, ledger).

    Each row has the time of the last event of its partials.
    """
    fold = Fold()
    for table in tables:
        for batch in table.select(PARTIAL_SCHEMA.names).to_batches():
            merge_rows(fold, batch)
    merged = pa.Table.from_batches(partial_batches(fold), PARTIAL_SCHEMA)
    if last_event_ms is None:
        return merged.append_column(_LAST_EVENT, pa.nulls(merged.num_rows, pa.int64()))
    latest = _latest(tables, _ledgers)
    times = [latest.get(key, last_event_ms) for key in _ledgers(merged)]
    return merged.append_column(_LAST_EVENT, pa.array(times, pa.int64()))


def _latest(tables: Iterable[pa.Table], keys_of: Callable[[pa.Table], list[Key]]) -> dict[Key, int]:
    """Return the time of the last event of each key in the tables, in ms; 0 if the time is unknown."""
    latest: dict[Key, int] = {}
    for table in tables:
        for key, at_ms in zip(keys_of(table), table.column(_LAST_EVENT.name).to_pylist(), strict=True):
            latest[key] = max(latest.get(key, 0), at_ms or 0)
    return latest


def _among(rows: pa.Table, others: pa.Table) -> pa.Array:
    """Return, for each row of `rows`, whether its (topic, subscription, ledger) is in `others`."""
    keys = set(_ledgers(others))
    return pa.array([key in keys for key in _ledgers(rows)], pa.bool_())


def _names(table: pa.Table) -> list[Name]:
    """Return the pair (topic, subscription) of each row."""
    return list(zip(*_lists(table, "topic", "subscription"), strict=True))


def _ledgers(table: pa.Table) -> list[tuple[str, str, int]]:
    """Return the triple (topic, subscription, ledger id) of each row."""
    return list(zip(*_lists(table, "topic", "subscription", "ledger_id"), strict=True))


def _lists(table: pa.Table, *names: str) -> Iterator[list[Any]]:
    return (table.column(name).to_pylist() for name in names)


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode batches as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(blob: bytes) -> pa.Table:
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


def unpack_cursors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the Arrow streams of cursors to rows of the table `CURSORS`."""
    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            yield from _unpacked(payload).to_batches()
