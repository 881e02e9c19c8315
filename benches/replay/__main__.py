"""Compare local replay with DuckDB on every layout of events: `make lab-bench-replay`.

Each side of a layout is a separate process, and the sides take turns. Each process first replays a few
events, so that neither its start nor its imports are measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from benches.bars import report
from benches.bars.sides import OURS, Figure, Samples
from benches.replay import layouts

COST, MEMORY, WALL = "CPU-s a million", "MB", "wall, s a million"
PEER: Final = "DuckDB"

_RUN: Final = """
import sys, time
from pathlib import Path
side, warm, place, layout, threads = sys.argv[1:6]
if side == "DuckDB":
    from benches.replay.peer import run
else:
    from ackwell.replay.columns import cursor_batches
    from ackwell.replay.files import fold_files
    def run(place, layout, threads):
        options = {} if threads == 1 else {"threads": threads}
        return sum(batch.num_rows for batch in cursor_batches(fold_files([Path(place)], **options)))
run(warm, layout, int(threads))
for _ in sys.stdin:
    before, began = time.process_time(), time.perf_counter()
    run(place, layout, int(threads))
    seconds, wall = time.process_time() - before, time.perf_counter() - began
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(seconds, wall, int(peak) / 1024, flush=True)
"""


class Worker:
    """A process of one side for one layout."""

    def __init__(self, side: str, python: str, warm: Path, place: Path, layout: str, threads: int) -> None:
        command = [python, "-c", _RUN, side, str(warm), str(place), layout, str(threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def measure(self) -> tuple[float, float, float] | None:
        """Return the CPU and wall seconds of one replay and the peak memory in MB; None if it failed."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            print(file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        found = self._process.stdout.readline().split()
        return (float(found[0]), float(found[1]), float(found[2])) if found else None

    def end(self) -> str:
        """End the process, and return the last line of its standard error."""
        said = self._process.communicate()[1].strip().splitlines()
        return said[-1] if said and self._process.returncode else ""


def main() -> int:
    """Measure the layouts, print the table and record the figures."""
    arguments = parser().parse_args()
    folder, samples = arguments.folder.absolute(), Samples()
    warm = layouts.write(folder, "warm")
    sides = {OURS: (OURS, sys.executable)}
    if arguments.beside:
        sides["before"] = (OURS, str(arguments.beside))
    sides[PEER] = (PEER, sys.executable)
    for layout in arguments.only or layouts.LAYOUTS:
        if layout == "warm":
            continue
        place = layouts.write(folder, layout)
        millions = layouts.events_in(place) / 1e6
        workers = {
            name: Worker(side, python, warm, place, layout, arguments.threads)
            for name, (side, python) in sides.items()
        }
        for _ in range(arguments.rounds):
            for name, worker in workers.items():
                found = worker.measure()
                for operation, value in zip((COST, WALL, MEMORY), found or (), strict=False):
                    per = value if operation == MEMORY else value / millions
                    samples.setdefault(Figure(name, layout, operation), []).append(per)
        for name, worker in workers.items():
            if wrong := worker.end():
                print(f"{name}, {layout}: {wrong}", file=sys.stderr)
        show({figure: values for figure, values in samples.items() if figure.workload == layout}, list(sides))
    show(samples, list(sides))
    if arguments.record:
        print("recorded:", report.record("replay", [], {**report.recorded("replay"), **samples}, []))
    return 0


def show(samples: Samples, sides: list[str]) -> None:
    """Print a row for each layout."""
    table = Table(title=f"{COST} of events, and {MEMORY}")
    for heading in ("layout", *sides, *(f"{side}, wall" for side in sides), *(f"{s}, MB" for s in sides)):
        table.add_column(heading)
    for layout in dict.fromkeys(figure.workload for figure in samples):
        cells = [
            samples.get(Figure(side, layout, operation))
            for operation in (COST, WALL, MEMORY)
            for side in sides
        ]
        table.add_row(layout, *(f"{median(cell):.3g}" if cell else "–" for cell in cells))
    Console(width=160).print(table)


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(description=__doc__)
    described.add_argument("--rounds", type=int, default=5)
    described.add_argument("--threads", type=int, default=1)
    described.add_argument(
        "--only", action="append", choices=list(layouts.LAYOUTS), help="may be given again"
    )
    described.add_argument("--beside", type=Path, help="the Python of another installation of ackwell")
    described.add_argument("--record", action="store_true")
    described.add_argument("--folder", type=Path, default=Path("benches/record/replay-data"))
    return described


if __name__ == "__main__":
    sys.exit(main())
