"""Event files: rotation, counts, and the state after a full queue or disk."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ackwell.errors import AckwellError, EventError
from ackwell.recording.event_files import QUEUE_MAX, EventFiles
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.replay.traces import line

EVENT = Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)


def numbered(count: int) -> list[Event]:
    return [EVENT._replace(sequence=number + 1, entry_id=number) for number in range(count)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
@pytest.mark.parametrize(("count", "files"), [(0, 0), (1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (35, 4)])
def test_a_file_is_full_at_its_number_of_events(
    tmp_path: Path, file_format: Any, count: int, files: int
) -> None:
    if file_format == "parquet":
        pytest.importorskip("pyarrow")
    folder = tmp_path / "new" / "folder"
    with EventFiles(folder, file_format=file_format, events_per_file=10) as written:
        for event in numbered(count):
            written.write(event)
    assert names(folder) == [f"events-{number:06}.{file_format}" for number in range(1, files + 1)]
    assert (written.written, written.dropped) == (count, 0)
    if count:
        assert [event._replace(file=None) for event in read_events([folder])] == numbered(count)


def test_the_next_file_number_follows_the_greatest(tmp_path: Path) -> None:
    for name in ("events-000007.jsonl", "events-3.parquet", "events-x.jsonl", "payloads-000009.jsonl"):
        (tmp_path / name).touch()
    with EventFiles(tmp_path) as files:
        files.write(EVENT)
    assert "events-000008.jsonl" in names(tmp_path)
    assert len(names(tmp_path)) == 5


def test_events_beyond_the_queue_are_dropped_and_counted_in_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The writer thread begins when the test starts it.
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    files = EventFiles(tmp_path, queue_max=3)
    for event in numbered(5):
        files.write(event)
    assert files.dropped == 2
    files._stopping.set()
    files._run()
    assert (files.written, files.dropped) == (4, 0)
    *kept, gap = read_events([tmp_path])
    assert [event.sequence for event in kept] == [1, 2, 3]
    assert (gap.kind, gap.topic, gap.subscription, gap.sequence) == (Kind.GAP, "*", "", 3)
    assert gap.detail == "2 events were dropped because writing was too slow"
    assert QUEUE_MAX == 200_000
    # The queue is empty, so it has room again.
    files.write(EVENT)
    assert (files.dropped, len(files._queue)) == (0, 1)


@pytest.mark.parametrize("torn", [b"", b'{"topic"', b"\n"])
def test_a_file_that_cannot_be_written_is_left_with_whole_lines(
    tmp_path: Path, torn: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put = EventFiles._write_lines

    def full(self: EventFiles, events: list[Event]) -> None:
        put(self, events)
        with self._path.open("ab") as file:
            file.write(torn)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventFiles, "_write_lines", full)
    files = EventFiles(tmp_path)
    files.write(EVENT)
    files._thread.join(60)
    # Further events are counted but not kept.
    files.write(EVENT)
    files.write(EVENT)
    assert (files.dropped, len(files._queue)) == (2, 0)
    with pytest.raises(OSError, match="nothing is recorded from now on") as error:
        files.close()
    path = tmp_path / "events-000001.jsonl"
    assert (error.value.errno, error.value.filename) == (28, str(path))
    assert caplog.text.count("No space left on device") == 1
    assert path.read_text() == line(EVENT) + ("\n" if torn == b"\n" else "")


def test_a_line_omits_unset_fields_and_the_file() -> None:
    event = EVENT._replace(file="a.jsonl", ack_set=(5, -1), time_ms=0, detail="é")
    assert line(event) == (
        '{"topic":"t","subscription":"","sequence":1,"kind":"publish","time_ms":0,"ledger_id":3,"entry_id":0,'
        '"ack_set":[5,-1],"detail":"\\u00e9"}\n'
    )


def test_parquet_without_its_library_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises((AckwellError, ImportError), match="writing Parquet"):
        EventFiles(tmp_path / "folder", file_format="parquet")
    assert names(tmp_path) == []


def test_a_kill_while_lines_become_parquet_loses_no_event(tmp_path: Path) -> None:
    """A kill after each rename and each removal: the events are read once, or the file is named."""
    pytest.importorskip("pyarrow")
    whole = tmp_path / "whole"
    with EventFiles(whole, file_format="parquet") as files:
        files.write(EVENT)
    data = (whole / "events-000001.parquet").read_bytes()
    text = line(EVENT).encode()
    states = [
        {"events-000001.jsonl": text, "_events-000001.parquet": data[:100]},
        {"events-000001.jsonl": text, "_events-000001.parquet": data},
        {"_events-000001.jsonl": text, "_events-000001.parquet": data},
        {"_events-000001.jsonl": text, "events-000001.parquet": data},
    ]
    for number, state in enumerate(states):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in state.items():
            (folder / name).write_bytes(content)
        if number == 2:
            with pytest.raises(EventError, match=r"rename it to events-000001\.jsonl"):
                list(read_events([folder]))
        else:
            assert len(list(read_events([folder]))) == 1
        EventFiles(folder, file_format="parquet").close()
        assert len(list(read_events([folder]))) == 1
        assert len(list(folder.iterdir())) == 1
