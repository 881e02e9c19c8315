"""A task of the strategy `files`: the row groups of one split of a Parquet file, read and folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ackwell.spark.event_rows import COLUMNS
from ackwell.spark.fold import Fold

if TYPE_CHECKING:
    from ackwell.spark.folded import Turns

SPLIT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of Parquet a task reads: some five million events."""

SLICE_ROWS: Final = 131_072
"""Rows decoded at a time."""


class Split(NamedTuple):
    """The row groups of a file whose middle lies in a range of its bytes, as Spark cuts files."""

    path: str
    start: int
    end: int


def fold_split(split: Split, turns: Turns) -> Iterator[pa.RecordBatch]:
    """Fold the row groups of one split."""
    filesystem, path = fs.FileSystem.from_uri(_uri(split.path))
    encoded = ["topic", "subscription", "kind", "file"]
    with filesystem.open_input_file(path) as source:
        parquet = pq.ParquetFile(source, read_dictionary=encoded)
        groups = [
            index
            for index in range(parquet.num_row_groups)
            if split.start <= _middle(parquet.metadata.row_group(index)) < split.end
        ]
        columns = [name for name in COLUMNS if _holds_values(parquet.metadata, groups, name)]
        folding = Fold(turns)
        for batch in parquet.iter_batches(SLICE_ROWS, row_groups=groups, columns=columns, use_threads=False):
            folding.feed(batch)
    yield from folding.partials()


def _holds_values(metadata: pq.FileMetaData, groups: list[int], name: str) -> bool:
    """Tell whether a column is there and, by its statistics, holds anything but nulls."""
    for index in groups:
        group = metadata.row_group(index)
        for number in range(group.num_columns):
            chunk = group.column(number)
            if chunk.path_in_schema.partition(".")[0] != name:
                continue
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                return True
            if name not in _OPTIONAL or statistics.null_count < chunk.num_values:
                return True
    return False


_OPTIONAL: Final = ("batch_index", "batch_size", "ack_set", "detail", "file")


def _middle(group: pq.RowGroupMetaData) -> int:
    """Give the middle of a row group's bytes in its file."""
    columns = [group.column(index) for index in range(group.num_columns)]
    start = min(
        column.data_page_offset
        if column.dictionary_page_offset is None
        else min(column.dictionary_page_offset, column.data_page_offset)
        for column in columns
    )
    return int(start + sum(column.total_compressed_size for column in columns) // 2)


def _uri(path: str) -> str:
    """Give a path as Hadoop prints it (`file:/tmp/x`) as a URI that Arrow reads."""
    scheme, separator, rest = path.partition(":/")
    if not separator:
        return path
    return f"{scheme}:///{rest.lstrip('/')}" if scheme == "file" else path
