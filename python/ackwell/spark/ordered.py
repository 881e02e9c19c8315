"""The ordered replay: the pending entries of each consumer at given times.

Spark repartitions the events by topic once and sorts the events of each topic. A task then reads them as a
stream, and holds the subscriptions of one topic at a time.
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
    """Replay events in order; return the pending entries and redeliveries of consumers at given times.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`. If several rows have the same `file`
        and `sequence`, only one of them counts.
    at_ms
        The times for which the state is returned, in ms since the epoch. Each subscription has a row for each
        of these times after its first event, with the state after all events up to this time. A further row
        has the state after the last event.
    strict
        If true, the query fails at the first subscription with invalid events. If false, the row of the
        subscription has an `error`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.MOMENTS`.

    The consumer of a message is the one in the recorded delivery; nothing is dispatched again. The
    acknowledgments are those of `replay` for the events up to the moment. A subscription with invalid events
    (an unreadable event, an acknowledgment of an entry that was never published) has an `error` in its row.
    Other subscriptions are not affected.
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
