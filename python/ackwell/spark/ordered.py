"""The ordered path: who held what, and when; each topic's events in their order.

The events are sorted, one exchange and one sort, and streamed. A task holds the subscriptions of one topic
at a time.
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
    """Replay events in order: pending acknowledgments by consumer, redeliveries, at given times.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`. A row that is there twice, by file
        and sequence, counts once.
    at_ms
        Moments, in ms since the epoch: a row for the state after all events up to each, from the first event
        of the subscription on. The end has a row of its own.
    strict
        Fail for the first subscription whose events lead nowhere, instead of giving its `error`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.MOMENTS`.

    Who received what is taken from the events, not decided again. What is acknowledged is what `replay`
    says of the events up to the moment. A subscription whose events lead nowhere (an event that cannot be
    read, an acknowledgment of what was never published) has its `error` in its row, and the others go on.
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
