"""The acknowledgments that each subscription would lose in a restart of the broker with given settings."""

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
    """Return the messages that each subscription would lose in a restart, and why; greatest loss first.

    Parameters
    ----------
    cursors
        The result of `replay` or `cursors`, or rows of the data source `pulsar_stats`.
    settings
        The settings of the broker; None for Pulsar 4.2's defaults.
    restarts
        The kinds of restart. The result has a row for each subscription and kind.

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
