"""`ackwell holes` shows which entries block mark-delete positions, and how many bytes these entries pin."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ackwell.cli import options
from ackwell.cli.console import EXIT_UNREAD, out, print_json, progress, report_unread, shown_name, write_utf8
from ackwell.cli.subscription_table import print_subscriptions

if TYPE_CHECKING:
    from ackwell.broker.stats import UnreadableSource
    from ackwell.cluster.admin import Admin
    from ackwell.diagnosis.holes import Blockage, EntryListing

PEEKS_MAX = 1_000
"""The maximum number of entries that one run requests. The limit protects the bookies, from which the broker
reads each entry."""


class HolesFormat(StrEnum):
    """The formats in which `ackwell holes` prints its result."""

    TABLE = "table"
    JSON = "json"
    PROMETHEUS = "prometheus"


@options.with_admin_options
def holes(
    sources: options.Dumps = None,
    output: Annotated[
        HolesFormat, typer.Option("--format", help="How to print the result.")
    ] = HolesFormat.TABLE,
    listed: Annotated[
        int,
        typer.Option(
            "--list",
            min=0,
            max=PEEKS_MAX,
            metavar="N",
            help="Also list the first N unacknowledged entries of each subscription. With --admin, the list "
            "has the publish times of at most 1,000 entries, which the broker reads from its storage.",
        ),
    ] = 0,
    client: Admin | None = None,
) -> None:
    """Show which entry blocks each mark-delete position, for how long, and how many bytes it pins.

    If there are several dumps of a subscription, the newest is used.

    Examples
    --------
        ackwell holes stats-internal.json
        ackwell holes --admin http://broker:8080 public/default
        ackwell holes --list 10 --admin http://broker:8080 public/default
        ackwell holes --format json dumps/
        ackwell holes --format prometheus dumps/ > ackwell-holes.prom
    """
    from ackwell.broker.stats import UnreadableSource, newest, read_each
    from ackwell.diagnosis.holes import EntryListing, blockage
    from ackwell.errors import StatsError

    if not sources and client is None:
        raise typer.BadParameter("give files or folders, or --admin URL")
    if listed and output is HolesFormat.PROMETHEUS:
        raise typer.BadParameter("entries are no metrics: --list needs --format table or json")
    read = read_each(sources or ()) if client is None else client.read(sources or ())
    unread: list[UnreadableSource] = []
    newest_of = newest(progress(read, "reading"), unread)
    found = []
    for stats in newest_of.values():
        try:
            each = blockage(stats)
        except StatsError as error:
            unread.append(UnreadableSource(error.source, stats.topic, error.reason))
            continue
        if each is not None:
            found.append((each, EntryListing(stats, listed)))
    for missing in unread:
        report_unread(missing)
    found.sort(key=lambda each: -each[0].pinned_bytes)
    if client is not None:
        left = PEEKS_MAX
        for _, entries in found:
            left -= entries.peek(client, left)
    lists = [entries for _, entries in found] if listed else []
    _print([each for each, _ in found], output, lists, len(unread))
    if unread:
        raise typer.Exit(EXIT_UNREAD)


def _print(found: list[Blockage], output: HolesFormat, listed: list[EntryListing], unread: int) -> None:
    if output is HolesFormat.JSON:
        more = [{"unacked": each.to_json()} for each in listed] or [{}] * len(found)
        print_json([blocked.to_json() | shown for blocked, shown in zip(found, more, strict=True)])
        return
    if output is HolesFormat.PROMETHEUS:
        from ackwell.diagnosis.prometheus import prometheus_holes

        write_utf8(prometheus_holes(found))
        return
    if not found:
        out.print(
            "nothing is blocked in what was read" if unread else "nothing is blocked: all is acknowledged"
        )
    rows = [(blocked.topic, blocked.subscription, _values(blocked)) for blocked in found]
    # Leave out each column that has no value in any row.
    shown = [heading for heading in HEADINGS if any(values[heading] for _, _, values in rows)]
    print_subscriptions(
        shown, ((topic, name, [values[each] or "–" for each in shown]) for topic, name, values in rows)
    )
    for blocked, entries in zip(found, listed, strict=False):
        name = f"{shown_name(blocked.topic)} · {shown_name(blocked.subscription)}"
        out.print(Text(f"\n{name}: the oldest unacknowledged entries"))
        out.print(Text("\n".join(f"  {line}" for line in entries.lines())))


HEADINGS = (
    "blocked by",
    "entries",
    "acked after it",
    "pinned",
    "freed by acking it",
    "held by",
    "blocked for",
    "oldest message",
)


def _values(blocked: Blockage) -> dict[str, str]:
    """Return the texts of a subscription's row in the table, by heading.

    A text is empty if the value is unknown or zero.
    """
    freed = blocked.freed_ledgers
    values = (
        str(blocked.hole),
        f"{blocked.hole.entries:,}",
        f"{blocked.acked_after:,}",
        _size(blocked.pinned_bytes),
        f"{_size(blocked.freed_bytes)} in {freed:,} ledgers" if freed else "",
        _holder(blocked),
        "" if blocked.blocked_ms is None else f"{blocked.blocked_ms / 60_000:,.1f} min",
        "" if blocked.message_age_seconds is None else f"{blocked.message_age_seconds / 60:,.1f} min old",
    )
    return dict(zip(HEADINGS, values, strict=True))


def _holder(blocked: Blockage) -> str:
    if blocked.on_hold:
        return "a hold: ackwell rescue release"
    held = blocked.holder
    if held is None:
        return ""
    return f"{shown_name(held.name)} ({held.unacked:,} unacked, {held.permits:,} permits)"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
