"""What must be known before acknowledgments are folded in any order: the last seek, and cleared backlogs.

A seek makes the acknowledgments before it void, and a cleared backlog acknowledges whatever was
published before it: the only two events whose order matters. They are rare, so one small query (the
column `kind` alone, by its dictionary pages) finds them first; it runs when the pipeline is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.errors import ProtocolError
from ackwell.position import Position
from ackwell.replay.events import Kind
from ackwell.replay.folded import Seek, Turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ackwell.replay.folded import Order

Name = tuple[str, str]


_ORDER = ("file", "sequence")


def find_turns(events: DataFrame) -> Turns:
    """Find the seeks and cleared backlogs of events (columns as in the table `EVENTS`)."""
    names = ("topic", "subscription")
    ordered = events.withColumn("file", F.coalesce("file", F.lit("")))
    kind = F.col("kind")
    clearing = (kind == Kind.CLEAR_BACKLOG.value) & F.col("ledger_id").isNull()
    turning = ordered.where((kind == Kind.SEEK.value) | clearing)
    last = turning.groupBy(*names, "kind").agg(
        F.max(F.struct(*_ORDER, "ledger_id", "entry_id")).alias("last")
    )
    seeks: dict[Name, Seek] = {}
    clears: dict[Name, Order] = {}
    for row in last.collect():
        name, at = (row.topic, row.subscription), row.last
        if row.kind == Kind.CLEAR_BACKLOG:
            clears[name] = at.file, at.sequence
        elif at.ledger_id is None or at.entry_id is None:
            raise ProtocolError(f"{name}: the seek at {at.file, at.sequence} has no position")
        else:
            position = Position(at.ledger_id, at.entry_id)
            seeks[name] = Seek((at.file, at.sequence), position)
    clears = {name: order for name, order in clears.items() if name not in seeks or seeks[name].order < order}
    if not clears:
        return Turns(seeks, {})
    cleared = (
        turning.where(kind == Kind.CLEAR_BACKLOG.value)
        .groupBy(*names)
        .agg(F.max(F.struct(*_ORDER)).alias("cleared"))
    )
    before = (
        ordered.where(F.col("kind").isin([Kind.PUBLISH.value, Kind.RECEIVE.value]))
        .join(F.broadcast(cleared), list(names))
        .where(F.struct(*_ORDER) < F.col("cleared"))
        .groupBy(*names)
        .agg(F.max(F.struct("ledger_id", "entry_id")).alias("last"))
    )
    ends = {
        (row.topic, row.subscription): Position(row.last.ledger_id, row.last.entry_id)
        for row in before.collect()
    }
    for name, order in clears.items():
        if name not in ends:
            raise ProtocolError(f"{name}: backlog cleared at {order} before anything was published")
    return Turns(seeks, {name: (order, ends[name]) for name, order in clears.items()})
