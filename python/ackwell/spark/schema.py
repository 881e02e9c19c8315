"""The pipeline's tables as Spark schemas, and the check of DataFrames.

The columns of an event are the fields of `ackwell.replay.events.Event`, in traces, Parquet files and Spark.
`conform` checks a DataFrame while a query is built, before any job starts. It reports all columns that are
missing or have a wrong type. It adds missing optional columns as nulls, and casts integers to 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark program uses)
from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from ackwell.integers import INT64_MAX, NOT_INT64
from ackwell.replay import table_schemas
from ackwell.replay.columns import COLUMNS
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    kinds = ((field.name, field.dataType.simpleString()) for field in given.schema)
    columns = [table_schemas.GivenColumn(name, kind, kind) for name, kind in kinds]
    table_schemas.check_columns(what, columns, table)
    present = {column.name.lower(): column for column in columns}
    return given.select(
        *(_read(present.get(field.name), field).alias(field.name) for field in spark_schema(table))
    )


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


def _read(present: table_schemas.GivenColumn | None, field: StructField) -> Column:
    """Return an expression that converts a column to the type of `field`; nulls if the column is missing."""
    if present is None:
        return F.lit(None).cast(field.dataType)
    value = F.col(f"`{present.name}`")
    if present.type.startswith("timestamp"):
        return F.unix_millis(value.cast("timestamp"))
    if present.type in ("float", "double"):
        return _from_doubles(present.name)
    if present.type == "int" and isinstance(field.dataType, ArrayType):
        return _nulls(present.name, field.dataType)
    return value.cast(field.dataType)


def _from_doubles(name: str) -> Column:
    """Return an expression that converts a column of doubles to integers.

    pandas writes a column of integers with missing values as doubles.
    """
    value = F.col(f"`{name}`")
    message = F.concat(F.lit(f"column {name!r} {NOT_INT64}: "), value.cast("string"))
    is_whole = value.isNull() | ((F.floor(value) == value) & (F.abs(value) < float(INT64_MAX + 1)))
    return F.when(is_whole, value.cast("bigint")).otherwise(F.raise_error(message))


def _nulls(name: str, kind: DataType) -> Column:
    """Return an expression that converts a column of nulls to the list type `kind`.

    Spark reads a list column without values as a column of integers. The query fails at an integer that is
    not null.
    """
    value = F.col(f"`{name}`")
    message = F.concat(F.lit(f"column {name!r} is not {kind.simpleString()}: "), value.cast("string"))
    return F.when(value.isNull(), F.lit(None).cast(kind)).otherwise(F.raise_error(message).cast(kind))
