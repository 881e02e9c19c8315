"""The ordered replay: pending acknowledgments by consumer at given times.

One exchange and one sort order the events of each topic, which are then streamed. A task holds the
subscriptions of one topic at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.replay import table_schemas
from ackwell.spark.schema import MOMENTS, conform
from ackwell.spark.tasks import moment_rows as tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def ordered_replay(events: DataFrame, at_ms: Sequence[int] = (), *, strict: bool = False) -> DataFrame:
    """Replay events in order; return pending acknowledgments by consumer, and redeliveries, at given times.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`. If several rows have the same file and
        sequence, only one of them counts.
    at_ms
        Moments, in ms since the epoch. Each subscription has a row for each moment after its first event,
        with the state after all events up to the moment. A further row has the state at the end.
    strict
        Fail for the first subscription with invalid events, instead of returning its `error`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.MOMENTS`.

    Deliveries are taken from the events, not dispatched again. The acknowledgments are those of `replay` for
    the events up to the moment. A subscription with invalid events (an unreadable event, an acknowledgment of
    an entry that was never published) has an `error` in its row. The others are not affected.
    """
    moments = sorted(set(at_ms))

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from tasks.follow_batches(batches, moments, strict=strict)

    table = conform(events, table_schemas.EVENTS, "events")
    return (
        table.withColumn("file", F.coalesce("file", F.lit("")))
        .withColumn("subscription", F.coalesce("subscription", F.lit("")))
        .repartition("topic")
        .sortWithinPartitions("topic", "file", "sequence", "subscription")
        .mapInArrow(follow, MOMENTS)
    )
