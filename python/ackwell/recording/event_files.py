"""Files of events that rotate: JSON lines, or Parquet where PyArrow is there.

Events go through a bounded queue to a thread that writes. Where the disk is too slow for it, events are
dropped and counted, and a `gap` says how many; traffic never waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ackwell.extras import require
from ackwell.replay.events import Event, Kind
from ackwell.replay.traces import line

if TYPE_CHECKING:
    from typing import Self

Format = Literal["jsonl", "parquet"]

QUEUE_MAX: Final = 200_000
"""Events that may wait to be written: tens of MB."""

_PAUSE_S: Final = 0.05

log = logging.getLogger("ackwell.recording")


class EventFiles:
    """A folder of event files, each of at most so many events; `events-000001.jsonl` is the first."""

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
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._format = file_format
        self._events_per_file = events_per_file
        self._queue_max = queue_max
        self._queue: deque[Event] = deque()
        self._dropped = 0
        self._written = 0
        taken = (
            path.name.removeprefix("events-").partition(".")[0] for path in self._folder.glob("events-*")
        )
        self._number = max((int(number) for number in taken if number.isdecimal()), default=0)
        self._file: Any = None
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
        """Let an event be written; it is dropped where too many wait, or the disk failed."""
        if len(self._queue) >= self._queue_max or self._error is not None:
            self._dropped += 1
        else:
            self._queue.append(event)

    def close(self) -> None:
        """Write what waits, and close the file. Raises the `OSError` that writing ended with."""
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def written(self) -> int:
        """Events that were written."""
        return self._written

    @property
    def dropped(self) -> int:
        """Events that were not."""
        return self._dropped

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._drain()
                self._stopping.wait(_PAUSE_S)
            self._drain()
            self._end_file()
        except OSError as error:
            self._error = OSError(
                error.errno, f"{error.strerror}; nothing is recorded from now on", str(self._path)
            )
            log.error("%s", self._error)
            self._cut_torn_line()

    def _drain(self) -> None:
        told = self._dropped
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        if told:
            self._dropped -= told
            batch.append(_dropped(told, batch))
        while batch:
            if self._file is None:
                self._begin_file()
            room = self._events_per_file - self._in_file
            part, batch = batch[:room], batch[room:]
            self._put(part)
            self._in_file += len(part)
            self._written += len(part)
            if self._in_file >= self._events_per_file:
                self._end_file()

    def _begin_file(self) -> None:
        self._number += 1
        path = self._path = self._folder / f"events-{self._number:06}.{self._format}"
        self._in_file = 0
        if self._format == "jsonl":
            self._file = path.open("x", encoding="utf-8")
        else:
            arrow, parquet = _pyarrow()
            self._file = parquet.ParquetWriter(path, _schema(arrow), compression="zstd")

    def _put(self, events: list[Event]) -> None:
        if self._format == "jsonl":
            self._file.write("".join(line(event) for event in events))
            self._file.flush()
        else:
            arrow, _ = _pyarrow()
            rows = [event._asdict() for event in events]
            self._file.write_table(arrow.Table.from_pylist(rows, schema=_schema(arrow)))

    def _cut_torn_line(self) -> None:
        """Leave only whole lines in the file, so that it can be replayed."""
        with suppress(OSError):
            if self._file is not None and self._format == "jsonl":
                data = self._path.read_bytes()
                with self._path.open("r+b") as file:
                    file.truncate(data.rfind(b"\n") + 1)

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _dropped(count: int, before: list[Event]) -> Event:
    sequence = before[-1].sequence if before else 0
    what = f"{count} events were dropped, because writing them was too slow"
    return Event("*", "", sequence, Kind.GAP, detail=what)


def _schema(arrow: Any) -> Any:
    from ackwell.replay.tables import EVENTS

    types = {"string": arrow.string(), "bigint": arrow.int64(), "array<bigint>": arrow.list_(arrow.int64())}
    return arrow.schema([(column.name, types[column.type]) for column in EVENTS])


def _pyarrow() -> tuple[Any, Any]:
    require("pyarrow", "writing Parquet")
    import pyarrow
    import pyarrow.parquet

    return pyarrow, pyarrow.parquet
