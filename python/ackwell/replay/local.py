"""Replay on one machine: from files or tables of events to a table of cursors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ackwell.errors import SchemaError
from ackwell.replay.columns import COLUMNS, CURSOR_SCHEMA, BatchReader, cursor_batches
from ackwell.replay.files import fold_files, fold_twice
from ackwell.replay.parquet import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackwell.replay.event_columns import Columns
    from ackwell.replay.fold import Fold


def replay_events(
    events: str | Path | Sequence[str | Path] | Any, *, strict: bool = False, threads: int | None = 1
) -> pa.Table:
    """Return an Arrow table with the cursor of each subscription.

    The columns of the table are those of `ackwell.replay.table_schemas.CURSORS`.

    Parameters
    ----------
    events : path, sequence of paths, or table
        Files and folders as for `ackwell replay`, or a table of events: pandas, Polars, PyArrow, or any other
        object with `__arrow_c_stream__`.
    strict : bool
        Whether to raise `ProtocolError` for a subscription with invalid events. If False, the row of such a
        subscription has an `error`.
    threads : int, optional
        The number of threads; None for one per core.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type. The message names each such column.
    EventError
        If a row is not an event of a subscription.

    Notes
    -----
    Convert the result with `pandas.DataFrame(table.to_pydict())`, `table.to_pandas()` or
    `polars.from_arrow(table)`. Time: O(events). Memory: the cursors.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({
    ...     "topic": ["t"] * 3, "subscription": ["s"] * 3, "sequence": [1, 2, 3],
    ...     "kind": ["publish", "ack", "ack"], "ledger_id": [5] * 3, "entry_id": [9, 0, 2],
    ... })
    >>> replay_events(events).select(["mark_delete_entry_id", "individually_deleted"]).to_pylist()
    [{'mark_delete_entry_id': 0, 'individually_deleted': '[(5:1..5:2]]'}]
    """
    if isinstance(events, (str, Path)):
        events = [events]
    if isinstance(events, (list, tuple)):
        fold = fold_files(events, threads=threads)
    else:
        fold = _fold_table(_table(events))
    return pa.Table.from_batches(cursor_batches(fold, strict=strict), CURSOR_SCHEMA)


def _table(events: Any) -> pa.Table:
    if not isinstance(events, pa.Table):
        if not hasattr(events, "__arrow_c_stream__"):
            raise TypeError(f"{type(events).__name__} is neither paths nor a table (__arrow_c_stream__)")
        events = pa.table(events)
    kinds = [(field.name, _without_views(field.type)) for field in events.schema]
    events = events.cast(pa.schema(kinds))
    check_columns(events.schema, "events", {})
    events = events.rename_columns([name.lower() for name in events.column_names])
    if "sequence" not in events.column_names:
        raise SchemaError("events: column 'sequence' is missing; it orders the events")
    return events.select([name for name in COLUMNS if name in events.column_names])


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return `kind` with string types in place of string views. Polars writes string views."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type))
    return pa.string() if pa.types.is_string_view(kind) else kind


def _fold_table(table: pa.Table) -> Fold:
    def read() -> Iterator[Columns]:
        reader = BatchReader()
        for batch in table.to_batches():
            if batch.num_rows:
                yield reader.columns(batch)

    return fold_twice(read)
