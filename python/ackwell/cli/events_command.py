"""`ackwell events …`: checks of recorded events."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ackwell.cli import options  # noqa: TC001  # Typer reads annotations
from ackwell.cli.command import Command
from ackwell.cli.console import out, print_json

app = typer.Typer(name="events", no_args_is_help=True, help="Check files of events before they are replayed.")


@app.callback()
def _events() -> None:
    """Keep `check` as a subcommand. Without this callback, Typer makes a single command the program."""


@app.command(cls=Command)
def check(
    sources: options.Traces,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an array.")] = False,
) -> None:
    """Report the problems of event files: the column, the problem and the remedy. Needs no Spark.

    Examples
    --------
        ackwell events check events/
        ackwell events check --json trace.jsonl.gz

    Exit code: 0 when all events can be replayed, 3 when some cannot.
    """
    from ackwell.replay.checking import check_events

    problems = check_events(sources)
    if as_json:
        print_json([problem._asdict() for problem in problems])
    elif not problems:
        out.print("everything can be replayed")
    for source, column, problem, remedy in () if as_json else problems:
        where = ": ".join(part for part in (source, column) if part)
        out.print(Text(f"{where}{': ' if where else ''}{problem}\n    {remedy}"), soft_wrap=True)
    raise typer.Exit(3 if problems else 0)
