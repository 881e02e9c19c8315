"""The events of a synthetic fleet as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ackwell.spark.schema import EVENTS
from benches.fleet import Fleet, chunk_events, chunks, shares

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def generate(spark: SparkSession, fleet: Fleet, *, tasks: int = 8) -> DataFrame:
    """Return a fleet's events; they are the same for any number of tasks."""
    work = shares(chunks(fleet), tasks)

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for chunk in work[index]:
                    yield chunk_events(fleet, chunk)

    return spark.range(0, len(work), 1, len(work)).mapInArrow(draw, EVENTS)
