"""Convert Arrow batches of events or partials for a fold, and convert its results to Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell._native import Names
from ackwell.errors import EventError, ProtocolError
from ackwell.integers import NOT_INT64
from ackwell.replay import table_schemas
from ackwell.replay.cursor_rows import cursor_columns
from ackwell.replay.event_columns import NULL, Columns, codes_of
from ackwell.replay.events import Kind
from ackwell.replay.fold import Fold
from ackwell.replay.losses import losses_of
from ackwell.saving.chunks import chunk_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.replay.event_columns import Texts
    from ackwell.replay.resets import Resets

    Ints = NDArray[np.int64]
    Constants = Mapping[str, str | int | None]

COLUMNS: Final = (
    "topic",
    "subscription",
    "sequence",
    "kind",
    "ledger_id",
    "entry_id",
    "batch_index",
    "batch_size",
    "ack_set",
    "transaction",
    "detail",
    "file",
)
"""The event columns that a fold needs. Other columns of a file are not read."""

_PYTHON_NAMES_MAX: Final = 1_000
"""The maximum number of texts in a dictionary that Python code reads. Native code reads larger ones."""

PARTIAL_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.PARTIALS)
CURSOR_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.CURSORS)


class BatchReader:
    """A converter of Arrow batches of events to `Columns`.

    A dictionary that successive batches share is read only once.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[pa.Array, list[Any], list[Any]]] = {}
        """Maps a column to its last dictionary and two lists: the texts of the dictionary, and the same texts
        followed by the text for null."""
        self._names: dict[str, Any] = {}
        self._numbers: dict[str, tuple[pa.Array, NDArray[np.int32]]] = {}
        """Maps a column with many names to its last dictionary and the number of each text in the dictionary.
        One more number follows at the end: that of the empty text, for nulls."""

    def columns(self, batch: pa.RecordBatch, constants: Constants | None = None) -> Columns:
        """Convert a batch. Its columns have the names in `COLUMNS`; optional columns may be missing.

        `constants` maps the name of a column that is not in the batch to the value that all rows have. Raises
        `EventError` if the topic is null in a row, if the column of topics or subscriptions is missing, or
        if a column has a wrong type.
        """
        constants = constants or {}

        def integers(name: str) -> Ints | None:
            return _constant(batch, name, constants[name]) if name in constants else _integers(batch, name)

        sequences = integers("sequence")
        if sequences is None and ("sequence" in constants or batch.schema.get_field_index("sequence") >= 0):
            sequences = _nulls(batch)
        starts_ends, words = _ack_sets(batch)
        kinds = self._kinds(batch, constants)
        ledger_ids, entry_ids = integers("ledger_id"), integers("entry_id")
        return Columns(
            topics=self._texts(batch, "topic", constants),
            subscriptions=self._texts(batch, "subscription", constants),
            kinds=kinds,
            ledger_ids=_nulls(batch) if ledger_ids is None else ledger_ids,
            entry_ids=_nulls(batch) if entry_ids is None else entry_ids,
            sequences=sequences,
            batch_indexes=integers("batch_index"),
            batch_sizes=integers("batch_size"),
            ack_sets=starts_ends,
            words=words,
            files=self._files(batch, constants),
            transactions=self._transactions(batch, constants),
            settings=_settings(batch, constants, kinds),
        )

    def _texts(
        self, batch: pa.RecordBatch, name: str, constants: Constants
    ) -> tuple[NDArray[np.int32] | None, Texts]:
        if name in constants:
            value = constants[name]
            if value is None and name == "topic":
                raise EventError("topic is null")
            return None, [str(value or "")]
        index = batch.schema.get_field_index(name)
        column = None if index < 0 else batch.column(index)
        if column is None or (column.null_count and name == "topic"):
            _refuse(batch, name)
        # An empty subscription means the topic as a whole.
        if column.null_count == len(column):
            return None, [""]
        if pa.types.is_dictionary(column.type) and len(column.dictionary) <= _PYTHON_NAMES_MAX:
            return self._codes(name, column, null="")
        names = self._names.setdefault(name, Names())
        if pa.types.is_dictionary(column.type):
            return self._many_codes(name, column, names), names
        return numbers_of(names, column.fill_null(texts_of([""])[0]) if column.null_count else column), names

    def _many_codes(self, name: str, column: pa.DictionaryArray, names: Any) -> NDArray[np.int32]:
        """Convert the text of each row to its number in `names`. A null gets the number of the empty text."""
        known = self._numbers.get(name)
        if known is None or not _share_memory(known[0], column.dictionary):
            numbers = np.append(numbers_of(names, column.dictionary), np.int32(names.number("")))
            known = self._numbers[name] = column.dictionary, numbers
        codes = column.indices.cast(pa.int32())
        places = _filled(codes, len(known[1]) - 1) if codes.null_count else ndarray_of(codes)
        numbered: NDArray[np.int32] = known[1][places]
        return numbered

    def _kinds(
        self, batch: pa.RecordBatch, constants: Constants
    ) -> tuple[NDArray[np.int32] | None, list[str | None]]:
        if constants.get("kind") is not None:
            return None, [str(constants["kind"])]
        column = _column(batch, "kind")
        if column is None:
            return None, [None]
        codes, kinds = self._codes("kind", column, null=None)
        return codes, kinds

    def _files(
        self, batch: pa.RecordBatch, constants: Constants
    ) -> tuple[NDArray[np.int32] | None, list[str]] | None:
        if constants.get("file") is not None:
            return None, [str(constants["file"])]
        column = _column(batch, "file")
        if column is None:
            return None
        return self._codes("file", column, null="")

    def _transactions(
        self, batch: pa.RecordBatch, constants: Constants
    ) -> tuple[NDArray[np.int32] | None, Texts] | None:
        if constants.get("transaction") is None and _column(batch, "transaction") is None:
            return None
        return self._texts(batch, "transaction", constants)

    def _codes(self, name: str, column: pa.Array, null: Any) -> tuple[NDArray[np.int32] | None, list[Any]]:
        """Return the code of each row, and the list of texts. A code is an index in this list.

        If a row is null, the value `null` is the last item of the list, and the row has its code. If no row
        is null and the list has only one text, None is returned instead of the codes.
        """
        encoded = _encoded(column)
        known, names, names_and_null = self._known.get(name, (None, [], []))
        if known is None or not (
            _share_memory(known, encoded.dictionary) or known.equals(encoded.dictionary)
        ):
            names = encoded.dictionary.cast(pa.string()).to_pylist()
            names_and_null = [*names, null]
            self._known[name] = encoded.dictionary, names, names_and_null
        codes = encoded.indices.cast(pa.int32())
        if codes.null_count:
            return _filled(codes, len(names)), names_and_null
        return None if len(names) == 1 else ndarray_of(codes), names


def _share_memory(a: pa.Array, b: pa.Array) -> bool:
    """Return whether two arrays use the same memory.

    The caller must hold references to both arrays. Otherwise the memory of one could be reused for the other.
    """
    if len(a) != len(b) or a.offset != b.offset or a.type != b.type:
        return False
    addresses = [[buffer and buffer.address for buffer in array.buffers()] for array in (a, b)]
    return bool(addresses[0] == addresses[1])


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def ndarray_of(column: pa.Array) -> NDArray[Any]:
    """Return an Arrow array of integers as a NumPy array, without a copy. The array must not contain nulls.

    PyArrow's `to_numpy` is not used, because it imports pandas if pandas is installed. This import takes
    about one second. `array_of` avoids `pa.array` for the same reason.
    """
    dtype = np.dtype(str(column.type))
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype)
    values: NDArray[Any] = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    return values


def array_of(values: NDArray[Any], nulls: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a NumPy array of integers as an Arrow array, without a copy."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(nulls), data])


def _validity(nulls: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Return the validity bitmap of an Arrow array; None if the array has no null."""
    if nulls is None or not nulls.any():
        return None
    return pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())


def texts_of(values: Sequence[str | None]) -> pa.Array:
    """Return texts as an Arrow array, without `pa.array`, which would import pandas (see `ndarray_of`)."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.string())
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    nulls = np.array([value is None for value in values], bool)
    return _to_binary({"offsets": offsets, "data": b"".join(encoded)}, pa.string(), nulls)


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return a batch in which `columns` replace the columns of the same names; new names are appended.

    PyArrow 15 has no methods for this.
    """
    merged = dict(zip(batch.schema.names, batch.columns, strict=True)) | dict(columns)
    return pa.RecordBatch.from_arrays(list(merged.values()), names=list(merged))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a column; None if it is missing or all its values are null."""
    index = batch.schema.get_field_index(name)
    column = None if index < 0 else batch.column(index)
    return None if column is None or column.null_count == len(column) else column


def _integers(batch: pa.RecordBatch, name: str) -> Ints | None:
    column = _column(batch, name)
    if column is None:
        return None
    column = cast(name, column, pa.int64())
    return _filled(column, NULL) if column.null_count else ndarray_of(column)


def cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the column `name` with the type `kind`; raise `EventError` if an integer is outside int64."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise EventError(f"{name} {NOT_INT64}: {error}") from None


def _filled(column: pa.Array, value: int) -> NDArray[Any]:
    """Return a column of integers in which `value` replaces each null.

    PyArrow's `fill_null` with a Python integer would import pandas.
    """
    return ndarray_of(column.fill_null(array_of(np.array([value], str(column.type)))[0]))


def _constant(batch: pa.RecordBatch, name: str, value: str | int | None) -> Ints | None:
    """Return an array that has `value` in each row, or None if `value` is None.

    All rows share the memory of one value.
    """
    if isinstance(value, str):
        value = table_schemas.path_value(name, value)
    return None if value is None else np.broadcast_to(np.int64(value), batch.num_rows)


def _nulls(batch: pa.RecordBatch) -> Ints:
    return np.broadcast_to(np.int64(NULL), batch.num_rows)


def _ack_sets(batch: pa.RecordBatch) -> tuple[tuple[Ints, Ints] | None, Ints | None]:
    column = _column(batch, "ack_set")
    if column is None:
        return None, None
    offsets = ndarray_of(column.offsets).astype(np.int64)
    starts, ends = offsets[:-1].copy(), offsets[1:]
    if column.null_count:
        valid = np.frombuffer(column.buffers()[0], np.uint8)
        starts[np.unpackbits(valid, bitorder="little")[column.offset :][: len(column)] == 0] = NULL
    words = cast("ack_set", column.values, pa.int64())
    # PyArrow can leave nulls in `values` that do not belong to any list.
    if words.null_count and column.flatten().null_count:
        raise EventError("an ack set contains null; expected signed 64-bit words")
    return (starts, ends), ndarray_of(words)


def _settings(
    batch: pa.RecordBatch, constants: Constants, kinds: tuple[NDArray[np.int32] | None, list[str | None]]
) -> dict[int, str] | None:
    """Return the broker settings: a map from the number of a `meta` row to the `detail` of the row.

    Return None if no `meta` row has a `detail`.
    """
    detail = constants.get("detail")
    if Kind.META.value not in kinds[1] or (detail is None and _column(batch, "detail") is None):
        return None
    rows = np.flatnonzero(codes_of(kinds, batch.num_rows) == kinds[1].index(Kind.META.value))
    if detail is not None:
        return dict.fromkeys(rows.tolist(), str(detail))
    details = batch.column("detail").take(array_of(rows)).to_pylist()
    return {row: detail for row, detail in zip(rows.tolist(), details, strict=True) if detail is not None}


def _refuse(batch: pa.RecordBatch, name: str) -> NoReturn:
    """Raise `EventError` for the first row whose column `name` is null."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise EventError(f"no column {name!r}")
    row = int(batch.column(index).is_null().to_numpy(zero_copy_only=False).argmax())
    fields = batch.slice(row, 1).to_pylist()[0]
    raise EventError(f"{name} is null", file=fields.get("file"), line=fields.get("sequence"))


def fold_batches(
    batches: Iterable[pa.RecordBatch],
    resets: Resets | None = None,
    *,
    ordered: bool = True,
    strict: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Fold event rows into partials, and yield the partials as rows of the table `PARTIALS`."""
    fold, reader = Fold(resets, ordered=ordered), BatchReader()
    for batch in batches:
        if batch.num_rows:
            fold.feed(reader.columns(batch))
    fold.raise_flaw(all_flaws=strict)
    yield from partial_batches(fold)


def numbers_of(names: Any, column: pa.Array) -> NDArray[np.int32]:
    """Convert the text of each row to its number in `names`. A text that is not in `names` is added to it.

    The column must not contain nulls.
    """
    if pa.types.is_dictionary(column.type):
        numbers: NDArray[np.int32] = numbers_of(names, column.dictionary)[ndarray_of(column.indices)]
        return numbers
    _, offsets, data = column.cast(pa.string()).buffers()
    rows = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    texts = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    try:
        numbers = names.number_many(rows, texts)
    except ValueError as error:
        raise EventError(f"unreadable: {error}") from None
    return numbers


def pairs_of(fold: Fold, batch: pa.RecordBatch) -> Ints:
    """Return an array: for each row, the number that its (topic, subscription) pair has in the fold."""
    return fold.pairs(
        numbers_of(fold.topics, batch.column("topic")),
        numbers_of(fold.subscriptions, batch.column("subscription")),
    )


def merge_rows(fold: Fold, batch: pa.RecordBatch) -> None:
    """Merge rows of the table `PARTIALS` into a fold."""
    if batch.num_rows:
        states = batch.column("state").to_pylist()
        ledger_ids = _integers(batch, "ledger_id")
        fold.merge(pairs_of(fold, batch), _nulls(batch) if ledger_ids is None else ledger_ids, states)


def partial_batches(fold: Fold) -> Iterator[pa.RecordBatch]:
    """Yield the partials of a fold as rows of the table `PARTIALS`, in batches of some MB."""
    topics, subscriptions = _names(fold)
    start = 0
    while start < len(topics):
        rows = fold.partials.encode(start)
        start += rows["taken"]
        pairs = array_of(rows["pairs"])
        columns = [
            topics.take(pairs),
            subscriptions.take(pairs),
            _nullable(rows["ledger_ids"]),
            _to_binary(rows["states"], pa.binary()),
        ]
        yield pa.record_batch(columns, schema=PARTIAL_SCHEMA)


def cursor_batches(fold: Fold, *, strict: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield a row of the table `CURSORS` for each subscription, in batches of some MB.

    The rows are sorted by topic and subscription. If the events of a subscription are invalid, its row has an
    `error`; with `strict`, `ProtocolError` is raised instead.
    """
    topics, subscriptions = _names(fold)
    names = pa.table([topics, subscriptions], ["topic", "subscription"])
    order = pc.sort_indices(names, [("topic", "ascending"), ("subscription", "ascending")])
    for pairs, columns, errors in cursor_columns(fold, ndarray_of(order).astype(np.int64)):
        named = [column.take(array_of(pairs)) for column in (topics, subscriptions)]
        if strict and errors:
            row = min(errors)
            raise ProtocolError(f"{named[0][row]}, {named[1][row]}: {errors[row]}")
        batch = _cursor_batch(named, columns, errors)
        if columns["deleted"]:
            kept = np.ones(len(pairs), bool)
            kept[columns["deleted"]] = False
            batch = batch.take(array_of(np.flatnonzero(kept)))
        yield batch


def _names(fold: Fold) -> list[pa.Array]:
    """Return two Arrow arrays: the topic and the subscription of each pair."""
    texts = [_names_of(names) for names in (fold.topics, fold.subscriptions)]
    return [text.take(array_of(own)) for text, own in zip(texts, fold.partials.names(), strict=True)]


def _names_of(names: Any) -> pa.Array:
    offsets, data = names.to_arrays()
    return _to_binary({"offsets": offsets, "data": data}, pa.string())


def _cursor_batch(names: list[pa.Array], columns: dict[str, Any], errors: dict[int, str]) -> pa.RecordBatch:
    count = len(names[0])
    nothing = np.zeros(count, bool)
    nothing[list(errors)] = True
    lengths = np.diff(columns["position_info"]["offsets"])
    losses = losses_of(columns)
    sets, ledgers = columns["batch_deleted"], columns["ledgers"]
    words = pa.ListArray.from_arrays(array_of(sets["word_offsets"]), array_of(sets["words"]))
    ids, entries = array_of(ledgers["ids"]), array_of(ledgers["entries"])
    no_sizes = np.diff(columns["batch_sizes"]["offsets"]) == 0
    arrays = {
        "topic": names[0],
        "subscription": names[1],
        **{name: _nullable(values) for name, values in columns["integers"].items()},
        "individually_deleted": _to_binary(columns["individually_deleted"], pa.string(), nothing),
        "batch_deleted": _map(sets["offsets"], _to_binary(sets["keys"], pa.string()), words, nothing),
        "position_info": _to_binary(columns["position_info"], pa.binary(), nothing),
        "compact": _to_binary(columns["compact"], pa.binary(), nothing),
        "chunks": array_of(_each(chunk_count, lengths), nothing),
        "restart_loses": array_of(losses.at_least, nothing),
        "restart_reason": texts_of(losses.reasons).take(array_of(losses.codes)),
        "ledgers": _map(ledgers["offsets"], ids, entries, nothing),
        "batch_sizes": _to_binary(columns["batch_sizes"], pa.binary(), no_sizes),
        "error": texts_of([errors.get(row) for row in range(count)])
        if errors
        else pa.nulls(count, pa.string()),
    }
    return pa.record_batch([arrays[field.name] for field in CURSOR_SCHEMA], schema=CURSOR_SCHEMA)


def _each(function: Callable[[int], int], values: NDArray[np.int32]) -> Ints:
    """Return the result of a function for each value. The function is called once per distinct value."""
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([function(value) for value in distinct.tolist()], np.int64)[places]


def _nullable(values: Ints) -> pa.Array:
    return array_of(values, values == NULL)


def _to_binary(texts: dict[str, Any], kind: pa.DataType, nulls: NDArray[np.bool_] | None = None) -> pa.Array:
    offsets, data = texts["offsets"], texts["data"]
    buffers = [_validity(nulls), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _map(
    offsets: NDArray[np.int32], keys: pa.Array, values: pa.Array, nulls: NDArray[np.bool_]
) -> pa.MapArray:
    kind = pa.map_(keys.type, values.type)
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes()) if nulls.any() else None
    pairs = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(offsets) - 1, [valid, pa.py_buffer(offsets)], children=[pairs])
