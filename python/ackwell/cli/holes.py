"""`ackwell holes` shows what blocks the mark-delete position, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli import options
from ackwell.cli.console import EXIT_UNREAD, out, print_json, progress, say_unread
from ackwell.cli.tables import print_subscriptions

if TYPE_CHECKING:
    from ackwell.broker.admin import Admin
    from ackwell.diagnosis.holes import Blockage


@options.asks_a_broker
def holes(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]…",
            help="Answers of `stats-internal`: files or folders (.json, .json.gz). With --admin: tenants, "
            "tenant/namespace or topics; all by default.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an array.")] = False,
    client: Admin | None = None,
) -> None:
    """Show which entry blocks each mark-delete position, for how long, and how many bytes it pins.

    Examples
    --------
        ackwell holes stats-internal.json
        ackwell holes --admin http://broker:8080 public/default
        ackwell holes --json dumps/
    """
    from ackwell.broker.stats import Unread, read_each
    from ackwell.diagnosis.holes import blockage

    if not sources and client is None:
        raise typer.BadParameter("give files or folders, or --admin URL")
    read = read_each(sources or ()) if client is None else client.read(sources or ())
    found, unread = [], 0
    for stats in progress(read, "reading"):
        if isinstance(stats, Unread):
            unread += 1
            say_unread(stats)
        elif (blocked := blockage(stats)) is not None:
            found.append(blocked)
    _print(found, as_json)
    if unread:
        raise typer.Exit(EXIT_UNREAD)


def _print(found: list[Blockage], as_json: bool) -> None:
    found.sort(key=lambda blocked: -blocked.pinned_bytes)
    if as_json:
        print_json([blocked.to_json() for blocked in found])
        return
    if not found:
        out.print("nothing is blocked: all is acknowledged")
    headings = ("blocked by", "entries", "acked behind", "pinned", "freed by acking it", "blocked for")
    print_subscriptions(
        headings, ((blocked.topic, blocked.subscription, _values(blocked)) for blocked in found)
    )


def _values(blocked: Blockage) -> list[str]:
    return [
        str(blocked.hole),
        f"{blocked.hole.entries:,}",
        f"{blocked.acked_behind:,}",
        _size(blocked.pinned_bytes),
        f"{_size(blocked.freed_bytes)} in {blocked.freed_ledgers:,} ledgers",
        "unknown" if blocked.blocked_ms is None else f"{blocked.blocked_ms / 60_000:,.1f} min",
    ]


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
