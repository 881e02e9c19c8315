"""Measure the rate of a stream of cursors: `make lab-bench-stream`.

The events are of a fleet of 200 subscriptions, of which one has half of all events. They are in files by
time, as a recorder writes them, so every micro-batch has events of every subscription. Each stream reads the
same files to the end. Spark's progress reports contain the rows and seconds of each micro-batch, from the
plan to the commit of its state. The first micro-batches warm the JVM and are not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ackwell.spark import cursor_stream, local_session
from ackwell.spark.schema import EVENTS
from benches.fleet import Chunk, Fleet, chunk_events, chunks
from benches.spark.process_tree import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

PATTERNS: Final = ("holes", "random", "oldest", "drained")
WARMING: Final = 3
"""The number of first micro-batches that are not counted."""


def main() -> int:
    """Run the streams and print their rates."""
    arguments = parser().parse_args()
    patterns = Fleet().patterns if arguments.batches else PATTERNS
    fleet = Fleet(subscriptions=arguments.subscriptions, entries=arguments.entries, patterns=patterns)
    kind = "-batches" if arguments.batches else ""
    folder = arguments.folder / f"slices{kind}-{fleet.subscriptions}-{fleet.entries}-{arguments.slices}"
    write_slices(folder, fleet, arguments.slices)
    conf = dict(pair.split("=", 1) for pair in arguments.conf)
    spark = local_session("local[2]", name="ackwell-bench", conf={"spark.sql.shuffle.partitions": "4"} | conf)
    rates = []
    for _ in range(arguments.rounds):
        rate = run(spark, cursor_stream(events(spark, folder, arguments.files)))
        print(
            f"stream {rate['events_per_s'] / 1e3:6.0f} k events a second, "
            f"{rate['slowest'] / 1e3:.0f} k in the slowest of {rate['micro_batches']} micro-batches; "
            f"{rate['events_per_cpu_s'] / 1e3:.0f} k events a CPU-s",
            flush=True,
        )
        rates.append(rate)
    spark.stop()
    print(json.dumps(rates, indent=2))
    return 0


def events(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    """Return the slices as a streaming DataFrame; each micro-batch reads `files` files."""
    reader = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def run(spark: SparkSession, cursors: DataFrame) -> dict[str, Any]:
    """Run a stream until its input is read. Return its rate after the first `WARMING` micro-batches."""
    with tempfile.TemporaryDirectory(prefix="ackwell-bench-") as checkpoint:
        cpu = cpu_seconds()
        query = (
            cursors.writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .format("noop")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        cpu = cpu_seconds() - cpu
    steady = progress[WARMING:]
    rows = [each["numInputRows"] for each in steady]
    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in steady]
    begin, end = (datetime.fromisoformat(each["timestamp"]).timestamp() for each in (steady[0], steady[-1]))
    return {
        "events_per_s": round(sum(rows) / (end + seconds[-1] - begin)),
        "slowest": round(min(n / s for n, s in zip(rows, seconds, strict=True))),
        "micro_batches": len(steady),
        "rows_each": rows[0],
        "events_per_cpu_s": round(sum(each["numInputRows"] for each in progress) / cpu),
        "last_ms": steady[-1]["durationMs"],
    }


def write_slices(folder: Path, fleet: Fleet, slices: int) -> None:
    """Write the events of a fleet once. Each file holds the same share of every subscription's time."""
    if (folder / "_SUCCESS").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="ackwell-bench-") as scratch:
        writers: dict[int, pq.ParquetWriter] = {}
        for chunk in chunks(fleet):
            for number, part in slices_of(fleet, chunk, slices):
                if number not in writers:
                    writers[number] = pq.ParquetWriter(f"{scratch}/{number:05}.parquet", part.schema)
                writers[number].write_batch(part)
        for number, writer in sorted(writers.items()):
            writer.close()
            name = f"{number:05}.parquet"
            table = pq.read_table(Path(scratch, name)).sort_by("time_ms")
            # Two tasks read a file, so it has row groups for both.
            pq.write_table(table, folder / name, compression="zstd", row_group_size=250_000)
    (folder / "_SUCCESS").touch()


def slices_of(fleet: Fleet, chunk: Chunk, slices: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of each slice that a chunk belongs to, with the chunk's events in this slice."""
    events = chunk_events(fleet, chunk)
    times = events.column("time_ms").to_numpy()
    first = times.min()
    share = (chunk.first_entry + (times - first) / (times.max() + 1 - first) * chunk.entries) / max(
        1, fleet.entries_of(chunk.subscription)
    )
    numbers = np.minimum((share * slices).astype(np.int64), slices - 1)
    for number in np.unique(numbers).tolist():
        yield number, events.take(pa.array(np.flatnonzero(numbers == number)))


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(description=__doc__)
    described.add_argument("--entries", type=int, default=10_000_000, help="two events each")
    described.add_argument("--subscriptions", type=int, default=200)
    described.add_argument("--batches", action="store_true", help="the default fleet, batches too")
    described.add_argument("--slices", type=int, default=20, help="files")
    described.add_argument("--files", type=int, default=2, help="files of a micro-batch")
    described.add_argument("--rounds", type=int, default=1)
    described.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    described.add_argument("--folder", type=Path, default=Path("benches/record/spark-data"))
    return described


if __name__ == "__main__":
    sys.exit(main())
