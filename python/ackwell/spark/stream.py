"""Cursors of a stream of events: rows are folded in each micro-batch, and joined with the state before.

Raw rows are folded before the shuffle. Subscriptions are kept in buckets, by topic: a bucket's partials
are folded, joined and given out by one native call, so a micro-batch costs the same whether it touches 200
subscriptions or 20,000. State is written like a log: a micro-batch writes a *young* blob of what it
touched lately, and what the young blob has no room for goes into blobs that are never written again.
Partials merge in any order and twice, so late and duplicate events are harmless, and nothing need be taken
out of an old blob.

Order matters for seeks alone: a subscription that has them must come in order and by one task (one
partition of a topic, one file), and a cleared backlog must name its position. What cannot be folded is the
`error` of its subscription, and the stream continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ackwell.spark.schema import CURSORS, python_rows
from ackwell.spark.tasks import buckets as tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_BUCKETS = 64
"""Buckets of topics: more than the cores, for a task works on one at a time; each costs some ms."""


def cursor_stream(
    events: DataFrame, *, forget_after: timedelta | None = None, buckets: int = _BUCKETS
) -> DataFrame:
    """Follow a stream of events: after each micro-batch, the cursor of every subscription it touched.

    Parameters
    ----------
    events
        A streaming DataFrame with the columns of `ackwell.spark.schema.EVENTS`.
    forget_after
        Forget a subscription of which nothing was heard for so long, and nothing of its topic as a whole,
        in the first micro-batch after it; never where `None`. Set
        `spark.sql.streaming.noDataMicroBatches.enabled` to false, as `local_session` does, or Spark runs
        empty micro-batches without end.
    buckets
        Into how many parts the topics are cut; part of the checkpoint, as the number of shuffle partitions
        is.

    Returns
    -------
    DataFrame
        A streaming one with the columns of `ackwell.spark.schema.CURSORS`. The caller owns
        `writeStream`: output mode `update`, and a checkpoint location, to which the number of shuffle
        partitions is frozen (two to four times the cores, set before the first start).

    It needs the RocksDB state store, which `local_session` sets.
    """
    rows = python_rows(events)
    forget_after_ms = None if forget_after is None else int(forget_after.total_seconds() * 1000)
    fold = tasks.FoldBuckets(buckets)
    return (
        rows.mapInArrow(lambda batches: fold(batches), tasks.FOLDED)
        .groupBy("bucket")
        .transformWithState(
            _Bucket(forget_after_ms),
            outputStructType=tasks.PACKED,
            outputMode="Update",
            timeMode="None" if forget_after is None else "ProcessingTime",
        )
        .mapInArrow(tasks.unpack_cursors, CURSORS)
    )


class _Bucket(StatefulProcessor):
    """The state of the topics of one bucket: blobs of partials by number, the young one first."""

    def __init__(self, forget_after_ms: int | None) -> None:
        self._forget_after_ms = forget_after_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._blobs = handle.getMapState("blobs", "number int", "blob binary")
        self._expiry = handle.getValueState("expiry", "time_ms bigint")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[int],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Join the micro-batch's partials into the state, and return the cursors that it touched."""
        now_ms = None if self._forget_after_ms is None else timerValues.getCurrentProcessingTimeInMs()
        bucket = self._bucket()
        bucket.join((bytes(row.payload) for row in rows), now_ms)
        # Afterwards: what this micro-batch speaks of is not forgotten.
        self._forget(bucket, now_ms)
        self._store(bucket)
        self._wait(bucket, now_ms)
        for payload in bucket.cursors():
            yield Row(payload=payload)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Forget the subscriptions of which nothing was heard."""
        self._expiry.clear()
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        bucket = self._bucket()
        self._forget(bucket, now_ms)
        self._store(bucket)
        self._wait(bucket, now_ms)
        yield from ()

    def close(self) -> None:
        """There is nothing to close."""

    def _bucket(self) -> tasks.Bucket:
        return tasks.Bucket({key[0]: bytes(value[0]) for key, value in list(self._blobs.iterator())})

    def _forget(self, bucket: tasks.Bucket, now_ms: int | None) -> None:
        if self._forget_after_ms is not None and now_ms is not None:
            bucket.forget(now_ms - self._forget_after_ms)

    def _store(self, bucket: tasks.Bucket) -> None:
        for number, blob in bucket.changed().items():
            if blob is None:
                self._blobs.removeKey((number,))
            else:
                self._blobs.updateValue((number,), (blob,))

    def _wait(self, bucket: tasks.Bucket, now_ms: int | None) -> None:
        """Have a timer for the subscription whose last event is the oldest."""
        if self._forget_after_ms is None or now_ms is None or self._expiry.exists():
            return
        first_ms = bucket.oldest_event_ms()
        if first_ms is not None:
            expiry_ms = max(first_ms + self._forget_after_ms, now_ms + 1)
            self._handle.registerTimer(expiry_ms)
            self._expiry.update((expiry_ms,))
