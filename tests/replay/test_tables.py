"""The tables of the pipeline: their required columns and their types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackwell.errors import SchemaError
from ackwell.replay import table_schemas
from ackwell.replay.table_schemas import Column, GivenColumn, arrow_schema, check_columns, readable_types

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


def test_a_column_of_another_type_is_read_only_if_no_value_changes() -> None:
    integers = {"bigint", "int", "smallint", "tinyint"}
    readable = {
        "string": {"void", "string", "string collate UTF8_LCASE", *integers},
        "bigint": {"void", "double", "float", *integers},
        "array<bigint>": {"void", "int", "array<void>", *(f"array<{each}>" for each in integers)},
        "binary": {"void", "binary"},
        "boolean": {"void", "boolean"},
        "map<string,array<bigint>>": {"void", "map<void,void>", "map<string,array<int>>"},
    }
    given = {"timestamp", "timestamp_ntz", "array<double>", "array<string>", "decimal(10,0)"}.union(
        *readable.values()
    )
    for name, expected in readable.items():
        assert {each for each in given if readable_types(Column("a", name, "")).fullmatch(each)} == expected
    for each in ("timestamp", "timestamp_ntz"):
        assert readable_types(Column("a_ms", "bigint", "")).fullmatch(each)


def test_all_flaws_of_columns_are_in_one_error() -> None:
    table = tuple(Column(name, "bigint", "", required=name != "d") for name in "abcdef")
    given = [
        GivenColumn(name, "text", kind) for name, kind in (("A", "bigint"), ("b", "string"), ("f", "int"))
    ]
    with pytest.raises(SchemaError) as refused:
        check_columns("x", [*given, *given[2:], given[2]._replace(name="F")], table, {"e"})
    assert str(refused.value) == (
        "x: column 'b' is text, expected bigint; column 'c' is missing; "
        "columns 'f' and 'f' and 'F' differ in case only"
    )
