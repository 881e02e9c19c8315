"""Events written by pandas are read, or the error names the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from ackwell.errors import EventError, SchemaError
from ackwell.replay.states import replay_files
from ackwell.spark import overview, read_events, replay
from ackwell.spark.versions import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = pd.DataFrame(
    {
        "topic": "t",
        "subscription": "s",
        "sequence": [1, 2, 3, 4],
        "kind": ["publish", "ack", "ack", "ack"],
        "ledger_id": 1,
        "entry_id": [9, 0, 2, 3],
    }
)
NONE = [None, None, None]


def written(folder: Path, **columns: Any) -> str:
    EVENTS.assign(**columns).to_parquet(folder / "events.parquet")
    return str(folder)


@pytest.mark.parametrize("strategy", ["files", "rows"])
@pytest.mark.parametrize(
    "columns",
    [
        {"batch_index": None, "detail": None, "ack_set": None},
        {"batch_index": [*NONE, 1], "batch_size": [*NONE, 2]},
        {"topic": 7},
    ],
    ids=["nothing but None", "whole numbers and None", "numbers as names"],
)
def test_a_column_with_none_is_read(
    columns: dict[str, Any], strategy: Any, spark: SparkSession, tmp_path: Path
) -> None:
    path = written(tmp_path, **columns)
    row = replay(read_events(spark, path), strategy=strategy).first()
    assert row is not None
    (state,) = replay_files([path])
    assert row.topic == state.topic
    assert row.individually_deleted == str(state.cursor.individually_deleted)
    assert row.batch_deleted == ({"1:3": [1]} if "batch_size" in columns else {})


@pytest.mark.parametrize("strategy", ["files", "rows"])
def test_a_number_that_is_not_whole_is_named(strategy: Any, spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path, batch_index=[*NONE, 1.5])
    with pytest.raises(spark_errors(), match=r"batch_index.* contains a value that is not a 64-bit integer"):
        replay(read_events(spark, path), strategy=strategy).collect()
    with pytest.raises(
        EventError, match=r"batch_index contains a value that is not a 64-bit integer: .*1\.5"
    ):
        replay_files([path])


def test_timestamps_of_nanoseconds_have_a_remedy(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path, time_ms=pd.to_datetime([1, 2, 3, 4], unit="s"))
    with pytest.raises(SchemaError, match="coerce_timestamps"):
        read_events(spark, path)
    assert len(replay_files([path])) == 1


def test_an_overview_has_eight_columns_and_the_worst_first(spark: SparkSession, tmp_path: Path) -> None:
    bad = EVENTS.assign(subscription="bad", kind="nonsense")
    pd.concat([EVENTS, bad]).to_parquet(tmp_path / "events.parquet")
    cursors = replay(read_events(spark, str(tmp_path)))
    rows = overview(cursors).collect()
    assert [tuple(row) for row in rows] == [
        ("t", "s", "1:0", 1, 0, 7, rows[0]["bytes"], "loses nothing"),
        ("t", "bad", "", None, None, None, None, "sequence 1: unknown event kind"),
    ]
    assert rows[0]["bytes"] > 0
    lossy = cursors.where("error is null").withColumns(
        {"restart_loses": F.lit(1).cast("long"), "restart_reason": F.lit("the limit")}
    )
    assert [row["restart"] for row in overview(lossy).collect()] == ["1 redelivered: the limit"]


def test_a_folder_without_events_is_named(spark: SparkSession, tmp_path: Path) -> None:
    # Spark 3.5 reads no files with Python, so the driver lists them.
    with pytest.raises((PySparkException, FileNotFoundError), match=rf"{tmp_path}: no file with \.jsonl or"):
        read_events(spark, str(tmp_path)).count()
