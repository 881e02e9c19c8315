"""The pipeline's tasks, run one by one in this process: the longest fold and the longest finish.

Two cores show no critical path on the wall; what a cluster would wait for is the longest task of each
stage, in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ackwell.replay.columns import fold_batches
from ackwell.replay.folded import Turns
from ackwell.spark.fleet import Fleet, chunk_events, chunks
from ackwell.spark.tasks.cursors import cursor_batches
from ackwell.spark.tasks.files import SPLIT_BYTES, Split, fold_split
from benches.bars.sides import OURS, Figure

if TYPE_CHECKING:
    from benches.bars.sides import Samples

_NONE = Turns({}, {})


def measure(samples: Samples, folder: Path, rounds: int) -> None:
    """Measure the critical path on skewed and on even data, and the finish of the hot subscription."""
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
    for path in sorted(folder.glob("*.parquet")):
        size = path.stat().st_size
        for start in range(0, size, SPLIT_BYTES):
            split = Split(path.resolve().as_uri(), start, min(size, start + SPLIT_BYTES))
            folded, seconds = _timed(fold_split(split, _NONE, ordered=False))
            partials += folded
            folds.append(seconds)
    table = pa.Table.from_batches(partials)
    finishes = []
    for topic in table.column("topic").unique().to_pylist():
        own = table.filter(pc.equal(table.column("topic"), topic)).to_batches()
        finishes.append(_timed(_finish(own))[1])
    return max(folds), max(finishes)


def _finish(partials: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return cursor_batches(part.append_column("directory", pa.nulls(part.num_rows)) for part in partials)


def _timed(work: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], float]:
    start = time.process_time()
    return list(work), time.process_time() - start
