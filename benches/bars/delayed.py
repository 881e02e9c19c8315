"""Delayed messages: Pulsar's heaps (4.2.4, 5.0.0-M1's hole sifts, a flat port), its tracker, and ackwell.

The peers with heaps draw random times during the measurement. `rngOnly` measures these draws alone, and the
rows subtract it. A workload that is a number is the size of a heap. "x,y" is a row of the table in
apache/pulsar#23611: 10 million messages, x per ms, y bits cut off. "rand,tick" is 10 million messages at
random times over seven days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benches.bars import delayed_python
from benches.bars.rows import AgainstBest, AtMost, Row, Verdict, medians
from benches.bars.sides import OURS, Samples, ours, peer
from benches.bars.workloads import section

HEAP = tuple(section("delayed")["heap"])
SEED = tuple(section("delayed")["seed"])
SCATTERED = tuple(section("delayed")["scattered"])
WORKLOADS = [*HEAP, *SEED, *SCATTERED]
MIB = 1 << 20

SIDES = [
    ours("delayed"),
    *(peer("B", label, workloads=HEAP) for label in ("v424", "m1", "flat")),
    peer("C", "tracker", workloads=SEED),
]


def read(line: dict[str, Any]) -> Iterable[tuple[str, str, list[float]]]:
    """Yield the figures in a JSON line of ackwell or of parts B and C."""
    if "dataset" in line:
        yield line["dataset"], line["op"], line["cpuNs"]
    elif "cpuUs" in line:
        yield str(line["size"]), line["op"], [1_000 * value for value in line["cpuUs"]]
    elif "buildNs" in line and not line["warmup"]:
        yield line["cfg"], "buckets add in batches, ns", [line["buildNs"] / line["n"]]
        drain = "buckets drain in batches of 1,000, ns"
        yield line["cfg"], drain, [line["drainNs"] / line["n"]]
        yield line["cfg"], "buckets bytes while filling", [line["heapBytes"]]


def measure() -> Iterator[tuple[str, str, str, list[float]]]:
    """Measure in this process: ackwell's classes, a bare call, and Python's own heaps and bitmaps."""
    return delayed_python.measure()


@dataclass(frozen=True)
class TimesFaster:
    """A row that requires a peer's CPU time, without its random numbers, to be a multiple of ackwell's."""

    row: str
    workload: str
    operation: str
    side: str
    times: float

    def judge(self, samples: Samples) -> Verdict:
        """Compare the multiple with the bar."""
        figures = medians(samples, self.workload, self.operation)
        drawing = medians(samples, self.workload, "rngOnly")
        net = {side: value - drawing.get(side, 0) for side, value in figures.items()}
        mine, theirs = net.pop(OURS, None), net.get(self.side)
        bar = f"≥ {self.times:g} × faster than {self.side}"
        if mine is None or theirs is None:
            return Verdict(self.row, bar, mine, self.side, None, net, None)
        return Verdict(self.row, bar, mine, self.side, theirs / mine, net, theirs / mine >= self.times)


BUCKET_MIB = dict(zip(SEED, (4, 1, 0.6, 0.06), strict=True))
WHEEL_MIB = dict(zip(SEED, (0.1, 0.04, 0.03, 0.02), strict=True))
BULK, INTERLEAVED, STEADY = "recoveryBulkAddThenPop", "interleavedAddPop", "steadyState"

BARS: list[Row] = [
    *(
        TimesFaster(f"bulk add + pop all, {size}, ns", size, BULK, "m1", 10 if size == HEAP[0] else 15)
        for size in HEAP
    ),
    *(TimesFaster(f"bulk add + pop all, {size}, ns", size, BULK, "flat", 5) for size in HEAP),
    TimesFaster("interleaved, 2M, ns", HEAP[-1], INTERLEAVED, "flat", 1.8),
    TimesFaster("steady state, 2M, ns", HEAP[-1], STEADY, "flat", 1.3),
    AtMost("bytes an element, 2M", HEAP[-1], "bytes", 25.5, "B"),
    *(
        AtMost(f"({name}) {index}, while filling", name, f"{index} bytes while filling", mib * MIB, "B")
        for index, limits in (("buckets", BUCKET_MIB), ("wheel", WHEEL_MIB))
        for name, mib in limits.items()
    ),
    *(
        AtMost(
            f"({name}) exact wheel, while filling", name, "exact wheel bytes while filling", 0.2 * MIB, "B"
        )
        for name in SEED
    ),
    AtMost("7 days at random, exact: 10 M × 4.5 B", SCATTERED[0], "wheel bytes while filling", 45e6, "B"),
    AtMost("… ticks of 1 s: 10 M × 3.1 B", SCATTERED[1], "wheel bytes while filling", 31e6, "B"),
    *(
        AtMost(f"({name}) {index}: {what}", name, f"{index} {what}", limit, unit)
        for index in ("buckets", "wheel", "exact wheel")
        for name in SEED
        for what, limit, unit in (
            ("add in batches, ns", 8, "ns"),
            ("drain in batches of 1,000, ns", 3, "ns"),
            ("save, s", 0.5, "s"),
            ("restore, s", 1, "s"),
        )
    ),
    *(
        AtMost(f"({name}) wheel: {what}", name, f"wheel {what}", limit, unit)
        for name in SCATTERED
        for what, limit, unit in (
            ("add in batches, ns", 60, "ns"),
            ("drain in batches of 1,000, ns", 80, "ns"),
            ("save, s", 0.5, "s"),
            ("restore, s", 1, "s"),
        )
    ),
    *(
        AgainstBest(f"from Python: add, {index}", "python", f"add, {index}", 1.5, ("bare call",))
        for index in ("TripleLongHeap", "TimeBuckets", "TimeWheel")
    ),
]
