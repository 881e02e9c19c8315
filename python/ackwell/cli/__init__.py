"""The command line `ackwell`: one file a command; each only parses, calls the library and prints."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ackwell.cli.console import fail
from ackwell.cli.convert import convert
from ackwell.cli.delay_advise import delay_advise
from ackwell.cli.diff import diff
from ackwell.cli.doctor import doctor
from ackwell.cli.holes import holes
from ackwell.cli.inspect import inspect
from ackwell.cli.replay import replay
from ackwell.cli.spark import app as spark_app
from ackwell.errors import AckwellError

app = typer.Typer(
    name="ackwell",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look at, replay and rescue the acknowledgment state of Pulsar subscriptions.",
)
for command in (replay, inspect, doctor, holes, diff, convert, delay_advise):
    app.command()(command)
app.add_typer(spark_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ackwell {version('ackwell')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Hold the options of the program itself."""


def main() -> None:
    """Run the command line; what is the user's to mend becomes one line and exit code 1."""
    try:
        app()
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (AckwellError, OSError, ModuleNotFoundError) as error:
        fail(error)
