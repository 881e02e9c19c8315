"""The option `--compression`. It is needed for entries that do not contain the name of their compression."""

from __future__ import annotations

from typing import Annotated

import typer

from ackwell.diagnosis.inspection import COMPRESSIONS


def _parse(value: str | None) -> str | None:
    if value is not None and value.upper() not in COMPRESSIONS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(COMPRESSIONS)}")
    return value and value.upper()


Compression = Annotated[
    str | None,
    typer.Option(
        "--compression",
        metavar="TYPE",
        callback=_parse,
        help="The compression of the entries, if the bytes do not contain it: LZ4, ZLIB, ZSTD or SNAPPY.",
    ),
]
