"""The command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from ackwell.cli import app


def command(*arguments: object, stdin: bytes | None = None) -> tuple[int, str]:
    """Run `ackwell` with these arguments; return its exit code and what it wrote to standard output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout
