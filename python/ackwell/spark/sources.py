"""Spark data sources: traces, dumps of stats-internal, and persisted cursors.

`ackwell_trace` reads JSON-lines traces, `pulsar_stats` what `stats-internal` or `ackwell collect` gave, and
`pulsar_saves` entries of cursor ledgers and values of the metadata store.

The first two read files and folders, plain or gzipped, as a batch and as a stream, a task a file:

    register(spark)
    spark.read.format("ackwell_trace").load("traces/")
    spark.readStream.format("pulsar_stats").option("limit.max_files", 100).load("dumps/")

A stream takes files in the order of their modification times, so a file must appear whole (write it
elsewhere, then rename it) and may not change. Filters are left to Spark: a source that takes them
keeps them for later queries of the same DataFrame.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from ackwell.errors import SchemaError
from ackwell.replay import table_schemas
from ackwell.spark.schema import conform, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1: a stream then reads all that is there in one batch
    ReadMaxFiles = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces what PySpark 4.2 brought."""


def register(spark: SparkSession) -> None:
    """Make `ackwell_trace`, `pulsar_stats` and `pulsar_saves` known to a session."""
    for source in (EventTrace, PulsarStats, PulsarSaves):
        spark.dataSource.register(source)


def read_events(spark: SparkSession, *paths: str) -> DataFrame:
    """Read events from Parquet files or from traces (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`), files or folders.

    A folder may hold both. Parquet files may differ in their optional columns (`mergeSchema`).
    """
    register(spark)
    parquet = [path for path in paths if _holds(path, _PARQUET)]
    traces = [path for path in paths if path not in parquet or _holds_too(path, EventTrace.suffixes)]
    table = None
    if parquet:
        reader = spark.read.option("mergeSchema", True)
        if set(parquet) & set(traces):
            reader = reader.option("pathGlobFilter", "*.parquet")
        try:
            table = reader.parquet(*parquet)
        except AnalysisException as error:
            if error.getCondition() != "PARQUET_TYPE_ILLEGAL" or "NANOS" not in str(error):
                raise
            raise SchemaError(
                f"{', '.join(parquet)}: Spark reads no timestamps of nanoseconds; "
                'write them with coerce_timestamps="ms" (pandas, PyArrow), or as integers of milliseconds'
            ) from None
    if not traces:
        assert table is not None
        return table
    lines = spark.read.format("ackwell_trace").option("paths", json.dumps(traces)).load()
    if table is None:
        return lines
    return lines.unionByName(conform(table, table_schemas.EVENTS, "events"))


_PARQUET = (".parquet",)


def _holds(path: str, suffixes: tuple[str, ...]) -> bool:
    return "://" in path or path.endswith(suffixes) or _holds_too(path, suffixes)


def _holds_too(path: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether a folder holds files with these suffixes; Spark does not read hidden ones."""
    folder = Path(path)
    if "://" in path or not folder.is_dir():
        return False
    found = (file for file in folder.rglob("*") if file.name.endswith(suffixes))
    return any(not file.name.startswith((".", "_")) for file in found)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


class _Files(DataSource):
    """Rows of files with certain suffixes."""

    source: ClassVar[str]
    table: ClassVar[table_schemas.Table]
    suffixes: ClassVar[tuple[str, ...]]
    batches: ClassVar[tuple[str, str]]
    """Module and function that return a file's batches, imported where they run."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return cls.source

    def schema(self) -> StructType:
        """Return the schema of every file."""
        return spark_schema(self.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return _Reader(self)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return _StreamReader(self)

    def files(self) -> list[Path]:
        """List the files, by name; `FileNotFoundError` for a path that does not exist."""
        found: set[Path] = set()
        for path in map(Path, self.paths()):
            if path.is_dir():
                inside = (p for p in path.rglob("*") if p.name.endswith(self.suffixes))
                found.update(p for p in inside if not _is_hidden(p.relative_to(path)))
            elif path.is_file():
                found.add(path)
            else:
                raise FileNotFoundError(f"{path}: no such file or folder")
        return sorted(found, key=str)

    def paths(self) -> list[str]:
        """Return the files and folders that were asked for."""
        given = [self.options["path"]] if self.options.get("path") else []
        given += json.loads(self.options.get("paths") or "[]")
        if not given:
            raise ValueError(f"{self.source}: no path; call load(path)")
        return [path.removeprefix("file:") for path in given]

    def parts(self) -> list[str]:
        """Return what one task each reads of a batch."""
        return [str(path) for path in self.files()]

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """Read one file."""
        module, function = self.batches
        yield from getattr(import_module(module), function)(path)


class EventTrace(_Files):
    """Traces: JSON lines, one event a line."""

    source = "ackwell_trace"
    table = table_schemas.EVENTS
    suffixes = (".jsonl", ".jsonl.gz", ".jsonl.zst")
    batches = ("ackwell.spark.tasks.source_rows", "event_batches")


class PulsarStats(_Files):
    """What `pulsar-admin topics stats-internal` printed."""

    source = "pulsar_stats"
    table = table_schemas.STATS
    suffixes = (".json", ".json.gz")
    batches = ("ackwell.spark.tasks.source_rows", "stats_batches")


class PulsarSaves(_Files):
    """Persisted states, a row a save: a file is an entry, by the order of names, a folder a cursor ledger."""

    source = "pulsar_saves"
    table = table_schemas.SAVES
    suffixes = (".bin",)
    batches = ("ackwell.spark.tasks.source_rows", "saved_batches")

    def parts(self) -> list[str]:
        """Return the files of each folder together: a large state is in several."""
        folders = groupby(self.files(), key=lambda path: path.parent)
        return [json.dumps([str(path) for path in files]) for _, files in folders]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Refuse: a state in several entries may arrive in several micro-batches."""
        raise ValueError(f"{self.source}: no stream; read it as a batch")


class _File(InputPartition):
    """One file, read by one task."""

    def __init__(self, path: str) -> None:
        super().__init__(path)


class _Reader(DataSourceReader):
    def __init__(self, source: _Files) -> None:
        self._source = source

    def partitions(self) -> list[InputPartition]:
        parts = self._source.parts()
        if not parts:
            # Spark would call `read` once, without any partition.
            paths, suffixes = ", ".join(self._source.paths()), " or ".join(self._source.suffixes)
            raise FileNotFoundError(f"{paths}: no file with {suffixes}")
        return [_File(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition.value)


Mark = tuple[int, str]
"""Modification time in ns and path: the order of files in a stream."""


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the `Mark` of the last file that was read."""

    def __init__(self, source: _Files) -> None:
        self._source = source
        self._end: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"modified_ns": 0, "path": ""}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        limit = self._source.options.get("limit.max_files")
        return super().getDefaultReadLimit() if limit is None else ReadMaxFiles(int(limit))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where to stop: files that come later are left to the next run."""
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
