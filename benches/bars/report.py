"""Show and record measurements."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benches.bars.rows import Verdict, figures
from benches.bars.sides import ROOT, Figure, Samples, Side

if TYPE_CHECKING:
    from rich.console import Console

RECORDS = ROOT / "benches" / "record"


def number(value: float | None) -> str:
    """Return a number as text with three significant digits; from 1,000 on, as an integer."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def show(console: Console, area: str, verdicts: list[Verdict], skipped: list[Side]) -> None:
    """Print the table of an area."""
    table = Table(title=f"{area}: medians of thread CPU time; ratios within this run", expand=False)
    for heading in ("row", "ours", "peers", "ratio", "must reach", ""):
        table.add_column(heading)
    for verdict in verdicts:
        peers = "  ".join(f"{side} {number(value)}" for side, value in verdict.peers.items())
        mark = {True: "[green]reached", False: "[red]not reached", None: "[yellow]not measured"}
        table.add_row(
            verdict.row,
            number(verdict.ours),
            peers,
            number(verdict.ratio),
            verdict.bar,
            mark[verdict.reached],
        )
    console.print(table)
    for side in skipped:
        console.print(f"[yellow]skipped: {side.name}: {side.missing}")
    reached = sum(verdict.reached is True for verdict in verdicts)
    console.print(f"{area}: {reached} of {len(verdicts)} bars reached")


def machine() -> str:
    """Return a name for this machine from its hardware, without its host name."""
    name = f"{platform.system()}-{platform.machine()}-{os.cpu_count()}cpu".lower()
    model = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")),
        "",
    )
    words = [word for word in model.lower().replace("(r)", "").split() if word.isalnum()]
    return "-".join([name, *words[:3]])


def _cpuinfo() -> Iterable[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _path(area: str) -> Path:
    return RECORDS / f"{area}-{machine()}-{datetime.now(UTC):%Y-%m-%d}.json"


def recorded(area: str) -> Samples:
    """Return the samples in today's record of an area. Each sample is replaced by the median."""
    if not _path(area).exists():
        return {}
    return {
        Figure(entry["side"], entry["workload"], entry["operation"]): [entry["median"]] * entry["samples"]
        for entry in json.loads(_path(area).read_text())["figures"]
    }


def record(area: str, verdicts: list[Verdict], samples: Samples, skipped: list[Side]) -> Path:
    """Write all figures and verdicts to a file in `benches/record`, and return its path."""
    now = datetime.now(UTC)
    path = _path(area)
    content = {
        "area": area,
        "machine": machine(),
        "python": platform.python_version(),
        "taken": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "skipped": {side.name: side.missing for side in skipped},
        "bars": [asdict(verdict) for verdict in verdicts],
        "figures": figures(samples),
    }
    RECORDS.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
