"""Cursors of a stream of events: each micro-batch is folded and merged with the stored state.

Rows are folded before the shuffle. Topics, with their subscriptions, are divided into buckets. One native
call merges all partials of a bucket, so a micro-batch costs the same for 200 subscriptions as for 20,000.

The state of a bucket is written like a log. Each micro-batch writes a *young* blob with the partials that
changed recently. When the young blob is full, its older partials move to another blob that is never
rewritten. Partials can be merged in any order and more than once. So late and duplicate events are harmless,
and outdated partials in old blobs need not be deleted.

Order matters only for seeks. The events of a subscription with seeks must arrive in order and in one task
(one partition of a topic, one file), and the event of a cleared backlog must have a position. An invalid
event becomes the `error` of its subscription, and the stream continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from ackwell.spark.schema import CURSORS, python_rows
from ackwell.spark.tasks import buckets as tasks
from ackwell.spark.versions import is_at_least, require_spark

require_spark("4.0", "a stream of cursors", "fold batches with ackwell.spark.partials, and merge them")

from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # noqa: E402 - Spark 3.5 lacks it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_BUCKETS = 64
"""The default number of buckets. A task processes one bucket at a time, so there should be more buckets than
cores. Each bucket costs some milliseconds in a micro-batch."""


def cursor_stream(
    events: DataFrame, *, forget_after: timedelta | None = None, buckets: int = _BUCKETS
) -> DataFrame:
    """Return the cursors of a stream of events. Each micro-batch gives the cursors that it changed.

    Parameters
    ----------
    events
        A streaming DataFrame with the columns of `ackwell.spark.schema.EVENTS`.
    forget_after
        The time after which the state of a subscription is deleted if neither the subscription nor its topic
        has had an event. The first micro-batch after this time deletes it. With None, no state is deleted.
        Set `spark.sql.streaming.noDataMicroBatches.enabled` to false, as `local_session` does. Otherwise
        Spark runs empty micro-batches without end.
    buckets
        The number of buckets into which topics are divided. After the first start it cannot be changed,
        because the checkpoint depends on it. The same is true of the number of shuffle partitions.

    Returns
    -------
    DataFrame
        A streaming DataFrame with the columns of `ackwell.spark.schema.CURSORS`. Write it by `writeStream`
        with output mode `update` and a checkpoint location. Before the first start, set the number of shuffle
        partitions to two to four times the number of cores.

    The stream needs the RocksDB state store, which `local_session` sets, and the package protobuf.
    """
    rows = python_rows(events)
    forget_after_ms = None if forget_after is None else int(forget_after.total_seconds() * 1000)
    fold = tasks.BucketFold(buckets)
    of_buckets = rows.mapInArrow(lambda batches: fold(batches), tasks.FOLDED).groupBy("bucket")
    if is_at_least("4.1"):
        transform, processor = of_buckets.transformWithState, _BucketProcessor(forget_after_ms)
    else:
        transform, processor = of_buckets.transformWithStateInPandas, _PandasBucket(forget_after_ms)
    return transform(
        processor,
        outputStructType=tasks.PACKED,
        outputMode="Update",
        timeMode="None" if forget_after is None else "ProcessingTime",
    ).mapInArrow(tasks.unpack_cursors, CURSORS)


class _BucketProcessor(StatefulProcessor):
    """The processor of one bucket of topics. Its state is a map from a number to a blob of partials.

    Number 0 is the young blob.
    """

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
        """Merge the partials of a micro-batch into the state, and yield the changed cursors."""
        now_ms = None if self._forget_after_ms is None else timerValues.getCurrentProcessingTimeInMs()
        bucket = self._bucket()
        bucket.join((bytes(row.payload) for row in rows), now_ms)
        # Subscriptions are deleted after the join, so those of this micro-batch stay.
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
        """Delete the subscriptions that had no event for the time `forget_after`. Yield no rows."""
        self._expiry.clear()
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        bucket = self._bucket()
        self._forget(bucket, now_ms)
        self._store(bucket)
        self._wait(bucket, now_ms)
        yield from ()

    def close(self) -> None:
        """Do nothing, because there are no resources to close."""

    def _bucket(self) -> tasks.Bucket:
        return tasks.Bucket({key[0]: bytes(value[0]) for key, value in list(self._blobs.iterator())})

    def _forget(self, bucket: tasks.Bucket, now_ms: int | None) -> None:
        if self._forget_after_ms is not None and now_ms is not None:
            bucket.forget(now_ms - self._forget_after_ms)

    def _store(self, bucket: tasks.Bucket) -> None:
        for number, blob in bucket.changed_blobs().items():
            if blob is None:
                self._blobs.removeKey((number,))
            else:
                self._blobs.updateValue((number,), (blob,))

    def _wait(self, bucket: tasks.Bucket, now_ms: int | None) -> None:
        """Set a timer for the time at which the first subscription can be deleted, unless a timer is set."""
        if self._forget_after_ms is None or now_ms is None or self._expiry.exists():
            return
        first_ms = bucket.oldest_event_ms()
        if first_ms is not None:
            expiry_ms = max(first_ms + self._forget_after_ms, now_ms + 1)
            self._handle.registerTimer(expiry_ms)
            self._expiry.update((expiry_ms,))


class _PandasBucket(_BucketProcessor):
    """The processor of one bucket on Spark 4.0, which passes pandas DataFrames instead of rows."""

    def handleInputRows(self, key: tuple[int], rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Do the same as `_BucketProcessor.handleInputRows` with pandas DataFrames."""
        import pandas as pd

        given = (row for frame in rows for row in frame.itertuples())
        for row in super().handleInputRows(key, given, timerValues):
            yield pd.DataFrame({"payload": [row.payload]})
