"""The footers of Parquet files: compared with PyArrow's reader, and damaged."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.errors import AckwellError
from ackwell.replay.parquet import ParquetEvents
from ackwell.replay.parquet_footer import FooterError, row_groups_of

COLUMNS = {
    "one": pa.array(["t"] * 40),
    "texts": pa.array([f"é{n}" for n in range(40)]),
    "nulls": pa.array([None] * 40, pa.string()),
    "some": pa.array([None, 5] * 20),
    "small": pa.array(range(-20, 20), pa.int32()),
    "real": pa.array([1.5] * 40),
    "sure": pa.array([True] * 40),
    "words": pa.array([[1], None, [2, 3], []] * 10),
    "bytes": pa.array([b"\xff"] * 40),
}
NAMES = {"PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY", "BIT_PACKED"}


def footer_of(file: bytes) -> bytes:
    length = int.from_bytes(file[-8:-4], "little")
    return file[-8 - length : -8]


def written(columns: dict[str, pa.Array], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 2},
        {"write_statistics": False, "compression": "zstd"},
        {"use_dictionary": False, "column_encoding": {"texts": "DELTA_BYTE_ARRAY"}},
        {"write_page_index": True, "sorting_columns": [pq.SortingColumn(0)], "store_schema": False},
    ],
)
def test_chunks_are_those_of_pyarrow(options: dict[str, Any]) -> None:
    """`RowGroupMetaData.column` is safe on a footer that is not damaged."""
    file = written(COLUMNS, **options)
    metadata = pq.read_metadata(io.BytesIO(file))
    groups = row_groups_of(footer_of(file))
    assert len(groups) == metadata.num_row_groups
    for index, group in enumerate(groups):
        expected = metadata.row_group(index)
        assert len(group) == expected.num_columns
        for number, (path, chunk) in enumerate(group.items()):
            column = expected.column(number)
            assert (path, chunk.values) == (column.path_in_schema, column.num_values)
            assert chunk.uncompressed_bytes == column.total_uncompressed_size
            assert chunk.is_dictionary == (set(column.encodings) <= NAMES)
            assert chunk.has_dictionary == column.has_dictionary_page
            statistics = column.statistics
            assert chunk.nulls == (statistics.null_count if statistics else None)
            has_bounds = path in ("one", "texts", "some", "small", "words.list.element")
            bounds = (statistics.min, statistics.max) if statistics and has_bounds else (None, None)
            assert (chunk.least, chunk.greatest) == bounds


def test_any_changed_bit_of_a_footer_gives_an_error_or_columns(tmp_path: Path) -> None:
    """PyArrow 26 ends the process at some of these bits if it is asked for a column of a row group."""
    file = written({"ledger_id": pa.array([3, None])}, store_schema=False, compression="NONE")
    path = tmp_path / "a.parquet"
    length = len(footer_of(file))
    refused = 0
    for number in range(8 * (length + 8)):
        damaged = bytearray(file)
        damaged[-8 - length + number // 8] ^= 1 << number % 8
        path.write_bytes(damaged)
        try:
            with ParquetEvents(str(path)) as events:
                events.survey()
        except AckwellError:
            refused += 1
    assert 0 < refused < 8 * (length + 8)


def test_a_part_of_a_footer_is_refused() -> None:
    footer = footer_of(written(COLUMNS))
    for end in range(0, len(footer), 7):
        with pytest.raises(FooterError):
            row_groups_of(footer[:end])
    for nested in (b"\x1c" * 5_000, b"\x1b\x01\xcc" + b"\x1c" * 5_000):
        with pytest.raises(FooterError):
            row_groups_of(nested)


def test_an_integer_of_more_than_64_bits_is_refused() -> None:
    """Without a limit, the time is quadratic in the number of bytes."""
    row_groups, list_of_structs = b"\x49", b"\xfc"
    with pytest.raises(FooterError, match="damaged"):
        row_groups_of(row_groups + list_of_structs + b"\x80" * 11 + b"\x00" + b"\x00")


def test_fields_of_other_types_are_skipped() -> None:
    """A newer writer may add fields of any type, and a damaged field number hides a field."""
    #          bool  byte     double         binary  set of bools   map of byte → bool        long number
    skipped = b"\x11\x13\x05\x17" + b"\1" * 8 + b"\x18\x01x" + b"\x1a\x21\1\2" + b"\x1b\x01\x31\x05\x01"
    empty_map, far = b"\x1b\x00", b"\x06\xc8\x01\x03"
    assert row_groups_of(skipped + empty_map + far + b"\x00") == []
    with pytest.raises(FooterError):
        row_groups_of(b"\x1d\x00")
