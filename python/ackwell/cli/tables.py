"""Tables of subscriptions on a terminal: a name never breaks, and no number is cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rich.table import Table
from rich.text import Text

from ackwell.cli.console import name_of, out

if TYPE_CHECKING:
    from rich.console import Console

Row: TypeAlias = tuple[str, str, Sequence[str | Text]]
"""A topic, a subscription, and a value for each heading."""

GAP = 2
NAMES_WIDTH_MIN = 40
"""What a topic and a subscription need in a row; with less, each subscription is a block of lines."""


def print_subscriptions(headings: Sequence[str], rows: Iterable[Row], console: Console = out) -> None:
    """Print a row for each subscription, or a block of lines each where the console is too narrow.

    A long name in a row loses its middle. A block shows it whole.
    """
    each = [(topic, subscription, [_text(value) for value in values]) for topic, subscription, values in rows]
    if not each:
        return
    columns = zip(headings, zip(*(values for _, _, values in each), strict=True), strict=True)
    widths = [max(len(heading), *(value.cell_len for value in values)) for heading, values in columns]
    room = console.width - sum(widths) - GAP * (len(widths) + 1)
    if room < NAMES_WIDTH_MIN:
        _print_blocks(headings, each, console)
        return
    longest = max([len("subscription"), *(len(name_of(subscription)) for _, subscription, _ in each)])
    subscription_room = min(longest, room // 2)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("topic", "subscription"):
        table.add_column(heading, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for topic, subscription, values in each:
        names = name_of(topic, room - subscription_room), name_of(subscription, subscription_room)
        table.add_row(*map(Text, names), *values)
    console.print(table)


def _print_blocks(headings: Sequence[str], rows: Iterable[Row], console: Console) -> None:
    for topic, subscription, values in rows:
        console.print(Text(f"\n{name_of(topic)} · {name_of(subscription)}", "bold"), soft_wrap=True)
        for heading, value in zip(headings, values, strict=True):
            console.print(Text(f"  {heading}: ").append(value), soft_wrap=True)


def _text(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(value)
