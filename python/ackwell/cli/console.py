"""Output that all commands share: tables and progress on the terminal, errors as one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ackwell.broker.dates import date_of

if TYPE_CHECKING:
    from rich.progress import Progress

    from ackwell.broker.stats import UnreadableSource

_Item = TypeVar("_Item")


def visible(text: str) -> str:
    """Replace each control character, and each character that changes text direction, by a visible one.

    The commands print each topic, subscription and server message through this function. Such a text can
    therefore not move the cursor, colour the terminal or fake a line.
    """
    return text.translate(_VISIBLE)


_VISIBLE: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}


def shown_name(name: str, room: int | None = None) -> str:
    """Return a topic or subscription for display on one line; omit the middle if it is longer than `room`."""
    shown = visible(name.removeprefix("persistent://")).replace("\n", "␊")
    if room is None or len(shown) <= room:
        return shown
    tail = (room - 1) * 2 // 3
    return f"{shown[: room - 1 - tail]}…{shown[-tail:]}"


def utc(time_ms: int) -> str:
    """Return a time as text, to the second, in UTC."""
    return date_of(time_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown_count(value: int | None) -> str:
    """Return a number as text; `unknown` for None."""
    return "unknown" if value is None else f"{value:,}"


EXIT_UNREAD: Final = 5
"""The exit code of a command that read some of its sources and not all."""

MEMBERS_INDENTED_MAX: Final = 1_000
"""A JSON object with more members is printed on one line."""


def unread_line(unread: UnreadableSource) -> str:
    """Return the line that reports an unreadable source."""
    return f"not read: {shown_name(unread.topic or unread.source)}: {unread.reason}"


def report_unread(unread: UnreadableSource) -> None:
    """Report an unreadable source on standard error."""
    err.print(unread_line(unread), highlight=False, markup=False, soft_wrap=True)


class _Console(Console):
    """A console that replaces the control characters in printed texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


# Results go to standard output, everything about the work itself to standard error, so that
# `ackwell … --format json | jq` and a progress bar do not meet.
out = _Console(soft_wrap=True)
err = _Console(stderr=True)


def warn(text: str) -> None:
    """Print a text to standard error without markup."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)


def fail(sentence: str) -> NoReturn:
    """Print an error as one line, and exit with code 1."""
    # A name in it may hold line ends.
    line = " ".join(sentence.splitlines())
    err.print(f"[bold red]error:[/] {_escape(line)}", highlight=False, soft_wrap=True)
    sys.exit(1)


def print_json(value: Any, name: str | None = None, rows: Iterable[Any] = ()) -> None:
    """Print a value as indented JSON, without wrapping and without colours.

    `rows` are the items of an array that is added to the object `value` as its member `name`. A row is
    printed as one line, before the next row is computed. An object of more than 1,000 members is one line,
    too, because indenting takes five times as long.
    """
    text = _indented(value)
    if name is None:
        sys.stdout.write(f"{text}\n")
        return
    sys.stdout.write(text.removesuffix("\n}") + f",\n  {json.dumps(name)}: [")
    separator = "\n"
    for row in rows:
        sys.stdout.write(f"{separator}    {json.dumps(row)}")
        separator = ",\n"
    sys.stdout.write("\n  ]\n}\n" if separator == ",\n" else "]\n}\n")


def _indented(value: Any, margin: str = "\n") -> str:
    """Return a value as JSON, indented by two spaces for each level."""
    is_object = isinstance(value, dict)
    if not value or not (
        isinstance(value, list | tuple) or (is_object and len(value) <= MEMBERS_INDENTED_MAX)
    ):
        return json.dumps(value)
    inner = f"{margin}  "
    if is_object:
        names = (name if isinstance(name, str) else json.dumps(name) for name in value)
        items = [
            f"{json.dumps(name)}: {_indented(item, inner)}"
            for name, item in zip(names, value.values(), strict=True)
        ]
        return f"{{{inner}{f',{inner}'.join(items)}{margin}}}"
    return f"[{inner}{f',{inner}'.join(_indented(item, inner) for item in value)}{margin}]"


def write_utf8(text: str) -> None:
    """Write a text as UTF-8, independent of the code page of the console."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def progress(items: Iterable[_Item], doing: str) -> Iterator[_Item]:
    """Yield the items, and show the number of yielded items if standard error is a terminal."""
    if not err.is_terminal:
        yield from items
        return
    with err.status(doing) as status:
        for number, item in enumerate(items, 1):
            yield item
            if number % 50 == 0:
                status.update(f"{doing}: {number:,}")


@contextmanager
def file_progress(files: Sequence[object], doing: str) -> Iterator[Progress]:
    """Yield a progress bar, shown only on a terminal; the caller calls `advance` for each file."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    bar.add_task(doing, total=len(files))
    # Before rich 14.3, a disabled bar writes an empty line when it ends.
    with bar if err.is_terminal else nullcontext():
        yield bar


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
