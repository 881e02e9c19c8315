"""The unordered replay: from events to partials, and from partials to cursors.

A partial is the combined effect of some events of one subscription on one ledger. Partials can be merged in
any order, and a partial that is merged twice counts once. So yesterday's partials and today's events give
today's cursors. The events of one busy subscription are folded on all cores. The mark-delete position is
computed only after all partials are merged.

Rows are not sorted. There are two strategies with the same fold. With `files`, tasks read the columns of
Parquet files directly. With `rows`, Spark passes the needed columns of any DataFrame as Arrow batches.

A subscription with invalid events (a row that is not an event, an acknowledgment of an entry that was never
published, a batch index outside its batch) has an `error` in its row. Other subscriptions are not affected.
With `strict=True` the query fails instead.
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
from ackwell.spark.tasks.fold_rows import RowFold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.states import SubscriptionState

Strategy = Literal["auto", "files", "rows"]
"""The way in which events reach the fold; `partials` documents the values."""

_NAMES = ("topic", "subscription")


def partials(
    events: DataFrame,
    *,
    strategy: Strategy = "auto",
    start_from: DataFrame | None = None,
    strict: bool = False,
) -> DataFrame:
    """Fold events into partials. Each task returns a row for each (topic, subscription, ledger).

    Parameters
    ----------
    events
        A DataFrame with the columns of `ackwell.spark.schema.EVENTS`, in any order and partitioning.
        Rows may be duplicated.
    strategy
        With `files`, tasks read the Parquet files of `events` directly, so `events` must be the unchanged
        result of `spark.read.parquet`. With `rows`, tasks fold the rows that Spark passes, from any source.
        `auto` means `files` if `events` is the unchanged content of Parquet files, otherwise `rows`.
    start_from
        The states of subscriptions before the first event: cursors of an earlier replay, with the columns of
        `ackwell.spark.schema.CURSORS`, or dumps of stats-internal, with those of `STATS`.
    strict
        If true, the query fails at the first invalid event. If false, the error is stored in the partials of
        the event's subscription.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.PARTIALS`.

    Raises `SchemaError`, before any job starts, if a column is missing or has a wrong type. With the strategy
    `files` it is also raised if `events` is not the unchanged content of Parquet files. While the query is
    built, the strategy `rows` runs one small query for seeks, cleared backlogs and commits. With the strategy
    `files`, the driver reads the footers and the column `kind` of the files, and runs this query only if
    there are such events.
    """
    return _start(_fold(events, strategy, ordered=True, strict=strict).folded, start_from)


class _FoldResult(NamedTuple):
    folded: DataFrame
    is_cursors: bool = False
    """Whether `folded` has the columns of the table `CURSORS`, not of `PARTIALS`."""


def _fold(
    events: DataFrame, strategy: Strategy, *, ordered: bool, strict: bool, whole: bool = False
) -> _FoldResult:
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
            return _FoldResult(folded, whole)
        if strategy == "files":
            raise SchemaError(
                f"events: the strategy 'files' needs a DataFrame of plain Parquet files; {why_not}"
            )
    function = RowFold(find_resets(table), ordered=ordered, strict=strict)
    return _FoldResult(python_rows(events).mapInArrow(lambda batches: function(batches), PARTIALS))


def _start(parts: DataFrame, start_from: DataFrame | None) -> DataFrame:
    if start_from is None:
        return parts
    states = conform(start_from, table_schemas.AUDITED, "start_from")
    return parts.unionByName(states.mapInArrow(tasks.start, PARTIALS))


def merge(*parts: DataFrame) -> DataFrame:
    """Merge partials. The result has one row for each (topic, subscription, ledger)."""
    return _union(parts).repartition(*_NAMES, "ledger_id").mapInArrow(tasks.merge, PARTIALS)


def cursors(parts: DataFrame, ledgers: DataFrame | None = None, *, strict: bool = False) -> DataFrame:
    """Merge the partials of each subscription, and return its cursor.

    Parameters
    ----------
    parts
        Partials, merged or not. Combine several tables with `unionByName` or `merge`.
    ledgers
        The ledgers of the topics, with the columns of `ackwell.spark.schema.LEDGERS`. They replace the
        ledgers that the events contain.
    strict
        If true, the query fails at the first subscription with invalid events. If false, the row of the
        subscription has an `error`.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.CURSORS`, a row for each (topic, subscription).

    A task holds the state of all topics in its partition in memory.
    """
    rows = conform(parts, table_schemas.PARTIALS, "partials")
    if ledgers is not None:
        rows = rows.withColumn("directory", F.lit(None).cast("map<bigint,bigint>"))
        rows = rows.unionByName(_directories(rows, conform(ledgers, table_schemas.LEDGERS, "ledgers")))
    # Rows are partitioned by topic, because publishes and other events of a topic apply to each of its
    # subscriptions.
    function = tasks.CursorMerge(strict=strict)
    return rows.repartition("topic").mapInArrow(lambda batches: function(batches), CURSORS)


def replay(
    events: DataFrame,
    ledgers: DataFrame | None = None,
    *,
    strategy: Strategy = "auto",
    start_from: DataFrame | None = None,
    strict: bool = False,
) -> DataFrame:
    """Replay events into cursors, a row for each (topic, subscription).

    The result equals `cursors(partials(events))`. `replay` costs less, because it does not store the order of
    acknowledgments. Use `partials` and `cursors` if partials with a later seek will be merged, because a seek
    needs this order. `partials` documents `events`, `strategy` and `start_from`; `cursors` documents
    `ledgers` and `strict`. `events.transform(spark.replay)` works as well.
    """
    alone = ledgers is None and start_from is None
    folded, is_cursors = _fold(events, strategy, ordered=False, strict=strict, whole=alone)
    return folded if is_cursors else cursors(_start(folded, start_from), ledgers, strict=strict)


def overview(cursors: DataFrame) -> DataFrame:
    """Return eight readable columns of cursors. Rows with the greatest loss in a restart come first.

    `cursors` is the result of `replay` or `cursors`. Columns: topic, subscription, mark_delete (the
    position), ranges, batches (partly acknowledged), backlog (entries), bytes (in the broker's form
    `pulsar-ranges`), and restart: the number of redelivered messages and the reason, or the error of the
    subscription.
    """
    table = conform(cursors, table_schemas.CURSORS, "cursors")
    lost = F.concat(F.col("restart_loses").cast("string"), F.lit(" redelivered: "), "restart_reason")
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
    """Return a row for each range `(lower, upper]` of individually deleted messages in one ledger.

    `cursors` has the columns of `ackwell.spark.schema.CURSORS`. The result has those of `RANGES`.
    """
    from ackwell.spark.schema import RANGES

    table = conform(cursors, table_schemas.CURSORS, "cursors").where(F.col("range_count") > 0)
    return table.select(*_NAMES, "compact").mapInArrow(tasks.explode_ranges, RANGES)


def collect_states(table: DataFrame) -> list[SubscriptionState]:
    """Collect cursors on the driver, as a list of states in the order of topic and subscription.

    The states are those that a local replay returns. Raises `ProtocolError` if a row has an `error`.
    """
    rows = conform(table, table_schemas.CURSORS, "cursors").orderBy(*_NAMES)
    return [state_of_row(row.asDict()) for row in rows.collect()]


def _union(parts: tuple[DataFrame, ...]) -> DataFrame:
    if not parts:
        raise ValueError("nothing to merge")
    conformed = [conform(part, table_schemas.PARTIALS, "partials") for part in parts]
    return reduce(lambda left, right: left.unionByName(right), conformed)


def _directories(rows: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return partials that contain only ledgers: one row for each topic, with its ledgers as a map."""
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
