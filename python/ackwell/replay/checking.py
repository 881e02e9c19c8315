"""Check event files before a replay: the errors and how to correct them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.errors import AckwellError, EventError
from ackwell.replay import table_schemas
from ackwell.replay.files import event_files, path_columns
from ackwell.replay.states import replay_files
from ackwell.replay.traces import trace_columns
from ackwell.sources import PARQUET_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ackwell.object_paths import AnyPath


class Problem(NamedTuple):
    """An error in a file. It prevents the replay of the file, or of one of the file's subscriptions."""

    source: str
    column: str
    problem: str
    remedy: str


LINES: Final = 20
"""The maximum number of invalid lines that are listed for one file. The others are counted."""

_LINE_REMEDY: Final = "correct the line, or leave the file out"
_REMEDY: Final = "correct the event (docs/events.md), or replay the others with --keep-going"


def check_events(sources: Iterable[str | AnyPath]) -> list[Problem]:
    """Return the problems of event files. The list is empty if the files can be replayed.

    The function makes three checks, and stops after the first check that finds a problem:

    1. The names and types of each file's columns.
    2. The lines that are not events. The first `LINES` such lines of each file are listed, and the others
       are counted.
    3. The replay of the events. The first invalid event of each subscription is listed.

    The last two checks take as long as a replay.

    >>> check_events([])
    []
    """
    files = event_files(sources)
    found = [problem for path in files if path.suffix == PARQUET_SUFFIX for problem in _columns(path)]
    return found or list(_rows(files))


def _columns(path: AnyPath) -> Iterator[Problem]:
    import pyarrow.parquet as pq

    from ackwell.replay.parquet import errors_naming, given_columns, open_anywhere

    try:
        with open_anywhere(str(path)) as source, errors_naming(str(path)):
            if not source.size():
                # Spark writes such empty files, and every reader skips them.
                return
            schema = pq.read_schema(source)
    except EventError as error:
        yield Problem(str(path), "", error.reason, "write the file again")
        return
    given = given_columns(schema)
    others = {name.lower(): name for name in schema.names if name.lower() not in table_schemas.EVENT_COLUMNS}
    for flaw in table_schemas.column_flaws(given, table_schemas.EVENTS, {*path_columns(path), "sequence"}):
        yield Problem(str(path), flaw.column.name, *_explained(flaw, others))
    for each in given:
        if each.given_type.startswith("timestamp[ns") and each.name.lower() in _TIMES:
            remedy = 'Spark does not read it: write it with coerce_timestamps="ms"'
            yield Problem(str(path), each.name.lower(), f"is {each.given_type}", remedy)


_TIMES: Final = tuple(name for name in table_schemas.EVENT_COLUMNS if name.endswith("_ms"))


def _explained(flaw: table_schemas.ColumnFlaw, others: Mapping[str, str]) -> tuple[str, str]:
    """Return the problem of a column, and the remedy.

    `others` contains the file's unknown columns. It maps the lower-case form of each name to the name.
    """
    if not flaw.found:
        like = get_close_matches(flaw.column.name, others, 1)
        return "is missing", f"rename {others[like[0]]!r} to it" if like else f"add it: {flaw.column.comment}"
    if len(flaw.found) > 1:
        return "several columns differ in case only", "keep one of them"
    wanted = table_schemas.arrow_name(flaw.column.type)
    remedy = f"cast it to {wanted}"
    if flaw.found[0].type == "timestamp":
        remedy = "number the events of a file in their order; put the time into time_ms"
    return f"is {flaw.found[0].given_type}, expected {wanted}", remedy


def _of_line(error: EventError) -> Problem:
    place = error.file or ""
    if error.line is not None:
        place = f"{place}, line {error.line}"
    return Problem(place, "", error.reason, _LINE_REMEDY)


def _lines(path: AnyPath) -> Iterator[Problem]:
    """Yield a problem for each of the first `LINES` invalid lines of a trace.

    If the trace has more invalid lines, yield one more problem that states how many.
    """
    # Store no errors, because the frames of their tracebacks refer to the whole lines.
    first: list[Problem] = []
    count = 0

    def note(error: EventError) -> None:
        nonlocal count
        count += 1
        if len(first) < LINES:
            first.append(_of_line(error))

    try:
        for _ in trace_columns(path, note):
            pass
    except EventError as error:
        # The file is damaged, and nothing after this line can be read.
        note(error)
    yield from first
    if count > LINES:
        yield Problem(str(path), "", f"{count - LINES:,} more lines are not events", "correct the lines")


def _rows(files: list[AnyPath]) -> Iterator[Problem]:
    errors: dict[tuple[str, str], str] = {}
    try:
        replay_files(files, errors=errors)
    except EventError as error:
        traces = [path for path in files if path.suffix != PARQUET_SUFFIX]
        lines = [] if error.line is None else [problem for path in traces for problem in _lines(path)]
        yield from lines or [_of_line(error)]
    except AckwellError as error:
        yield Problem("", "", str(error), _REMEDY)
    for names, message in errors.items():
        source = ", ".join(names)
        yield Problem(source, "", message.removeprefix(f"{source}: "), _REMEDY)
