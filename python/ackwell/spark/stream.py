"""Cursors of a stream of events: a partial per micro-batch, then state by subscription and ledger.

Raw rows are folded before the shuffle, so the state store sees a few partials a micro-batch instead of
every event. State is a map from ledger to partial, in ackwell's own versioned and checksummed bytes;
only the ledgers that a micro-batch touches are written. Late and duplicate events are harmless, for
partials merge in any order and twice.

Order matters for seeks alone: a subscription that has them must come in order and by one task (one
partition of a topic, one file), and a cleared backlog must name its position. Otherwise the query
fails and says so, rather than guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ackwell.replay import tables
from ackwell.replay.columns import fold_batches
from ackwell.replay.event_rows import COLUMNS
from ackwell.replay.folded import Folded
from ackwell.spark.schema import CURSORS, PARTIALS, conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_NO_LEDGER: Final = -1
"""The map's key for what belongs to no ledger; ledger ids are at least 0."""


def cursor_stream(events: DataFrame, *, forget_after: timedelta | None = None) -> DataFrame:
    """Follow a stream of events: after each micro-batch, the cursor of every subscription it touched.

    Parameters
    ----------
    events
        A streaming DataFrame with the columns of `ackwell.spark.schema.EVENTS`.
    forget_after
        Forget a subscription of which nothing was heard for so long, in the first micro-batch after
        it; never where `None`. Set `spark.sql.streaming.noDataMicroBatches.enabled` to false, as
        `local_session` does, or Spark runs empty micro-batches without end.

    Returns
    -------
    DataFrame
        A streaming one with the columns of `ackwell.spark.schema.CURSORS`. The caller owns
        `writeStream`: output mode `update`, and a checkpoint location, to which the number of shuffle
        partitions is frozen (two to four times the cores, set before the first start).

    It needs the RocksDB state store, which `local_session` sets.
    """
    rows = conform(events, tables.EVENTS, "events").select(*COLUMNS)
    return (
        # A list would cross from the JVM in time quadratic in the rows of an Arrow batch: after each row
        # Spark asks for the batch's size, and a list column walks all of its rows to tell.
        rows.withColumn("ack_set", F.array_join("ack_set", ",", "null"))
        .mapInArrow(_fold, PARTIALS)
        .groupBy("topic", "subscription")
        .transformWithState(
            _Cursors(forget_after),
            outputStructType=CURSORS,
            outputMode="Update",
            timeMode="None" if forget_after is None else "ProcessingTime",
        )
    )


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from fold_batches(map(_with_lists, batches))


def _with_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the ack sets as lists again; most batches have none."""
    index = batch.schema.get_field_index("ack_set")
    texts = batch.column(index)
    if texts.null_count == len(texts):
        return batch
    sets = [
        None if text is None else [int(word) for word in text.split(",") if text]
        for text in texts.to_pylist()
    ]
    return batch.set_column(index, "ack_set", pa.array(sets, pa.list_(pa.int64())))


class _Cursors(StatefulProcessor):
    """The state of one subscription: its partials by ledger, and when it was last heard of."""

    def __init__(self, forget_after: timedelta | None) -> None:
        self._forget_after_ms = forget_after and int(forget_after.total_seconds() * 1000)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._ledgers = handle.getMapState("ledgers", "ledger_id bigint", "state binary")
        self._heard = handle.getValueState("heard", "time_ms bigint")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str, str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Join the micro-batch's partials into the state, and give the cursor."""
        from ackwell.spark.tasks.cursors import state_of
        from ackwell.spark.tasks.rows import cursor_row

        arrived: dict[int | None, Folded] = {}
        for row in rows:
            part = Folded.decode(row.ledger_id, bytes(row.state))
            if row.ledger_id in arrived:
                arrived[row.ledger_id].merge(part)
            else:
                arrived[row.ledger_id] = part
        whole = Folded()
        for (known_id,), (state,) in list(self._ledgers.iterator()):
            ledger_id = None if known_id == _NO_LEDGER else known_id
            known = Folded.decode(ledger_id, bytes(state))
            if ledger_id in arrived:
                known.merge(arrived.pop(ledger_id))
                self._store(ledger_id, known)
            whole.merge(known)
        for ledger_id, part in arrived.items():
            self._store(ledger_id, part)
            whole.merge(part)
        self._hear(timerValues)
        name = str(key[0]), str(key[1])
        yield Row(**cursor_row(state_of(name, whole)))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Forget the subscription, unless it was heard of since the timer was set."""
        assert self._forget_after_ms is not None
        heard = self._heard.get()
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        if heard is not None and heard[0] + self._forget_after_ms > now_ms:
            self._handle.registerTimer(heard[0] + self._forget_after_ms)
        else:
            self._ledgers.clear()
            self._heard.clear()
        yield from ()

    def close(self) -> None:
        """There is nothing to close."""

    def _store(self, ledger_id: int | None, part: Folded) -> None:
        for part_id, state in part.encode():
            if part_id == ledger_id:
                known_id = _NO_LEDGER if ledger_id is None else ledger_id
                self._ledgers.updateValue((known_id,), (state,))

    def _hear(self, timer_values: Any) -> None:
        if self._forget_after_ms is None:
            return
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        if not self._heard.exists():
            self._handle.registerTimer(now_ms + self._forget_after_ms)
        self._heard.update((now_ms,))
