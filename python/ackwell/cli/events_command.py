"""`ackwell events …`: checks of recorded events."""

from __future__ import annotations

import typer
from rich.text import Text

from ackwell.cli import options  # Typer reads annotations
from ackwell.cli.command import Command
from ackwell.cli.console import out, print_json

app = typer.Typer(name="events", no_args_is_help=True, help="Check files of events before they are replayed.")


@app.callback()
def _events() -> None:
    """Keep `check` as a subcommand. Without this callback, Typer makes a single command the program."""


@app.command(cls=Command)
def check(
    sources: options.Traces,
    output: options.Format = options.OutputFormat.TABLE,
) -> None:
    """Report the problems of event files: the column or line, the problem and the remedy. Needs no Spark.

    Examples
    --------
        ackwell events check events/
        ackwell events check --format json trace.jsonl.gz

    Exit code: 0 when all events can be replayed, 3 when some cannot.
    """
    from ackwell.replay.checking import check_events

    problems = check_events(sources)
    if output is options.OutputFormat.JSON:
        print_json([problem._asdict() for problem in problems])
    elif not problems:
        out.print("everything can be replayed")
    else:
        for source, column, problem, remedy in problems:
            where = ": ".join(part for part in (source, column) if part)
            out.print(Text(f"{where}{': ' if where else ''}{problem}\n    {remedy}"), soft_wrap=True)
    raise typer.Exit(3 if problems else 0)
