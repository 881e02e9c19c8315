"""The sides of a comparison: commands that print JSON lines, run in turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

ROOT = Path(__file__).resolve().parents[2]
_PEERS = ("bash", str(ROOT / "benches" / "peers" / "run.sh"))
OURS = "ackwell"


class Figure(NamedTuple):
    """A measured operation of one side on one workload."""

    side: str
    workload: str
    operation: str


Samples: TypeAlias = dict[Figure, list[float]]
Reader: TypeAlias = Callable[[dict[str, Any]], Iterable[tuple[str, str, list[float]]]]


@dataclass(frozen=True)
class Side:
    """A program to run on a workload. `missing` is the reason why it cannot run here, else None.

    `workloads` are the workloads that it can run; None for all of the area.
    """

    name: str
    command: Callable[[str], list[str]]
    missing: str | None = None
    workloads: Collection[str] | None = None


def ours(area: str) -> Side:
    """Return ackwell's side: the Rust bench `bars`, which prints JSON lines for an area and a workload."""
    bench = ["cargo", "bench", "--quiet", "--locked", "-p", "ackwell-core", "--bench", "bars", "--"]
    return Side(OURS, lambda workload: [*bench, area, workload])


def peer(part: str, label: str, *, workloads: Collection[str] | None = None) -> Side:
    """Return a side for a part of `benches/peers/run.sh`; `missing` is set without Java, Maven or the JDK."""
    tools = ("bash", "javac", "mvn")
    missing = next((f"{tool} not found" for tool in tools if not shutil.which(tool)), None)
    if missing is None:
        can = [*_PEERS, "can", label]
        check = subprocess.run(can, capture_output=True, text=True, check=False)
        missing = check.stderr.strip() if check.returncode else None
    return Side(label, lambda workload: [*_PEERS, part, label, workload], missing, workloads)


def read_operations(line: dict[str, Any]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the figure in a JSON line of parts A and B or of ackwell: a time, or the bytes of an entry."""
    if "cpuNs" in line:
        yield line["dataset"], line["op"], line["cpuNs"]
    elif "bytesPerEntry" in line:
        yield line["dataset"], "bytes", [line["bytesPerEntry"]]


def run(
    sides: Iterable[Side],
    workloads: Iterable[str],
    read: Reader,
    *,
    rounds: int,
    progress: Callable[[str], None],
) -> Samples:
    """Run every side on every workload, in turn and `rounds` times, and collect their output."""
    samples: Samples = {}
    present = [side for side in sides if side.missing is None]
    for number in range(1, rounds + 1):
        for workload in workloads:
            for side in present:
                if side.workloads is not None and workload not in side.workloads:
                    continue
                progress(f"round {number} of {rounds}: {side.name} on {workload}")
                for line in _lines(side.command(workload)):
                    for read_workload, operation, values in read(line):
                        figure = Figure(side.name, read_workload, operation)
                        samples.setdefault(figure, []).extend(values)
    return samples


def _lines(command: list[str]) -> Iterator[dict[str, Any]]:
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
