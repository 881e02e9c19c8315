"""Replay on Spark equals local replay, for every strategy and partitioning of the input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import SchemaError
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.spark import collect_states, cursors, explode_ranges, merge, partials, replay
from ackwell.spark.schema import EVENTS
from tests.replay.histories import random_history
from tests.replay.oracle import found_row, truths
from tests.spark.rows import Rows, fields_of, local_rows, parquet_of, rows_of, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACES = [
    Path("examples/traces", f"{name}.jsonl.gz").resolve()
    for name in ("batch_partial", "cumulative", "cumulative_batch", "key_shared_3c")
]
"""Individual, cumulative and batch-index acknowledgments; `make demo` runs them all."""
STRATEGIES = ("files", "rows")


@pytest.fixture(scope="module")
def trace_events() -> list[Event]:
    assert TRACES
    return list(read_events(TRACES))


@pytest.fixture(scope="module")
def trace_rows(trace_events: list[Event]) -> Rows:
    return local_rows(trace_events)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_trace_replays_to_the_local_rows(
    spark: SparkSession,
    trace_events: list[Event],
    trace_rows: Rows,
    tmp_path: Path,
    strategy: Any,
) -> None:
    events = parquet_of(spark, trace_events, tmp_path / "events")
    same(trace_rows, rows_of(replay(events, strategy=strategy)))


def test_building_a_query_runs_no_job_for_plain_files_and_one_query_for_rows(
    spark: SparkSession, trace_events: list[Event], trace_rows: Rows, tmp_path: Path
) -> None:
    events = parquet_of(spark, trace_events, tmp_path / "events")
    context = spark.sparkContext

    def jobs(group: str) -> int:
        return len(context.statusTracker().getJobIdsForGroup(group))

    context.setJobGroup("files", "a query is built")
    folded = events.transform(replay)
    assert jobs("files") == 0
    same(trace_rows, rows_of(folded))
    assert jobs("files") > 0
    context.setJobGroup("rows", "a query is built")
    replay(events, strategy="rows")
    assert 0 < jobs("rows") <= 2  # Spark counts the scan and the rest of a query on its own.
    context.setJobGroup("tests", "")


@pytest.mark.connect
def test_collected_states_are_those_of_local_replay(
    spark: SparkSession, trace_events: list[Event], trace_rows: Rows, tmp_path: Path
) -> None:
    events = parquet_of(spark, trace_events, tmp_path / "events")
    states = collect_states(replay(events))
    assert sorted(trace_rows) == [(state.topic, state.subscription) for state in states]
    for state in states:
        row = trace_rows[state.topic, state.subscription]
        assert row["individually_deleted"] == str(state.cursor.individually_deleted)
        assert row["backlog_entries"] == state.cursor.backlog_entries
        assert row["restart_loses"] == state.restart_loss().messages.at_least


@pytest.mark.connect
def test_traces_read_by_spark_are_the_events_read_locally(
    spark: SparkSession, trace_events: list[Event]
) -> None:
    from ackwell.spark import read_events as read_on_spark

    read = read_on_spark(spark, *map(str, TRACES))
    assert read.schema == EVENTS
    assert read.count() == len(trace_events) > 0
    files = {row.file for row in read.select("file").distinct().collect()}
    assert files == {str(path) for path in TRACES}


@pytest.mark.connect
def test_auto_takes_files_only_for_exactly_the_files(
    spark: SparkSession, trace_events: list[Event], tmp_path: Path
) -> None:
    from ackwell.spark.files_strategy import plain_files

    events = parquet_of(spark, trace_events[:100], tmp_path / "events")
    assert sorted(plain_files(events)[0]) == sorted(events.inputFiles())
    assert plain_files(spark.read.parquet(*events.inputFiles()))[0]
    for other in (events.where("sequence > 3"), events.limit(3), spark.createDataFrame([], EVENTS)):
        assert plain_files(other)[1]
        with pytest.raises(SchemaError, match="plain Parquet files"):
            replay(other, strategy="files")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_histories_with_seeks_and_batches_replay_to_the_local_rows(
    spark: SparkSession, tmp_path: Path, strategy: Any
) -> None:
    events = [event for seed in range(200) for event in random_history(seed)]
    kinds = {event.kind for event in events}
    assert {Kind.SEEK, Kind.CLEAR_BACKLOG, Kind.META, Kind.ACK_CUMULATIVE} <= kinds
    table = parquet_of(spark, events, tmp_path / "events")
    rows = rows_of(replay(table, strategy=strategy))
    same(local_rows(events), rows)
    assert {name: truth.to_row() for name, truth in truths(events).items()} == {
        name: found_row(row) for name, row in rows.items()
    }


def test_ranges_are_given_row_by_row(
    spark: SparkSession, trace_rows: Rows, trace_events: list[Event]
) -> None:
    events = spark.createDataFrame([fields_of(event) for event in trace_events], EVENTS)
    found = explode_ranges(replay(events)).groupBy("topic", "subscription").count().collect()
    expected = {name: row["range_count"] for name, row in trace_rows.items() if row["range_count"]}
    assert expected == {(row.topic, row.subscription): row["count"] for row in found}


@pytest.mark.connect
def test_partials_of_yesterday_and_today_make_the_cursors_of_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    # A cleared backlog needs the publishes before it.
    events = [
        event
        for seed in range(100)
        for event in random_history(seed)
        if event.kind not in (Kind.CLEAR_BACKLOG, Kind.COMMIT)
    ]
    early = [event for event in events if event.sequence % 2**60 < 60]
    late = [event for event in events if event.sequence % 2**60 >= 60]
    assert early
    assert late
    halves = [
        partials(parquet_of(spark, half, tmp_path / name))
        for half, name in ((early, "early"), (late, "late"))
    ]
    expected = local_rows(events)
    same(expected, rows_of(cursors(halves[0].unionByName(halves[1]))))
    same(expected, rows_of(cursors(merge(*halves, halves[0]))))
