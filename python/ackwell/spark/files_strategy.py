"""The strategy `files`: each task reads the columns of its row groups and folds them.

Passing rows from the JVM to Python would cost more than the rest of the replay. So a task receives only the
names of its files and returns partials. Row groups are packed into tasks of about equal bytes, at most one
task for each core. There are more tasks only if a task would exceed `SHARE_BYTES_MAX`. A task makes one fold
of all its row groups, so a thousand small files cost as much as one large file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.types import ArrayType, DataType, IntegralType, StringType

from ackwell.errors import AckwellError
from ackwell.replay.parquet import ParquetEvents, RowGroups, is_readable
from ackwell.spark.schema import CURSORS, PARTIALS
from ackwell.spark.tasks.fold_files import SURVEY, FoldFiles, survey_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ackwell.replay.parquet import Fields
    from ackwell.replay.resets import Resets

SHARE_BYTES_MIN: Final = 64 * 1024 * 1024
"""A further task is started only for this many bytes of decoded columns. They take half a second, and hold a
million events of 100,000 topics or twenty million events of 200 topics. A second task also needs a shuffle
and a second stage."""

SHARE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The maximum number of bytes of columns for a task, so that a large input has many tasks to balance."""

DRIVER_FILES_MAX: Final = 2_000
"""The maximum number of files that the driver surveys itself. If there are more, a job surveys all files."""


class ReadPlan(NamedTuple):
    """The row groups that each task reads."""

    shares: list[list[RowGroups]]
    has_resets: bool


def plain_files(events: DataFrame) -> tuple[list[str], str]:
    """Return the Parquet files whose rows are exactly those of a DataFrame, or the reason why there are none.

    The plan must be one relation of Parquet files in a plain index, without further nodes. A Delta table has
    another index. The function parses the printed plan of `explain`, because Spark Connect gives clients no
    other access to the plan. A classic session could read the JVM's objects, but a second method could give
    another result. A plan in an unknown format counts as not plain, so the strategy `auto` then uses `rows`.
    No job runs.
    """
    printed = io.StringIO()
    with redirect_stdout(printed):
        events.explain(extended=True)
    text = printed.getvalue()
    analysed = text.partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    nodes = [line for line in analysed.splitlines() if line][1:]
    if len(nodes) != 1 or not nodes[0].startswith("Relation [") or not nodes[0].endswith(" parquet"):
        return [], "its plan is more than one relation of Parquet files"
    physical = text.partition("== Physical Plan ==")[2]
    if "Location: InMemoryFileIndex" not in physical:
        return [], "a table format lists its files and may omit rows"
    # Connect returns its own sequence type, which it does not accept as an argument.
    return list(events.inputFiles()), ""


def survey(events: DataFrame, paths: list[str]) -> tuple[ReadPlan | None, str]:
    """Return a plan for reading the files, or None and the reason why they cannot be read directly.

    The driver reads the footers and the column `kind`. If the driver cannot read the files, a small job does.
    """
    if paths and not is_readable(paths[0]):
        return None, f"{paths[0]}: Arrow has no file system for it"
    expected = {field.name: field.dataType for field in events.schema}
    found = _survey_files(events.sparkSession, paths)
    groups: list[tuple[RowGroups, int]] = []
    has_resets = False
    for path, group_bytes, resets, fields in found:
        if group_bytes is None:
            continue
        wrong = _difference(fields, expected)
        if wrong:
            return None, f"{path}: {wrong}"
        has_resets |= resets
        groups += [(RowGroups(path, (index,)), size) for index, size in enumerate(group_bytes)]
    return ReadPlan(pack(groups, _cores(events.sparkSession)), has_resets), ""


_Found = tuple[str, "list[int] | None", bool, "Fields"]


def _survey_files(session: SparkSession, paths: list[str]) -> list[_Found]:
    # With Connect, a path of the server can be another file on this machine.
    is_connect = type(session).__module__.startswith("pyspark.sql.connect")
    if not is_connect and len(paths) <= DRIVER_FILES_MAX:
        try:
            return [_survey_file(path) for path in paths]
        except (OSError, AckwellError):
            # The driver may not reach the storage of the executors. They report the error.
            pass

    def survey_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield survey_row(paths[index])

    rows = session.range(len(paths)).mapInArrow(survey_rows, SURVEY).collect()
    return [
        (row.path, row.group_bytes, row.has_resets, dict(json.loads(row.fields)))
        for row in sorted(rows, key=lambda row: str(row.path))
    ]


def _survey_file(path: str) -> _Found:
    with ParquetEvents(path) as events:
        found = events.survey()
    return path, None if found.is_empty else list(found.group_bytes), found.has_resets, found.fields


def _difference(fields: Fields, expected: dict[str, DataType]) -> str:
    """Return how the columns of a file differ from those of the DataFrame. Names may differ in case."""
    own = {name.lower(): kind for name, kind in fields.items()}
    wanted = {name.lower(): kind for name, kind in expected.items()}
    missing, more = sorted(wanted.keys() - own.keys()), sorted(own.keys() - wanted.keys())
    if missing:
        return f"no column {missing[0]!r}, which the DataFrame has"
    if more:
        return f"column {more[0]!r}, which the DataFrame lacks"
    for name, kind in wanted.items():
        if not _same_type(own[name], kind):
            return f"column {name!r} is {own[name]}, and {kind.simpleString()} in the DataFrame"
    return ""


def _same_type(own: str, kind: DataType) -> bool:
    if isinstance(kind, IntegralType):
        # Spark reads a column without values as integers.
        return own == "null" or own.removeprefix("u").startswith("int")
    if isinstance(kind, StringType):
        return own in ("string", "large_string")
    if isinstance(kind, ArrayType):
        return own.startswith(("list<", "large_list<"))
    # Only time_ms has another type, and no fold reads it.
    return True


def _cores(session: SparkSession) -> int:
    """Return the number of tasks that run at the same time, estimated if Spark does not report it."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except Exception:  # Connect has no context, and the error depends on the version.
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1) // 2)


def pack(groups: list[tuple[RowGroups, int]], cores: int) -> list[list[RowGroups]]:
    """Return shares of the row groups, in order, with about the same number of bytes each."""
    total = sum(size for _, size in groups)
    count = min(cores, max(1, total // SHARE_BYTES_MIN))
    while total / count > SHARE_BYTES_MAX:
        count += cores
    shares: list[list[RowGroups]] = []
    filled = 0
    for group, size in groups:
        if not shares or filled * count >= total * len(shares):
            shares.append([])
        filled += size
        last = shares[-1][-1] if shares[-1] else None
        if last is not None and last.path == group.path:
            shares[-1][-1] = last._replace(indexes=(*last.indexes, *group.indexes))
        else:
            shares[-1].append(group)
    return shares


def fold(
    session: SparkSession,
    shares: list[list[RowGroups]],
    resets: Resets,
    *,
    ordered: bool = True,
    strict: bool = False,
    whole: bool = False,
) -> DataFrame:
    """Fold Parquet files into partials, with a task for each share; with `whole`, one share into cursors."""
    function = FoldFiles(shares, resets, ordered=ordered, strict=strict, whole=whole)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    tasks = max(1, len(shares))
    numbers = session.range(0, len(shares), 1, tasks)
    return numbers.mapInArrow(run, CURSORS if whole else PARTIALS)
