"""`ackwell holes` shows what holds the mark-delete position back, and what that costs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ackwell.cli.console import out, print_json

EXAMPLES = """
Examples:

    ackwell holes stats-internal.json
    ackwell holes --json dumps/ | jq 'max_by(.pinnedBytes)'
"""


def holes(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…", help="Answers of `stats-internal`: files or folders (.json, .json.gz)."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an array.")] = False,
) -> None:
    """Return which entry blocks each mark-delete position, for how long, and how many bytes it pins."""
    from ackwell.broker.stats import read_stats
    from ackwell.diagnosis.holes import blockage

    found = [
        blocked
        for source in sources
        for stats in read_stats(source)
        if (blocked := blockage(stats)) is not None
    ]
    found.sort(key=lambda blocked: -blocked.pinned_bytes)
    if as_json:
        print_json([blocked.to_json() for blocked in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("topic · subscription", "blocked by"):
        table.add_column(name, overflow="fold")
    for name in ("entries", "acked behind", "pinned", "freed by acking it", "blocked for"):
        table.add_column(name, justify="right")
    for blocked in found:
        table.add_row(
            Text(f"{blocked.topic.removeprefix('persistent://')} · {blocked.subscription}"),
            str(blocked.hole),
            f"{blocked.hole.entries:,}",
            f"{blocked.acked_behind:,}",
            _size(blocked.pinned_bytes),
            f"{_size(blocked.freed_bytes)} in {blocked.freed_ledgers:,} ledgers",
            "not told" if blocked.blocked_ms is None else f"{blocked.blocked_ms / 60_000:,.1f} min",
        )
    out.print(table if found else "nothing is blocked: all is acknowledged")


holes.__doc__ = f"{holes.__doc__}\n{EXAMPLES}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
