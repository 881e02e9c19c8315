"""The task of the strategy `files`: read and fold row groups of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ackwell.replay.columns import cursor_batches, partial_batches
from ackwell.replay.fold import Fold
from ackwell.replay.parquet import ParquetEvents, RowGroups, fold_row_groups

if TYPE_CHECKING:
    from ackwell.replay.resets import Resets

SURVEY = "path string, group_bytes array<bigint>, has_resets boolean, fields string"
"""The columns of the result of `survey_row`. There is a row for each file."""


def survey_row(path: str) -> pa.RecordBatch:
    """Read the footer and the column `kind` of a Parquet file, and return the survey as a row."""
    with ParquetEvents(path) as events:
        survey = events.survey()
    row = {
        "path": path,
        "group_bytes": survey.group_bytes,
        "has_resets": survey.has_resets,
        "fields": json.dumps(survey.fields),
    }
    schema = pa.schema(
        [
            ("path", pa.string()),
            ("group_bytes", pa.list_(pa.int64())),
            ("has_resets", pa.bool_()),
            ("fields", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist([row], schema=schema)


class FileFold:
    """Folds each share of row groups into partials. With `whole`, there is one share, folded into cursors."""

    def __init__(
        self,
        shares: list[list[RowGroups]],
        resets: Resets,
        *,
        ordered: bool,
        strict: bool,
        whole: bool = False,
    ) -> None:
        self._shares = shares
        self._resets = resets
        self._ordered = ordered
        self._strict = strict
        self._whole = whole

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold the shares whose numbers are in the column `id` of the batches."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.fold(self._shares[number])

    def fold(self, share: list[RowGroups]) -> Iterator[pa.RecordBatch]:
        """Fold the row groups of one share, and yield partials; with `whole`, yield cursors."""
        lean = not self._ordered and not self._resets.seeks and not self._resets.clears
        fold = Fold(self._resets, ordered=self._ordered)
        if fold_row_groups(fold, share, lean=lean) and lean:
            # Fold again with the columns that locate the invalid rows.
            fold = Fold(self._resets, ordered=self._ordered)
            fold_row_groups(fold, share)
        fold.raise_flaw(all_flaws=self._strict)
        yield from cursor_batches(fold, strict=self._strict) if self._whole else partial_batches(fold)
