"""`ackwell convert` writes a persisted cursor state in another form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ackwell.cli.compression import Compression  # noqa: TC001  # Typer reads annotations
from ackwell.cli.console import err

FORMATS = ("pulsar-ranges", "pulsar-long-array", "pulsar-auto", "compact")


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Persisted bytes, or an answer of a broker.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="The file to write; `-` is standard output.")
    ],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="The form to write: " + ", ".join(FORMATS))],
    max_ranges: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Write at most N ranges.")
    ] = None,
    max_bytes: Annotated[int | None, typer.Option(min=0, metavar="N", help="Write at most N bytes.")] = None,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Omit acknowledgments beyond a limit, and report them.")
    ] = False,
    subscription: Annotated[
        str | None, typer.Option(metavar="NAME", help="The subscription, if the answer has several.")
    ] = None,
    compression: Compression = None,
) -> None:
    """Write a state in another form; refuse to exceed a limit, unless --lossy.

    Examples
    --------
        ackwell convert --to compact cursor.bin smaller.bin
        ackwell convert --to pulsar-ranges stats-internal.json cursor.bin
        ackwell convert --to pulsar-auto --max-ranges 9 --lossy a.bin b.bin
    """
    from ackwell.diagnosis.difference import read_position_info
    from ackwell.errors import StateTooLargeError
    from ackwell.regular_files import write_file
    from ackwell.sources import SourceKind

    if to not in FORMATS:
        raise typer.BadParameter(f"unknown format {to!r}; known are {', '.join(FORMATS)}", param_hint="--to")
    info = read_position_info(source, subscription=subscription, compression=compression)
    if lossy:
        data, report = info.encode_with_report(to, max_ranges=max_ranges, max_bytes=max_bytes)
        if report:
            err.print(f"lost: {report}", markup=False, highlight=False, soft_wrap=True)
    else:
        try:
            data = info.encode(to, max_ranges=max_ranges, max_bytes=max_bytes)
        except StateTooLargeError as error:
            raise StateTooLargeError(
                f"{source}: {error}; --lossy writes it without them", error.report
            ) from None
    if str(target) == "-":
        sys.stdout.buffer.write(data)
    else:
        write_file(target, data, replaces=frozenset({SourceKind.CURSOR, SourceKind.BINARY}))
    err.print(f"{len(data):,} bytes, {to}", highlight=False)
