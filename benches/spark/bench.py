"""Measure the pipeline against Spark SQL: `make bench-spark`.

One session, all variants in turn, CPU time of driver, JVM and Python workers together. The session's
start is not counted, and a small replay of each variant has warmed the JVM.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ackwell.spark import generate, local_session, replay
from ackwell.spark.finish import cursor_batches
from ackwell.spark.fleet import Fleet
from ackwell.spark.folded import Turns
from ackwell.spark.splits import SPLIT_BYTES, Split, fold_split
from benches.spark import peers
from benches.spark.process_tree import cpu_seconds, worker_peak_mb

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATTERNS = ("holes", "random", "oldest", "drained")


def main() -> int:
    """Run the benchmark and print its table."""
    arguments = parser().parse_args()
    spark = local_session("local[2]", name="ackwell-bench")
    folder = arguments.folder / f"fleet-{arguments.entries}"
    small, large = folder / "small", folder / "large"
    write_fleet(spark, small, min(200_000, arguments.entries), 0.5)
    write_fleet(spark, large, arguments.entries, 0.5)
    variants = {
        "files": lambda events: replay(events, strategy="files"),
        "words": lambda events: replay(events, strategy="words"),
        "peer: SQL words, popcount": peers.words_and_popcount,
        "peer: SQL windows": peers.windows,
        "scan": lambda events: events.select("topic", "subscription", "kind", "ledger_id", "entry_id"),
    }
    variants = {name: variants[name] for name in arguments.only or variants}
    for build in variants.values():
        run(spark, small, build)
    count = spark.read.parquet(str(large)).count()
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(arguments.rounds):
        for name, build in variants.items():
            measured[name].append(run(spark, large, build))
    results: dict[str, Any] = {"events": count, "worker_peak_mb": round(worker_peak_mb())}
    for name, runs in measured.items():
        cpu, wall = statistics.median(r[0] for r in runs), statistics.median(r[1] for r in runs)
        results[name] = {"events_per_cpu_s": count / cpu, "cpu_s": cpu, "wall_s": wall}
        print(f"{name:28} {count / cpu / 1e6:6.2f} M events a CPU-s   {cpu:7.1f} CPU-s   {wall:6.1f} s")
    write_fleet(spark, folder / "even", arguments.entries, 1 / 200)
    spark.stop()
    for name in ("large", "even"):
        results[f"critical path, {name}"] = critical_path(folder / name)
    print(json.dumps(results, indent=2))
    return 0


def write_fleet(spark: SparkSession, path: Path, entries: int, hot_share: float) -> None:
    """Write a fleet once; it is the same each time."""
    if not (path / "_SUCCESS").exists():
        shutil.rmtree(path, ignore_errors=True)
        fleet = Fleet(entries=entries, hot_share=hot_share, patterns=PATTERNS, delayed_share=0)
        generate(spark, fleet, tasks=8).write.option("compression", "zstd").parquet(str(path))


def run(spark: SparkSession, path: Path, build: Callable[[DataFrame], DataFrame]) -> tuple[float, float]:
    """Build and run one variant; its rows are computed and thrown away."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    build(spark.read.parquet(str(path))).write.format("noop").mode("overwrite").save()
    return cpu_seconds() - cpu, time.perf_counter() - wall


def critical_path(folder: Path) -> dict[str, float]:
    """Measure the tasks of `files` one by one: the longest fold, and the longest finish of one name."""
    folds, partials = [], []
    for path in sorted(folder.glob("*.parquet")):
        size = path.stat().st_size
        for start in range(0, size, SPLIT_BYTES):
            cpu = time.process_time()
            split = Split(path.as_uri(), start, min(size, start + SPLIT_BYTES))
            partials += list(fold_split(split, Turns({}, {})))
            folds.append(time.process_time() - cpu)
    by_name: dict[str, list[pa.RecordBatch]] = {}
    table = pa.Table.from_batches(partials)
    for topic in table.column("topic").unique().to_pylist():
        own = table.filter(pc.equal(table.column("topic"), topic))
        by_name[topic] = own.append_column("directory", pa.nulls(own.num_rows)).to_batches()
    finishes = []
    for batches in by_name.values():
        cpu = time.process_time()
        list(cursor_batches(batches))
        finishes.append(time.process_time() - cpu)
    return {
        "tasks": len(folds),
        "longest_fold_s": max(folds),
        "longest_finish_s": max(finishes),
        "sum_s": max(folds) + max(finishes),
    }


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(description=__doc__)
    described.add_argument("--entries", type=int, default=10_000_000, help="two events each")
    described.add_argument("--rounds", type=int, default=3)
    described.add_argument("--only", action="append", help="a variant; may be given again")
    described.add_argument("--folder", type=Path, default=Path("benches/record/spark-data"))
    return described


if __name__ == "__main__":
    sys.exit(main())
