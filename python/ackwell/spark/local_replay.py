"""The replay of event files on a local Spark session, for `ackwell replay --spark`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.spark.data_sources import read_events
from ackwell.spark.pipeline import collect_states, replay
from ackwell.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.states import SubscriptionState


def replay_files(files: Sequence[str | Path], *, at: int | None = None) -> list[SubscriptionState]:
    """Replay event files on Spark, with the result of `ackwell.replay.replay_files`.

    With `at`, only the first `at` events are replayed. Spark then sorts all events.
    """
    events = read_events(local_session(), *map(str, files))
    return collect_states(replay(events if at is None else first(events, at)))


def first(events: DataFrame, at: int) -> DataFrame:
    """Return the first `at` events in the order of replay: by file, then by sequence."""
    if "file" not in events.columns:
        # Rows of Parquet files may have no column `file`. Spark provides the path.
        events = events.withColumn("file", F.col("_metadata.file_path"))
    return events.orderBy("file", "sequence").limit(at)
