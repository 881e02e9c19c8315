"""The strategy `files`: each task reads its row groups' columns itself and folds them.

Handing a row with two strings from the JVM to Python costs more than everything else together, so
nothing is handed over: a task gets the names of its files and answers with partials. Dictionary pages
stay dictionaries, and a row group is read in slices, so a task's memory is that of its partials.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from ackwell.spark.schema import PARTIALS
from ackwell.spark.splits import SPLIT_BYTES, Split, fold_split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ackwell.spark.folded import Turns


def is_exactly_files(events: DataFrame) -> bool:
    """Tell whether a DataFrame is what reading its Parquet files gives: no filter, no projection.

    Read off the analysed plan as `explain` prints it, which Spark Connect has too: one relation, and
    nothing above it.
    """
    printed = io.StringIO()
    with redirect_stdout(printed):
        events.explain(extended=True)
    analysed = printed.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    nodes = [line for line in analysed.splitlines() if line][1:]
    return len(nodes) == 1 and nodes[0].startswith("Relation [") and nodes[0].endswith(" parquet")


def fold(events: DataFrame, turns: Turns) -> DataFrame:
    """Fold the Parquet files of `events` into partials."""
    units = splits(events)
    session = events.sparkSession

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield from fold_split(units[index], turns)

    tasks = max(1, len(units))
    return session.range(0, len(units), 1, tasks).mapInArrow(read, PARTIALS)


def splits(events: DataFrame) -> list[Split]:
    """Cut the files of `events` into the pieces that one task reads."""
    paths = events.inputFiles()
    if not paths:
        return []
    listing = events.sparkSession.read.format("binaryFile").load(paths).select("path", "length")
    return [
        Split(row.path, start, min(start + SPLIT_BYTES, row.length))
        for row in sorted(listing.collect())
        for start in range(0, row.length, SPLIT_BYTES)
    ]
