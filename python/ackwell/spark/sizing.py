"""The sizes of indexes of delayed messages for recorded traffic, and the bucket width to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from ackwell.replay import table_schemas
from ackwell.replay.events import Kind
from ackwell.spark.schema import SIZING, conform
from ackwell.spark.tasks.index_sizes import of_sorted, sizing_function
from ackwell.spark.versions import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WIDTHS_MS: Final = (1, 64, 1_024, 16_384, 262_144)
"""The default bucket widths in ms, from exact times to four minutes. For comparison, Pulsar's default tick of
1,000 ms makes buckets of 512 ms."""


def delayed_sizing(events: DataFrame, widths_ms: Sequence[int] | None = None) -> DataFrame:
    """Return the size of each index of delayed messages, for each subscription and bucket width.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`. Only publishes with a `deliver_at_ms`
        are used. Duplicates count once.
    widths_ms
        The bucket widths to measure, in ms, each at least 1. The default is `WIDTHS_MS`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.SIZING`, a row for each subscription and width. Each size
        is measured when all delayed messages of the recording are in the index. In operation an index also
        removes messages, so its size is at most the measured one.

    A task holds all delayed messages of one subscription, some tens of bytes each.
    """
    widths = sorted(set(widths_ms or WIDTHS_MS))
    if not widths or widths[0] < 1:
        raise ValueError(f"widths are at least 1 ms, got {widths}")
    columns = ("topic", "subscription", "time_ms", "ledger_id", "entry_id", "deliver_at_ms")
    delayed = (
        conform(events, table_schemas.EVENTS, "events")
        .where((F.col("kind") == Kind.PUBLISH.value) & F.col("deliver_at_ms").isNotNull())
        .where(F.col("time_ms").isNotNull())
        .select(*columns)
        # An entry has one delivery time, regardless of its batch size and the number of its events.
        .dropDuplicates(["topic", "subscription", "ledger_id", "entry_id"])
    )
    measure = sizing_function(widths)
    names = ("topic", "subscription")
    if is_at_least("4.1"):
        return delayed.groupBy(*names).applyInArrow(measure, SIZING)
    # Spark 4.0 would pass all rows of a subscription at once, and 3.5 has no such method.
    sorted_rows = delayed.repartition(*names).sortWithinPartitions(*names)
    return sorted_rows.mapInArrow(of_sorted(measure), SIZING)
