"""Print tables of subscriptions on a terminal. Names are not wrapped, and numbers are not cut off."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.cli.console import out, shown_name, visible

if TYPE_CHECKING:
    from rich.console import Console

    from ackwell.replay.cursor_rows import CursorRow

Row: TypeAlias = tuple[str, str, Sequence[str | Text]]
"""A row of a table: the topic, the subscription, and a value for each heading."""

GAP = 2
REDELIVERED = "acked, redelivered"
"""The heading of the column with the number of acknowledged messages that a restart redelivers."""
PIPE_COLUMNS = 1 << 20
NAMES_WIDTH_MIN = 40
"""The minimum width for the two names in a row. If less width is left, each subscription is printed as a
block of lines."""


def print_subscriptions(headings: Sequence[str], rows: Iterable[Row], console: Console = out) -> None:
    """Print one row per subscription. If the console is too narrow, print one block of lines for each.

    In a row, the middle of a long name is omitted. A block shows the whole name.
    """
    each = list(rows)
    if not each:
        return
    columns = zip(headings, zip(*(values for _, _, values in each), strict=True), strict=True)
    widths = [max(len(heading), *map(_width, values)) for heading, values in columns]
    room = _columns(console) - sum(widths) - GAP * (len(widths) + 1)
    if room < NAMES_WIDTH_MIN:
        _print(_blocks(headings, each), console)
    else:
        _print(_table(headings, each, widths, room), console)


def _columns(console: Console) -> int:
    """Return the width of a console. For a pipe, return a width that is sufficient for the longest names."""
    is_pipe = console is out and not console.is_terminal and "COLUMNS" not in os.environ
    return PIPE_COLUMNS if is_pipe else console.width


Parts: TypeAlias = "list[str | Text]"
"""The parts of one line of output, from left to right."""


def _blocks(headings: Sequence[str], rows: Iterable[Row]) -> Iterator[Parts]:
    for topic, subscription, values in rows:
        yield []
        yield [Text(f"{shown_name(topic)} · {shown_name(subscription)}", "bold")]
        for heading, value in zip(headings, values, strict=True):
            yield [f"  {heading}: ", value]


def _table(headings: Sequence[str], rows: list[Row], widths: list[int], room: int) -> Iterator[Parts]:
    longest = max([len("subscription"), *(_width(shown_name(subscription)) for _, subscription, _ in rows)])
    second = min(longest, room // 2)
    longest = max([len("topic"), *(_width(shown_name(topic, room - second)) for topic, _, _ in rows)])
    first = min(longest, room - second)
    gap = " " * GAP

    def line(topic: str, subscription: str, values: Sequence[str | Text]) -> Parts:
        parts: Parts = [set_cell_size(topic, first), gap, set_cell_size(subscription, second)]
        for value, width in zip(values, widths, strict=True):
            parts += [gap + " " * (width - _width(value)), value]
        return parts

    yield [Text.assemble(*line("topic", "subscription", headings), style="bold")]
    for topic, subscription, values in rows:
        yield line(shown_name(topic, room - second), shown_name(subscription, second), values)


def _print(lines: Iterable[Parts], console: Console) -> None:
    """Print lines. Rich is used only on a terminal, which can show styles, because Rich is slow."""
    is_styled, write = console.is_terminal, console.file.write
    for parts in lines:
        if is_styled:
            console.print(Text.assemble(*parts), soft_wrap=True)
        else:
            line = "".join([part.plain if isinstance(part, Text) else part for part in parts])
            write(f"{line if line.isprintable() else visible(line)}\n")


def _width(value: str | Text) -> int:
    return value.cell_len if isinstance(value, Text) else cell_len(value)


def print_cursor_rows(rows: Iterable[CursorRow]) -> None:
    """Print each cursor with the number of acknowledged messages that a restart would redeliver.

    The number is for a graceful restart of a 4.2 broker with default settings.
    """
    headings = ("mark-delete", "ranges", "partial entries", "backlog", REDELIVERED)
    each = [(row.topic, row.subscription, _cursor_values(row)) for row in rows]
    print_subscriptions(headings, each)
    if each:
        broker = f"a {BrokerSettings.DEFAULT_VERSION} broker with its default settings"
        _print([[f"{REDELIVERED}: by a graceful restart of {broker}"]], out)


def _cursor_values(row: CursorRow) -> list[str]:
    return [
        row.mark_delete,
        f"{row.range_count:,}",
        f"{len(row.batch_deleted):,}",
        f"{row.backlog_entries:,}",
        str(row.lost),
    ]
