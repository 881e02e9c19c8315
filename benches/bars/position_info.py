"""Encode and decode a cursor's state: Pulsar's classes of 4.2.4 and 5.0.1, protobuf, and ackwell.

The figure of a side is the sum of its steps. Pulsar's classes build a message and serialize it; they parse a
message and recover a range set from it. ackwell decodes bytes directly to a range set. In the record, `v1` is
Pulsar's form with ranges (field 3), and `v2` its form with a long array (field 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benches.bars import position_info_python
from benches.bars.rows import Row, Verdict, medians
from benches.bars.sides import OURS, Samples, ours, peer

MILLION, RANDOM = WORKLOADS = ("alt1m", "rand70")
SIDES = [ours("position_info"), peer("D", "open"), peer("D", "position")]
MS = 1_000_000
RANGES, ARRAY = "pulsar-ranges", "pulsar-long-array"


def read(line: dict[str, Any]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the figures in a JSON line of ackwell, or of part D if the line is about messages."""
    if "cpuNs" in line:
        yield line["dataset"], line["op"], line["cpuNs"]
    elif line.get("unit") == "ms":
        yield line["pattern"], line["op"], [value * MS for value in line["values"]]
        if "size" in line:
            yield line["pattern"], f"{line['op']} bytes", [line["size"]]


def measure() -> Iterator[tuple[str, str, str, list[float]]]:
    """Measure in this process: `PositionInfo`, `Cursor`, and Python protobuf."""
    return position_info_python.measure()


@dataclass(frozen=True)
class Faster:
    """A row that requires the time of all operations of a side to be a multiple of ackwell's time."""

    row: str
    workload: str
    operation: str
    side: str
    theirs: tuple[str, ...]
    times: float
    their_workload: str = ""

    def judge(self, samples: Samples) -> Verdict:
        """Compare the multiple with the bar."""
        mine = medians(samples, self.workload, self.operation).get(OURS)
        workload = self.their_workload or self.workload
        parts = [medians(samples, workload, operation).get(self.side) for operation in self.theirs]
        bar = f"≥ {self.times:g} × faster than {self.side}"
        if mine is None or None in parts:
            return Verdict(self.row, bar, mine, self.side, None, {}, None)
        theirs = sum(part for part in parts if part is not None)
        return Verdict(
            self.row, bar, mine, self.side, theirs / mine, {self.side: theirs}, theirs / mine >= self.times
        )


BUILD, PARSE, RECOVER = ("v1-build", "v1-serialize"), ("v1-parse",), ("v1-parse", "v1-recover")
ARRAY_BUILD, ARRAY_RECOVER = ("v2-build", "v2-serialize"), ("v2-parse", "v2-recover")
PYTHON, PROTOBUF = "python alt1m", "protobuf"

BARS: list[Row] = [
    Faster("1 M ranges: encode, ns", MILLION, f"{RANGES} encode", "open", BUILD, 8),
    Faster("1 M ranges: decode, ns", MILLION, f"{RANGES} decode", "open", PARSE, 2),
    Faster("… from Python: encode", PYTHON, f"{RANGES} encode", "open", BUILD, 8, MILLION),
    Faster("… from Python: decode", PYTHON, f"{RANGES} decode", "open", PARSE, 2, MILLION),
    Faster("… decoded and in a cursor", PYTHON, f"{RANGES} cursor", "open", RECOVER, 2, MILLION),
    Faster("… encode", PYTHON, f"{RANGES} encode", PROTOBUF, ("build", "serialize"), 8),
    Faster("… decode", PYTHON, f"{RANGES} decode", PROTOBUF, ("parse",), 2),
    Faster("2 M, random 70 %: encode", RANDOM, f"{RANGES} encode", "open", BUILD, 8),
    Faster("… decode", RANDOM, f"{RANGES} decode", "open", PARSE, 2),
    Faster("… long array: encode", RANDOM, f"{ARRAY} encode", "open", ARRAY_BUILD, 1),
    Faster("… long array: decode and recover", RANDOM, f"{ARRAY} decode", "open", ARRAY_RECOVER, 1),
    Faster("1 M ranges of 5.0.1: encode, ns", MILLION, f"{RANGES} encode", "position", BUILD, 2),
    Faster("… of 5.0.1: decode and recover", MILLION, f"{RANGES} decode", "position", RECOVER, 2),
    Faster("2 M of 5.0.1, random 70 %: encode", RANDOM, f"{RANGES} encode", "position", BUILD, 2),
    Faster("… long array of 5.0.1: encode", RANDOM, f"{ARRAY} encode", "position", ARRAY_BUILD, 2),
    Faster(
        "… long array of 5.0.1: decode and recover", RANDOM, f"{ARRAY} decode", "position", ARRAY_RECOVER, 2
    ),
]
