"""The fold of event rows that Spark passes. The strategy `rows` and streams use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ackwell import Ledgers, PositionRangeSet
from ackwell.cursor.cursor_state import CursorState
from ackwell.errors import EventError
from ackwell.position import Position
from ackwell.replay.columns import fold_batches, with_columns

if TYPE_CHECKING:
    from ackwell.replay.resets import Resets


class RowFold:
    """Folds all rows of a task into partials. `resets` and `ordered` are passed to the `Fold`."""

    def __init__(self, resets: Resets, *, ordered: bool, strict: bool) -> None:
        self._resets = resets
        self._ordered = ordered
        self._strict = strict

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches of events, and yield rows of the table `PARTIALS`."""
        rows = map(with_lists, batches)
        yield from fold_batches(rows, self._resets, ordered=self._ordered, strict=self._strict)


def cursor_state(row: dict[str, Any]) -> CursorState:
    """Return the state of a cursor from a row of the table `CURSORS` or `STATS`."""
    return CursorState(
        Position(row["mark_delete_ledger_id"], row["mark_delete_entry_id"]),
        PositionRangeSet.parse(row["individually_deleted"] or "[]"),
        {Position.parse(at): tuple(words) for at, words in row["batch_deleted"] or ()},
        None if row["ledgers"] is None else Ledgers(sorted(row["ledgers"])),
    )


def with_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert the column `ack_set` of a batch from texts to lists. `python_rows` made the texts."""
    index = batch.schema.get_field_index("ack_set")
    if index < 0 or batch.column(index).null_count == batch.num_rows:
        return batch
    # For a slice of an array, `if_else` of PyArrow 15 and 18 reads wrong texts. This call copies the slice.
    texts = pa.concat_arrays([batch.column(index)])
    # The text of an empty list is empty. `split_pattern` would make a list with one empty word of it.
    words = pc.split_pattern(pc.if_else(pc.equal(texts, ""), None, texts), ",")
    try:
        sets = words.cast(pa.list_(pa.int64()))
    except pa.ArrowInvalid:
        raise EventError("an ack set contains null; expected signed 64-bit words") from None
    empty = pa.array([[]], sets.type)[0]
    sets = pc.if_else(pc.equal(texts, ""), empty, sets)
    return with_columns(batch, {"ack_set": sets})
