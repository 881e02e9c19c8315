"""The class of all commands of `ackwell`: a command whose help shows examples."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

EXAMPLES = "\nExamples\n--------\n"
"""The heading in a command's docstring between its description and its examples and notes."""


class Command(TyperCommand):
    """A command whose help shows the examples and notes of its docstring below the options.

    They are printed unchanged. Typer joins and wraps the lines of a description, so a command line in a
    description could not be copied.
    """

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:  # noqa: A002
        description, _, self.examples = (help or "").partition(EXAMPLES)
        super().__init__(*arguments, help=description.rstrip(), **options)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of Typer, then the examples."""
        super().format_help(ctx, formatter)
        if self.examples:
            typer.echo(f"Examples:\n\n{self.examples.rstrip()}\n")
