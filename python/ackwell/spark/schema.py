"""The pipeline's tables as Spark schemas, and the check of DataFrames.

The columns of an event are the fields of `ackwell.replay.events.Event`, in traces, Parquet files and Spark.
`conform` checks a DataFrame while a query is built, before any job starts. It reports all columns that are
missing or have a wrong type. It adds missing optional columns as nulls, and casts integers to 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark program uses)
from pyspark.sql import types
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ackwell.errors import SchemaError
from ackwell.integers import INT64_MAX, NOT_INT64
from ackwell.replay import table_schemas
from ackwell.replay.columns import COLUMNS
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_DOUBLES: Final = (FloatType, DoubleType)


def spark_schema(table: table_schemas.Table) -> StructType:
    """Return the Spark schema of a table. Each field has the comment of its column."""
    return StructType(
        [
            StructField(
                column.name,
                _type(column.type),
                nullable=True,
                metadata={"comment": column.comment},
            )
            for column in table
        ]
    )


def _type(name: str) -> DataType:
    def scalar(kind: table_schemas.ColumnType) -> DataType:
        found: DataType = getattr(types, kind.spark)()
        return found

    return table_schemas.build_type(name, scalar, ArrayType, MapType)


EVENTS: Final = spark_schema(table_schemas.EVENTS)
LEDGERS: Final = spark_schema(table_schemas.LEDGERS)
PARTIALS: Final = spark_schema(table_schemas.PARTIALS)
CURSORS: Final = spark_schema(table_schemas.CURSORS)
RANGES: Final = spark_schema(table_schemas.RANGES)
AUDIT: Final = spark_schema(table_schemas.AUDIT)
MOMENTS: Final = spark_schema(table_schemas.MOMENTS)
SIZING: Final = spark_schema(table_schemas.SIZING)
STATS: Final = spark_schema(table_schemas.STATS)
SAVES: Final = spark_schema(table_schemas.SAVES)


def conform(given: DataFrame, table: table_schemas.Table, what: str) -> DataFrame:
    """Return `given` with exactly the columns of `table`; raise `SchemaError` with all problems otherwise.

    Names may differ in case, as in Spark SQL. A timestamp is converted to a time in ms. Columns that are not
    in `table` are dropped. Doubles are read as integers; a double that is not a whole number fails the query
    when it runs. No job runs in this function. `what` names the DataFrame in the error.
    """
    found: dict[str, list[StructField]] = {}
    for field in given.schema:
        found.setdefault(field.name.lower(), []).append(field)
    wrong = []
    columns = []
    for column, field in zip(table, spark_schema(table), strict=True):
        present = found.get(field.name, [])
        if not present:
            if column.required:
                wrong.append(f"column {field.name!r} is missing")
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        elif len(present) > 1:
            wrong.append(f"columns {' and '.join(repr(each.name) for each in present)} differ in case only")
        elif (read := _read(present[0], field)) is None:
            kind = present[0].dataType.simpleString()
            wrong.append(f"column {present[0].name!r} is {kind}, expected {field.dataType.simpleString()}")
        else:
            columns.append(read.alias(field.name))
    if wrong:
        raise SchemaError(f"{what}: {'; '.join(wrong)}")
    return given.select(*columns)


def python_rows(events: DataFrame) -> DataFrame:
    """Return the columns that a fold reads, in the form in which Spark passes them to Python.

    An ack set is passed as text, because lists are slow: Spark computes the size of the Arrow batch after
    each row, and for a list column this computation reads all rows of the batch. The time would be quadratic
    in the rows of a batch.
    """
    given = {name.lower() for name in events.columns}
    rows = conform(events, table_schemas.EVENTS, "events").select(
        *(name for name in COLUMNS if name in given)
    )
    if "detail" in given:
        rows = rows.withColumn("detail", F.when(F.col("kind") == Kind.META.value, F.col("detail")))
    if "ack_set" in given:
        rows = rows.withColumn("ack_set", F.array_join("ack_set", ",", "null"))
    return rows


def _read(present: StructField, field: StructField) -> Column | None:
    """Return an expression that converts the column `present` to the type of `field`; None if impossible."""
    value = F.col(f"`{present.name}`")
    if _is_time(present.dataType) and field.name.endswith("_ms"):
        return F.unix_millis(value.cast("timestamp"))
    if isinstance(present.dataType, _DOUBLES) and isinstance(field.dataType, LongType):
        return _from_doubles(present.name)
    if isinstance(present.dataType, IntegerType) and isinstance(field.dataType, ArrayType):
        return _nulls(present.name, field.dataType)
    return value.cast(field.dataType) if _fits(present.dataType, field.dataType) else None


def _from_doubles(name: str) -> Column:
    """Return an expression that converts a column of doubles to integers.

    pandas writes a column of integers with missing values as doubles.
    """
    value = F.col(f"`{name}`")
    message = F.concat(F.lit(f"column {name!r} {NOT_INT64}: "), value.cast("string"))
    is_whole = value.isNull() | ((F.floor(value) == value) & (F.abs(value) < float(INT64_MAX + 1)))
    return F.when(is_whole, value.cast("bigint")).otherwise(F.raise_error(message))


def _nulls(name: str, kind: DataType) -> Column:
    """Return an expression of nulls for a column without values, which Spark reads as integers.

    `kind` is a list type. A value that is not null fails the query.
    """
    value = F.col(f"`{name}`")
    message = F.concat(F.lit(f"column {name!r} is not {kind.simpleString()}: "), value.cast("string"))
    return F.when(value.isNull(), F.lit(None).cast(kind)).otherwise(F.raise_error(message).cast(kind))


def _is_time(present: DataType) -> bool:
    return isinstance(present, TimestampType | TimestampNTZType)


def _fits(present: DataType, expected: DataType) -> bool:
    if isinstance(present, NullType):
        # A column from the names of folders that is null for every file.
        return True
    if isinstance(expected, ArrayType):
        return isinstance(present, ArrayType) and _fits(present.elementType, expected.elementType)
    if isinstance(expected, MapType):
        return (
            isinstance(present, MapType)
            and _fits(present.keyType, expected.keyType)
            and _fits(present.valueType, expected.valueType)
        )
    if isinstance(expected, LongType):
        return isinstance(present, _INTEGERS)
    if isinstance(expected, StringType) and isinstance(present, _INTEGERS):
        # Integers are accepted as names. Spark reads a column without values as integers.
        return True
    return type(present) is type(expected)
