"""The messages that cursors would lose in a restart, as rows of the table `AUDIT`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ackwell.broker.restart import restart_loss
from ackwell.replay import table_schemas
from ackwell.replay.losses import unpack_sizes
from ackwell.spark.tasks.fold_rows import cursor_state

if TYPE_CHECKING:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.broker.writes import Restart

AUDIT_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.AUDIT)


def audit_batches(
    batches: Iterable[pa.RecordBatch], settings: BrokerSettings, restarts: tuple[Restart, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield a row of the table `AUDIT` for each pair of a cursor and a restart.

    For a cursor with an error, the numbers of the row are null.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            rows = [
                _audit(row, settings, restart)
                for row in batch.slice(start, _ROWS).to_pylist()
                for restart in restarts
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=AUDIT_SCHEMA)


_ROWS: Final = 64
"""The number of rows that are converted to Python objects at a time. A row may have a long text of ranges."""


def _audit(row: dict[str, Any], settings: BrokerSettings, restart: Restart) -> dict[str, Any]:
    if row["mark_delete_ledger_id"] is None:
        names = {name: row[name] for name in ("topic", "subscription")}
        return {**names, "restart": restart, "reasons": ["unknown: the row has no state"]}
    sizes = unpack_sizes(row["batch_sizes"])
    loss = restart_loss(cursor_state(row), settings, restart, batch_sizes=sizes)
    return {
        "topic": row["topic"],
        "subscription": row["subscription"],
        "restart": restart,
        "place": loss.place,
        "form": loss.form,
        "lost_entries": loss.entries,
        "lost_partial_entries": loss.partial_entries,
        "lost_messages_min": loss.messages.at_least,
        "lost_messages_max": loss.messages.at_most,
        "before_flush_min": loss.messages_before_flush.at_least,
        "before_flush_max": loss.messages_before_flush.at_most,
        "reasons": [str(reason) for reason in loss.reasons],
    }
