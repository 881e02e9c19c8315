"""The columns of the tables that replays, audits and Spark jobs read and write.

The Arrow and Spark schemas are built from these tables. Types have Spark SQL's names. A required column must
exist. A missing optional column reads as null.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ackwell.errors import EventError, SchemaError
from ackwell.integers import INT64_MAX, NOT_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    import pyarrow as pa


class Column(NamedTuple):
    """A column of a table. `type` is the name of a Spark SQL type, such as `bigint` or `array<bigint>`."""

    name: str
    type: str
    comment: str
    required: bool = False


Table = tuple[Column, ...]

_NAMES: Final = (
    Column("topic", "string", "the topic's name", required=True),
    Column("subscription", "string", "the subscription's name", required=True),
)

# Columns of cursors that several tables share.
_MARK_DELETE: Final = (
    Column("mark_delete_ledger_id", "bigint", "the mark-delete position's ledger"),
    Column("mark_delete_entry_id", "bigint", "its entry; -1 before the first"),
    Column("individually_deleted", "string", "acknowledged ranges after it, as stats-internal prints them"),
)
_RANGE_COUNTS: Final = (
    Column("range_count", "bigint", "the number of these ranges"),
    Column("individually_deleted_entries", "bigint", "the number of entries in them"),
)
_BATCH_DELETED: Final = Column(
    "batch_deleted", "map<string,array<bigint>>", "ack sets of partly acknowledged batches"
)
_BACKLOG: Final = Column("backlog_entries", "bigint", "entries that are not wholly acknowledged")
_LEDGERS: Final = Column("ledgers", "map<bigint,bigint>", "the topic's ledgers and their numbers of entries")
_BATCH_SIZES: Final = Column("batch_sizes", "binary", "sizes of the batches after the mark-delete position")

EVENTS: Final[Table] = (
    *_NAMES,
    Column("sequence", "bigint", "orders the events of one file", required=True),
    Column("kind", "string", "the kind: ackwell.replay.events.Kind", required=True),
    Column("time_ms", "bigint", "when, in ms since the epoch"),
    Column("consumer", "string", "the consumer's name"),
    Column("ledger_id", "bigint", "the position's ledger", required=True),
    Column("entry_id", "bigint", "the position's entry", required=True),
    Column("batch_index", "bigint", "the message's index in its batch"),
    Column("batch_size", "bigint", "the number of messages in the batch"),
    Column("ack_set", "array<bigint>", "signed words, bit set = not acknowledged"),
    Column("key", "string", "the message's key"),
    Column("sticky_key_hash", "bigint", "the key's hash, signed 32 bit"),
    Column("deliver_at_ms", "bigint", "the earliest time of delivery, in ms since the epoch"),
    Column("redelivery_count", "bigint", "the number of earlier deliveries"),
    Column("transaction", "string", "the transaction it belongs to, as most:least bits"),
    Column("detail", "string", "further data, by kind"),
    Column("file", "string", "the event's file; orders events of several files"),
)
"""The table of events. It has a column for each field of `ackwell.replay.events.Event`, in the same order."""
EVENT_COLUMNS: Final = {column.name: column for column in EVENTS}
"""Maps the name of each event column to the column."""

LEDGERS: Final[Table] = (
    Column("topic", "string", "the topic's name", required=True),
    Column("ledger_id", "bigint", "the ledger", required=True),
    Column("entries", "bigint", "the number of its entries", required=True),
)

PARTIALS: Final[Table] = (
    *_NAMES,
    Column("ledger_id", "bigint", "the ledger; null for state without a ledger"),
    Column("state", "binary", "the folded state: rust/core/src/partials/bytes.rs", required=True),
)

CURSORS: Final[Table] = (
    *_NAMES,
    *_MARK_DELETE,
    *_RANGE_COUNTS,
    _BATCH_DELETED,
    _BACKLOG,
    Column("unacked_messages", "bigint", "unacknowledged messages, batches counted by index"),
    Column("position_info", "binary", "the state in the form that the broker writes"),
    Column("compact", "binary", "the state in ackwell's compact form"),
    Column("pulsar_ranges_bytes", "bigint", "size in the form pulsar-ranges"),
    Column("pulsar_long_array_bytes", "bigint", "size in the form pulsar-long-array"),
    Column("compact_bytes", "bigint", "size in the form compact"),
    Column("chunks", "bigint", "the chunks of position_info under the defaults of PIP-381"),
    Column("restart_loses", "bigint", "acknowledged messages that are redelivered after a restart"),
    Column("restart_reason", "string", "why; null if nothing is lost"),
    _LEDGERS,
    _BATCH_SIZES,
    Column("error", "string", "the first error of its events; the state is null then"),
)
"""The table of replayed cursors. `ackwell.replay.losses.unpack_sizes` decodes the column `batch_sizes`."""

RANGES: Final[Table] = (
    *_NAMES,
    Column("ledger_id", "bigint", "the ledger"),
    Column("lower_entry_exclusive", "bigint", "the entry before the first of the range; -1 before entry 0"),
    Column("upper_entry_inclusive", "bigint", "the last entry of the range"),
)
"""The table of individually deleted ranges of cursors. Each range is a row."""

AUDITED: Final[Table] = (
    *_NAMES,
    *(column._replace(required=True) for column in _MARK_DELETE),
    _BATCH_DELETED,
    _LEDGERS,
    _BATCH_SIZES,
)
"""The columns that `restart_audit` reads. Both `CURSORS` and `STATS` have them."""

AUDIT: Final[Table] = (
    *_NAMES,
    Column("restart", "string", "graceful or crash"),
    Column("place", "string", "the place from which the state is recovered"),
    Column("form", "string", "the form of the state there"),
    Column("lost_entries", "bigint", "wholly acknowledged entries that are redelivered"),
    Column(
        "lost_partial_entries", "bigint", "further entries of which acknowledged messages are redelivered"
    ),
    Column(
        "lost_messages_min", "bigint", "acknowledged messages that are redelivered, at least; null: unknown"
    ),
    Column("lost_messages_max", "bigint", "at most; null if unbounded"),
    Column("before_flush_min", "bigint", "the same for a crash before the last write, at least"),
    Column("before_flush_max", "bigint", "at most"),
    Column("reasons", "array<string>", "the reasons"),
)

MOMENTS: Final[Table] = (
    *_NAMES,
    Column("at_ms", "bigint", "the moment; null for the end"),
    *_MARK_DELETE,
    _BATCH_DELETED,
    _BACKLOG,
    Column("unacked_messages", "bigint", "messages pending at consumers"),
    Column("pending_entries", "map<string,bigint>", "by consumer: its unacknowledged entries"),
    Column("pending_messages", "map<string,bigint>", "by consumer: its unacknowledged messages"),
    Column("redeliveries", "bigint", "redeliveries so far"),
    Column("error", "string", "the first error of its events; the state is null then"),
)

SIZING: Final[Table] = (
    *_NAMES,
    Column("messages", "bigint", "entries with a delivery time"),
    Column("delay_ms_min", "bigint", "the shortest delay"),
    Column("delay_ms_p50", "bigint", "the median"),
    Column("delay_ms_p90", "bigint", "the 90th percentile"),
    Column("delay_ms_p99", "bigint", "the 99th percentile"),
    Column("delay_ms_max", "bigint", "the longest"),
    Column("width_ms", "bigint", "the bucket width, or tick"),
    Column("heap_bytes", "bigint", "a heap of exact times"),
    Column("buckets_bytes", "bigint", "Pulsar's buckets of 2**floor(log2(width)) ms"),
    Column("buckets", "bigint", "the number of buckets"),
    Column("wheel_bytes", "bigint", "TimeWheel with this tick"),
    Column("entropy_bound_bytes", "bigint", "the minimal bytes of any index with this tick"),
    Column("recommended", "boolean", "the narrowest width within a tenth of the smallest index"),
)

STATS: Final[Table] = (
    *_NAMES,
    Column("file", "string", "the file"),
    Column("time_ms", "bigint", "the time of the broker's answer, if the dump has it"),
    *_MARK_DELETE,
    *_RANGE_COUNTS,
    _BATCH_DELETED,
    _BACKLOG,
    Column("delayed_messages", "bigint", "delayed messages, if the dump has them"),
    _LEDGERS,
    Column("error", "string", "why the acknowledgments are unknown; the state is null then"),
)
"""The table of cursors in statistics dumps. The names of its columns are those of `CURSORS`, so that
`restart_audit` accepts both tables."""


SAVES: Final[Table] = (
    Column("topic", "string", "the topic's name, if the path has it: topic=…/"),
    Column("subscription", "string", "the subscription's name, if the path has it: subscription=…/"),
    Column("file", "string", "the file; of a state in several entries the last one"),
    Column("number", "bigint", "the number of the save in its folder, from 0, by file name"),
    Column("kind", "string", "PositionInfo, or ManagedCursorInfo of the metadata store"),
    Column("form", "string", "the form of the acknowledged positions; null if there are none"),
    Column("size_bytes", "bigint", "the stored size"),
    Column("entries", "bigint", "the number of entries that store it"),
    Column("cursor_ledger_id", "bigint", "the cursor ledger with the newer state, from a ManagedCursorInfo"),
    *_MARK_DELETE,
    *_RANGE_COUNTS,
    _BATCH_DELETED,
    Column("error", "string", "why the state could not be decoded; the state is null then"),
)
"""The table of persisted cursor states. Each save is a row: an entry of a cursor ledger, or a value of the
metadata store."""


class ColumnType(NamedTuple):
    """The names of a scalar type in Arrow and in Spark."""

    arrow: str
    spark: str
    """The name of the class in `pyspark.sql.types`."""
    readable: str
    """A pattern of the types that can be read as this type."""


_INTEGERS: Final = "bigint|int|smallint|tinyint"

COLUMN_TYPES: Final[dict[str, ColumnType]] = {
    # Numbers are accepted as names. A collation is a part of a string type in Spark.
    "string": ColumnType("string", "StringType", rf"string( collate \w+)?|{_INTEGERS}"),
    "bigint": ColumnType("int64", "LongType", _INTEGERS),
    "binary": ColumnType("binary", "BinaryType", "binary"),
    "boolean": ColumnType("bool", "BooleanType", "boolean"),
}
"""Maps each scalar type of `Column.type` to its names. `array<…>` and `map<…,…>` are built from scalars."""

T = TypeVar("T")


def build_type(
    name: str, scalar: Callable[[ColumnType], T], array: Callable[[T], T], map_of: Callable[[T, T], T]
) -> T:
    """Convert a `Column.type` to the type of a library.

    The three functions build the library's type of a scalar, an array and a map.
    """
    if name.startswith("array<"):
        return array(build_type(name[6:-1], scalar, array, map_of))
    if name.startswith("map<"):
        key, value = (build_type(part, scalar, array, map_of) for part in name[4:-1].split(",", 1))
        return map_of(key, value)
    return scalar(COLUMN_TYPES[name])


def arrow_name(name: str) -> str:
    """Return the Arrow name of a `Column.type`, for error messages.

    >>> arrow_name("array<bigint>")
    'list<int64>'
    """
    return build_type(name, lambda kind: kind.arrow, "list<{}>".format, "map<{}, {}>".format)


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table. Every column is nullable, as in the batches from Spark."""
    import pyarrow as pa

    return pa.schema(
        [
            (
                column.name,
                build_type(column.type, lambda kind: pa.type_for_alias(kind.arrow), pa.list_, pa.map_),
            )
            for column in table
        ]
    )


def path_value(name: str, text: str | None) -> str | int | None:
    """Convert the value of an event column from a text in a path to the type of the column.

    Raises `EventError` if an integer column has a text that is not an integer.
    """
    if text is None or EVENT_COLUMNS[name].type != "bigint":
        return text
    try:
        value = int(text)
    except ValueError:
        value = INT64_MAX + 1
    if abs(value) > INT64_MAX:
        raise EventError(f"{name} {NOT_INT64}: {text!r} in the path")
    return value


class GivenColumn(NamedTuple):
    """A column that a file or DataFrame has. `column_flaws` compares it with the `Column` of a table."""

    name: str
    given_type: str
    """The type of the column, as its library (PyArrow or Spark) prints the type."""
    type: str
    """The type of the column, as Spark SQL prints the type."""


@cache
def readable_types(column: Column) -> re.Pattern[str]:
    """Return a pattern that matches the types that can be read as `column`. Types have Spark SQL's names.

    >>> [bool(readable_types(EVENTS[2]).fullmatch(kind)) for kind in ("bigint", "double", "string")]
    [True, True, False]
    """
    readable = build_type(
        column.type, "({0.readable}|void)".format, "(array<{}>|void)".format, "(map<{},{}>|void)".format
    )
    if column.type == "bigint":
        # pandas writes integers with missing values as doubles.
        readable += "|float|double"
    elif column.type.startswith("array<"):
        # Spark reads a column without values as integers.
        readable += "|int"
    if column.name.endswith("_ms"):
        readable += "|timestamp(_ntz)?"
    return re.compile(readable)


class ColumnFlaw(NamedTuple):
    """A column of a table that is missing, exists more than once, or has a type that cannot be read."""

    column: Column
    found: list[GivenColumn]
    """The given columns that have the name of `column`."""

    def __str__(self) -> str:
        if not self.found:
            return f"column {self.column.name!r} is missing"
        names = " and ".join(repr(each.name) for each in self.found)
        if len(self.found) > 1:
            return f"columns {names} differ in case only"
        return f"column {names} is {self.found[0].given_type}, expected {self.column.type}"


def column_flaws(
    given: Iterable[GivenColumn], table: Table, elsewhere: Container[str] = ()
) -> list[ColumnFlaw]:
    """Compare the `given` columns with the columns of `table`, and return the flaws.

    The case of names does not matter. Columns in `elsewhere` may be missing.
    """
    by_name: dict[str, list[GivenColumn]] = {}
    for each in given:
        by_name.setdefault(each.name.lower(), []).append(each)
    flaws = []
    for column in table:
        found = by_name.get(column.name, [])
        is_missing = not found and column.required and column.name not in elsewhere
        if is_missing or len(found) > 1 or (found and not readable_types(column).fullmatch(found[0].type)):
            flaws.append(ColumnFlaw(column, found))
    return flaws


def check_columns(
    what: str, given: Iterable[GivenColumn], table: Table, elsewhere: Container[str] = ()
) -> None:
    """Raise `SchemaError` with all flaws of `column_flaws`, if there are any. `what` names the source."""
    if flaws := column_flaws(given, table, elsewhere):
        raise SchemaError(f"{what}: {'; '.join(map(str, flaws))}")
