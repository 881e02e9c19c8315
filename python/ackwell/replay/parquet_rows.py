"""Read Parquet files of events row by row, with all fields of an event.

`ackwell.replay.parquet` reads the same files, but only the columns that a fold needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell.errors import EventError
from ackwell.integers import INT64_MAX
from ackwell.replay import table_schemas
from ackwell.replay.columns import array_of, cast, ndarray_of
from ackwell.replay.events import Event, event_from_fields
from ackwell.replay.parquet import ParquetEvents, check_columns, errors_naming
from ackwell.replay.table_schemas import EVENT_COLUMNS

if TYPE_CHECKING:
    from ackwell.object_paths import AnyPath

_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.EVENTS)
_ROWS: Final = 4_096
"""The number of rows that are converted to events at a time."""

_ORDER: Final = [("file", "ascending"), ("sequence", "ascending")]


def parquet_events(files: Sequence[tuple[AnyPath, Mapping[str, str | None]]]) -> Iterator[Event]:
    """Read the events of files in the order of `file` and `sequence`.

    `files` has the path of each file, and a map of the columns that the path contains. If the rows are
    already in order, they are streamed. Otherwise all rows are loaded into memory and sorted.
    """
    if _are_in_order(files):
        for path, constants in files:
            for batch in _batches(path, constants):
                yield from _events(batch)
        return
    rows = pa.Table.from_batches([batch for each in files for batch in _batches(*each)], _ROW_SCHEMA)
    for batch in rows.take(pc.sort_indices(rows, _ORDER)).to_batches(_ROWS):
        yield from _events(batch)


_ROW_SCHEMA: Final = _SCHEMA.append(pa.field("path", pa.string())).append(pa.field("row", pa.int64()))
"""The columns of `EVENTS`, and two more columns: the path of the file, and the row number in it, from 1."""


def _are_in_order(files: Sequence[tuple[AnyPath, Mapping[str, str | None]]]) -> bool:
    """Return whether the rows of files are sorted by the columns `_ORDER`. Only these columns are read."""
    names = [name for name, _ in _ORDER]
    last: tuple[str, int] | None = None
    for batch in (batch for each in files for batch in _batches(*each, names)):
        with errors_naming(batch.column("path")[0].as_py() if batch.num_rows else ""):
            keys = [batch.column(name).to_pylist() for name in names]
        for file, sequence in zip(*keys, strict=True):
            # The keys of nulls are the greatest, because Arrow's sort puts nulls at the end.
            key = "\U0010ffff" if file is None else file, INT64_MAX + 1 if sequence is None else sequence
            if last is not None and key < last:
                return False
            last = key
    return True


def _batches(
    path: AnyPath, constants: Mapping[str, str | None], names: Sequence[str] = tuple(EVENT_COLUMNS)
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file with the columns of `_ROW_SCHEMA`. Columns that are not in `names` are null."""
    with ParquetEvents(str(path), constants) as opened:
        schema = opened.schema
        if schema is None:
            return
        check_columns(schema, str(path), constants, table_schemas.EVENTS)
        own = {field.name.lower(): field.name for field in schema if field.name.lower() in EVENT_COLUMNS}
        # If the file has none of the columns, read any column, to get the number of rows.
        read = [own[name] for name in names if name in own] or schema.names[:1]
        before = 0
        for batch in opened.batches(None, read, rows=_ROWS):
            with errors_naming(str(path)):
                columns = {name: _column(batch, name, own.get(name), constants) for name in EVENT_COLUMNS}
            numbers = array_of(np.arange(before + 1, before + batch.num_rows + 1, dtype=np.int64))
            if not opened.has_sequence:
                # Rows are ordered by their number in the file, and files by their path.
                columns["sequence"] = numbers
                if columns["file"].null_count:
                    columns["file"] = _repeated(str(path), batch.num_rows)
            columns |= {"path": _repeated(str(path), batch.num_rows), "row": numbers}
            yield pa.record_batch(list(columns.values()), schema=_ROW_SCHEMA)
            before += batch.num_rows


def _column(
    batch: pa.RecordBatch, name: str, own: str | None, constants: Mapping[str, str | None]
) -> pa.Array:
    """Return the column for the event field `name`, converted to the field's type."""
    kind = _SCHEMA.field(name).type
    if name in constants:
        return _repeated(table_schemas.path_value(name, constants[name]), batch.num_rows, kind)
    index = -1 if own is None else batch.schema.get_field_index(own)
    if index < 0:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(index)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        # `safe=False`: fractions of a millisecond are dropped.
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return cast(name, column, kind)


def _repeated(value: str | int | None, count: int, kind: Any = None) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind or pa.string()), count)


def _events(batch: pa.RecordBatch) -> Iterator[Event]:
    paths, rows = batch.column("path").to_pylist(), ndarray_of(batch.column("row")).tolist()
    with errors_naming(paths[0] if paths else ""):
        # `to_pylist` raises an error for text that is not Unicode.
        found = batch.select(list(EVENT_COLUMNS)).to_pylist()
    for fields, path, row in zip(found, paths, rows, strict=True):
        if fields["sequence"] is None:
            # Other rows of the file have a sequence, so this row has no place among them. A fold refuses
            # such a row, too.
            raise EventError("the event has no sequence", file=path, line=row)
        yield event_from_fields(fields, file=path, line=row)
