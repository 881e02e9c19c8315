"""Streams: micro-batches give the state of one replay, also with restarts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.replay.events import Event, Kind
from ackwell.spark import cursor_stream
from ackwell.spark.schema import EVENTS
from ackwell.spark.tasks.source_rows import to_batches
from tests.replay.histories import random_history
from tests.spark.rows import Rows, local_rows, rows_of, same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def _few_partitions(spark: SparkSession) -> Iterator[None]:
    """One partition, because opening and committing its state dominates a small micro-batch."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions or "2")


def run_to_end(table: DataFrame, folder: Path) -> None:
    """Run a stream until its input is read, and write each micro-batch to a Parquet folder."""
    place = str(folder / "out")

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{place}/{number:06}")

    query = (
        table.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(keep)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def last_rows(spark: SparkSession, folder: Path) -> Rows:
    """Return the last row of each subscription."""
    rows: Rows = {}
    for batch in sorted((folder / "out").iterdir()):
        rows |= rows_of(spark.read.parquet(str(batch)))
    return rows


def write_in_order(events: list[Event], folder: Path, *, files: int) -> None:
    """Write files in time order: each subscription in one file, some events again in the next."""
    folder.mkdir(parents=True, exist_ok=True)
    size = len(events) // files + 1
    for number in range(files):
        part = events[max(0, number * size - 20) : (number + 1) * size]
        pq.write_table(pa.Table.from_batches(to_batches(part)), folder / f"{number}.parquet")


@pytest.mark.connect
def test_micro_batches_lead_to_the_state_of_one_replay(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        event
        for seed in range(20)
        for event in random_history(seed)
        if event.kind not in (Kind.CLEAR_BACKLOG, Kind.SEEK) and event.transaction is None
    ]
    events.sort(key=lambda event: event.sequence % 2**60)
    write_in_order(events, tmp_path / "events", files=3)
    stream = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1)
    run_to_end(cursor_stream(stream.parquet(str(tmp_path / "events"))), tmp_path)
    assert len(list((tmp_path / "out").iterdir())) == 3
    same(local_rows(events), last_rows(spark, tmp_path))


def test_a_seek_in_the_stream_voids_what_came_before(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        event
        for event in random_history(5)
        if event.kind is not Kind.CLEAR_BACKLOG and event.transaction is None
    ]
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


def test_a_cleared_backlog_without_position_is_an_error_of_its_subscription(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("t", "s", 2, Kind.CLEAR_BACKLOG),
    ]
    write_in_order(events, tmp_path / "events", files=1)
    stream = spark.readStream.schema(EVENTS).parquet(str(tmp_path / "events"))
    run_to_end(cursor_stream(stream), tmp_path)
    (row,) = last_rows(spark, tmp_path).values()
    assert "backlog cleared without a position" in row["error"]


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Each micro-batch reads one file, in the order of writing."""
    return spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))


def add_file(events: list[Event], folder: Path, number: int) -> None:
    """Write a file with a later modification time than the files before it."""
    (folder / "events").mkdir(exist_ok=True)
    path = folder / "events" / f"{number:03}.parquet"
    pq.write_table(pa.Table.from_batches(to_batches(events)), path)
    os.utime(path, (1_700_000_000 + number,) * 2)


def history(subscription: str, entries: range, *kinds: Kind) -> list[Event]:
    return [
        Event("t", subscription, 2 * entry + number, kind, ledger_id=3, entry_id=entry)
        for entry in entries
        for number, kind in enumerate(kinds)
    ]


def test_late_and_duplicate_events_are_harmless(spark: SparkSession, tmp_path: Path) -> None:
    """Publishes first, then acknowledgments in reverse order, each file twice, with a restart."""
    events = history("s", range(300), Kind.PUBLISH, Kind.ACK)
    published = [event for event in events if event.kind is Kind.PUBLISH]
    acked = [event for event in events if event.kind is Kind.ACK and event.entry_id != 7]
    late = [acked[200:], acked[100:200], acked[:100]]
    for number, part in enumerate([published, *late]):
        add_file(part, tmp_path, number)
    run_to_end(cursor_stream(stream_of(spark, tmp_path)), tmp_path)
    same(local_rows(published + acked), last_rows(spark, tmp_path))
    for number, part in enumerate([published, *late]):
        add_file(part, tmp_path, 10 + number)
    run_to_end(cursor_stream(stream_of(spark, tmp_path)), tmp_path)
    assert len(list((tmp_path / "out").iterdir())) == 8
    same(local_rows(published + acked), last_rows(spark, tmp_path))


@pytest.mark.connect
def test_a_subscription_without_recent_events_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    """A subscription without events is deleted and starts again with its next event; the other one stays."""
    forget_after = timedelta(seconds=1)
    silent = [history("silent", range(at, at + 5), Kind.PUBLISH, Kind.ACK) for at in (0, 20)]
    heard = [history("heard", range(5 * at, 5 * at + 5), Kind.PUBLISH, Kind.ACK) for at in range(3)]
    for number, part in enumerate([silent[0] + heard[0], heard[1], silent[1] + heard[2]]):
        add_file(part, tmp_path, number)
        run_to_end(cursor_stream(stream_of(spark, tmp_path), forget_after=forget_after), tmp_path)
        time.sleep(forget_after.total_seconds() + 0.1)
    same(local_rows([*silent[1], *heard[0], *heard[1], *heard[2]]), last_rows(spark, tmp_path))


def test_ack_sets_of_a_stream_are_folded(spark: SparkSession, tmp_path: Path) -> None:
    events = [
        Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0, batch_index=0, batch_size=70),
        Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=0, ack_set=(-2, 7), batch_size=70),
        Event("t", "s", 3, Kind.ACK, ledger_id=3, entry_id=0, ack_set=(), batch_size=70),
        Event("t", "s", 4, Kind.PUBLISH, ledger_id=3, entry_id=1, batch_index=69, batch_size=70),
        Event("t", "s", 5, Kind.ACK, ledger_id=3, entry_id=1, ack_set=(-9, 3), batch_size=70),
    ]
    add_file(events, tmp_path, 0)
    run_to_end(cursor_stream(stream_of(spark, tmp_path)), tmp_path)
    same(local_rows(events), last_rows(spark, tmp_path))
