"""Events to partials, partials to cursors: the unordered path.

A partial is what some events say of one subscription and one ledger; partials merge in any order, and
twice without harm, so yesterday's partials and today's events make today's cursors. A hot
subscription spreads over all cores, and only the merged result meets the mark-delete rule.

No row of an event passes through a Python function here, and none is sorted: tasks read the columns
of Parquet files themselves (`files`), or Spark SQL folds the rows into words of 64 entries (`words`).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F  # noqa: N812

from ackwell.replay import tables
from ackwell.replay.folded import Turns
from ackwell.spark import files, words
from ackwell.spark.schema import CURSORS, PARTIALS, conform
from ackwell.spark.seeks import find_turns
from ackwell.spark.tasks import cursors as finish
from ackwell.spark.tasks.rows import state_of_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.states import SubscriptionState

Strategy = Literal["auto", "files", "words"]
_NAMES = ("topic", "subscription")


def partials(events: DataFrame, *, strategy: Strategy = "auto") -> DataFrame:
    """Fold events into partials, a row per (topic, subscription, ledger) and task.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`, in any order, split in any way;
        rows may be there twice.
    strategy
        `files`: tasks read the Parquet files of `events` themselves, so `events` must be just what
        `spark.read.parquet` gave. `words`: Spark SQL folds the rows, whatever they come from.
        `auto`: `files` where `events` is exactly its Parquet files, else `words`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.PARTIALS`.

    Raises `SchemaError` before any job starts where a column is missing or wrong. One small query runs
    at once, for the seeks and cleared backlogs.
    """
    return _fold(events, strategy, ordered=True)


def _fold(events: DataFrame, strategy: Strategy, *, ordered: bool) -> DataFrame:
    table = conform(events, tables.EVENTS, "events")
    if strategy == "auto":
        strategy = "files" if files.is_exactly_files(events) else "words"
    elif strategy not in ("files", "words"):
        raise ValueError(f"unknown strategy {strategy!r}; known are auto, files, words")
    if strategy == "words":
        return words.fold(table, find_turns(table), ordered=ordered)
    splits, turning = files.survey(events)
    turns = find_turns(table) if turning else Turns({}, {})
    return files.fold(events.sparkSession, splits, turns, ordered=ordered)


def merge(*parts: DataFrame) -> DataFrame:
    """Join partials into one row per (topic, subscription, ledger)."""
    return _union(parts).repartition(*_NAMES, "ledger_id").mapInArrow(finish.merge_batches, PARTIALS)


def cursors(parts: DataFrame, ledgers: DataFrame | None = None) -> DataFrame:
    """Return the cursor that the partials of each subscription lead to.

    Parameters
    ----------
    parts
        Partials, merged or not; join several tables with `unionByName` or `merge`.
    ledgers
        The topics' ledgers (`ackwell.spark.schema.LEDGERS`), instead of what the events tell of them.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.CURSORS`, a row per (topic, subscription).

    A task holds the state of the subscriptions of its partition.
    """
    rows = conform(parts, tables.PARTIALS, "partials").withColumn(
        "directory", F.lit(None).cast("map<bigint,bigint>")
    )
    if ledgers is not None:
        rows = rows.unionByName(_directories(rows, conform(ledgers, tables.LEDGERS, "ledgers")))
    return rows.repartition(*_NAMES).mapInArrow(finish.cursor_batches, CURSORS)


def replay(
    events: DataFrame,
    ledgers: DataFrame | None = None,
    *,
    strategy: Strategy = "auto",
) -> DataFrame:
    """Replay events into cursors, a row per (topic, subscription).

    The same as `cursors(partials(events))`, and cheaper: no other seek can come, so the order of what was
    acknowledged need not be kept. See `partials` for `events` and `strategy`, `cursors` for the rest.
    """
    return cursors(_fold(events, strategy, ordered=False), ledgers)


def collect_states(table: DataFrame) -> list[SubscriptionState]:
    """Bring cursors to the driver as the states that local replay gives, by topic and subscription."""
    rows = conform(table, tables.CURSORS, "cursors").orderBy(*_NAMES)
    return [state_of_row(row.asDict()) for row in rows.collect()]


def _union(parts: tuple[DataFrame, ...]) -> DataFrame:
    if not parts:
        raise ValueError("nothing to merge")
    conformed = [conform(part, tables.PARTIALS, "partials") for part in parts]
    return reduce(lambda left, right: left.unionByName(right), conformed)


def _directories(rows: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return a row per subscription with its topic's ledgers."""
    entry = F.struct("ledger_id", "entries")
    directory = ledgers.groupBy("topic", "ledger_id").agg(F.max("entries").alias("entries"))
    directory = directory.groupBy("topic").agg(F.map_from_entries(F.collect_list(entry)).alias("directory"))
    return (
        rows.select(*_NAMES)
        .distinct()
        .join(directory.hint("shuffle_hash"), "topic")
        .withColumn("ledger_id", F.lit(None).cast("bigint"))
        .withColumn("state", F.lit(None).cast("binary"))
        .select(*rows.columns)
    )
