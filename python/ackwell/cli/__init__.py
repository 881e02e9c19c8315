"""The command line `ackwell`. Each command has one file, which parses, calls the library and prints."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli.command import Command
from ackwell.errors import AckwellError

if TYPE_CHECKING:
    from collections.abc import Sequence

    app: typer.Typer
    """The program with every command; the help and the tests use it."""

COMMANDS = (
    "replay",
    "history",
    "events",
    "inspect",
    "doctor",
    "collect",
    "holes",
    "rescue",
    "diff",
    "what-if",
    "mcp",
    "upgrade-check",
    "convert",
    "spark",
    "dev-broker",
    "record",
)
"""The commands in the order of the help. Each is a function, or an `app`, in `NAME_command.py`."""


def program(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Build the program. It imports only the modules of the given commands."""
    made = typer.Typer(
        name="ackwell",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Inspect, replay and rescue the acknowledgment state of Pulsar subscriptions.",
    )
    made.callback()(program_options)
    for command in commands:
        name = command.replace("-", "_")
        module = import_module(f"ackwell.cli.{name}_command")
        if hasattr(module, "app"):
            made.add_typer(module.app)
        else:
            made.command(cls=Command)(getattr(module, name))
    return made


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return program()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _print_version(wanted: bool) -> None:
    if wanted:
        import ackwell

        typer.echo(f"ackwell {ackwell.__version__}")
        raise typer.Exit


def program_options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
    max_input_mib: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Read files of at most N MiB, also when decompressed. Recorded events have no limit.",
        ),
    ] = 256,
) -> None:
    """Apply the options that are given before the name of a command."""
    from ackwell.regular_files import limit_input

    limit_input(max_input_mib << 20)


def main() -> None:
    """Run the command line. An error that the user can correct is printed as one line, with exit code 1."""
    asked = sys.argv[1:2]
    # The version needs no command, and a command needs no other one.
    wanted = [] if asked == ["--version"] else [each for each in asked if each in COMMANDS] or COMMANDS
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A console of an older code page lacks characters that a name may hold: show `?` for them.
            stream.reconfigure(errors="replace")
    try:
        program(wanted)()
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (AckwellError, OSError, ModuleNotFoundError) as error:
        from ackwell.cli.console import fail

        fail(_sentence(error))


def _sentence(error: Exception) -> str:
    """Return the message of an error for the user. For a missing module, it names the extra to install."""
    if isinstance(error, ModuleNotFoundError) and error.msg.startswith("No module named"):
        from ackwell.extras import missing

        return f"this needs {missing(error)}"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
