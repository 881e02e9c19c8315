"""Functions that merge partials, convert them to cursors, and make partials of initial states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from ackwell import PositionInfo
from ackwell.replay import table_schemas
from ackwell.replay.columns import cursor_batches, merge_rows, partial_batches
from ackwell.replay.fold import Fold
from ackwell.spark.tasks.fold_rows import cursor_state

RANGE_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.RANGES)


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the partials of each (topic, subscription, ledger) into one row."""
    fold = Fold()
    for batch in batches:
        merge_rows(fold, batch)
    yield from partial_batches(fold)


class CursorMerge:
    """Merges the partials of each subscription into its cursor, a row of the table `CURSORS`."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge partials, and yield rows of the table `CURSORS`.

        An input row with a `directory` is not a partial: it has the ledgers of a topic.
        """
        fold = Fold()
        directories: dict[str, list[tuple[int, int]]] = {}
        for batch in batches:
            if not batch.num_rows:
                continue
            index = batch.schema.get_field_index("directory")
            if index >= 0 and batch.column(index).null_count < batch.num_rows:
                given = batch.filter(batch.column(index).is_valid())
                pairs = zip(given.column("topic").to_pylist(), given.column(index).to_pylist(), strict=True)
                directories.update(pairs)
                batch = batch.filter(batch.column("state").is_valid())
            merge_rows(fold, batch)
        for name in fold.names():
            if name[0] in directories:
                fold.set_ledgers(name, directories[name[0]])
        fold.raise_flaw(all_flaws=self._strict)
        yield from cursor_batches(fold, strict=self._strict)


_ROWS: Final = 256
"""The number of rows that are converted to Python objects at a time. A row may have a long text of ranges."""


def start(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the initial states of subscriptions as partials. The input rows are cursors or dumps."""
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS):
            fold = Fold()
            for row in batch.slice(first, _ROWS).to_pylist():
                if row["mark_delete_ledger_id"] is not None:
                    _start(fold, row)
            yield from partial_batches(fold)


def _start(fold: Fold, row: dict[str, Any]) -> None:
    state = cursor_state(row)
    fold.start((row["topic"], row["subscription"]), state.to_position_info(), state.ledgers or ())


def explode_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the ranges in the column `compact` of cursors, and yield rows of the table `RANGES`."""
    for batch in batches:
        for topic, subscription, compact in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            ranges = PositionInfo.decode(compact).individually_deleted.to_arrays()
            for first in range(0, len(ranges[0]), _RANGES):
                part = [values[first : first + _RANGES] for values in ranges]
                names = [[name] * len(part[0]) for name in (topic, subscription)]
                yield pa.record_batch([*map(pa.array, names), *map(pa.array, part)], schema=RANGE_SCHEMA)


_RANGES: Final = 65_536
