"""The tables of the pipeline: their required columns and their types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackwell.replay import table_schemas
from ackwell.replay.table_schemas import Column, arrow_schema

NAMES = {"topic", "subscription"}
REQUIRED = {
    "EVENTS": NAMES | {"sequence", "kind", "ledger_id", "entry_id"},
    "LEDGERS": {"topic", "ledger_id", "entries"},
    "PARTIALS": NAMES | {"state"},
    "CURSORS": NAMES,
    "RANGES": NAMES,
    "AUDITED": NAMES | {"mark_delete_ledger_id", "mark_delete_entry_id", "individually_deleted"},
    "AUDIT": NAMES,
    "MOMENTS": NAMES,
    "SIZING": NAMES,
    "STATS": NAMES,
}


@pytest.mark.parametrize("name", REQUIRED)
def test_a_row_that_lacks_its_name_or_what_its_table_is_for_is_refused(name: str) -> None:
    table = getattr(table_schemas, name)
    assert {column.name for column in table if column.required} == REQUIRED[name]
    assert arrow_schema(table).names == [column.name for column in table]


def test_types_are_arrows_also_nested() -> None:
    types = {
        "bigint": pa.int64(),
        "array<string>": pa.list_(pa.string()),
        "map<string,array<bigint>>": pa.map_(pa.string(), pa.list_(pa.int64())),
        "map<bigint,map<string,binary>>": pa.map_(pa.int64(), pa.map_(pa.string(), pa.binary())),
    }
    schema = arrow_schema(tuple(Column(name, name, "") for name in types))
    assert dict(zip(schema.names, schema.types, strict=True)) == types
