"""Write events to files of JSON lines or Parquet, and payloads to separate files.

When a file is full, the next file begins. A Parquet file cannot be read until it is closed. So the current
file has JSON lines until it is full or the recording ends, and only then it is converted to Parquet. A killed
recorder does not lose the events in these lines. Parquet needs PyArrow.

A bounded queue passes the events to a writer thread, so traffic never waits for the disk. If the disk is too
slow, events are dropped, and a `gap` event records the number of dropped events.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ackwell.extras import require
from ackwell.object_paths import local_path
from ackwell.regular_files import append_to
from ackwell.replay.events import Event, Kind
from ackwell.replay.payloads import PREFIX, payload_line
from ackwell.replay.traces import line
from ackwell.sources import PARQUET_SUFFIX

if TYPE_CHECKING:
    from typing import Self

Format = Literal["jsonl", "parquet"]

QUEUE_MAX: Final = 200_000
"""The maximum number of events that wait to be written. They take tens of MB."""

PARQUET_EVENTS_MAX: Final = 50_000
"""The maximum number of events in a Parquet file. Its events are kept in memory until the Parquet file is
written."""

PAYLOAD_BYTES_MAX: Final = 256 << 20
"""The maximum total size of the payloads that wait to be written. Further payloads are dropped."""

_PAUSE_S: Final = 0.05

log = logging.getLogger("ackwell.recording")


class EntryPayload(NamedTuple):
    """The topic, the position and the bytes of an entry. They become one line of the payload file."""

    topic: str
    position: tuple[int, int]
    data: bytes


class EventFiles:
    """A folder to which event files are written. Each file has at most `events_per_file` events.

    In a new folder, the first file is `events-000001.jsonl`.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        file_format: Format = "jsonl",
        events_per_file: int = 1_000_000,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        if file_format == "parquet":
            _pyarrow()
            events_per_file = min(events_per_file, PARQUET_EVENTS_MAX)
        self._folder = local_path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._format = file_format
        self._events_per_file = events_per_file
        self._queue_max = queue_max
        self._queue: deque[Event | EntryPayload] = deque()
        self._payload_bytes = 0
        self._payload_file: IO[bytes] | None = None
        self._rows: list[Event] = []
        """The events of the current file; empty if the format is not Parquet."""
        self._dropped = 0
        self._written = 0
        _complete_parquet(self._folder)
        taken = (
            path.name.removeprefix("events-").partition(".")[0]
            for path in self._folder.iterdir()
            if path.name.startswith("events-")
        )
        self._number = max((int(number) for number in taken if number.isdecimal()), default=0)
        self._file: IO[str] | None = None
        self._path = self._folder
        self._in_file = 0
        self._error: OSError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ackwell-recorder", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, event: Event) -> None:
        """Add an event to the queue.

        The event is dropped if the queue is full, or if an earlier write failed.
        """
        if len(self._queue) >= self._queue_max or self._error is not None:
            self._dropped += 1
        else:
            self._queue.append(event)

    def keep_payload(self, topic: str, position: tuple[int, int], data: bytes) -> None:
        """Add the bytes of an entry to the queue.

        They are dropped if the queue is full, or if an earlier write failed.
        """
        if self._payload_bytes + len(data) <= PAYLOAD_BYTES_MAX and self._error is None:
            self._payload_bytes += len(data)
            self._queue.append(EntryPayload(topic, position, data))

    def close(self) -> None:
        """Write the queued events and close the file. Raises the `OSError` of an earlier failed write."""
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def written(self) -> int:
        """The number of written events."""
        return self._written

    @property
    def dropped(self) -> int:
        """The number of dropped events that are not yet counted in a gap event."""
        return self._dropped

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._drain()
                self._stopping.wait(_PAUSE_S)
            self._drain()
            self._end_file()
            if self._payload_file is not None:
                self._payload_file.close()
        except OSError as error:
            self._error = OSError(
                error.errno, f"{error.strerror}; nothing is recorded from now on", str(self._path)
            )
            log.error("%s", self._error)
            self._cut_torn_line()

    def _drain(self) -> None:
        unreported = self._dropped
        taken = [self._queue.popleft() for _ in range(len(self._queue))]
        batch = [each for each in taken if isinstance(each, Event)]
        payloads = [each for each in taken if isinstance(each, EntryPayload)]
        if unreported:
            self._dropped -= unreported
            batch.append(_dropped(unreported, batch))
        while batch:
            if self._file is None:
                self._begin_file()
            room = self._events_per_file - self._in_file
            part, batch = batch[:room], batch[room:]
            self._write_lines(part)
            self._in_file += len(part)
            self._written += len(part)
            if self._in_file >= self._events_per_file:
                self._end_file()
        if payloads:
            self._put_payloads(payloads)

    def _begin_file(self) -> None:
        self._number += 1
        self._path = self._folder / f"events-{self._number:06}.jsonl"
        self._in_file = 0
        self._file = self._path.open("x", encoding="utf-8")

    def _write_lines(self, events: list[Event]) -> None:
        assert self._file is not None
        self._file.write("".join(map(line, events)))
        self._file.flush()
        if self._format == "parquet":
            self._rows += events

    def _put_payloads(self, payloads: list[EntryPayload]) -> None:
        if self._payload_file is None:
            path = self._folder / f"{PREFIX}{self._number:06}.jsonl"
            self._payload_file = append_to(path)
        self._payload_file.write("".join(starmap(payload_line, payloads)).encode())
        self._payload_file.flush()
        self._payload_bytes -= sum(len(each.data) for each in payloads)

    def _write_parquet(self) -> None:
        """Replace the current file of JSON lines by a Parquet file.

        Before the Parquet file gets its final name, the file of JSON lines gets a name that begins with `_`.
        Readers ignore such names, so they never read the same events twice.
        """
        from ackwell.replay.table_schemas import EVENTS, arrow_schema

        arrow, parquet = _pyarrow()
        hidden = self._path.with_name(f"_{self._path.stem}{PARQUET_SUFFIX}")
        # A later run that records to the same folder numbers its events from 1 again. The column `file`
        # orders the events of different files.
        rows = [event._replace(file=self._path.stem)._asdict() for event in self._rows]
        self._rows = []
        parquet.write_table(
            arrow.Table.from_pylist(rows, schema=arrow_schema(EVENTS)), hidden, compression="zstd"
        )
        lines = self._path.rename(self._path.with_name(f"_{self._path.name}"))
        hidden.rename(self._path.with_suffix(PARQUET_SUFFIX))
        lines.unlink()

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line from the current file, so that the file can be replayed."""
        with suppress(OSError):
            if self._file is not None:
                data = self._path.read_bytes()
                with self._path.open("r+b") as file:
                    file.truncate(data.rfind(b"\n") + 1)

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            if self._rows:
                self._write_parquet()


def _complete_parquet(folder: Path) -> None:
    """Repair a folder in which a recording was killed while it replaced JSON lines by a Parquet file."""
    for hidden in folder.glob(f"_events-*{PARQUET_SUFFIX}"):
        if (folder / hidden.name[1:]).with_suffix(".jsonl").exists():
            # The Parquet file may be incomplete. The file of JSON lines has all its events.
            hidden.unlink()
        else:
            hidden.rename(folder / hidden.name[1:])
    for lines in folder.glob("_events-*.jsonl"):
        if (folder / lines.name[1:]).with_suffix(PARQUET_SUFFIX).exists():
            lines.unlink()


def _dropped(count: int, before: list[Event]) -> Event:
    sequence = before[-1].sequence if before else 0
    what = f"{count} events were dropped because writing was too slow"
    return Event("*", "", sequence, Kind.GAP, detail=what)


def _pyarrow() -> tuple[Any, Any]:
    require("pyarrow", "writing Parquet")
    import pyarrow
    import pyarrow.parquet

    return pyarrow, pyarrow.parquet
