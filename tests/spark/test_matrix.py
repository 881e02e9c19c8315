"""Every strategy replays every layout correctly, or raises a `SchemaError` before any job.

The truth is that of plain sets (`tests.replay.oracle`), the layouts are those of real systems. A Spark job
costs more than its rows here, so the layouts share a few jobs: each one's topics begin with its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from ackwell import SchemaError
from ackwell.replay import table_schemas
from ackwell.replay.events import Event, Kind
from ackwell.spark import read_events, replay
from ackwell.spark.schema import conform
from ackwell.spark.versions import is_at_least
from tests.replay import cases, layouts
from tests.replay.oracle import found_row, truths
from tests.replay.test_files import ODD_NAMES, histories
from tests.spark.rows import Rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark 3.5, 4.0 and 4.1 refuse a Parquet file without bytes if they merge schemas.
EMPTY_FILE = ("empty_file",) if is_at_least("4.3") else ()
PLAIN = (
    "parquet",
    "small_row_groups",
    *EMPTY_FILE,
    "upper_case",
    "delta_byte_array",
    "dictionaries_as_deltas",
    "null_subscriptions",
    "narrow_integers",
)
"""The layouts whose DataFrame is the unchanged content of its files."""
EVENTS = [*histories(16), *cases.EVENTS]
SOUND = [event for event in EVENTS if event.topic != cases.NO_EVENT]
TRUTH = {name: truth.to_row() for name, truth in truths(EVENTS).items()}


def written(layout: str, folder: Path) -> str:
    """Write the events in a layout, with its name before each topic, and return their folder."""
    write = layouts.PARQUET.get(layout) or layouts.LINES[layout]
    events = EVENTS if layout in layouts.PARQUET else SOUND
    place = folder / layout
    place.mkdir()
    write([event._replace(topic=f"{layout}: {event.topic}") for event in events], place)
    return str(place)


def give_the_truth(rows: Rows, names: Iterable[str]) -> None:
    """Compare each row of some layouts with the expected state."""
    expected = {
        (f"{layout}: {topic}", subscription): row
        for layout in names
        for (topic, subscription), row in TRUTH.items()
        if layout in layouts.PARQUET or topic != cases.NO_EVENT
    }
    assert sorted(expected) == sorted(rows)
    for name, row in rows.items():
        assert expected[name] == found_row(row), (name, row["error"])


def test_plain_files_of_every_layout_give_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    """One table of all plain layouts: they differ in encoding, in row groups and in the letters of names."""
    table = read_events(spark, *(written(layout, tmp_path) for layout in PLAIN))
    give_the_truth(rows_of(replay(table, strategy="files")), PLAIN)


def test_rows_of_every_layout_give_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    """One table of all layouts, each read separately; `files` refuses the layouts that are not plain."""
    names = [name for name in (*layouts.PARQUET, *layouts.LINES) if name != "empty_file" or EMPTY_FILE]
    assert len(names) >= 17
    tables_of = {layout: read_events(spark, written(layout, tmp_path)) for layout in names}
    for layout, table in tables_of.items():
        if layout not in (*PLAIN, "no_optional_columns"):
            with pytest.raises(SchemaError, match="plain Parquet files"):
                replay(table, strategy="files")
    conformed = [conform(table, table_schemas.EVENTS, "events") for table in tables_of.values()]
    # Written once: a replay runs three queries, and each would compile the readers of all layouts.
    reduce(DataFrame.unionByName, conformed).coalesce(2).write.parquet(str(tmp_path / "all"))
    give_the_truth(rows_of(replay(spark.read.parquet(str(tmp_path / "all")), strategy="rows")), names)


def test_columns_without_any_value_may_be_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Spark passes only the existing columns of a table to Python."""
    table = read_events(spark, written("no_optional_columns", tmp_path))
    give_the_truth(rows_of(replay(table, strategy="rows")), ["no_optional_columns"])


def test_json_lines_beside_parquet_in_one_folder_are_both_read(spark: SparkSession, tmp_path: Path) -> None:
    layouts.parquet(SOUND, tmp_path)
    layouts.json_lines(SOUND, tmp_path)
    table = read_events(spark, str(tmp_path))
    assert table.count() == 2 * len(SOUND)


def test_a_dataframe_of_fewer_columns_is_not_read_from_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame without the columns of batches replays whole entries, whatever the files contain."""
    batch = [
        Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0, batch_size=4),
        Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=0, batch_index=1),
    ]
    layouts.parquet(batch, tmp_path)
    fewer = "topic string, subscription string, sequence long, kind string, ledger_id long, entry_id long"
    table = spark.read.schema(fewer).parquet(str(tmp_path))
    for strategy in ("auto", "rows"):
        (row,) = replay(table, strategy=strategy).collect()
        assert (row.mark_delete_entry_id, row.backlog_entries) == (0, 0)
    (row,) = replay(spark.read.parquet(str(tmp_path))).collect()
    assert (row.mark_delete_entry_id, row.backlog_entries, row.unacked_messages) == (-1, 1, 3)


def test_files_reads_every_path_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    few = histories(2)
    truth = {name: each.to_row() for name, each in truths(few).items()}
    read = set()
    for name in ODD_NAMES:
        (tmp_path / name).mkdir()
        layouts.parquet(few, tmp_path / name)
        try:
            table = spark.read.parquet(str(tmp_path / name))
        except PySparkException:
            continue  # Spark takes it for a pattern, or not at all.
        read.add(name)
        rows = rows_of(replay(table, strategy="files"))
        assert {key: found_row(row) for key, row in rows.items()} == truth, name
    assert read >= {"é", "día=1", "日本", "a b", "100%", "%41", "e\u0301"}


def test_hive_folders_beyond_ascii_are_left_to_the_other_strategy(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = histories(2)
    for number in range(2):
        folder = tmp_path / f"día={number}"
        folder.mkdir()
        layouts.parquet(few[number::2], folder)
    rows = rows_of(replay(spark.read.parquet(str(tmp_path))))
    truth = {name: each.to_row() for name, each in truths(few).items()}
    assert {name: found_row(row) for name, row in rows.items()} == truth


def test_times_may_be_timestamps(spark: SparkSession) -> None:
    table = spark.sql(
        "select 't' as topic, 's' as subscription, 1L as sequence, 'publish' as kind, 3L as ledger_id, "
        "0L as entry_id, timestamp_millis(1760000000123) as time_ms"
    )
    (row,) = conform(table, table_schemas.EVENTS, "events").collect()
    assert row.time_ms == 1_760_000_000_123
    (row,) = replay(table).collect()
    assert row.backlog_entries == 1


def test_columns_that_differ_in_case_only_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table = spark.range(1).selectExpr(
            "'a' as topic", "'b' as TOPIC", "'s' as subscription", "id as sequence"
        )
        with pytest.raises(SchemaError, match="'topic' and 'TOPIC' differ in case only"):
            replay(table)
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize("strategy", ["files", "rows"])
def test_one_bad_subscription_stops_no_other(spark: SparkSession, tmp_path: Path, strategy: Any) -> None:
    bad = [
        Event("bad", "sub", 1, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("bad", "sub", 2, Kind.ACK, ledger_id=3, entry_id=0, batch_index=10**9),
    ]
    good = histories(16)
    layouts.small_row_groups([*good, *bad], tmp_path)
    table = spark.read.parquet(str(tmp_path))
    rows = rows_of(replay(table, strategy=strategy))
    assert "beyond the largest batch" in rows["bad", "sub"]["error"]
    assert len(rows) == len(truths(good)) + 1
    with pytest.raises(Exception, match="beyond the largest batch"):
        replay(table, strategy=strategy, strict=True).collect()


def test_a_replay_starts_from_the_cursors_of_yesterday(spark: SparkSession, tmp_path: Path) -> None:
    kinds = (Kind.PUBLISH, Kind.ACK, Kind.DISPATCH)
    events = [
        event._replace(batch_index=None, batch_size=None, ack_set=None, transaction=None)
        for event in SOUND
        if event.kind in kinds
    ]
    half = len(events) // 2
    for name, part in (("both", events), ("early", events[:half]), ("late", events[half:])):
        (tmp_path / name).mkdir()
        layouts.parquet(part, tmp_path / name)

    def read(name: str) -> DataFrame:
        return spark.read.parquet(str(tmp_path / name))

    replay(read("early")).write.parquet(str(tmp_path / "cursors"))
    rows = rows_of(replay(read("late"), start_from=read("cursors")))
    expected = rows_of(replay(read("both")))
    same = ("mark_delete_ledger_id", "mark_delete_entry_id", "individually_deleted", "backlog_entries")
    assert {name: [row[c] for c in same] for name, row in expected.items()} == {
        name: [row[c] for c in same] for name, row in rows.items()
    }
