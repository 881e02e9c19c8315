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
from ackwell.spark.tasks.files import SURVEY, Split, fold_split, look_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ackwell.replay.folded import Turns


def is_exactly_files(events: DataFrame) -> bool:
    """Return whether a DataFrame is what reading its Parquet files gives: no filter, no projection.

    Read off the analysed plan as `explain` prints it, which Spark Connect has too: one relation, and
    nothing above it.
    """
    printed = io.StringIO()
    with redirect_stdout(printed):
        events.explain(extended=True)
    analysed = printed.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    nodes = [line for line in analysed.splitlines() if line][1:]
    return len(nodes) == 1 and nodes[0].startswith("Relation [") and nodes[0].endswith(" parquet")


def survey(events: DataFrame) -> tuple[list[Split], bool]:
    """Cut the files of `events` into splits, and tell whether any of them may hold a turn (`find_turns`).

    One small job, of the files' footers and their column `kind` alone.
    """
    # Connect gives a sequence of its own, which it does not take back.
    paths = list(events.inputFiles())
    if not paths:
        return [], False

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield look_at(paths[index])

    rows = events.sparkSession.range(len(paths)).mapInArrow(look, SURVEY).collect()
    return [Split(row.path, row.start, row.end) for row in sorted(rows)], any(row.turning for row in rows)


def fold(session: SparkSession, splits: list[Split], turns: Turns, *, ordered: bool = True) -> DataFrame:
    """Fold Parquet files into partials, a task for each split; `ordered` as in `Fold`."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield from fold_split(splits[index], turns, ordered=ordered)

    tasks = max(1, len(splits))
    return session.range(0, len(splits), 1, tasks).mapInArrow(read, PARTIALS)
