"""Functions with which all commands print: results, JSON, progress and errors."""

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
    """Return the text with visible characters in place of invisible ones.

    The replaced characters are the control characters, except the line end, and the characters that change
    the text direction.

    The commands pass each topic, subscription and message of a server through this function before they print
    it. Such a text can therefore not move the cursor, colour the terminal or look like a line of output.
    """
    return text.translate(_VISIBLE)


_VISIBLE: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}


def shown_name(name: str, room: int | None = None) -> str:
    """Return a topic or subscription as one line. If it has more than `room` characters, omit the middle."""
    shown = visible(name.removeprefix("persistent://")).replace("\n", "␊")
    if room is None or len(shown) <= room:
        return shown
    tail = (room - 1) * 2 // 3
    return f"{shown[: room - 1 - tail]}…{shown[-tail:]}"


def utc(time_ms: int) -> str:
    """Return a time as text in UTC, with a precision of one second."""
    return date_of(time_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown_count(value: int | None) -> str:
    """Return a number as text; `unknown` for None."""
    return "unknown" if value is None else f"{value:,}"


EXIT_UNREAD: Final = 5
"""The exit code of a command that could not read all of its sources."""

MEMBERS_INDENTED_MAX: Final = 1_000
"""The maximum number of members of a JSON object that is indented. A larger object is printed on one line."""


def unread_line(unread: UnreadableSource) -> str:
    """Return a line with the name of an unreadable source and the reason."""
    return f"not read: {shown_name(unread.topic or unread.source)}: {unread.reason}"


def report_unread(unread: UnreadableSource) -> None:
    """Report an unreadable source on standard error."""
    err.print(unread_line(unread), highlight=False, markup=False, soft_wrap=True)


class _Console(Console):
    """A console that replaces control characters by visible ones (see `visible`)."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


# Results go to standard output. Progress, warnings and errors go to standard error, so that they are not
# mixed with the results in `ackwell … --format json | jq`.
out = _Console(soft_wrap=True)
err = _Console(stderr=True)


def warn(text: str) -> None:
    """Print a text to standard error. Square brackets in it are not interpreted as markup."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)


def fail(sentence: str) -> NoReturn:
    """Print an error as one line, and exit with code 1."""
    # A name in the sentence may contain line ends.
    line = " ".join(sentence.splitlines())
    err.print(f"[bold red]error:[/] {_escape(line)}", highlight=False, soft_wrap=True)
    sys.exit(1)


def print_json(value: Any, name: str | None = None, rows: Iterable[Any] = ()) -> None:
    """Print a value as indented JSON, without wrapping and without colours.

    If `name` is given, `value` is an object, and one more member of it is printed: an array with this name,
    which contains `rows`. Each row is printed as one line, before the next row is computed. An object of more
    than 1,000 members is also printed as one line, because indenting takes five times as long.
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
    """Write a text to standard output as UTF-8, whatever the code page of the console is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def progress(items: Iterable[_Item], doing: str) -> Iterator[_Item]:
    """Yield the items. If standard error is a terminal, show how many items were yielded so far."""
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
    """Yield a progress bar for files. The caller calls its `advance` for each file.

    The bar is shown only if standard error is a terminal.
    """
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
