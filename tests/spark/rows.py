"""Rows of `CURSORS` from local replay and from Spark, and their comparison."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ackwell.replay.columns import cursor_batches
from ackwell.replay.events import Kind
from ackwell.replay.states import Replay
from ackwell.spark.tasks.source_rows import to_batches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ackwell.replay.events import Event

Rows = dict[tuple[str, str], dict[str, Any]]


def local_rows(events: Iterable[Event]) -> Rows:
    """Return the rows of the in-process engine."""
    replay = Replay()
    for event in events:
        replay.feed(event)
    return by_name(row for batch in cursor_batches(replay.fold) for row in batch.to_pylist())


def by_name(rows: Iterable[dict[str, Any]]) -> Rows:
    return {(row["topic"], row["subscription"]): plain(row) for row in rows}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Convert bytes and maps to Python types, from Arrow or Spark rows."""
    changed = dict(row)
    for name in ("position_info", "compact", "batch_sizes"):
        changed[name] = None if row[name] is None else bytes(row[name])
    for name in ("batch_deleted", "ledgers"):
        changed[name] = None if row[name] is None else dict(row[name])
    return changed


def rows_of(table: DataFrame) -> Rows:
    return by_name(row.asDict() for row in table.collect())


def same(expected: Rows, found: Rows) -> None:
    """Compare column by column, for readable differences."""
    assert expected
    assert sorted(expected) == sorted(found)
    for name, row in expected.items():
        differing = {c: (row[c], found[name][c]) for c in row if row[c] != found[name][c]}
        assert differing == {}, name
        assert sorted(row) == sorted(found[name])


def parquet_of(
    spark: SparkSession, events: list[Event], path: Path, *, files: int = 3, seed: int = 0
) -> DataFrame:
    """Write events as Parquet: shuffled, in several files of small row groups, a tenth of them twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shuffled = events + events[::10]
    random.Random(seed).shuffle(shuffled)
    path.mkdir(parents=True)
    for number in range(files):
        part = shuffled[number::files]
        if part:
            table = pa.Table.from_batches(to_batches(part))
            pq.write_table(table, path / f"{number}.parquet", row_group_size=len(part) // 2 + 1)
    return spark.read.parquet(str(path))


def fields_of(event: Iterable[Any]) -> tuple[Any, ...]:
    """Return the fields of an event for `createDataFrame`: Spark 3.5 accepts no member of an enum."""
    return tuple(each.value if isinstance(each, Kind) else each for each in event)
