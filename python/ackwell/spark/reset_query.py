"""The query that finds the resets in a DataFrame of events: seeks, cleared backlogs and commits.

`ackwell.replay.resets` documents resets. They are rare. One small query finds them while the pipeline is
built; it reads the dictionary pages of the column `kind`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.position import Position
from ackwell.replay.events import Kind
from ackwell.replay.resets import PUBLISHING, ResetSearch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.resets import Name, Order, Resets

_NAMES = ("topic", "subscription")
_ORDER = ("file", "sequence")


def find_resets(events: DataFrame) -> Resets:
    """Return the resets in events. The columns of `events` are those of the table `EVENTS`."""
    ordered = events.withColumn("file", F.coalesce("file", F.lit(""))).withColumn(
        "subscription", F.coalesce("subscription", F.lit(""))
    )
    kind = F.col("kind")
    placed = F.col("ledger_id").isNotNull() & F.col("entry_id").isNotNull()
    sound = F.col("topic").isNotNull() & F.col("sequence").isNotNull()
    clearing = (kind == Kind.CLEAR_BACKLOG.value) & F.col("ledger_id").isNull()
    seeking = (kind == Kind.SEEK.value) & placed & (F.col("ledger_id") >= 0) & (F.col("entry_id") >= 0)
    resetting = ordered.where(sound & (seeking | clearing | (kind == Kind.COMMIT.value)))
    values = F.struct(*_ORDER, "ledger_id", "entry_id", "ack_set")
    last = (
        resetting.withColumn("transaction", F.when(kind == Kind.COMMIT.value, F.col("transaction")))
        .groupBy(*_NAMES, "kind", "transaction")
        .agg(F.max_by(values, F.struct(*_ORDER)).alias("last"))
    )
    found = ResetSearch()
    for row in last.collect():
        found.add(row.asDict() | row.last.asDict())
    clears = found.open_clears()
    return found.resets(_published_before(ordered, clears) if clears else {})


def _published_before(ordered: DataFrame, clears: dict[Name, Order]) -> dict[Name, Position]:
    """Map each subscription in `clears` to the last position published before its backlog was cleared."""
    cleared = ordered.sparkSession.createDataFrame(
        [(*name, *order) for name, order in clears.items()],
        "topic string, cleared string, cleared_file string, cleared_sequence bigint",
    )
    at = F.struct(F.col("cleared_file").alias("file"), F.col("cleared_sequence").alias("sequence"))
    before = (
        ordered.where(F.col("kind").isin(sorted(PUBLISHING)))
        .join(F.broadcast(cleared), "topic")
        .where((F.col("subscription") == "") | (F.col("subscription") == F.col("cleared")))
        .where(F.struct(*_ORDER) < at)
        .groupBy("topic", "cleared")
        .agg(F.max(F.struct("ledger_id", "entry_id")).alias("last"))
    )
    return {
        (row.topic, row.cleared): Position(row.last.ledger_id, row.last.entry_id) for row in before.collect()
    }
