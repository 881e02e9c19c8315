"""The ordered path: who held what, and when; each subscription's events in sequence through `Subscription`.

Acknowledgments are a set, but pending acknowledgments and redeliveries are a story: here the events are
sorted, one exchange and one sort, and streamed. A task holds one subscription's state at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.replay import tables
from ackwell.spark.schema import MOMENTS, conform
from ackwell.spark.tasks import ordered as tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NAMES = ("topic", "subscription")


def ordered_replay(events: DataFrame, at_ms: Sequence[int] = ()) -> DataFrame:
    """Replay events in order: pending acknowledgments by consumer, redeliveries, at given times.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`. A row that is there twice, by file
        and sequence, counts once.
    at_ms
        Moments, in ms since the epoch: a row for the state after all events up to each. The end has a
        row of its own.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.MOMENTS`.

    What was received, by whom, is taken from the events, not decided again. Raises what local replay
    raises for an acknowledgment of what was never published.
    """
    moments = sorted(set(at_ms))

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from tasks.follow_batches(batches, moments)

    table = conform(events, tables.EVENTS, "events")
    return (
        table.withColumn("file", F.coalesce("file", F.lit("")))
        .repartition(*_NAMES)
        .sortWithinPartitions(*_NAMES, "file", "sequence")
        .mapInArrow(follow, MOMENTS)
    )
