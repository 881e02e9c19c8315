"""Events to partials, partials to cursors: the unordered path.

A partial is what some events say of one subscription and one ledger; partials merge in any order, and
twice without harm, so yesterday's partials and today's events make today's cursors. A hot
subscription spreads over all cores, and only the merged result meets the mark-delete rule.

No row is sorted. Tasks read the columns of Parquet files themselves (`files`), or Spark hands them the needed
columns of any DataFrame as Arrow batches (`rows`); both give them to the same fold.

A subscription whose events lead to no cursor (a row that is not an event, an acknowledgment of what was never
published, a batch index beyond its batch) has its `error` in its row, and the others go on. With
`strict=True` the query fails instead.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pyspark.sql import functions as F  # noqa: N812

from ackwell.errors import SchemaError
from ackwell.replay import table_schemas
from ackwell.replay.resets import NO_RESETS
from ackwell.replay.states import state_of_row
from ackwell.spark import files_strategy
from ackwell.spark.reset_query import find_resets
from ackwell.spark.schema import CURSORS, PARTIALS, conform, python_rows
from ackwell.spark.tasks import merging as tasks
from ackwell.spark.tasks.fold_rows import FoldRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.states import SubscriptionState

Strategy = Literal["auto", "files", "rows"]
"""How events are folded; see `partials`."""

_NAMES = ("topic", "subscription")


def partials(
    events: DataFrame,
    *,
    strategy: Strategy = "auto",
    start_from: DataFrame | None = None,
    strict: bool = False,
) -> DataFrame:
    """Fold events into partials, a row per (topic, subscription, ledger) and task.

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`, in any order, split in any way;
        rows may be there twice.
    strategy
        `files`: tasks read the Parquet files of `events` themselves, so `events` must be just what
        `spark.read.parquet` gave. `rows`: tasks fold the rows that Spark hands them, whatever they come from.
        `auto`: `files` if `events` is exactly its Parquet files, else `rows`.
    start_from
        What subscriptions had before the first of the events: cursors of an earlier replay
        (`ackwell.spark.schema.CURSORS`) or dumps of stats-internal (`STATS`).
    strict
        Fail for the first event that is flawed, instead of keeping it as its subscription's error.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.PARTIALS`.

    Raises `SchemaError` before any job starts if a column is missing or wrong, and for the strategy
    `files` where `events` is more than its files. What runs while the query is built: for `rows` one small
    query, for the seeks, cleared backlogs and transactions; for `files` the driver reads the footers and the
    column `kind`, and that query runs only if there are such events.
    """
    return _start(_fold(events, strategy, ordered=True, strict=strict).folded, start_from)


class _Folded(NamedTuple):
    folded: DataFrame
    is_cursors: bool = False
    """Whether it is the table `CURSORS` already."""


def _fold(
    events: DataFrame, strategy: Strategy, *, ordered: bool, strict: bool, whole: bool = False
) -> _Folded:
    table = conform(events, table_schemas.EVENTS, "events")
    if strategy not in get_args(Strategy):
        known = ", ".join(get_args(Strategy))
        raise ValueError(f"unknown strategy {strategy!r}; known are {known}")
    if strategy != "rows":
        paths, why_not = files_strategy.plain_files(events)
        plan, why_not = files_strategy.survey(events, paths) if not why_not else (None, why_not)
        if plan is not None:
            resets = find_resets(table) if plan.has_resets else NO_RESETS
            whole = whole and len(plan.shares) == 1
            session = events.sparkSession
            folded = files_strategy.fold(
                session, plan.shares, resets, ordered=ordered, strict=strict, whole=whole
            )
            return _Folded(folded, whole)
        if strategy == "files":
            raise SchemaError(
                f"events: the strategy 'files' needs a DataFrame of plain Parquet files; {why_not}"
            )
    function = FoldRows(find_resets(table), ordered=ordered, strict=strict)
    return _Folded(python_rows(events).mapInArrow(lambda batches: function(batches), PARTIALS))


def _start(parts: DataFrame, start_from: DataFrame | None) -> DataFrame:
    if start_from is None:
        return parts
    states = conform(start_from, table_schemas.AUDITED, "start_from")
    return parts.unionByName(states.mapInArrow(tasks.start, PARTIALS))


def merge(*parts: DataFrame) -> DataFrame:
    """Join partials into one row per (topic, subscription, ledger)."""
    return _union(parts).repartition(*_NAMES, "ledger_id").mapInArrow(tasks.merge, PARTIALS)


def cursors(parts: DataFrame, ledgers: DataFrame | None = None, *, strict: bool = False) -> DataFrame:
    """Return the cursor that the partials of each subscription lead to.

    Parameters
    ----------
    parts
        Partials, merged or not; join several tables with `unionByName` or `merge`.
    ledgers
        The topics' ledgers (`ackwell.spark.schema.LEDGERS`), instead of what the events show.
    strict
        Fail for the first subscription without a cursor, instead of giving its `error`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.CURSORS`, a row per (topic, subscription).

    A task holds the state of the topics of its partition.
    """
    rows = conform(parts, table_schemas.PARTIALS, "partials")
    if ledgers is not None:
        rows = rows.withColumn("directory", F.lit(None).cast("map<bigint,bigint>"))
        rows = rows.unionByName(_directories(rows, conform(ledgers, table_schemas.LEDGERS, "ledgers")))
    # By topic: what happened to a topic as a whole belongs to each of its subscriptions.
    function = tasks.Finish(strict=strict)
    return rows.repartition("topic").mapInArrow(lambda batches: function(batches), CURSORS)


def replay(
    events: DataFrame,
    ledgers: DataFrame | None = None,
    *,
    strategy: Strategy = "auto",
    start_from: DataFrame | None = None,
    strict: bool = False,
) -> DataFrame:
    """Replay events into cursors, a row per (topic, subscription).

    The same as `cursors(partials(events))`, and cheaper: no other seek can come, so the order of what was
    acknowledged need not be kept. See `partials` for `events`, `strategy` and `start_from`, `cursors` for
    the rest; works as `events.transform(spark.replay)` too.
    """
    alone = ledgers is None and start_from is None
    folded, is_cursors = _fold(events, strategy, ordered=False, strict=strict, whole=alone)
    return folded if is_cursors else cursors(_start(folded, start_from), ledgers, strict=strict)


def overview(cursors: DataFrame) -> DataFrame:
    """Return eight readable columns of cursors; those that a restart would cost most come first.

    `cursors` is what `replay`, `merge` or `cursors` gave. Columns: topic, subscription, mark_delete (the
    position), ranges, batches (partly acknowledged), backlog (entries), bytes (in the broker's form ranges),
    and restart: how many entries would come back and why, or the error of the subscription.
    """
    table = conform(cursors, table_schemas.CURSORS, "cursors")
    lost = F.concat(F.col("restart_loses").cast("string"), F.lit(" come back: "), "restart_reason")
    return table.orderBy(F.desc("restart_loses"), "topic", "subscription").select(
        "topic",
        "subscription",
        F.concat_ws(":", "mark_delete_ledger_id", "mark_delete_entry_id").alias("mark_delete"),
        F.col("range_count").alias("ranges"),
        F.when(F.col("error").isNull(), F.coalesce(F.size("batch_deleted"), F.lit(0))).alias("batches"),
        F.col("backlog_entries").alias("backlog"),
        F.col("pulsar_ranges_bytes").alias("bytes"),
        F.coalesce("error", F.when(F.col("restart_loses") > 0, lost), F.lit("loses nothing")).alias(
            "restart"
        ),
    )


def explode_ranges(cursors: DataFrame) -> DataFrame:
    """Return a row for each range of individually deleted messages, `(lower, upper]` of one ledger.

    The columns are those of `ackwell.spark.schema.RANGES`; `cursors` has those of `CURSORS`.
    """
    from ackwell.spark.schema import RANGES

    table = conform(cursors, table_schemas.CURSORS, "cursors").where(F.col("range_count") > 0)
    return table.select(*_NAMES, "compact").mapInArrow(tasks.explode_ranges, RANGES)


def collect_states(table: DataFrame) -> list[SubscriptionState]:
    """Bring cursors to the driver as the states that local replay returns, by topic and subscription.

    Raises `ProtocolError` if a row has an `error`.
    """
    rows = conform(table, table_schemas.CURSORS, "cursors").orderBy(*_NAMES)
    return [state_of_row(row.asDict()) for row in rows.collect()]


def _union(parts: tuple[DataFrame, ...]) -> DataFrame:
    if not parts:
        raise ValueError("nothing to merge")
    conformed = [conform(part, table_schemas.PARTIALS, "partials") for part in parts]
    return reduce(lambda left, right: left.unionByName(right), conformed)


def _directories(rows: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return a row per topic with its ledgers."""
    entry = F.struct("ledger_id", "entries")
    directory = ledgers.groupBy("topic", "ledger_id").agg(F.max("entries").alias("entries"))
    return (
        directory.groupBy("topic")
        .agg(F.map_from_entries(F.collect_list(entry)).alias("directory"))
        .withColumn("subscription", F.lit(""))
        .withColumn("ledger_id", F.lit(None).cast("bigint"))
        .withColumn("state", F.lit(None).cast("binary"))
        .select(*rows.columns)
    )
