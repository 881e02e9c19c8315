"""The measurement of indexes of delayed messages. `delayed_sizing` uses it."""

from __future__ import annotations

# Spark reads the annotations of the function, so these imports are needed at run time.
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ackwell import TimeBuckets, TimeWheel, TripleLongHeap
from ackwell.replay import table_schemas

SIZING_SCHEMA: Final = table_schemas.arrow_schema(table_schemas.SIZING)
_WIDTH_TOLERANCE: Final = 1.1
"""The recommended width is the smallest width whose index takes at most this many times the bytes of the
smallest index."""
_QUANTILES: Final = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def sizing_function(widths_ms: Sequence[int]) -> Callable[..., Any]:
    """Return the function that Spark calls with the delayed messages of each subscription."""

    def measure(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        heap = TripleLongHeap()
        buckets = {width: TimeBuckets(width.bit_length() - 1) for width in widths_ms}
        wheels = {width: TimeWheel(width) for width in widths_ms}
        delays: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        for batch in batches:
            at, times, ledger_ids, entry_ids = (
                batch.column(name).to_numpy()
                for name in ("deliver_at_ms", "time_ms", "ledger_id", "entry_id")
            )
            delays.append(np.maximum(at - times, 0))
            for index in (heap, *buckets.values(), *wheels.values()):
                index.add_many(at, ledger_ids, entry_ids)
        heap.shrink_to_fit()
        every_delay = np.concatenate(delays)
        spread = {
            f"delay_ms_{name}": int(np.quantile(every_delay, share, method="inverted_cdf"))
            for name, share in _QUANTILES.items()
        }
        sizes = {w: min(buckets[w].nbytes, wheels[w].nbytes) for w in widths_ms}
        least = min(sizes.values())
        chosen = next(w for w in widths_ms if sizes[w] <= least * _WIDTH_TOLERANCE)
        rows = [
            {
                "topic": key[0].as_py(),
                "subscription": key[1].as_py(),
                "messages": len(heap),
                **spread,
                "width_ms": width,
                "heap_bytes": heap.nbytes,
                "buckets_bytes": buckets[width].nbytes,
                "buckets": buckets[width].bucket_count,
                "wheel_bytes": wheels[width].nbytes,
                "entropy_bound_bytes": round(entropy_bound_bytes(every_delay, width) * len(heap)),
                "recommended": width == chosen,
            }
            for width in widths_ms
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=SIZING_SCHEMA)

    return measure


def entropy_bound_bytes(delays_ms: np.ndarray[Any, np.dtype[np.int64]], tick_ms: int) -> float:
    """Return a lower bound for the average number of bytes per message in an index of these delays.

    The bound is the entropy of the delay minus `log2(tick_ms)`, and at least 0. It assumes that the delays
    are independent and that entry ids are consecutive.

    >>> week = np.random.default_rng(1).integers(0, 7 * 86_400_000, 100_000)
    >>> round(entropy_bound_bytes(week, 1), 1), round(entropy_bound_bytes(week, 1_000), 1)
    (3.6, 2.4)
    """
    # Estimate the entropy from the spacings of m neighbours (Vasicek). The estimate from a histogram could
    # not exceed log2(n).
    ordered = np.sort(delays_ms).astype(np.float64)
    count = len(ordered)
    reach = max(1, int(count**0.5) // 2)
    index = np.arange(count)
    low, high = np.maximum(index - reach, 0), np.minimum(index + reach, count - 1)
    spacing = (ordered[high] - ordered[low]) * (count / np.maximum(high - low, 1))
    return float(np.log2(np.maximum(spacing, tick_ms) / tick_ms).mean()) / 8


def of_sorted(measure: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for `mapInArrow`. It calls `measure` once for each subscription.

    The rows must be sorted by subscription.
    """

    def measure_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for key, pieces in groupby(_pieces(batches), key=itemgetter(0)):
            yield from measure(tuple(map(pa.scalar, key)), (piece for _, piece in pieces))

    return measure_each


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Split sorted batches by subscription, and yield each subscription with a batch of its rows."""
    for batch in batches:
        names = (batch.column(name).to_pylist() for name in ("topic", "subscription"))
        start = 0
        for key, rows in groupby(zip(*names, strict=True)):
            count = len(list(rows))
            yield key, batch.slice(start, count)
            start += count
