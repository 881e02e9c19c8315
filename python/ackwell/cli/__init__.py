"""The command line `ackwell`. The module of a command parses options, calls the library and prints."""

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
"""The commands, in the order in which the help lists them. The module `NAME_command` defines each command, as
a function of its name or as a Typer program `app`."""


def program(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Build the program with the given commands. Only the modules of these commands are imported."""
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
    """Run the command line.

    An error that the user can correct is printed as one line. The exit code is then 1.
    """
    asked = sys.argv[1:2]
    # Import only the modules that are needed: none for the version, and one for a command.
    wanted = [] if asked == ["--version"] else [each for each in asked if each in COMMANDS] or COMMANDS
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # The code page of an older console may lack characters of a name. Show `?` in their place.
            stream.reconfigure(errors="replace")
    try:
        program(wanted)()
    except BrokenPipeError:
        # The process that reads the output has ended, as `head` does. The last flush goes to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (AckwellError, OSError, ModuleNotFoundError) as error:
        from ackwell.cli.console import fail

        fail(_sentence(error))


def _sentence(error: Exception) -> str:
    """Return the message of an error for the user.

    If a module is missing, the message names the extra of ackwell to install.
    """
    if isinstance(error, ModuleNotFoundError) and error.msg.startswith("No module named"):
        from ackwell.extras import missing

        return f"this needs {missing(error)}"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
