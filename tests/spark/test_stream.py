"""Streams: micro-batches lead to the state of one replay, through restarts too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.events import Event, Kind
from ackwell.spark import cursor_stream
from ackwell.spark.reading import to_batches
from ackwell.spark.schema import EVENTS
from tests.spark.test_replay import Rows, local_rows, random_history, rows_of, same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_to_end(table: DataFrame, folder: Path) -> None:
    """Run a stream until its input is read; each micro-batch's rows become one Parquet folder."""

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"{number:06}"))

    query = (
        table.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(keep)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def last_rows(spark: SparkSession, folder: Path) -> Rows:
    """The last row of each subscription."""
    rows: Rows = {}
    for batch in sorted((folder / "out").iterdir()):
        rows |= rows_of(spark.read.parquet(str(batch)))
    return rows


def write_in_order(events: list[Event], folder: Path, *, files: int) -> None:
    """Files in time order, each subscription whole within one, some events again in the next."""
    folder.mkdir(parents=True, exist_ok=True)
    size = len(events) // files + 1
    for number in range(files):
        part = events[max(0, number * size - 20) : (number + 1) * size]
        pq.write_table(pa.Table.from_batches(to_batches(part)), folder / f"{number}.parquet")


def test_micro_batches_lead_to_the_state_of_one_replay(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        event
        for seed in range(20)
        for event in random_history(seed)
        if event.kind not in (Kind.CLEAR_BACKLOG, Kind.SEEK)
    ]
    events.sort(key=lambda event: event.sequence % 2**60)
    write_in_order(events, tmp_path / "events", files=3)
    stream = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1)
    run_to_end(cursor_stream(stream.parquet(str(tmp_path / "events"))), tmp_path)
    assert len(list((tmp_path / "out").iterdir())) == 3
    same(local_rows(events), last_rows(spark, tmp_path))


def test_a_seek_in_the_stream_voids_what_came_before(spark: SparkSession, tmp_path: Path) -> None:
    events = [event for event in random_history(5) if event.kind is not Kind.CLEAR_BACKLOG]
    assert any(event.kind is Kind.SEEK for event in events)
    traces = tmp_path / "traces"
    traces.mkdir()
    half = len(events) // 2
    for number, part in enumerate((events[:half], events[half:])):
        lines = (
            json.dumps({k: v for k, v in event._asdict().items() if v is not None and k != "file"})
            for event in part
        )
        (traces / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    from ackwell.spark import register

    register(spark)
    stream = spark.readStream.format("ackwell_trace").load(str(traces))
    run_to_end(cursor_stream(stream), tmp_path)
    same(local_rows(events), last_rows(spark, tmp_path))


def test_a_cleared_backlog_without_position_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("t", "s", 2, Kind.CLEAR_BACKLOG),
    ]
    write_in_order(events, tmp_path / "events", files=1)
    stream = spark.readStream.schema(EVENTS).parquet(str(tmp_path / "events"))
    with pytest.raises(Exception, match="cleared backlog"):
        run_to_end(cursor_stream(stream), tmp_path)
