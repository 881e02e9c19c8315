"""A task of the strategy `files`: the row groups of one split of a Parquet file, read and folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ackwell.errors import EventError
from ackwell.replay.columns import Fold
from ackwell.replay.event_rows import COLUMNS
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.replay.folded import Turns

SPLIT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of Parquet a task reads: some five million events."""

_SLICE_ROWS: Final = 65_536
"""Rows decoded at a time: their columns stay in the second-level cache."""

_BUFFER: Final = 1 << 20
"""Bytes of a column read at a time."""

_NAMES: Final = ("topic", "subscription")
_ENCODED: Final = [*_NAMES, "kind", "file"]
_TURNING: Final = {Kind.SEEK.value, Kind.CLEAR_BACKLOG.value}
_OPTIONAL: Final = ("batch_index", "batch_size", "ack_set", "detail", "file")


class Split(NamedTuple):
    """The row groups of a file whose middle lies in a range of its bytes, as Spark cuts files."""

    path: str
    start: int
    end: int


SURVEY: Final = "path string, start bigint, end bigint, turning boolean"
"""What `look_at` tells of each split."""


def look_at(uri: str) -> pa.RecordBatch:
    """Cut a file into splits, and tell whether it may hold seeks or cleared backlogs."""
    with _open(uri) as source:
        parquet = pq.ParquetFile(source, read_dictionary=["kind"], pre_buffer=False, buffer_size=_BUFFER)
        # PyArrow 18 cannot iterate over no row groups at all.
        groups = range(parquet.num_row_groups)
        kinds = parquet.iter_batches(_SLICE_ROWS, groups, ["kind"], use_threads=False) if groups else ()
        # The dictionaries alone tell, so no row is looked at.
        turning = any(
            _TURNING & set(kind.dictionary.to_pylist()) for batch in kinds for kind in batch.columns
        )
        size = source.size()
    rows = [
        {"path": uri, "start": start, "end": min(start + SPLIT_BYTES, size), "turning": turning}
        for start in range(0, size, SPLIT_BYTES)
    ]
    return pa.RecordBatch.from_pylist(rows)


def _open(uri: str) -> pa.NativeFile:
    filesystem, path = fs.FileSystem.from_uri(_uri(uri))
    return filesystem.open_input_file(path)


def fold_split(split: Split, turns: Turns, *, ordered: bool = True) -> Iterator[pa.RecordBatch]:
    """Fold the row groups of one split; `ordered` as in `Fold`."""
    with _open(split.path) as source:
        # Column chunks are streamed, not held: a row group may be much larger than what is folded of it.
        parquet = pq.ParquetFile(source, read_dictionary=_ENCODED, pre_buffer=False, buffer_size=_BUFFER)
        groups = [
            index
            for index in range(parquet.num_row_groups)
            if split.start <= _middle(parquet.metadata.row_group(index)) < split.end
        ]
        lean = not ordered and not any(turns)
        try:
            folded = _fold(parquet, groups, Fold(turns, ordered=ordered), lean=lean)
        except EventError:
            if not lean:
                raise
            # The same again, with what names the row.
            folded = _fold(parquet, groups, Fold(turns, ordered=ordered), lean=False)
    yield from folded.partials()


def _fold(parquet: pq.ParquetFile, groups: list[int], folding: Fold, *, lean: bool) -> Fold:
    for index in groups:
        chosen = _choose(parquet.metadata.row_group(index), lean=lean)
        batches = parquet.iter_batches(_SLICE_ROWS, [index], chosen.read, use_threads=False)
        for batch in batches:
            folding.feed(chosen.complete(batch))
    return folding


class _Columns(NamedTuple):
    """What is read of a row group, and what its statistics tell already."""

    read: list[str]
    constant: dict[str, str]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the columns that hold one value, as dictionaries of one."""
        codes = pa.array(np.zeros(batch.num_rows, np.int32)) if self.constant else None
        for name, value in self.constant.items():
            column = pa.DictionaryArray.from_arrays(codes, [value])
            batch = batch.append_column(name, column)
        return batch


def _choose(group: pq.RowGroupMetaData, *, lean: bool) -> _Columns:
    """Choose the columns to read: none whose statistics say that it is null throughout, or one name.

    A lean fold reads no sequence where its statistics say that it is well-formed, and where no row needs
    to be fed as an event.
    """
    chunks = [group.column(number) for number in range(group.num_columns)]
    statistics = {chunk.path_in_schema.partition(".")[0]: chunk.statistics for chunk in chunks}
    sizes = {chunk.path_in_schema.partition(".")[0]: chunk.num_values for chunk in chunks}
    read: list[str] = []
    constant: dict[str, str] = {}
    for name in COLUMNS:
        if name not in statistics:
            continue
        told = statistics[name]
        if told is None or not told.has_null_count:
            read.append(name)
        elif name in _OPTIONAL and told.null_count == sizes[name]:
            continue
        elif name in _NAMES and not told.null_count and told.has_min_max and told.min == told.max:
            constant[name] = told.min
        else:
            read.append(name)
    if lean and not set(read) & set(_OPTIONAL) and _is_count(statistics.get("sequence")):
        read.remove("sequence")
    return _Columns(read, constant)


def _is_count(told: pq.Statistics | None) -> bool:
    """Return whether a column is known to hold integers of at least 0, and no nulls."""
    if told is None or not told.has_null_count or told.null_count or not told.has_min_max:
        return False
    return bool(told.min >= 0)


def _middle(group: pq.RowGroupMetaData) -> int:
    """Return the middle of a row group's bytes in its file."""
    columns = [group.column(index) for index in range(group.num_columns)]
    start = min(
        column.data_page_offset
        if column.dictionary_page_offset is None
        else min(column.dictionary_page_offset, column.data_page_offset)
        for column in columns
    )
    return int(start + sum(column.total_compressed_size for column in columns) // 2)


def _uri(path: str) -> str:
    """Return a path as Hadoop prints it (`file:/tmp/x`) as a URI that Arrow reads."""
    scheme, separator, rest = path.partition(":/")
    if not separator:
        return path
    return f"{scheme}:///{rest.lstrip('/')}" if scheme == "file" else path
