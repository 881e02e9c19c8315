"""Compare the pipeline with Spark SQL and with its bars: `make lab-bench-spark`.

The variants run in turn in one session. A figure is the CPU time of driver, JVM and Python workers
together. The start of the session is not counted, and each variant first replays a few events.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rich.console import Console

from ackwell.spark import local_session, replay
from benches.bars import report
from benches.bars.rows import Against, AtMost, Row
from benches.bars.sides import OURS, Figure, Samples
from benches.fleet import Fleet
from benches.replay import layouts as replay_layouts
from benches.spark import layouts, local, peers, tasks
from benches.spark.generate import generate
from benches.spark.process_tree import cpu_seconds, worker_peak_mb

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATTERNS = ("holes", "random", "oldest", "drained")
LEFT_OPEN = "batches left open"
COST, PATH, FINISH, WORKER = "CPU-s a million", "critical path, s", "hot finish, s", "worker, MB"
BARS: list[Row] = [
    AtMost("files", "skewed", COST, 0.25, "(≥ 4 M events per CPU-second)"),
    Against("files beside SQL words", "skewed", COST, "SQL words", 1 / 2),
    Against("files beside SQL windows", "skewed", COST, "SQL windows", 1 / 10),
    AtMost("finish of the hot subscription", "skewed", FINISH, 0.3, "s"),
    AtMost("… a tenth of it open at random", "hot at random", FINISH, 0.3, "s"),
    Against("critical path, beside even data", "skewed", PATH, "even data", 1.2),
    Against("copies, beside SQL words", "copies", COST, "SQL words", 1 / 2),
    Against("copies, beside SQL windows", "copies", COST, "SQL windows", 1 / 10),
    Against("small files, beside SQL words", "small files", COST, "SQL words", 1),
    *(
        Against(f"{n:,} mixed, beside SQL words", f"mixed {n}", COST, "SQL words", 1)
        for n in layouts.MIXED[1:]
    ),
    Against("20,000 mixed, beside 200 mixed", "mixed 20000", COST, "200 mixed", 2),
    Against("every pattern, batches too, beside SQL of the same", "fleet", COST, "SQL with batches", 1 / 2),
    Against("recorded traffic, beside SQL of the same", "recording", COST, "SQL with batches", 1 / 2),
    Against("batches left open, beside SQL of the same", LEFT_OPEN, COST, "SQL with batches", 1 / 2),
    AtMost("no JVM, Parquet", "local", COST, 1 / 12, "(≥ 12 M events per CPU-second)"),
    AtMost("no JVM, JSON lines", "lines", COST, 1 / 3, "(≥ 3 M events per CPU-second)"),
    AtMost("no JVM, memory", "local", WORKER, 256, "MB"),
    AtMost("no JVM, a billion events of every pattern", "billion", COST, 0.06),
    AtMost("… memory", "billion", WORKER, 256, "MB"),
    AtMost("worker, 10 M-event subscription", "10 M", WORKER, 256, "MB"),
    AtMost("worker, 60 M-event subscription", "60 M", WORKER, 256, "MB"),
]
FLEETS = {
    "workers": ("skewed", "60 M"),
    "variants": ("small", "skewed"),
    "batches": ("small", "fleet"),
    "tasks": ("small", "skewed", "even"),
    "layouts": ("small", "skewed"),
    "local": ("small", "skewed"),
    "billion": (),
}
"""Maps each part of the benchmark to the fleets whose events it reads."""
WIDTH = 160


def main() -> int:
    """Run the benchmark, print its table and record it."""
    arguments = parser().parse_args()
    folder, parts = arguments.folder, arguments.part or list(FLEETS)
    write_fleets(folder, arguments.entries, {name for part in parts for name in FLEETS[part]})
    samples: Samples = {}
    if "workers" in parts:
        measure_workers(samples, folder)
    if "variants" in parts:
        with session() as spark:
            measure_variants(samples, spark, folder, arguments.rounds, arguments.only)
    if "batches" in parts:
        places = {
            "fleet": folder / "fleet",
            "recording": layouts.write(folder, "recording", arguments.entries),
            LEFT_OPEN: replay_layouts.write(folder, LEFT_OPEN),
        }
        with session() as spark:
            measure_batches(samples, spark, folder / "small", places, arguments.rounds)
    if "tasks" in parts:
        tasks.measure(samples, folder, arguments.rounds)
    if "layouts" in parts:
        with session() as spark:
            measure_layouts(samples, spark, folder, arguments.entries, arguments.rounds)
    if "local" in parts:
        measure_local(samples, folder, arguments.entries, arguments.rounds)
    if "billion" in parts:
        measure_billion(samples, layouts.write(folder, "billion", arguments.entries))
    if arguments.add:
        samples = {**report.recorded("spark"), **samples}
    verdicts = [bar.judge(samples) for bar in BARS]
    report.show(Console(width=WIDTH), "spark", verdicts, [])
    for figure, values in samples.items():
        print(f"{figure.side:24} {figure.workload:14} {figure.operation:18}", *(f"{v:.3f}" for v in values))
    print("recorded:", report.record("spark", verdicts, samples, []))
    return 0


@contextmanager
def session() -> Iterator[SparkSession]:
    """Run a Spark session during a `with` block. Its Python workers are new, so earlier jobs do not count."""
    spark = local_session("local[2]", name="ackwell-bench")
    try:
        yield spark
    finally:
        spark.stop()


def write_fleets(folder: Path, entries: int, names: set[str]) -> None:
    """Write the events of the fleets `names`, unless they exist. They are the same each time."""
    skewed = Fleet(entries=entries, patterns=PATTERNS, delayed_share=0)
    fleets = {
        "small": replace(skewed, entries=min(200_000, entries)),
        "skewed": skewed,
        "even": replace(skewed, hot_share=1 / skewed.subscriptions),
        "fleet": Fleet(entries=entries // 4),
        "60 M": replace(skewed, entries=3 * entries, subscriptions=1),
    }
    missing = {
        name: fleet
        for name, fleet in fleets.items()
        if name in names and not (folder / name / "_SUCCESS").exists()
    }
    if not missing:
        return
    with session() as spark:
        for name, fleet in missing.items():
            shutil.rmtree(folder / name, ignore_errors=True)
            written = generate(spark, fleet, tasks=8).write.option("compression", "zstd")
            written.parquet(str(folder / name))


def measure_workers(samples: Samples, folder: Path) -> None:
    """Measure the peak memory of a Python worker."""
    for workload, name in (("10 M", "skewed"), ("60 M", "60 M")):
        with session() as spark:
            run(spark, folder / name, files)
            samples[Figure(OURS, workload, WORKER)] = [worker_peak_mb()]


def measure_variants(
    samples: Samples, spark: SparkSession, folder: Path, rounds: int, only: list[str] | None
) -> None:
    """Time each variant on the same events, in turn."""
    variants: dict[str, Callable[[DataFrame], DataFrame]] = {
        OURS: files,
        "ackwell, rows": lambda events: replay(events, strategy="rows"),
        "SQL words": peers.words_and_popcount,
        "SQL words, by name": peers.words_by_name,
        "SQL windows": peers.windows,
        "scan": lambda events: events.select("topic", "subscription", "kind", "ledger_id", "entry_id"),
    }
    chosen = {name: variants[name] for name in only or variants}
    for build in chosen.values():
        run(spark, folder / "small", build)
    millions = spark.read.parquet(str(folder / "skewed")).count() / 1e6
    for _ in range(rounds):
        for name, build in chosen.items():
            cpu, wall = run(spark, folder / "skewed", build)
            samples.setdefault(Figure(name, "skewed", COST), []).append(cpu / millions)
            samples.setdefault(Figure(name, "skewed", "wall, s"), []).append(wall)


def measure_batches(
    samples: Samples, spark: SparkSession, warm: Path, places: dict[str, Path], rounds: int
) -> None:
    """Time each variant on events with batches; each name in `places` is one layout."""
    variants: dict[str, Callable[[DataFrame], DataFrame]] = {
        OURS: files,
        "ackwell, rows": lambda events: replay(events, strategy="rows"),
        "SQL with batches": peers.words_with_batches,
        "SQL words": peers.words_and_popcount,
    }
    for build in variants.values():
        run(spark, warm, build)
    for name, place in places.items():
        millions = spark.read.parquet(str(place)).count() / 1e6
        for _ in range(rounds):
            for side, build in variants.items():
                cpu, _ = run(spark, place, build)
                samples.setdefault(Figure(side, name, COST), []).append(cpu / millions)


def measure_layouts(samples: Samples, spark: SparkSession, folder: Path, entries: int, rounds: int) -> None:
    """Time ackwell and Spark SQL on other layouts: more files, smaller files, and more subscriptions."""
    variants = {OURS: files, "SQL words": peers.words_and_popcount, "SQL windows": peers.windows}
    for build in variants.values():
        run(spark, folder / "small", build)
    for name in ("copies", "small files", *(f"mixed {n}" for n in layouts.MIXED)):
        place = layouts.write(folder, name, entries)
        millions = spark.read.parquet(str(place)).count() / 1e6
        for _ in range(rounds):
            for side, build in variants.items():
                cpu, _ = run(spark, place, build)
                samples.setdefault(Figure(side, name, COST), []).append(cpu / millions)
    few = samples.get(Figure(OURS, f"mixed {layouts.MIXED[0]}", COST), [])
    samples[Figure("200 mixed", "mixed 20000", COST)] = list(few)


def measure_local(samples: Samples, folder: Path, entries: int, rounds: int) -> None:
    """Time replay without a JVM, DuckDB and Polars, in one process each."""
    lines = layouts.write(folder, "lines", entries)
    for name, place, count in (("local", folder / "skewed", 2 * entries), ("lines", lines, entries // 5)):
        for _ in range(rounds):
            for side in local.SIDES:
                seconds, megabytes = local.cpu_seconds(side, folder / "small", place)
                if seconds == seconds:
                    figure = OURS if side == "ackwell" else side
                    samples.setdefault(Figure(figure, name, COST), []).append(seconds * 1e6 / count)
                    samples.setdefault(Figure(figure, name, WORKER), []).append(megabytes)


def measure_billion(samples: Samples, place: Path) -> None:
    """Replay a billion events of the default fleet without a JVM, once."""
    files_of = sorted(place.glob("*.parquet"))
    millions = sum(pq.read_metadata(path).num_rows for path in files_of) / 1e6
    seconds, megabytes = local.cpu_seconds("ackwell", files_of[0], place)
    samples[Figure(OURS, "billion", COST)] = [seconds / millions]
    samples[Figure(OURS, "billion", WORKER)] = [megabytes]


def files(events: DataFrame) -> DataFrame:
    """Return the pipeline's replay with the strategy that the bars compare."""
    return replay(events, strategy="files")


def run(spark: SparkSession, path: Path, build: Callable[[DataFrame], DataFrame]) -> tuple[float, float]:
    """Run one variant and discard its rows; return the CPU and wall seconds."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    build(spark.read.parquet(str(path))).write.format("noop").mode("overwrite").save()
    return cpu_seconds() - cpu, time.perf_counter() - wall


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(description=__doc__)
    described.add_argument("--entries", type=int, default=10_000_000, help="two events each")
    described.add_argument("--rounds", type=int, default=3)
    described.add_argument("--only", action="append", help="a variant; may be given again")
    described.add_argument("--part", action="append", choices=list(FLEETS), help="may be given again")
    described.add_argument(
        "--add", action="store_true", help="keep what today's record has and this run has not"
    )
    described.add_argument("--folder", type=Path, default=Path("benches/record/spark-data"))
    return described


if __name__ == "__main__":
    sys.exit(main())
