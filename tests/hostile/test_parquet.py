"""Parquet files with other columns, types and values than events have, and damaged ones."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackwell.errors import AckwellError
from ackwell.replay.files import read_events
from tests.commands import ackwell, held
from tests.hostile.values import damaged

QUICK, LONG = 20, 20_000
FIXTURES = list(HealthCheck)

ROWS = 5
COLUMNS: dict[str, list[Any]] = {
    "topic": ["t"] * ROWS,
    "subscription": ["", "", "s", "s", "s"],
    "sequence": [1, 2, 3, 4, 5],
    "kind": ["publish", "publish", "ack", "seek", "ack"],
    "ledger_id": [3] * ROWS,
    "entry_id": [0, 1, 1, 0, 0],
    "batch_index": [None, None, None, None, 1],
    "batch_size": [2, 2, 2, None, 2],
    "ack_set": [None, None, [1], None, None],
    "transaction": [None] * ROWS,
    "time_ms": [5] * ROWS,
    "deliver_at_ms": [9] * ROWS,
}
ODD: list[pa.Array] = [
    pa.nulls(ROWS),
    pa.array([None] * ROWS, pa.int64()),
    pa.array([None] * ROWS, pa.string()),
    pa.array([-1] * ROWS),
    pa.array([2**63 - 1] * ROWS),
    pa.array([2**64 - 1] * ROWS, pa.uint64()),
    pa.array([-128] * ROWS, pa.int8()),
    pa.array([2**31] * ROWS, pa.uint32()),
    pa.array([1.5] * ROWS),
    pa.array([True] * ROWS),
    pa.array([""] * ROWS),
    pa.array(["\x00", "\u202e", "a\nb", "x" * 5_000, "ack"]),
    pa.array(["ack_cumulative"] * ROWS, pa.large_string()),
    pa.array(["commit", "abort", "unsubscribe", "trim", "meta"]).dictionary_encode(),
    pa.array([b"\xff"] * ROWS, pa.binary()),
    pa.array([[None]] * ROWS, pa.list_(pa.int64())),
    pa.array([[-1] * 20_000] * ROWS, pa.list_(pa.int64())),
    pa.array([["x"]] * ROWS, pa.list_(pa.string())),
    pa.array([[2**64 - 1]] * ROWS, pa.list_(pa.uint64())),
    pa.array([{"a": 1}] * ROWS),
    pa.array([0] * ROWS, pa.timestamp("us")),
]


@st.composite
def parquet_files(draw: st.DrawFn) -> bytes:
    """Draw a table of events with columns replaced, missing or renamed, as a file that may be damaged."""
    table = {name: pa.array(values) for name, values in COLUMNS.items()}
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(list(COLUMNS)))
        what = draw(st.sampled_from(["odd", "odd", "missing", "renamed", "twice"]))
        if what == "odd":
            table[name] = draw(st.sampled_from(ODD))
        elif what == "twice":
            table[name.upper()] = table.get(name, pa.nulls(ROWS))
        elif name in table:
            column = table.pop(name)
            if what == "renamed":
                table[name.upper()] = column
    options: dict[str, Any] = {
        "use_dictionary": draw(st.booleans()),
        "write_statistics": draw(st.booleans()),
        "row_group_size": draw(st.sampled_from([1, 2, ROWS])),
        "compression": draw(st.sampled_from(["NONE", "zstd", "snappy"])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(table), file, **options)
    return draw(st.just(file.getvalue()) | damaged(file.getvalue()))


def check(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    held(ackwell("replay", str(path)))
    held(ackwell("replay", "--at", "3", "--format", "json", str(path)))
    with suppress(AckwellError):
        assert sum(1 for _ in read_events([path])) >= 0


@given(parquet_files())
@settings(max_examples=QUICK, suppress_health_check=FIXTURES)
def test_any_table_is_replayed_or_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    check(tmp_path / "a.parquet", data)


@pytest.mark.proof
@given(parquet_files())
@settings(max_examples=LONG, suppress_health_check=FIXTURES)
def test_many_tables_are_replayed_or_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    check(tmp_path / "a.parquet", data)


@pytest.mark.parametrize("name", ["topic", "subscription", "kind"])
@pytest.mark.parametrize("encoded", [True, False])
def test_a_name_that_is_not_unicode_is_refused_in_one_line(tmp_path: Path, name: str, encoded: bool) -> None:
    """One bit of a page turns a letter into a byte that begins no character."""
    file = io.BytesIO()
    table = pa.table(COLUMNS | {name: ["publish"] * ROWS})
    pq.write_table(table, file, use_dictionary=encoded, write_statistics=False, compression="NONE")
    data = file.getvalue().replace(b"publish", b"\xffublish", 1)
    assert data != file.getvalue()
    check(tmp_path / "a.parquet", data)
    assert ackwell("replay", str(tmp_path / "a.parquet")).code


def test_the_columns_themselves_are_events(tmp_path: Path) -> None:
    pq.write_table(pa.table(COLUMNS), tmp_path / "a.parquet")
    assert len(list(read_events([tmp_path]))) == ROWS
    assert not held(ackwell("replay", str(tmp_path))).code
