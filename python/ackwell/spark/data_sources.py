"""Spark data sources: traces, dumps of stats-internal, and persisted cursors.

`ackwell_trace` reads traces in JSON lines. `pulsar_stats` reads the output of `stats-internal` or `ackwell
collect`. `pulsar_saves` reads entries of cursor ledgers and values of the metadata store.

`ackwell_trace` and `pulsar_stats` read files and folders, plain or compressed, as a batch or as a stream.
Each file is read by a task:

    register(spark)
    spark.read.format("ackwell_trace").load("traces/")
    spark.readStream.format("pulsar_stats").option("limit.max_files", 100).load("dumps/")

A stream reads files in the order of their modification times. A file must appear complete (write it
elsewhere, then rename it) and must not change. The sources do not accept filters from Spark, because Spark
would keep them for later queries of the same DataFrame. Spark applies the filters itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ackwell.errors import SchemaError
from ackwell.regular_files import files_under, is_hidden
from ackwell.replay import table_schemas
from ackwell.sources import ANSWER_SUFFIXES, PARQUET_SUFFIX, STATE_SUFFIX, TRACE_SUFFIXES
from ackwell.spark.schema import conform, spark_schema
from ackwell.spark.tasks.source_rows import PartReader
from ackwell.spark.versions import is_at_least, require_spark, spark_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

if TYPE_CHECKING or is_at_least("4.0"):
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
else:  # PySpark 3.5 has no data sources in Python, so `read_files` only finds the files with these classes

    class DataSource:
        """A substitute for PySpark's class of this name, which versions before 4.0 do not have."""

        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

    class DataSourceReader:
        """A substitute for PySpark's class of this name, which versions before 4.0 do not have."""

    DataSourceStreamReader = InputPartition = DataSourceReader

try:
    from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1: a stream reads all files in one batch
    ReadMaxFiles = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A substitute for the class of PySpark 4.2, on an older version."""


def register(spark: SparkSession) -> None:
    """Register the data sources of this module in a session; needs Spark 4.0."""
    require_spark("4.0", "a data source in Python", "read the files with ackwell.spark.read_files")
    for source in (EventTrace, PulsarStats, PulsarSaves):
        spark.dataSource.register(source)


def read_files(spark: SparkSession, source: str, *paths: str) -> DataFrame:
    """Read files or folders as a batch with one of the data sources, such as `pulsar_stats`.

    Spark 3.5 has no data sources in Python. The function then reads the files in another way, with the same
    result. A missing path raises `OSError` on Spark 3.5, and an error of Spark on newer versions.
    """
    if is_at_least("4.0"):
        register(spark)
        return spark.read.format(source).option("paths", json.dumps(paths)).load()
    kinds = {each.source: each for each in (EventTrace, PulsarStats, PulsarSaves)}
    found = kinds[source]({"paths": json.dumps(paths)})
    parts = found.some_parts()
    read = PartReader(*found.batches, parts)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(lambda batches: read(batches), found.schema())


def read_events(spark: SparkSession, *paths: str) -> DataFrame:
    """Read events from files or folders: Parquet, or traces (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`).

    A folder may contain both kinds. The Parquet files may have different optional columns (`mergeSchema`).
    """
    parquet = [path for path in paths if _may_contain(path, (PARQUET_SUFFIX,))]
    traces = [path for path in paths if path not in parquet or contains(path, EventTrace.suffixes)]
    table = None
    if parquet:
        reader = spark.read.option("mergeSchema", True)
        if set(parquet) & set(traces):
            reader = reader.option("pathGlobFilter", f"*{PARQUET_SUFFIX}")
        try:
            table = reader.parquet(*parquet)
        except spark_errors() as error:
            if not all(part in str(error) for part in ("Illegal Parquet type", "NANOS")):
                raise
            raise SchemaError(
                f"{', '.join(parquet)}: Spark reads no timestamps of nanoseconds; "
                'write them with coerce_timestamps="ms" (pandas, PyArrow), or as integers of milliseconds'
            ) from None
    if not traces:
        assert table is not None
        return table
    lines = read_files(spark, EventTrace.source, *traces)
    if table is None:
        return lines
    return lines.unionByName(conform(table, table_schemas.EVENTS, "events"))


def _may_contain(path: str, suffixes: tuple[str, ...]) -> bool:
    return "://" in path or path.endswith(suffixes) or contains(path, suffixes)


def contains(path: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether a path is a local folder that contains a file with one of these suffixes."""
    folder = Path(path)
    return "://" not in path and folder.is_dir() and bool(_files_in(folder, suffixes))


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files under a folder with one of these suffixes. As in Spark, hidden files are skipped."""
    found = (file for file in files_under(folder) if file.name.endswith(suffixes))
    return [file for file in found if not is_hidden(file, folder)]


class _Files(DataSource):
    """A data source that reads the files with certain suffixes."""

    source: ClassVar[str]
    table: ClassVar[table_schemas.Table]
    suffixes: ClassVar[tuple[str, ...]]
    batches: ClassVar[tuple[str, str]]
    """The name of a module, and the name of its function that returns the batches of a file. Executors import
    the module and the function by these names."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the source in `DataFrameReader.format`."""
        return cls.source

    def schema(self) -> StructType:
        """Return the schema of the rows. It is the same for every file."""
        return spark_schema(self.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a batch query."""
        return _FileReader(self)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader for a stream query."""
        return _StreamReader(self)

    def files(self) -> list[Path]:
        """Return the files, by name; `OSError` for a path that does not exist or cannot be listed."""
        found: set[Path] = set()
        for path in map(Path, self.paths()):
            if path.is_dir():
                found.update(_files_in(path, self.suffixes))
            elif path.is_file():
                found.add(path)
            else:
                raise FileNotFoundError(f"{path}: no such file or folder")
        return sorted(found, key=str)

    def paths(self) -> list[str]:
        """Return the files and folders that the query was given."""
        given = [self.options["path"]] if self.options.get("path") else []
        given += json.loads(self.options.get("paths") or "[]")
        if not given:
            raise ValueError(f"{self.source}: no path; call load(path)")
        return [path.removeprefix("file:") for path in given]

    def parts(self) -> list[str]:
        """Return the partitions of a batch query. Spark reads each partition in a task."""
        return [str(path) for path in self.files()]

    def some_parts(self) -> list[str]:
        """Return the partitions of a batch query; `FileNotFoundError` if there are none."""
        parts = self.parts()
        if not parts:
            # If there are no partitions, Spark calls `read` once without a partition.
            raise FileNotFoundError(f"{', '.join(self.paths())}: no file with {' or '.join(self.suffixes)}")
        return parts

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition as batches."""
        module, function = self.batches
        yield from getattr(import_module(module), function)(path)


class EventTrace(_Files):
    """Traces: files of JSON lines with one event on each line."""

    source = "ackwell_trace"
    table = table_schemas.EVENTS
    suffixes = TRACE_SUFFIXES
    batches = ("ackwell.spark.tasks.source_rows", "event_batches")


class PulsarStats(_Files):
    """Files with the output of `pulsar-admin topics stats-internal` or `ackwell collect`."""

    source = "pulsar_stats"
    table = table_schemas.STATS
    suffixes = ANSWER_SUFFIXES
    batches = ("ackwell.spark.tasks.source_rows", "stats_batches")


class PulsarSaves(_Files):
    """Persisted states of cursors, with a row for each save.

    A folder is a cursor ledger, and each file in it is an entry.
    """

    source = "pulsar_saves"
    table = table_schemas.SAVES
    suffixes = (STATE_SUFFIX,)
    batches = ("ackwell.spark.tasks.source_rows", "saved_batches")

    def parts(self) -> list[str]:
        """Return a partition for each folder, because a large state is stored in several of its files."""
        folders = groupby(self.files(), key=lambda path: path.parent)
        return [json.dumps([str(path) for path in files]) for _, files in folders]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Raise `ValueError`, because a micro-batch could contain only some of the entries of a state."""
        raise ValueError(f"{self.source}: no stream; read it as a batch")


class _File(InputPartition):
    """A partition that is one file. One task reads it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)


class _FileReader(DataSourceReader):
    def __init__(self, source: _Files) -> None:
        self._source = source

    def partitions(self) -> list[InputPartition]:
        return [_File(part) for part in self._source.some_parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition.value)


Mark = tuple[int, str]
"""The modification time of a file in ns, and its path. A stream reads files in this order."""


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream of files. An offset contains the `Mark` of the last file that was read."""

    def __init__(self, source: _Files) -> None:
        self._source = source
        self._end: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"modified_ns": 0, "path": ""}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        limit = self._source.options.get("limit.max_files")
        return super().getDefaultReadLimit() if limit is None else ReadMaxFiles(int(limit))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the last file that this run of the stream reads. Later files are read by the next run."""
        self._end = self._offset(self._marks())

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        begin = _mark(start) if start else (0, "")
        marks = [mark for mark in self._marks() if mark > begin]
        if self._end is not None:
            marks = [mark for mark in marks if mark <= _mark(self._end)]
        count = getattr(limit, "max_files", None)
        return self._offset(marks[:count]) if marks else (start or self.initialOffset())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [_File(mark[1]) for mark in self._marks() if _mark(start) < mark <= _mark(end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition.value)

    def _marks(self) -> list[Mark]:
        return sorted((path.stat().st_mtime_ns, str(path)) for path in self._source.files())

    def _offset(self, marks: list[Mark]) -> dict[str, Any]:
        if not marks:
            return self.initialOffset()
        modified_ns, path = marks[-1]
        return {"modified_ns": modified_ns, "path": path}


def _mark(offset: dict[str, Any]) -> Mark:
    return offset["modified_ns"], offset["path"]
