"""Inputs of the tasks of executors. This module does not import PySpark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ackwell.replay.columns import with_columns
from ackwell.replay.parquet import ParquetEvents, RowGroups


def shares_of(folder: Path, count: int) -> list[list[RowGroups]]:
    """Distribute the row groups of Parquet files to `count` tasks."""
    shares: list[list[RowGroups]] = [[] for _ in range(count)]
    for path in sorted(map(str, folder.glob("*.parquet"))):
        with ParquetEvents(path) as events:
            groups = range(len(events.survey().group_bytes))
        for number, share in enumerate(shares):
            share.append(RowGroups(path, tuple(groups[number::count])))
    return shares


def with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert ack sets to the texts that the JVM passes."""
    sets = batch.column("ack_set").to_pylist()
    texts = [None if words is None else ",".join(map(str, words)) for words in sets]
    return with_columns(batch, {"ack_set": pa.array(texts, pa.string())})
