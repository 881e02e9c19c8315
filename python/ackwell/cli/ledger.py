"""The option `--ledger`. It selects one cursor in an SQLite file of saved cursors."""

from __future__ import annotations

from typing import Annotated

import typer

Ledger = Annotated[
    str | None,
    typer.Option("--ledger", metavar="NAME", help="The saved cursor, if an SQLite file has several."),
]
