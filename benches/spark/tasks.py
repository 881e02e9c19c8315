"""The pipeline's tasks, run one by one in this process: the longest fold and the longest finish.

A cluster waits for the longest task of each stage. On two cores, the wall time does not show this critical
path, so the CPU time of each task is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ackwell.replay.columns import fold_batches
from ackwell.replay.parquet import ParquetEvents, RowGroups
from ackwell.replay.resets import NO_RESETS
from ackwell.spark.files_strategy import pack
from ackwell.spark.tasks.fold_files import FileFold
from ackwell.spark.tasks.merging import CursorMerge
from benches.bars.sides import OURS, Figure
from benches.fleet import Fleet, chunk_events, chunks

if TYPE_CHECKING:
    from benches.bars.sides import Samples

CORES = 2


def measure(samples: Samples, folder: Path, rounds: int) -> None:
    """Measure the critical path on skewed and on even data, and the finish task of the hot subscription."""
    _path(folder / "small")
    hot = Fleet(subscriptions=1, entries=5_000_000, patterns=("random",), delayed_share=0)
    at_random = list(fold_batches(chunk_events(hot, chunk) for chunk in chunks(hot)))
    for _ in range(rounds):
        for side, name in ((OURS, "skewed"), ("even data", "even")):
            fold, finish = _path(folder / name)
            samples.setdefault(Figure(side, "skewed", "critical path, s"), []).append(fold + finish)
            if name == "skewed":
                samples.setdefault(Figure(OURS, "skewed", "hot finish, s"), []).append(finish)
        _, finish = _timed(_finish(at_random))
        samples.setdefault(Figure(OURS, "hot at random", "hot finish, s"), []).append(finish)


def _path(folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of the longest fold, and of the longest finish of one subscription."""
    folds: list[float] = []
    partials: list[pa.RecordBatch] = []
    groups = []
    for path in sorted(map(str, folder.glob("*.parquet"))):
        with ParquetEvents(path) as events:
            sizes = events.survey().group_bytes
        groups += [(RowGroups(path, (index,)), size) for index, size in enumerate(sizes)]
    shares = pack(groups, CORES)
    task = FileFold(shares, NO_RESETS, ordered=False, strict=False)
    for share in shares:
        folded, seconds = _timed(task.fold(share))
        partials += folded
        folds.append(seconds)
    table = pa.Table.from_batches(partials)
    finishes = []
    for topic in table.column("topic").unique().to_pylist():
        own = table.filter(pc.equal(table.column("topic"), topic)).to_batches()
        finishes.append(_timed(_finish(own))[1])
    return max(folds), max(finishes)


def _finish(partials: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return CursorMerge(strict=True)(partials)


def _timed(work: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], float]:
    start = time.process_time()
    return list(work), time.process_time() - start
