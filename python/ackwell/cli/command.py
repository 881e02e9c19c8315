"""The base class of all commands of `ackwell`. It adds examples to the help of a command."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

EXAMPLES = "\nExamples\n--------\n"
"""The heading that ends the description in a command's docstring. Examples and notes follow it."""


class Command(TyperCommand):
    """A command whose help shows the examples and notes of its docstring below the options.

    The examples and notes are printed line by line as they are. In a description, Typer would join and wrap
    the lines, so that a user could not copy a command line.
    """

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:  # noqa: A002
        description, _, self.examples = (help or "").partition(EXAMPLES)
        super().__init__(*arguments, help=description.rstrip(), **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Refuse an empty argument, because an empty path means the current folder.

        A script passes such an argument if a variable of the shell is not set. The completion of a command
        line accepts an empty argument.
        """
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        given, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in parameters:
            value = given.get(parameter.name or "")
            if value == "" or (isinstance(value, (list, tuple)) and "" in value):
                raise typer.BadParameter("the text is empty", ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of Typer, then the examples and notes."""
        super().format_help(ctx, formatter)
        if self.examples:
            typer.echo(f"Examples:\n\n{self.examples.rstrip()}\n")
