"""The acknowledgments that a restart would lose under given broker settings, for every subscription."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from ackwell.broker.broker_settings import BrokerSettings
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
    """Return the loss of each subscription in a restart and its reasons, greatest loss first.

    Parameters
    ----------
    cursors
        The result of `replay` or `cursors`, or rows of the data source `pulsar_stats`.
    settings
        The settings of the broker; None for Pulsar 4.2's defaults.
    restarts
        The restarts, with a row for each.

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
