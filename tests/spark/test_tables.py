"""Tables with other columns are refused before any job. Unusual ones are read, or an error names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from ackwell import PositionInfo, SchemaError
from ackwell.replay.columns import cursor_batches
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay
from ackwell.saving.chunks import split
from ackwell.spark import partials, replay, restart_audit
from ackwell.spark.schema import EVENTS
from ackwell.spark.tasks.source_rows import to_batches
from tests.spark.rows import fields_of, local_rows, parquet_of, rows_of, same

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def event(sequence: int, kind: Kind, **fields: Any) -> Event:
    return Event("topic", "sub", sequence, kind, **fields)


def frame(spark: SparkSession, events: list[Event]) -> DataFrame:
    return spark.createDataFrame([fields_of(each) for each in events], EVENTS)


@pytest.mark.connect
def test_a_missing_and_a_wrong_column_are_named_before_any_job(spark: SparkSession) -> None:
    table = spark.range(3).selectExpr(
        "'t' as topic", "array(id) as subscription", "id as sequence", "'ack' as kind", "id as ledger_id"
    )
    with pytest.raises(SchemaError) as refused:
        partials(table)
    message = str(refused.value)
    assert "column 'entry_id' is missing" in message
    assert "column 'subscription' is array<bigint>, expected string" in message

    with pytest.raises(SchemaError, match="mark_delete_ledger_id"):
        restart_audit(table)


def test_optional_columns_may_be_missing_and_integers_narrow(spark: SparkSession) -> None:
    table = spark.range(4).selectExpr(
        "'topic' as topic",
        "'sub' as subscription",
        "cast(id as int) as sequence",
        "if(id < 2, 'publish', 'ack') as kind",
        "3 as ledger_id",
        "cast(id % 2 as smallint) as entry_id",
    )
    (row,) = rows_of(replay(table)).values()
    assert (
        row["mark_delete_ledger_id"],
        row["mark_delete_entry_id"],
        row["backlog_entries"],
    ) == (3, 1, 0)


def test_no_events_make_no_cursors(spark: SparkSession, tmp_path: Path) -> None:
    empty = spark.createDataFrame([], EVENTS)
    assert rows_of(replay(empty)) == {}
    empty.write.parquet(str(tmp_path / "empty"))
    assert rows_of(replay(spark.read.parquet(str(tmp_path / "empty")), strategy="files")) == {}


@pytest.mark.connect
@pytest.mark.parametrize("strategy", ["files", "rows"])
def test_odd_subscriptions_are_replayed(spark: SparkSession, tmp_path: Path, strategy: Any) -> None:
    """No acknowledgment; only a consumer; a ledger id above 2^53; a gap of 2^40 entries."""
    events = [event(1, Kind.PUBLISH, ledger_id=3, entry_id=7)]
    events += [Event("topic", "idle", 1, Kind.CONSUMER_OPEN, consumer="c")]
    events += [
        Event("far", "sub", entry, kind, ledger_id=2**62, entry_id=entry)
        for entry in (0, 1, 2**40)
        for kind in (Kind.PUBLISH, Kind.ACK)
    ]
    expected = local_rows(events)
    assert len(expected) == 3
    same(expected, rows_of(replay(parquet_of(spark, events, tmp_path / "e"), strategy=strategy)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "swallow"}, "unknown event kind"),
        ({"kind": None}, "kind"),
        ({"entry_id": None}, "no position"),
        ({"ledger_id": -3}, "negative"),
        ({"batch_index": 2**34}, "beyond the largest batch"),
        ({"batch_size": 10**9}, "beyond the largest batch"),
        ({"entry_id": 2**63 - 1}, "entry id"),
        ({"topic": None}, "topic"),
    ],
)
@pytest.mark.parametrize("strategy", ["files", "rows"])
def test_rows_that_are_no_events_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, wrong: dict[str, Any], message: str, strategy: Any
) -> None:
    good = event(1, Kind.PUBLISH, ledger_id=3, entry_id=7)
    bad = tuple((good._asdict() | {"sequence": 41} | wrong).values())
    spark.createDataFrame([fields_of(good), fields_of(bad)], EVENTS).write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    with pytest.raises(Exception, match=message) as refused:
        replay(events, strategy=strategy, strict=True).collect()
    assert "EventError" in str(refused.value)
    if wrong.get("topic", "") is not None:
        (row,) = replay(events, strategy=strategy).collect()
        assert re.search(message, row.error)
        assert row.backlog_entries is None


def test_an_acknowledgment_of_what_was_never_published_is_refused(spark: SparkSession) -> None:
    events = [
        event(1, Kind.PUBLISH, ledger_id=3, entry_id=7),
        event(2, Kind.ACK, ledger_id=3, entry_id=8),
    ]
    with pytest.raises(Exception, match=r"topic, sub: .*3:8.*never published"):
        replay(frame(spark, events), strict=True).collect()
    (row,) = replay(frame(spark, events)).collect()
    assert "3:8, which was never published" in row.error


def test_a_million_ranges_are_one_row(spark: SparkSession) -> None:
    entries = 2_000_000
    table = spark.range(entries).selectExpr(
        "'topic' as topic",
        "'sub' as subscription",
        "id as sequence",
        "'publish' as kind",
        "id div 500000 as ledger_id",
        "id % 500000 as entry_id",
    )
    acks = table.where("entry_id % 2 = 1").withColumn("kind", table.kind.substr(0, 0))
    acks = acks.selectExpr("topic", "subscription", "sequence", "'ack' as kind", "ledger_id", "entry_id")
    (row,) = replay(table.union(acks)).select("range_count", "backlog_entries", "compact_bytes").collect()
    assert (entries // 2, entries // 2) == (row.range_count, row.backlog_entries)
    assert row.compact_bytes < 10_000


def test_a_cursor_tells_its_bytes_by_form_and_its_chunks() -> None:
    """A state above 1 MiB in the broker's form has more than one chunk."""
    import numpy as np

    ledger_ids = np.repeat(np.arange(3_000), 25)
    entry_ids = np.tile(np.append(np.arange(1, 45_000, 1_900), 49_999), 3_000)
    fold = Replay()
    for ledger_id, entry_id in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True):
        fold.feed(event(1, Kind.PUBLISH, ledger_id=ledger_id, entry_id=entry_id))
        fold.feed(event(2, Kind.ACK, ledger_id=ledger_id, entry_id=entry_id))
    (row,) = (row for batch in cursor_batches(fold.fold) for row in batch.to_pylist())
    assert row["chunks"] == len(split(row["position_info"])) - 1 > 1
    assert row["range_count"] == len(entry_ids)
    assert row["backlog_entries"] == row["unacked_messages"] == 3_000 * 50_000 - len(entry_ids)
    assert (row["mark_delete_ledger_id"], row["mark_delete_entry_id"]) == (0, -1)
    info = PositionInfo.decode(row["compact"])
    assert PositionInfo.decode(row["position_info"]) == info
    for form in ("pulsar-ranges", "pulsar-long-array", "compact"):
        assert row[f"{form.replace('-', '_')}_bytes"] == len(info.encode(form))


@pytest.mark.connect
def test_the_unordered_path_sorts_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    import io
    from contextlib import redirect_stdout

    events = parquet_of(spark, [event(1, Kind.PUBLISH, ledger_id=3, entry_id=7)], tmp_path / "e")

    def plan(strategy: Any) -> list[str]:
        printed = io.StringIO()
        with redirect_stdout(printed):
            replay(events, strategy=strategy).explain()
        return [line.strip(" :+-") for line in printed.getvalue().splitlines()]

    by_rows, by_files = plan("rows"), plan("files")
    for lines in (by_rows, by_files):
        assert any(line.startswith(("MapInArrow", "PythonMapInArrow")) for line in lines)
        assert not any(line.startswith("Sort") for line in lines)
        assert not any("Window" in line for line in lines)
    # One exchange, of partials. Spark passes only the event columns that a fold reads.
    assert len([line for line in by_rows if line.startswith("Exchange")]) == 1
    scans = [line for line in by_rows if "Scan parquet" in line]
    assert len(scans) == 1
    assert "sticky_key_hash" not in scans[0]
    # The tasks read the files. The JVM scans a range of numbers, and no Parquet.
    assert any("Range (" in line for line in by_files)
    assert not any("Scan parquet" in line for line in by_files)


def test_arrow_batches_of_events_keep_every_field() -> None:
    given = [
        event(1, Kind.ACK, ledger_id=3, entry_id=7, ack_set=(-1, 5), sticky_key_hash=-7, file="f"),
        event(2, Kind.META, detail="{}"),
    ]
    (batch,) = to_batches(given)
    assert [each._asdict() | {"ack_set": list(each.ack_set or ()) or None} for each in given] == (
        batch.to_pylist()
    )


@pytest.mark.connect
def test_a_column_of_the_path_that_is_null_in_every_file_is_read(spark: SparkSession) -> None:
    table = frame(spark, [event(1, Kind.PUBLISH, ledger_id=3, entry_id=0)]).withColumn(
        "batch_size", F.lit(None)
    )
    (row,) = replay(table).collect()
    assert row.backlog_entries == 1
