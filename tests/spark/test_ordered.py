"""The ordered replay with pending acknowledgments, and the sizing of delayed messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ackwell import TimeBuckets
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.spark import collect_states, delayed_sizing, ordered_replay, replay
from ackwell.spark.tasks.moment_rows import follow_batches
from ackwell.spark.tasks.source_rows import to_batches
from tests.replay.test_kinds import expected, said_in_row, story
from tests.replay.test_sequence import recorded
from tests.spark.rows import local_rows, parquet_of, rows_of
from tests.spark.test_replay import TRACES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.connect
def test_ordered_replay_ends_where_replay_does(spark: SparkSession, tmp_path: Path) -> None:
    events = list(read_events([path for path in TRACES if "shared" in path.name or "cumul" in path.name]))
    expected = local_rows(events)
    rows = ordered_replay(parquet_of(spark, events, tmp_path / "events")).collect()
    assert len(expected) == len(rows)
    for row in rows:
        mine = expected[row.topic, row.subscription]
        assert mine["individually_deleted"] == row.individually_deleted
        assert mine["backlog_entries"] == row.backlog_entries


def test_a_cursor_without_acknowledgments_is_before_its_first_ledger() -> None:
    events = [
        Event("t", "s", 1, Kind.CONSUMER_OPEN, consumer="a", detail="Shared"),
        Event("t", "s", 2, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("t", "s", 3, Kind.RECEIVE, consumer="a", ledger_id=3, entry_id=0),
    ]
    ((row,),) = (batch.to_pylist() for batch in follow_batches(to_batches(events), []))
    assert (row["mark_delete_ledger_id"], row["mark_delete_entry_id"]) == (3, -1)
    assert row["pending_entries"] == [("a", 1)]


@pytest.mark.parametrize("recorder", ["dev broker", "proxy"])
def test_a_recording_is_the_broker_s_own_state(spark: SparkSession, tmp_path: Path, recorder: str) -> None:
    with recorded(recorder, seed=1) as recording:
        events = [event._replace(sequence=n, file=None) for n, event in enumerate(recording.events)]
        table = parquet_of(spark, events, tmp_path / "events")
        rows = [row.asDict() for row in ordered_replay(table).collect()]
        assert {(row["topic"], row["subscription"]): recording.found(row) for row in rows} == recording.truth
        expected = {name: found[:4] for name, found in recording.truth.items()}
        strategies: tuple[Any, ...] = ("files", "rows")
        for strategy in strategies:
            states = collect_states(replay(table, strategy=strategy))
            assert {(s.topic, s.subscription): recording.state(s) for s in states} == expected


@pytest.mark.connect
def test_every_kind_is_replayed_by_every_path(spark: SparkSession, tmp_path: Path) -> None:
    events = [event._replace(topic=kind.value) for kind in Kind for event in story(kind)]
    table = parquet_of(spark, events, tmp_path / "events")
    wanted = {(kind.value, name): said for kind in Kind for name, said in expected(kind).items()}
    found = [{name: said_in_row(row) for name, row in rows_of(replay(table, strategy="files")).items()}]
    found += [{name: said_in_row(row) for name, row in rows_of(replay(table, strategy="rows")).items()}]
    in_order = [row.asDict() for row in ordered_replay(table).collect()]
    found += [{(row["topic"], row["subscription"]): said_in_row(row) for row in in_order}]
    for rows in found:
        # The same place can be the end of a deleted ledger or the beginning of the next one.
        trimmed = {
            name: said._replace(mark_delete="4:-1") for name, said in rows.items() if name[0] == "trim"
        }
        assert rows | trimmed == wanted


def test_one_bad_subscription_stops_no_other(spark: SparkSession, tmp_path: Path) -> None:
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    events = [
        Event("t", "", 1, Kind.PUBLISH, time_ms=10, **at),
        Event("t", "good", 2, Kind.ACK, time_ms=20, **at),
        Event("t", "ahead", 3, Kind.ACK, time_ms=20, ledger_id=3, entry_id=7),
        Event("t", "unplaced", 4, Kind.ACK, time_ms=20, ledger_id=3),
        Event("t", "bad batch", 5, Kind.ACK, time_ms=20, batch_index=10**9, **at),
        Event("t", "late", 6, Kind.CONSUMER_OPEN, time_ms=5, consumer="c"),
        Event("t", "late", 7, Kind.SEEK, time_ms=40, ledger_id=3),
    ]
    table = parquet_of(spark, events, tmp_path / "events")
    rows = ordered_replay(table, at_ms=[30]).collect()
    errors = {(row.subscription, row.at_ms): row.error for row in rows}
    assert {name for name, error in errors.items() if error is None} == {
        ("good", 30),
        ("good", None),
        ("late", 30),
    }
    assert "acknowledgment of 3:7, which was never published" in errors["ahead", None]
    assert "needs a ledger id and an entry id" in errors["unplaced", 30]
    assert "batch index" in errors["bad batch", None]
    with pytest.raises(Exception, match=r"which was never published|no position|batch index"):
        ordered_replay(table, strict=True).collect()
    assert {row.subscription: row.backlog_entries for row in rows if row.at_ms is None}["good"] == 0


def test_pending_acknowledgments_are_told_at_their_moments(spark: SparkSession, tmp_path: Path) -> None:
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    events = [
        Event("t", "s", 1, Kind.CONSUMER_OPEN, time_ms=10, consumer="a", detail="Shared"),
        Event("t", "s", 2, Kind.PUBLISH, time_ms=10, **at),
        Event("t", "s", 3, Kind.RECEIVE, time_ms=20, consumer="a", **at),
        Event("t", "s", 4, Kind.NACK, time_ms=30, consumer="a", **at),
        Event("t", "s", 5, Kind.RECEIVE, time_ms=40, consumer="a", redelivery_count=1, **at),
        Event("t", "s", 6, Kind.ACK, time_ms=50, consumer="a", **at),
    ]
    rows = ordered_replay(parquet_of(spark, events, tmp_path / "events"), [20, 30, 45]).collect()
    found = {row.at_ms: (row.pending_entries["a"], row.redeliveries) for row in rows}
    assert found == {20: (1, 0), 30: (0, 0), 45: (1, 1), None: (0, 1)}


@pytest.mark.connect
def test_sizing_weighs_the_indexes_themselves(spark: SparkSession, tmp_path: Path) -> None:
    delays = np.random.default_rng(1).integers(0, 3_600_000, 5_000).tolist()
    events = [
        Event(
            "t",
            "s",
            number,
            Kind.PUBLISH,
            time_ms=number,
            ledger_id=3,
            entry_id=number,
            deliver_at_ms=number + delay,
        )
        for number, delay in enumerate(delays)
    ]
    events += [Event("t", "s", 9_999, Kind.PUBLISH, ledger_id=3, entry_id=9_999)]
    assert sum(batch.num_rows for batch in to_batches(events)) == 5_001
    table = delayed_sizing(parquet_of(spark, events, tmp_path / "events"), [1, 1024])
    rows = {row.width_ms: row for row in table.collect()}
    assert {1, 1024} == set(rows)
    buckets = TimeBuckets(10)
    buckets.add_many(np.array(delays) + np.arange(5_000), np.full(5_000, 3), np.arange(5_000, dtype=np.int64))
    row = rows[1024]
    assert (5_000, buckets.bucket_count, max(delays)) == (row.messages, row.buckets, row.delay_ms_max)
    assert row.entropy_bound_bytes < row.wheel_bytes < row.buckets_bytes
    assert [row.recommended for row in rows.values() if row.recommended] == [True]
    with pytest.raises(ValueError, match="at least 1 ms"):
        delayed_sizing(table, [0])
    exact_to_minutes = {
        row.width_ms for row in delayed_sizing(parquet_of(spark, events, tmp_path / "again")).collect()
    }
    assert exact_to_minutes == {1, 64, 1_024, 16_384, 262_144}
