"""`ackwell inspect` shows the cursor state that persisted bytes contain."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli import options
from ackwell.cli.compression import Compression  # noqa: TC001  # Typer reads annotations
from ackwell.cli.ledger import Ledger  # noqa: TC001

if TYPE_CHECKING:
    from ackwell import PositionRangeSet
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.diagnosis.inspection import Inspection, StoredEntry

RANGES = 8
"""The maximum number of ranges that the table shows."""


def inspect(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files with entries of a cursor ledger (if a state has several entries, also its "
            "footer), values of the metadata store, or SQLite files of saved cursors; `-` reads "
            "standard input.",
        ),
    ],
    ledger: Ledger = None,
    compression: Compression = None,
    broker_version: options.BrokerVersion = None,
    broker_setting: options.BrokerSetting = None,
    output: options.Format = options.OutputFormat.TABLE,
) -> None:
    """Show the state in persisted cursor bytes of any form, and the part that a restart would lose.

    Examples
    --------
        ackwell inspect cursor.bin
        ackwell inspect entry*.bin footer.json
        ackwell inspect --compression lz4 --format json - < entry.bin
        ackwell inspect cursors.db --ledger "topic subscription"
    """
    from ackwell.diagnosis.inspection import inspect_entries, inspect_store
    from ackwell.store.sqlite import is_sqlite

    settings = options.broker_settings(broker_version, broker_setting)
    stores = [file for file in files if is_sqlite(file)]
    found = inspect_entries(
        list(_entries([file for file in files if file not in stores])), compression=compression
    )
    found += [inspection for file in stores for inspection in inspect_store(Path(file), ledger)]
    if output is options.OutputFormat.JSON:
        from ackwell.cli.console import print_json

        print_json([inspection.to_json() for inspection in found])
        return
    # Print plain lines. Importing the library that draws tables would take longer than all other work.
    for inspection in found:
        typer.echo("\n".join(_screen(inspection, settings)))


def _entries(files: list[str]) -> Iterator[StoredEntry]:
    """Read the files. If one of them is a footer, sort the files by the numbers in their names.

    A footer shows that the other files are the parts of one state, so their order matters.
    """
    from ackwell.diagnosis.inspection import StoredEntry
    from ackwell.regular_files import read_all, read_regular
    from ackwell.saving.chunks import is_footer

    entries = [
        StoredEntry(file, read_all(sys.stdin.buffer, "-") if file == "-" else read_regular(Path(file)))
        for file in files
    ]
    if any(is_footer(entry.data) for entry in entries):
        entries.sort(
            key=lambda entry: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", entry.source)]
        )
    yield from entries


def _screen(inspection: Inspection, settings: BrokerSettings) -> Iterator[str]:
    info = inspection.info
    stored = f"{inspection.size_bytes:,} bytes"
    if inspection.entries > 1:
        stored += f" in {inspection.entries} entries"
    if inspection.compression not in (None, "NONE"):
        stored += f", {inspection.compression}"
    yield f"{inspection.source}: {inspection.kind}, {inspection.form or 'no ranges'}, {stored}"
    if info is None and inspection.cursor_ledger_id is None:
        yield "  no state was saved"
        return
    if info is None:
        yield f"  the state is in cursor ledger {inspection.cursor_ledger_id}"
        return
    if inspection.cursor_ledger_id is not None:
        yield f"  the newest state is in cursor ledger {inspection.cursor_ledger_id}; this one is older"
    ranges = info.individually_deleted
    yield f"  mark-delete position  {info.position}"
    yield f"  oldest unacknowledged {inspection.oldest_unacked} (or the next ledger's first)"
    yield (
        f"  acknowledged beyond   {ranges.cardinality:,} entries "
        f"(ranges: {len(ranges):,}, ledgers: {len(ranges.ledger_ids()):,})"
    )
    yield f"  partly acknowledged   {len(info.batch_deleted):,} batches"
    yield f"  ranges                {_bounded(ranges)}"
    for name, value in info.properties.items():
        yield f"  property              {name} = {value}"
    for form, size in inspection.sizes().items():
        share = "" if size is None else f"{size / settings.max_entry_bytes:7.2%} of an entry's limit"
        yield f"  {form:<21} " + ("cannot hold all of it" if size is None else f"{size:>12,} bytes  {share}")
    for loss in inspection.restart_losses(settings):
        yield (
            f"  {loss.restart} restart forgets {loss.entries:,} entries, {loss.partial_entries:,} partly, "
            "if nothing else is acknowledged until then"
        )
        yield from (f"    because {reason}" for reason in loss.reasons)
    yield f"  not in these bytes    {', '.join(inspection.cannot_say)}"


def _bounded(ranges: PositionRangeSet) -> str:
    texts = [
        f"({ledger_id}:{lower}..{ledger_id}:{upper}]" for ledger_id, lower, upper in islice(ranges, RANGES)
    ]
    if len(ranges) > RANGES:
        texts.append(f"… and {len(ranges) - RANGES:,} more")
    return ", ".join(texts) or "none"
