"""The strategy `files`: each task reads its row groups of Parquet files and folds them.

If the JVM passed rows to Python, this would cost more than the rest of the replay. So a task receives only
the names of its files, reads the needed columns itself, and returns partials. Row groups are distributed so
that each task reads about the same number of bytes. There is at most one task for each core, unless a task
would exceed `SHARE_BYTES_MAX`. A task folds all its row groups together, so a thousand small files cost as
much as one large file.
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
from ackwell.spark.tasks.fold_files import SURVEY, FileFold, survey_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ackwell.replay.parquet import Fields
    from ackwell.replay.resets import Resets

SHARE_BYTES_MIN: Final = 64 * 1024 * 1024
"""The number of bytes of decoded columns for which one more task is started. A task folds this many bytes in
half a second. They hold a million events of 100,000 topics, or twenty million events of 200 topics. A second
task also needs a shuffle and a second stage."""

SHARE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The maximum number of bytes of decoded columns in a task. So a large input has many tasks, which balance
the load."""

DRIVER_FILES_MAX: Final = 2_000
"""The maximum number of files that the driver surveys itself. For more files, a Spark job makes the
survey."""


class ReadPlan(NamedTuple):
    """The distribution of row groups to tasks."""

    shares: list[list[RowGroups]]
    has_resets: bool


def plain_files(events: DataFrame) -> tuple[list[str], str]:
    """Return the Parquet files whose rows are exactly those of a DataFrame.

    If there are no such files, return an empty list and the reason.

    The plan of the DataFrame must be one relation of Parquet files in a plain index, without further nodes. A
    Delta table has another kind of index. The function parses the plan that `explain` prints, because Spark
    Connect gives clients no other access to the plan. A classic session could read the JVM's objects, but
    then two methods could give different results. If the plan has an unknown format, the files do not count
    as plain, and the strategy `auto` uses `rows`. No job runs.
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

    The driver reads the footer and the column `kind` of each file. If it cannot read the files, a small job
    reads them.
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
    # With Connect, the same path can be another file on the server than on this machine.
    is_connect = type(session).__module__.startswith("pyspark.sql.connect")
    if not is_connect and len(paths) <= DRIVER_FILES_MAX:
        try:
            return [_survey_file(path) for path in paths]
        except (OSError, AckwellError):
            # The driver may have no access to the storage, unlike the executors. If they have none either,
            # they report the error.
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
    """Return a text about the first difference between the columns of a file and of the DataFrame.

    Return an empty text if there is no difference. The case of names does not matter.
    """
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
    # Only the column `time_ms` has another type, and the fold does not read it.
    return True


def _cores(session: SparkSession) -> int:
    """Return the number of tasks that run at the same time. If Spark does not report it, estimate it."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except Exception:  # Connect has no context, and the error depends on the version.
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1) // 2)


def pack(groups: list[tuple[RowGroups, int]], cores: int) -> list[list[RowGroups]]:
    """Divide the row groups, in order, into shares with about the same number of bytes.

    `groups` has the size of each row group in bytes.
    """
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
    """Fold Parquet files into partials, with a task for each share.

    With `whole`, there must be only one share. It is folded into cursors instead of partials.
    """
    function = FileFold(shares, resets, ordered=ordered, strict=strict, whole=whole)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    tasks = max(1, len(shares))
    numbers = session.range(0, len(shares), 1, tasks)
    return numbers.mapInArrow(run, CURSORS if whole else PARTIALS)
