"""What all commands share: tables and progress on the terminal, errors as one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

# Results go to standard output, everything about the work itself to standard error, so that
# `ackwell … --json | jq` and a progress bar do not meet.
out = Console(soft_wrap=True)
err = Console(stderr=True)


def fail(error: BaseException) -> NoReturn:
    """Print an error as one line and leave with exit code 1."""
    err.print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False, soft_wrap=True)
    sys.exit(1)


def print_json(value: Any) -> None:
    """Print a value as JSON, indented; never wrapped or coloured."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


@contextmanager
def file_progress(files: list[Path], doing: str) -> Iterator[Progress]:
    """Show, where standard error is a terminal, how many files are done; `advance` it per file."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        progress.add_task(doing, total=len(files))
        yield progress


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
