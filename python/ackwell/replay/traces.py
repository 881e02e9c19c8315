"""Read traces, which are files of JSON lines, as events or as columns of events.

The native reader parses every line. Nearly all lines are plain events, which it reads into columns. It stops
before any other line: a `meta` line, a torn line, or a line that is not an event. It returns all fields of
such a line, or the reason why they cannot be read. `TraceParser` checks them and raises the error.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final

from ackwell._native import TraceReader
from ackwell.errors import EventError
from ackwell.object_paths import AnyPath, ObjectPath, path_text
from ackwell.regular_files import open_regular
from ackwell.replay.event_columns import NULL, Columns, columns_of
from ackwell.replay.events import EFFECTS, Event, Kind, event_from_fields, shortened_reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EFFECTS: Final = {kind.value: EFFECTS[kind] for kind in Kind if kind is not Kind.META}
_KINDS: Final = list(_EFFECTS)
_CHUNK_BYTES: Final = 512 * 1024
"""The number of bytes that are read at a time: some 2,500 lines. The lines and their columns fit into the
caches of the CPU."""

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The maximum length of a line in bytes. Without it, a small compressed file could fill the memory."""


_FIXED: Final = '{"topic":%s,"subscription":%s,"sequence":%d,"kind":"%s"'
_NAMES: Final = tuple(f',"{name}":' for name in Event._fields[4:-1])
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_quoted: Final = lru_cache(maxsize=4096)(_encode)
"""A function that encodes a name as JSON. It caches results, because many events have the same names."""

DAMAGE: Final = (EOFError, OSError, zlib.error)
"""The errors that a damaged file can cause when it is read, compressed or not."""

OnError = Callable[[EventError], None]


class TraceParser:
    """A parser of one trace. A `meta` line sets the default topic and subscription of later lines."""

    def __init__(self, file: str | None = None) -> None:
        self.reader: Final = TraceReader(
            [(kind, effect.of_topic, effect.transaction) for kind, effect in _EFFECTS.items()]
        )
        """The native reader. It has the default topic and subscription of the last `meta` line."""
        self._file = file

    def parse(self, data: bytes, line: int) -> Event | None:
        """Parse one line. Return `None` for a blank line.

        Raises `EventError` with file and line for a line that is not an event.
        """
        fields = self.reader.fields(data)
        return None if fields is None else self.event(fields, line)

    def event(self, fields: dict[str, Any] | str, line: int) -> Event:
        """Return the event in the fields of a line, which the native reader has read.

        If the line is not an event, `fields` may be a text with the reason. Raises `EventError` with file and
        line for such a line.
        """
        if isinstance(fields, str):
            raise EventError(shortened_reason(fields), file=self._file, line=line)
        event = event_from_fields(fields, file=self._file, line=line)
        if event.kind is Kind.META:
            self.reader.set_defaults(event.topic, event.subscription)
        return event


def unreadable(error: Exception, path: AnyPath, line: int) -> Exception:
    """Return the error to raise for a file that cannot be read.

    An error of the operating system is returned unchanged. Any other error gives an `EventError`.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return EventError(f"unreadable: {error}", file=str(path), line=line)


def trace_events(path: AnyPath) -> Iterator[Event]:
    """Read the events of one trace, one by one."""
    parser = TraceParser(path_text(path))
    line = 0
    try:
        with open_trace(path) as file:
            for data, end in chunks(file):
                for text in BytesIO(data[:end]):
                    event = parser.parse(text, line + 1)
                    line += 1
                    if event:
                        yield event
    except DAMAGE as error:
        raise unreadable(error, path, line + 1) from None


def trace_columns(path: AnyPath, on_error: OnError | None = None) -> Iterator[Columns]:
    """Read the events of one trace as columns.

    Raises `EventError` with file and line for a line that is not an event. If `on_error` is given, it is
    called with this error instead, and the line is left out.
    """
    parser = TraceParser(path_text(path))
    reader = parser.reader
    names: tuple[list[str], list[str], list[str]] = [], [], []
    line = 1
    try:
        with open_trace(path) as file:
            for data, end in chunks(file):
                start = 0
                while start < end:
                    taken, lines, odd, read = reader.read(data, start, end, line)
                    for known, more in zip(names, reader.names([*map(len, names)]), strict=True):
                        known += more
                    line, start = line + lines, start + taken
                    if len(read["kinds"]):
                        yield _columns(read, names, path_text(path))
                    if odd is not None:
                        start, fields = odd
                        try:
                            event = parser.event(fields, line)
                        except EventError as error:
                            if on_error is None:
                                raise
                            on_error(error)
                        else:
                            yield columns_of([event])
                        line += 1
    except DAMAGE as error:
        raise unreadable(error, path, line) from None


def _columns(read: dict[str, Any], names: Sequence[list[str]], path: str) -> Columns:
    topics, subscriptions, transactions = names
    has_sets = len(read["words"]) or (read["set_starts"] >= 0).any()
    return Columns(
        topics=(read["topics"], topics),
        subscriptions=(read["subscriptions"], subscriptions),
        kinds=(read["kinds"], _KINDS),
        ledger_ids=read["ledger_ids"],
        entry_ids=read["entry_ids"],
        sequences=read["sequences"],
        batch_indexes=_unless_null(read["batch_indexes"]),
        batch_sizes=_unless_null(read["batch_sizes"]),
        ack_sets=(read["set_starts"], read["set_ends"]) if has_sets else None,
        words=read["words"],
        files=(None, [path]),
        transactions=(read["transactions"], transactions) if len(transactions) > 1 else None,
    )


def _unless_null(values: NDArray[np.int64]) -> NDArray[np.int64] | None:
    return values if (values != NULL).any() else None


def chunks(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield parts of a file. Each part begins with the start of a line.

    Each item also has the number of bytes up to the end of the part's last complete line. The bytes after it
    are repeated at the start of the next part. The last line of the file may have no line end.
    """
    rest = b""
    while read := file.read(_CHUNK_BYTES):
        data = rest + read
        end = data.rfind(b"\n", len(rest)) + 1
        if end:
            yield data, end
        rest = data[end:]
        if len(rest) > LINE_BYTES_MAX:
            # Free the data, because the traceback of the error refers to these variables.
            del data, read, rest
            raise EOFError(f"a line of more than {LINE_BYTES_MAX >> 20} MiB")
    if rest:
        yield rest, len(rest)


def open_trace(path: AnyPath) -> IO[bytes]:
    """Open a trace for reading. The suffixes `.gz` and `.zst` mean gzip and Zstandard."""
    if path.suffix == ".gz":
        unpacked: Any = gzip.GzipFile(fileobj=open_regular(path))
        return unpacked  # type: ignore[no-any-return]
    if path.suffix == ".zst":
        from ackwell.extras import require

        require("pyarrow", f"{path}: reading Zstandard")
        import pyarrow

        source = path.open() if isinstance(path, ObjectPath) else str(path)
        stream: IO[bytes] = pyarrow.input_stream(source, compression="zstd")
        return stream
    return open_regular(path)


def line(event: Event) -> str:
    r"""Return an event as a line of a trace.

    >>> line(Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0))
    '{"topic":"t","subscription":"","sequence":1,"kind":"publish","ledger_id":3,"entry_id":0}\n'
    """
    text = _FIXED % (_quoted(event[0]), _quoted(event[1]), event[2], event[3])
    for name, value in zip(_NAMES, event[4:-1], strict=True):
        if value is not None:
            text += name + (str(value) if type(value) is int else _quoted(value))
    return text + "}\n"
