"""What a restart under given broker settings would lose, for every subscription of a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.broker.settings import BrokerSettings
from ackwell.replay import table_schemas
from ackwell.spark.schema import AUDIT, conform
from ackwell.spark.tasks import audit_rows as tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ackwell.broker.writes import Restart


def restart_audit(
    cursors: DataFrame,
    settings: BrokerSettings | None = None,
    *,
    restarts: tuple[Restart, ...] = ("graceful", "crash"),
) -> DataFrame:
    """Return what each subscription would lose in a restart, and why; most at risk first.

    Parameters
    ----------
    cursors
        What `replay` or `cursors` gave, or the data source `pulsar_stats`.
    settings
        What the broker is set to; Pulsar 4.2's defaults where `None`.
    restarts
        A row for each of these.

    Returns
    -------
    DataFrame
        With the columns of `ackwell.spark.schema.AUDIT`. The rules are those of
        `ackwell.broker.restart.restart_loss`.
    """
    table = conform(cursors, table_schemas.AUDITED, "cursors")
    chosen = settings or BrokerSettings()

    def audit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from tasks.audit_batches(batches, chosen, restarts)

    worst = [F.desc("lost_messages_min"), F.desc("before_flush_min")]
    return table.mapInArrow(audit, AUDIT).orderBy(*worst, "topic", "subscription", "restart")
