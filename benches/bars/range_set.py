"""Range sets: Pulsar 4.2.4's two (on roaring bit sets, and on Guava's tree), that of 5.0.1, and ackwell's.

The peers add `(entry - 1, entry]` one by one, as Pulsar's cursor does for an individual acknowledgment.
ackwell adds the same ranges in one batch. `…OneByOne` in the record is ackwell without a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benches.bars.rows import Against, AtMost, Row
from benches.bars.sides import ours, peer

WORKLOADS = ("alt1m", "rand70")
SIDES = [ours("range_set"), *(peer("D", name) for name in ("open", "default", "position"))]


def read(line: dict[str, Any]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the figures in a JSON line of part D or of ackwell, which have the same form."""
    if "op" in line and line.get("unit") != "ms":
        yield line["pattern"], line["op"], line["values"]
    if line.get("op") == "memory":
        yield line["pattern"], "bytesPerRange", [line["values"][0] / line["ranges"]]


BARS: list[Row] = [
    Against("add in order, every second entry", "alt1m", "addOpenClosed", "open", 1 / 3),
    Against("add at random, 7 of 10", "rand70", "addOpenClosed", "open", 1 / 3),
    Against("contains at random, alternating", "alt1m", "containsRandom", "open", 1 / 3),
    Against("contains at random, 7 of 10", "rand70", "containsRandom", "open", 1 / 3),
    AtMost("bytes a range, alternating", "alt1m", "bytesPerRange", 0.33, "B"),
    Against("walk over the ranges", "alt1m", "forEachRawRange", "open", 1 / 3),
    *(
        Against(f"{row}, Pulsar 5.0.1", workload, operation, "position", 1 / 2)
        for row, workload, operation in (
            ("add in order, every second entry", "alt1m", "addOpenClosed"),
            ("add at random, 7 of 10", "rand70", "addOpenClosed"),
            ("contains at random, alternating", "alt1m", "containsRandom"),
            ("contains at random, 7 of 10", "rand70", "containsRandom"),
            ("bytes a range, alternating", "alt1m", "bytesPerRange"),
            ("walk over the ranges", "alt1m", "forEachRawRange"),
            ("remove up to the middle, every second entry", "alt1m", "removeUpTo"),
            ("remove up to the middle, 7 of 10", "rand70", "removeUpTo"),
        )
    ),
]
