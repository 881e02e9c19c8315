"""Read Parquet files of events as columns, and fold them by row groups.

Only the needed columns are decoded. A column of a row group is not needed if the statistics show that all its
values are null or equal. `sequence` is not needed if all events are folded at once and their order does not
matter. Dictionary-encoded columns stay dictionaries, and column chunks are streamed. So most of the memory is
used for the partials that the fold computes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ackwell.errors import EventError
from ackwell.object_paths import ObjectPath, any_path, path_text
from ackwell.replay import table_schemas
from ackwell.replay.columns import COLUMNS, BatchReader, array_of, texts_of, with_columns
from ackwell.replay.parquet_footer import Chunk, FooterError, RowGroup, row_groups_of
from ackwell.replay.resets import RESETTING
from ackwell.sources import PARQUET_MAGIC

if TYPE_CHECKING:
    from ackwell.replay.event_columns import Columns
    from ackwell.replay.fold import Fold

_SLICE_VALUES: Final = 1 << 19
"""The number of values that are decoded at a time. This is enough for some values of each subscription if a
row group mixes 10,000 subscriptions. The values take some MB per thread."""

_SLICE_VALUES_OF_ONE: Final = 1 << 18
"""The number of values that are decoded at a time if a row group has one subscription. The values fit into a
CPU cache."""

_SLICE_VALUES_OF_MANY: Final = 1 << 21
"""The number of values that are decoded at a time if a row group mixes tens of thousands of subscriptions. A
slice then has several events of each subscription."""

_NAME_BYTES_OF_MANY: Final = 2
"""If a column of names with a dictionary has at least this many bytes per row, the row group is assumed to
mix tens of thousands of subscriptions: each name takes a code of 16 bits or more, or the dictionary became
too large. Without a dictionary, the number of names is unknown."""

_BUFFER: Final = 1 << 20
"""The number of bytes of a column that are read at a time."""

_CODE_BYTES_MAX: Final = 8
"""The maximum number of bytes per row for which a column of names is read as a dictionary. A column with more
bytes per row consists mostly of plain texts."""

_NAMES: Final = ("topic", "subscription")
_OFTEN_CONSTANT: Final = ("ledger_id", "batch_index", "batch_size")
"""Integer columns that often have one value in a whole row group, and are then not read. `entry_id` is not
listed: it is always read, so that a batch has rows."""

_ENCODED: Final = (*_NAMES, "kind", "transaction", "file")
_OPTIONAL: Final = ("batch_index", "batch_size", "ack_set", "transaction", "detail", "file")
_KINDS: Final = table_schemas.readable_types(table_schemas.EVENT_COLUMNS["kind"])
_TABLE: Final = tuple(table_schemas.EVENT_COLUMNS[name] for name in COLUMNS)


class RowGroups(NamedTuple):
    """Some row groups of a file."""

    path: str
    indexes: tuple[int, ...]
    constants: Mapping[str, str | None] = {}
    """Maps each column that the path of the file contains (`topic=t/…`) to its value."""


Fields = dict[str, str]
"""Maps the name of each column to its Arrow type."""


class Survey(NamedTuple):
    """Facts about a file, from its footer and its column `kind`."""

    group_bytes: tuple[int, ...]
    """The size of each row group: the uncompressed bytes of the columns that a fold decodes."""
    has_resets: bool
    """Whether the file can contain resets (events of the kinds `RESETTING`) or events in transactions."""
    fields: Fields
    """The columns of the file and their Arrow types."""
    is_empty: bool = False
    """Whether the file has no bytes, not even a footer."""


@contextmanager
def errors_naming(path: str) -> Iterator[None]:
    """Convert Arrow's read errors to `EventError` with the path.

    Errors of the operating system are not converted.
    """
    try:
        yield
    except EventError as error:
        if error.file is not None:
            raise
        raise EventError(error.reason, file=path, line=error.line, flaw=error.flaw) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, FooterError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise EventError(f"unreadable: {' '.join(str(error).split())}", file=path) from None


def open_anywhere(path: str) -> pa.NativeFile:
    """Open a local file or an object of an object store. Only the requested parts of it are read."""
    source = any_path(path)
    if isinstance(source, ObjectPath):
        return source.open_anywhere()
    if path_text(path) != path:
        raise EventError("the name of the file is not UTF-8, which PyArrow needs; rename the file", file=path)
    filesystem, place = fs.FileSystem.from_uri(uri(path))
    return filesystem.open_input_file(place)


class ParquetEvents:
    """An open Parquet file of events."""

    def __init__(self, path: str, constants: Mapping[str, str | None] | None = None) -> None:
        self._source = open_anywhere(path)
        self._path = path
        self.constants = dict(constants or {})
        self._groups: list[RowGroup] = []
        if not self._source.size():
            self._parquet = None
            return
        try:
            with errors_naming(path):
                metadata = pq.read_metadata(self._source)
                footer = _read_footer(self._source, metadata)
                self._groups = row_groups_of(footer)
                encoded = _dictionaries(metadata, self._groups)
                if _is_misread(metadata, encoded):
                    metadata = _without_arrow_schema(footer)
                self._parquet = pq.ParquetFile(
                    self._source,
                    metadata=metadata,
                    read_dictionary=encoded,
                    pre_buffer=False,
                    buffer_size=_BUFFER,
                )
                schema = self._parquet.schema_arrow
        except BaseException:
            self.close()
            raise
        self._columns = {field.name.lower(): field.name for field in schema if field.name.lower() in COLUMNS}

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> ParquetEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def survey(self) -> Survey:
        """Read the column `kind`, and return the facts about the file."""
        if self._parquet is None:
            return Survey((), False, {}, is_empty=True)
        sizes = tuple(map(self._bytes, self._groups))
        fields = {field.name: str(_plain(field.type)) for field in self._parquet.schema_arrow}
        return Survey(sizes, self._has_resets(), fields)

    def _bytes(self, group: RowGroup) -> int:
        read = set(self._choose_columns(group, lean=True).read.values())
        return sum(
            chunk.uncompressed_bytes for path, chunk in group.items() if path.partition(".")[0] in read
        )

    def _has_resets(self) -> bool:
        own = self._columns.get("transaction")
        has_transactions = own is not None and not all(_is_null(group, own) for group in self._groups)
        return has_transactions or bool(self.kinds() & RESETTING)

    def kinds(
        self, indexes: Iterable[int] | None = None, *, dictionaries_only: bool = False
    ) -> frozenset[str]:
        """Return the kinds of events that the given row groups can contain. None means all row groups.

        With `dictionaries_only`, only the dictionary of each row group's column `kind` is read. Kinds that
        the writer stored as plain texts are then missing in the result.
        """
        if self._parquet is None:
            return frozenset()
        kind = self._columns.get("kind")
        if kind is not None:
            schema = self._parquet.schema_arrow
            index = schema.get_field_index(kind)
            if index < 0 or not _KINDS.fullmatch(_type_name(schema.field(index).type)):
                # The column is ambiguous or has a wrong type. `check_columns` reports this before any read.
                return frozenset()
        if kind is None:
            known = self.constants.get("kind")
            return frozenset() if known is None else frozenset([known])
        groups = range(len(self._groups)) if indexes is None else indexes
        found: set[str] = set()
        for index in groups:
            for batch in self.batches([index], [kind], rows=1 if dictionaries_only else _SLICE_VALUES):
                column = batch.column(0)
                is_encoded = pa.types.is_dictionary(column.type)
                with errors_naming(self._path):
                    found.update((column.dictionary if is_encoded else column.unique()).to_pylist())
                if dictionaries_only:
                    break
        return frozenset(found - {None})

    @property
    def has_sequence(self) -> bool:
        """Whether the file or its path has a column `sequence`. If not, the row number is the sequence."""
        return "sequence" in self._columns or "sequence" in self.constants

    def shares(self, most: int) -> list[tuple[int, ...]]:
        """Split the row groups into at most `most` shares. A reader opens the file once for each share.

        Without a column `sequence`, all row groups stay in one share, because the rows are numbered in the
        order of reading.
        """
        if self._parquet is None:
            return []
        indexes = tuple(range(len(self._groups)))
        size = -(-len(indexes) // (most if self.has_sequence else 1)) or 1
        return [indexes[start : start + size] for start in range(0, len(indexes), size)]

    def rows_of(self, kinds: frozenset[str]) -> Iterator[Columns]:
        """Yield the rows whose kind is in `kinds`. Row groups without such rows are skipped."""
        if self._parquet is None:
            return
        indexes = [index for index in range(len(self._groups)) if self.kinds([index]) & kinds]
        for columns in self.columns(indexes if self.has_sequence else None):
            if len(rows := columns.rows_of(kinds)):
                yield columns.take(rows)

    def columns(
        self, indexes: Iterable[int] | None = None, *, lean: bool = False, ordered: Sequence[str] = ()
    ) -> Iterator[Columns]:
        """Read the given row groups as event columns. None means all row groups.

        With `lean`, the column `sequence` of a row group is not read if no event of the row group needs it.
        `ordered` is a sorted list of topics. All events of these topics need the column.
        """
        if self._parquet is None:
            return
        check_columns(self._parquet.schema_arrow, self._path, self.constants)
        reader, row = BatchReader(), 0
        for index in range(len(self._groups)) if indexes is None else indexes:
            group = self._groups[index]
            chosen = self._choose_columns(group, lean=lean and not self._may_name(group, ordered))
            names = list(chosen.read.values())
            if not names:
                continue
            for batch in self.batches([index], names, rows=_slice_values(group, chosen) // len(names)):
                if batch.num_rows:
                    with errors_naming(self._path):
                        batch = self._number_rows(chosen.named(batch), row)
                        columns = reader.columns(batch, chosen.constant)
                    yield columns
                    row += batch.num_rows

    @property
    def schema(self) -> pa.Schema | None:
        """The Arrow schema of the file; None if the file has 0 bytes."""
        return None if self._parquet is None else self._parquet.schema_arrow

    def batches(
        self, groups: Iterable[int] | None, names: list[str], *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Read the columns `names` of some row groups, at most `rows` rows at a time.

        If `groups` is None, all row groups are read.
        """
        assert self._parquet is not None
        indexes = None if groups is None else list(groups)
        with errors_naming(self._path):
            yield from self._parquet.iter_batches(rows, indexes, names, use_threads=False)

    def _number_rows(self, batch: pa.RecordBatch, rows_before: int) -> pa.RecordBatch:
        """Add the row numbers as column `sequence` if the file has no such column; return the batch."""
        if self.has_sequence:
            return batch
        numbers = np.arange(rows_before + 1, rows_before + batch.num_rows + 1, dtype=np.int64)
        columns = {"sequence": array_of(numbers)}
        if batch.schema.get_field_index("file") < 0:
            codes = array_of(np.zeros(batch.num_rows, np.int32))
            columns["file"] = pa.DictionaryArray.from_arrays(codes, texts_of([path_text(self._path)]))
        return with_columns(batch, columns)

    def _may_name(self, group: RowGroup, topics: Sequence[str]) -> bool:
        """Return whether a row group can contain events of any of `topics`. The topics must be sorted."""
        if not topics:
            return False
        if "topic" in self.constants:
            return self.constants["topic"] in topics
        bounds = _text_bounds(_chunk(group, self._columns["topic"]))
        if bounds is None:
            return True
        first = bisect_left(topics, bounds[0])
        return first < len(topics) and topics[first] <= bounds[1]

    def _choose_columns(self, group: RowGroup, *, lean: bool) -> _Choice:
        """Choose the columns to read from a row group.

        A column is not read if the statistics show that all its values are equal or null.
        """
        read: dict[str, str] = {}
        constant: dict[str, str | int | None] = dict(self.constants)
        for name in COLUMNS:
            own = self._columns.get(name)
            if own is None or (name in _OPTIONAL and _is_null(group, own)):
                continue
            one_value = _one_value(name, _chunk(group, own))
            if one_value is None:
                read[name] = own
            else:
                constant[name] = one_value
        # `detail` contains broker settings. The last settings of a subscription apply, so `detail` needs
        # `sequence` and `file`. If there is no `detail`, a lean fold does not need the order.
        if lean and "detail" not in read:
            read.pop("file", None)
            if "sequence" in read and _is_count(_chunk(group, read["sequence"])):
                del read["sequence"]
        return _Choice(read, constant)


class _Choice(NamedTuple):
    """The columns to read from a row group.

    `read` maps an event field to the name of its column in the file. The columns of other
    event fields are not read: `constant` maps such a field to the value that it has in all rows.
    """

    read: dict[str, str]
    constant: dict[str, str | int | None]

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with each column renamed to its event field."""
        own = {column: name for name, column in self.read.items()}
        names = [own[name] for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(batch.columns, names=names)


def _slice_values(group: RowGroup, chosen: _Choice) -> int:
    """Return the number of values to decode at a time from a row group."""
    names = [path for name, path in chosen.read.items() if name in _NAMES]
    if not names:
        return _SLICE_VALUES_OF_ONE
    # A damaged or unusual footer may give the chunk another path than the schema.
    chunks = filter(None, map(group.get, names))
    has_many = any(
        chunk.has_dictionary and chunk.uncompressed_bytes >= _NAME_BYTES_OF_MANY * chunk.values
        for chunk in chunks
    )
    return _SLICE_VALUES_OF_MANY if has_many else _SLICE_VALUES


def fold_row_groups(fold: Fold, files: Iterable[RowGroups], *, lean: bool = False) -> bool:
    """Feed row groups to a fold. Return whether any row was not an event."""
    flawed = False
    for groups in files:
        for columns in row_group_columns(groups, lean=lean):
            flawed |= fold.feed(columns)
    return flawed


def row_group_columns(
    groups: RowGroups, *, lean: bool = False, ordered: Sequence[str] = ()
) -> Iterator[Columns]:
    """Read some row groups of a file, with the options of `ParquetEvents.columns`."""
    with ParquetEvents(groups.path, groups.constants) as events:
        yield from events.columns(groups.indexes, lean=lean, ordered=ordered)


_INTEGERS: Final = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_TYPE_NAMES: Final = {
    **dict.fromkeys(_INTEGERS, "bigint"),
    "null": "void",
    "halffloat": "float",
    "large_string": "string",
}
"""Maps an Arrow type to the name of its counterpart in Spark SQL, if the two names differ."""


def _type_name(kind: pa.DataType) -> str:
    """Return the name of an Arrow type in Spark SQL."""
    if isinstance(kind, pa.DictionaryType):
        return _type_name(kind.value_type)
    if isinstance(kind, pa.ListType | pa.LargeListType):
        return f"array<{_type_name(kind.value_type)}>"
    name = str(kind)
    return _TYPE_NAMES.get(name, name.partition("[")[0])


def given_columns(schema: pa.Schema) -> list[table_schemas.GivenColumn]:
    """Return the columns of an Arrow schema."""
    return [
        table_schemas.GivenColumn(field.name, str(field.type), _type_name(field.type)) for field in schema
    ]


def check_columns(
    schema: pa.Schema, path: str, constants: Mapping[str, str | None], table: table_schemas.Table = _TABLE
) -> None:
    """Raise `SchemaError` if the columns of a file cannot be read as the columns of `table`.

    `constants` has the columns in the path of the file. These columns may be missing in the file. `sequence`
    may be missing, too: then the rows are ordered by their row numbers.
    """
    table_schemas.check_columns(path, given_columns(schema), table, {*constants, "sequence"})


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _dictionaries(metadata: pq.FileMetaData, groups: Sequence[RowGroup]) -> list[str]:
    """Return the text columns to read as dictionaries.

    For such a column, `_is_encoded` is true for the chunk in each of the row groups `groups`.
    """
    paths = (metadata.schema.column(number).path for number in range(metadata.num_columns))
    return [
        path
        for path in paths
        if path.lower() in _ENCODED
        and all(path not in group or _is_encoded(path, group[path]) for group in groups)
    ]


def _is_encoded(name: str, chunk: Chunk) -> bool:
    """Return whether to read the chunk of a column as a dictionary.

    When the dictionary of a chunk is full, the writer writes all other names as plain texts. If most names
    are plain texts, reading the chunk as a dictionary is not faster.
    """
    is_mostly_plain = chunk.uncompressed_bytes > _CODE_BYTES_MAX * chunk.values
    return chunk.is_dictionary and not (name.lower() in _NAMES and is_mostly_plain)


def _is_misread(metadata: pq.FileMetaData, encoded: list[str]) -> bool:
    """Return whether PyArrow would misread the file because of the Arrow schema in the footer.

    This is the case if the schema declares a dictionary for a column that is not in `encoded`.
    """
    fields = metadata.schema.to_arrow_schema()
    return any(pa.types.is_dictionary(field.type) and field.name not in encoded for field in fields)


_ARROW_SCHEMA: Final = b"\x18\x0cARROW:schema"
"""The footer's key for the writer's Arrow schema. The key is in Thrift's encoding."""


_SIGNATURE_BYTES: Final = 28
"""The size in bytes of the signature that follows the footer if a file has encrypted columns."""


def _read_footer(source: pa.NativeFile, metadata: pq.FileMetaData) -> bytes:
    """Return the bytes of the footer. The file is read once, because each read of an object store is slow."""
    size = min(source.size(), metadata.serialized_size + _SIGNATURE_BYTES + 8)
    end: bytes = source.read_at(size, source.size() - size)
    length = int.from_bytes(end[-8:-4], "little")
    return end[-8 - length : -8]


def _without_arrow_schema(footer: bytes) -> pq.FileMetaData:
    """Parse a footer, but ignore the Arrow schema in it. The footer's Parquet types are sufficient."""
    before, key, after = footer.rpartition(_ARROW_SCHEMA)
    hidden = key[:2] + key[2:].lower()
    ending = len(footer).to_bytes(4, "little") + PARQUET_MAGIC
    return pq.read_metadata(pa.BufferReader(PARQUET_MAGIC + before + hidden + after + ending))


def _chunk(group: RowGroup, name: str) -> Chunk | None:
    """Return the chunk of a column, or None. For a nested column, return the first of its chunks."""
    if name in group:
        return group[name]
    return next((chunk for path, chunk in group.items() if path.partition(".")[0] == name), None)


def _is_null(group: RowGroup, name: str) -> bool:
    """Return whether a row group's statistics show that all values of a column are null."""
    chunk = _chunk(group, name)
    return chunk is not None and chunk.nulls == chunk.values


def _one_value(name: str, chunk: Chunk | None) -> str | int | None:
    """Return the value that all rows of a chunk have, or None if the statistics do not show such a value."""
    if chunk is None or chunk.nulls != 0 or chunk.least != chunk.greatest:
        return None
    if name in _NAMES:
        return chunk.least if isinstance(chunk.least, str) else None
    return chunk.least if name in _OFTEN_CONSTANT and _is_count(chunk) else None


def _text_bounds(chunk: Chunk | None) -> tuple[str, str] | None:
    """Return the least and the greatest text of a column, or None if the statistics do not have both."""
    if chunk is None or not isinstance(chunk.least, str) or not isinstance(chunk.greatest, str):
        return None
    return chunk.least, chunk.greatest


def _is_count(chunk: Chunk | None) -> bool:
    """Return whether the statistics show that all values of a column are integers of at least 0."""
    return chunk is not None and chunk.nulls == 0 and isinstance(chunk.least, int) and chunk.least >= 0


def uri(path: str) -> str:
    """Convert a path in Hadoop's form (`file:/data/x`) to a URI that Arrow reads."""
    scheme, separator, rest = path.partition(":/")
    if not separator or "/" in scheme:
        # The text is a plain path, in which no character is quoted.
        from pathlib import Path

        return Path(path).absolute().as_uri()
    # Java leaves non-ASCII letters unquoted in a URI, so quote them. `%` stays, so that no character is
    # quoted twice.
    rest = quote(rest, safe=_IN_PATHS)
    return f"{scheme}:///{rest.lstrip('/')}" if scheme == "file" else f"{scheme}:/{rest}"


_IN_PATHS: Final = "/%:@&=+$,;!'()*~-._?#"


def is_readable(path: str) -> bool:
    """Return whether Arrow has a file system for this kind of path. Nothing is read from the path."""
    try:
        fs.FileSystem.from_uri(uri(path))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
