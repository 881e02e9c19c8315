"""Measure replay without a JVM, and the same query in DuckDB and Polars, in CPU seconds.

Each measurement is a new process with one thread. Its start and its imports are not counted.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_OURS: Final = """
from pathlib import Path
from ackwell.replay.columns import cursor_batches
from ackwell.replay.files import fold_files
def run(place):
    return sum(batch.num_rows for batch in cursor_batches(fold_files([Path(place)])))
"""

_DUCKDB: Final = """
import duckdb
connection = duckdb.connect(config={"threads": 1})
def read(place):
    import pathlib
    lines = [str(p) for p in pathlib.Path(place).glob("*.jsonl")]
    if not lines:
        return f"read_parquet('{place}/*.parquet')"
    columns = "{topic: 'VARCHAR', sub: 'VARCHAR', ev: 'VARCHAR', l: 'BIGINT', e: 'BIGINT'}"
    return f"(select topic, sub as subscription, ev as kind, l as ledger_id, e as entry_id " \\
        f"from read_json('{lines[0]}', format='newline_delimited', columns={columns}))"
"""

_DUCKDB_WORDS: Final = (
    _DUCKDB
    + """
def run(place):
    return len(connection.execute(f'''
        select topic, subscription, sum(bit_count(bits)) from (
            select topic, subscription, ledger_id, entry_id >> 6 as word,
                bit_or((1::UBIGINT) << (entry_id & 63)::UBIGINT) as bits
            from {read(place)} where kind = 'ack' group by all)
        group by all''').fetchall())
"""
)

_DUCKDB_RANGES: Final = (
    _DUCKDB
    + """
def run(place):
    return len(connection.execute(f'''
        select topic, subscription, count(*), sum(n) from (
            select topic, subscription, ledger_id, entry_id - row as island, count(*) as n from (
                select *, row_number() over (
                    partition by topic, subscription, ledger_id order by entry_id) as row
                from (select distinct topic, subscription, ledger_id, entry_id
                    from {read(place)} where kind = 'ack'))
            group by all)
        group by all''').fetchall())
"""
)

_POLARS: Final = """
import os
os.environ["POLARS_MAX_THREADS"] = "1"
import polars as pl
def read(place):
    import pathlib
    lines = [p for p in pathlib.Path(place).glob("*.jsonl")]
    if not lines:
        return pl.scan_parquet(f"{place}/*.parquet")
    names = {"sub": "subscription", "ev": "kind", "l": "ledger_id", "e": "entry_id"}
    return pl.scan_ndjson(lines[0]).rename(names)
NAMES = ["topic", "subscription", "ledger_id"]
"""

_POLARS_RANGES: Final = (
    _POLARS
    + """
def run(place):
    acks = read(place).filter(pl.col("kind") == "ack").select(*NAMES, "entry_id").unique()
    acks = acks.sort(*NAMES, "entry_id")
    gap = (pl.col("entry_id").diff() != 1) | pl.any_horizontal(pl.col(n) != pl.col(n).shift() for n in NAMES)
    islands = acks.with_columns(island=gap.fill_null(True).cum_sum())
    ranges = islands.group_by(*NAMES, "island").agg(n=pl.len())
    found = ranges.group_by("topic", "subscription").agg(ranges=pl.len(), entries=pl.col("n").sum())
    return found.collect().height
"""
)

_POLARS_COUNTS: Final = (
    _POLARS
    + """
def run(place):
    acks = read(place).filter(pl.col("kind") == "ack")
    words = acks.group_by(*NAMES, (pl.col("entry_id") // 64).alias("word")).agg(
        (pl.lit(1, pl.Int64) * 2 ** (pl.col("entry_id") % 63)).cast(pl.Int64).bitwise_or())
    return words.group_by("topic", "subscription").agg(pl.len()).collect().height
"""
)

SIDES: Final = {
    "ackwell": _OURS,
    "DuckDB words": _DUCKDB_WORDS,
    "DuckDB ranges": _DUCKDB_RANGES,
    "Polars words": _POLARS_COUNTS,
    "Polars ranges": _POLARS_RANGES,
}

_MEASURE: Final = """
import sys, time
small, place = sys.argv[1:]
run(small)
before = time.process_time()
rows = run(place)
seconds = time.process_time() - before
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print()
print(seconds, int(peak) / 1024, rows)
"""


def cpu_seconds(side: str, warm: Path, place: Path) -> tuple[float, float]:
    """Return the CPU seconds of one replay, and the peak memory in MB; NaN if a library is missing."""
    command = [sys.executable, "-c", SIDES[side] + _MEASURE, str(warm), str(place)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in run.stderr:
        return float("nan"), float("nan")
    if run.returncode:
        raise RuntimeError(f"{side}: {run.stderr[-2_000:]}")
    seconds, megabytes, _ = run.stdout.splitlines()[-1].split()
    return float(seconds), float(megabytes)
