"""Every strategy equals the in-process engine, byte for byte, for any partitioning of the events.

The events are read as they are; then shuffled, a tenth of them twice, and split into other partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ackwell.replay.columns import cursor_batches
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import fold_files
from ackwell.spark import ordered_replay, read_events, replay
from benches.fleet import Fleet, chunk_events, chunks, write_fleet
from tests.shared import shared_folder
from tests.spark.rows import Rows, by_name, local_rows, rows_of, same

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

STRATEGIES: Final[tuple[Any, ...]] = ("files", "rows")
SHARED: Final = shared_folder("data/traces")
TRACES: Final = sorted((SHARED or Path("examples/traces").resolve()).rglob("*.jsonl*"))
LARGE_BYTES: Final = 500_000
LARGE: Final = [path for path in TRACES if path.stat().st_size > LARGE_BYTES]
"""Traces of one broker at different settings. `make test` uses one of them."""


def as_events(batches: Iterable[pa.RecordBatch]) -> Iterator[Event]:
    """Convert rows of the table `EVENTS` to events."""
    for batch in batches:
        for fields in batch.to_pylist():
            yield Event(**fields | {"kind": Kind(fields["kind"])})


def scattered(events: DataFrame, path: Path) -> DataFrame:
    """Write events shuffled, a tenth of them twice, into other files."""
    from pyspark.sql import functions as F  # noqa: N812

    again = events.sample(fraction=0.1, seed=1)
    shuffled = events.union(again).repartitionByRange(5, F.rand(2)).sortWithinPartitions(F.rand(3))
    shuffled.write.option("parquet.block.size", 1 << 20).parquet(str(path))
    return events.sparkSession.read.parquet(str(path))


def equal_by_every_strategy(expected: Rows, events: DataFrame, folder: Path) -> None:
    """Compare every strategy with the rows of the in-process engine."""
    same(expected, rows_of(replay(events, strategy="auto")))
    table = scattered(events, folder / "scattered")
    for strategy in STRATEGIES:
        same(expected, rows_of(replay(table, strategy=strategy)))


def equal_in_order(expected: Rows, events: DataFrame) -> None:
    """Compare the ordered replay, which has fewer cursor columns, with the same rows."""
    found = {(row.topic, row.subscription): row for row in ordered_replay(events).collect()}
    assert sorted(expected) == sorted(found)
    columns = ("mark_delete_ledger_id", "mark_delete_entry_id", "individually_deleted", "backlog_entries")
    for name, row in expected.items():
        assert [row[column] for column in columns] == [found[name][column] for column in columns], name


def expected_of(traces: list[Path]) -> Rows:
    return by_name(row for batch in cursor_batches(fold_files(traces)) for row in batch.to_pylist())


def generated(fleet: Fleet, events_min: int) -> Rows:
    """Return the rows of a fleet's generated events by the in-process engine."""
    counted = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal counted
        for chunk in chunks(fleet):
            batch = chunk_events(fleet, chunk)
            counted += batch.num_rows
            yield batch

    rows = local_rows(as_events(batches()))
    assert counted >= events_min
    assert len(rows) == fleet.subscriptions
    return rows


def test_recorded_and_generated_events_are_equal_by_every_strategy(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every strategy replays the recorded traces and 100,000 generated events in one table.

    Ten million generated events and all large traces in `make proof`.
    """
    traces = [path for path in TRACES if path not in LARGE[1:]]
    assert len(traces) > 8
    fleet = Fleet(subscriptions=12, entries=20_100, receives=True)
    expected = generated(fleet, 100_000)
    recorded = expected_of(traces)
    assert not set(expected) & set(recorded)
    write_fleet(fleet, tmp_path / "generated", files=3)
    made = spark.read.parquet(str(tmp_path / "generated"))
    equal_in_order(expected, made)
    read_events(spark, *map(str, traces)).unionByName(made).write.parquet(str(tmp_path / "events"))
    equal_by_every_strategy(recorded | expected, spark.read.parquet(str(tmp_path / "events")), tmp_path)


@pytest.mark.proof
def test_all_large_traces_are_equal_by_every_strategy(spark: SparkSession, tmp_path: Path) -> None:
    read_events(spark, *map(str, TRACES)).write.parquet(str(tmp_path / "events"))
    equal_by_every_strategy(expected_of(TRACES), spark.read.parquet(str(tmp_path / "events")), tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("subscriptions", "entries", "events_min"), [(12, 201_000, 1_000_000), (30, 2_100_000, 10_000_000)]
)
def test_millions_of_generated_events_are_equal_by_every_strategy(
    spark: SparkSession, subscriptions: int, entries: int, events_min: int, tmp_path: Path
) -> None:
    fleet = Fleet(subscriptions=subscriptions, entries=entries, receives=True)
    expected = generated(fleet, events_min)
    write_fleet(fleet, tmp_path / "events", files=3)
    events = spark.read.parquet(str(tmp_path / "events"))
    equal_by_every_strategy(expected, events, tmp_path)
    equal_in_order(expected, events)
