"""`ackwell diff` compares two states of a cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ackwell.cli.compression import Compression  # noqa: TC001  # Typer reads annotations
from ackwell.cli.console import out, print_json
from ackwell.cli.ledger import Ledger  # noqa: TC001

SHOWN = 2_000
"""Characters of a list of ranges; --json has all."""


def diff(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="Persisted bytes, a file of saved cursors, or an answer of a broker."
        ),
    ],
    after: Annotated[Path, typer.Argument(metavar="B", help="A later state of the same cursor.")],
    subscription: Annotated[
        str | None, typer.Option(metavar="NAME", help="The subscription, if an answer has several.")
    ] = None,
    compression: Compression = None,
    ledger: Ledger = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an object.")] = False,
) -> None:
    """Show what is acknowledged in B and not in A, and what in A and not in B.

    Examples
    --------
        ackwell diff before.stats.json after.stats.json
        ackwell diff --json before.stats.json.gz cursor-ledger-entry.bin

    Exit code: 0 when both are the same, 3 when they differ.
    """
    from ackwell.diagnosis.difference import difference, read_state

    states = (
        read_state(path, subscription=subscription, compression=compression, ledger=ledger)
        for path in (before, after)
    )
    found = difference(*states)
    if as_json:
        print_json(found.to_json())
    else:
        for what, ranges in (("acknowledged since", found.acked), ("no longer acknowledged", found.unacked)):
            text = str(ranges)
            cut = text if len(text) <= SHOWN else f"{text[:SHOWN]}… (--json has all)"
            out.print(Text(f"{what}: {ranges.cardinality:,} entries {cut if len(ranges) else ''}"))
        out.print(f"ack sets that differ: {len(found.ack_sets):,}", highlight=False)
        if not found.ledgers_known:
            out.print("the bytes do not show where ledgers end: taken to be at the greatest entry named")
    raise typer.Exit(3 if found else 0)
