"""`ackwell diff` compares two states of a cursor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ackwell.cli import options
from ackwell.cli.compression import Compression  # noqa: TC001  # Typer reads annotations
from ackwell.cli.console import EXIT_UNREAD, out, print_json, report_unread, shown_name
from ackwell.cli.ledger import Ledger  # noqa: TC001
from ackwell.cli.subscription_table import print_subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.cluster.admin import Admin
    from ackwell.diagnosis.difference import Difference, Differences, Name

SHOWN = 2_000
"""The maximum length of a list of ranges in the table, in characters. --format json has the whole list."""

ROWS = 30
"""The maximum number of subscriptions of a folder in the table. --format json has all of them."""


@options.with_admin_options
def diff(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="Persisted bytes, a file of saved cursors, an answer of a broker, or a folder of answers.",
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]",
            help="A later state of the same cursor, or of the same folder. With --admin: a topic, or "
            "tenant/namespace; by default the topics of A.",
        ),
    ] = None,
    subscription: Annotated[
        str | None, typer.Option(metavar="NAME", help="The subscription, if an answer has several.")
    ] = None,
    compression: Compression = None,
    ledger: Ledger = None,
    output: options.Format = options.OutputFormat.TABLE,
    client: Admin | None = None,
) -> None:
    """Show the entries that are acknowledged in only one of two states, A and B.

    Examples
    --------
        ackwell diff before.stats.json after.stats.json
        ackwell diff monday/ tuesday/
        ackwell diff monday/ --admin http://broker:8080
        ackwell diff before.json a/b/orders --admin http://broker:8080
        ackwell diff --format json before.stats.json.gz cursor-ledger-entry.bin

    Exit code: 0 if both are the same, 3 if they differ, 5 if a part of
    a folder could not be read.
    """
    from ackwell.diagnosis.difference import difference, differences, read_state

    if client is None and after is None:
        raise typer.BadParameter("give a second state, or --admin URL")
    later = client or Path(after or "")
    if before.is_dir() or not isinstance(later, Path) or later.is_dir():
        topics = [after] if client is not None and after is not None else []
        many = differences(before, later, subscription=subscription, topics=topics)
        for unread in many.unread:
            report_unread(unread)
        if output is options.OutputFormat.JSON:
            print_json(many.to_json())
        else:
            _print_many(many)
        raise typer.Exit(EXIT_UNREAD if many.unread else 3 if many else 0)
    found = difference(
        *(
            read_state(path, subscription=subscription, compression=compression, ledger=ledger)
            for path in (before, later)
        )
    )
    if output is options.OutputFormat.JSON:
        print_json(found.to_json())
    else:
        _print(found)
    raise typer.Exit(3 if found else 0)


def _print(found: Difference) -> None:
    for what, ranges in (("acknowledged since", found.acked), ("no longer acknowledged", found.unacked)):
        text = str(ranges)
        cut = text if len(text) <= SHOWN else f"{text[:SHOWN]}… (--format json has all)"
        out.print(Text(f"{what}: {ranges.cardinality:,} entries {cut if len(ranges) else ''}"))
    out.print(f"ack sets that differ: {len(found.ack_sets):,}", highlight=False)
    if not found.ledgers_known:
        out.print("the bytes do not show where ledgers end: taken to be at the greatest entry named")


def _print_many(found: Differences) -> None:
    changed = [(name, each) for name, each in found.both.items() if each]
    changed.sort(key=lambda pair: -pair[1].unacked.cardinality)
    rows = [
        (
            topic,
            name,
            [f"{each.acked.cardinality:,}", f"{each.unacked.cardinality:,}", f"{len(each.ack_sets):,}"],
        )
        for (topic, name), each in changed[:ROWS]
    ]
    print_subscriptions(("acked since", "no longer acked", "ack sets"), rows)
    if len(changed) > ROWS:
        out.print(f"… and {len(changed) - ROWS:,} more that differ (--format json has all)", highlight=False)
    out.print(f"{len(found.both):,} in both, {len(changed):,} differ", highlight=False)
    _print_only("A", found.only_before)
    _print_only("B", found.only_after)


def _print_only(where: str, names: Sequence[Name]) -> None:
    for topic, subscription in names[:ROWS]:
        out.print(Text(f"only in {where}: {shown_name(topic)} · {shown_name(subscription)}"))
    if len(names) > ROWS:
        out.print(f"only in {where}: {len(names) - ROWS:,} more (--format json has all)", highlight=False)
