"""Measure areas against their bars: `python -m benches.bars [AREA…]`."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

from rich.console import Console

from benches.bars import report
from benches.bars.sides import OURS, Figure, run

AREAS = ("long_map", "pending_acks", "range_set", "ack_sets", "delayed", "position_info")
# Columns of a table that is written to a file.
WIDTH = 160


# The workload of the figures of this process.
PYTHON = "python"


def measure(area: ModuleType, console: Console, arguments: argparse.Namespace) -> None:
    """Run one area and report it."""
    only_ours, workloads = arguments.only_ours, arguments.workloads
    name = area.__name__.rpartition(".")[2]
    sides = [side for side in area.SIDES if not only_ours or side.name == OURS]
    with console.status(name) as status:
        chosen = [name for name in area.WORKLOADS if not workloads or name in workloads]
        samples = run(sides, chosen, area.read, rounds=arguments.rounds, progress=status.update)
        here = getattr(area, "measure", tuple) if not workloads or PYTHON in workloads else tuple
        for side, workload, operation, values in here():
            status.update(f"{side} on {workload}: {operation}")
            samples.setdefault(Figure(side, workload, operation), []).extend(values)
    if arguments.add:
        samples = {**report.recorded(name), **samples}
    verdicts = [bar.judge(samples) for bar in area.BARS]
    skipped = [side for side in sides if side.missing is not None]
    report.show(console, name, verdicts, skipped)
    if not only_ours:
        console.print(f"recorded: {report.record(name, verdicts, samples, skipped)}")


def main() -> None:
    """Measure the areas that the command line names; by default all."""
    parser = argparse.ArgumentParser(prog="benches.bars", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--rounds", type=int, default=1, help="times each side is run on a workload")
    parser.add_argument("--only-ours", action="store_true", help="run no peers and record nothing")
    parser.add_argument(
        "--workloads",
        nargs="+",
        default=[],
        help=f"only these; {PYTHON}: what is measured through the binding",
    )
    parser.add_argument(
        "--add", action="store_true", help="keep what today's record has and this run has not"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.areas) - set(AREAS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(AREAS)}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for name in arguments.areas or AREAS:
        area = import_module(f"benches.bars.{name}")
        measure(area, console, arguments)


if __name__ == "__main__":
    main()
