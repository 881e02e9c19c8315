"""Every command that reads events reads every layout, and names a bad event in each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.devbroker.loading import read as load
from ackwell.errors import AckwellError, EventError
from ackwell.replay.checking import check_events
from ackwell.replay.events import Event, Kind, event_from_fields
from ackwell.replay.files import read_events
from ackwell.replay.history_check import check_history
from ackwell.replay.states import replay_files
from ackwell.rescue.acks import read_acks
from tests.commands import ackwell
from tests.replay import layouts

TOPIC = "t"


def deliveries() -> list[Event]:
    """Return a history with one violation: the second message overtakes the first."""
    common = {"topic": TOPIC, "subscription": "s", "ledger_id": 3}
    found: list[dict[str, Any]] = [{"kind": Kind.CONSUMER_OPEN, "detail": "Key_Shared", "ledger_id": None}]
    found += [{"kind": Kind.PUBLISH, "entry_id": number, "key": f"k{number // 2}"} for number in range(12)]
    for entry_id in (0, 1):
        found.append({"kind": Kind.DISPATCH, "entry_id": entry_id, "consumer": "a", "redelivery_count": 0})
        found.append(
            {"kind": Kind.NACK if entry_id == 0 else Kind.ACK, "entry_id": entry_id, "consumer": "a"}
        )
    return [
        event_from_fields(common | each | {"sequence": number, "time_ms": 1_000 * number})
        for number, each in enumerate(found, start=1)
    ]


def with_column(name: str, change: Callable[[pa.Table], pa.Array]) -> layouts.Layout:
    def write(events: list[Event], folder: Path) -> None:
        table = layouts.table_of(events)
        index = table.schema.get_field_index(name)
        pq.write_table(table.set_column(index, name, change(table)), folder / "part-0.parquet")

    return write


def renamed(events: list[Event], folder: Path) -> None:
    table = layouts.table_of(events)
    names = ["Kind" if name == "kind" else name for name in table.schema.names]
    pq.write_table(table.rename_columns(names), folder / "part-0.parquet")


def shuffled(events: list[Event], folder: Path) -> None:
    layouts.parquet(events[::-1], folder)


def no_sequence(events: list[Event], folder: Path) -> None:
    pq.write_table(layouts.table_of(events).drop_columns(["sequence"]), folder / "part-0.parquet")


LAYOUTS = (
    layouts.PARQUET
    | layouts.LINES
    | {
        "column_kind": renamed,
        "shuffled": shuffled,
        "no_sequence": no_sequence,
        "timestamps": with_column("time_ms", lambda table: table.column("time_ms").cast(pa.timestamp("ms"))),
        "timestamps_us": with_column(
            "time_ms",
            lambda table: table.column("time_ms").cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC")),
        ),
        "doubles": with_column("entry_id", lambda table: table.column("entry_id").cast(pa.float64())),
    }
)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_every_reader_reads_every_layout(tmp_path: Path, layout: str) -> None:
    events = deliveries()
    LAYOUTS[layout](events, tmp_path)
    found = [event._replace(file=None) for event in read_events([tmp_path])]
    assert found == [
        event._replace(sequence=number) if layout == "no_sequence" else event
        for number, event in enumerate(events, start=1)
    ]
    (violation,) = check_history(read_events([tmp_path]))
    assert str(violation.other) == "3:0"
    assert check_events([tmp_path]) == []
    (state,) = replay_files([tmp_path])
    assert state.cursor.is_acked(3, 1)
    assert read_acks(tmp_path, TOPIC, "s").individually_deleted == state.cursor.individually_deleted
    loaded = load([tmp_path]).topics["persistent://public/default/t"]
    assert loaded.cursors["s"].info.individually_deleted == state.cursor.individually_deleted


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_every_layout_names_the_bad_event_and_not_its_columns(tmp_path: Path, layout: str) -> None:
    """An acknowledgment of a position that no event published."""
    events = [*deliveries(), Event(TOPIC, "s", 99, Kind.ACK, 99_000, "a", ledger_id=3, entry_id=77)]
    LAYOUTS[layout](events, tmp_path)
    refused = ackwell("replay", str(tmp_path))
    assert refused.code == 1
    assert "3:77" in refused.err
    assert "unknown event kind" not in refused.err
    with pytest.raises(AckwellError, match="3:77"):
        replay_files([tmp_path])


@pytest.mark.parametrize("name", ["ledger_id", "batch_index", "batch_size"])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_a_constant_column_beyond_int64_is_named(tmp_path: Path, name: str, value: int) -> None:
    with_column(name, lambda table: pa.array([value] * table.num_rows, pa.uint64()))(deliveries(), tmp_path)
    for command in ("replay", "history"):
        refused = ackwell(command, str(tmp_path))
        assert refused.code == 1
        assert f"{name} contains a value that is not a 64-bit integer" in refused.err


@pytest.mark.parametrize("value", ["x", "9223372036854775808", "1.5", ""])
def test_a_folder_that_names_no_integer_is_refused(tmp_path: Path, value: str) -> None:
    folder = tmp_path / f"ledger_id={value}"
    folder.mkdir()
    pq.write_table(layouts.table_of(deliveries()).drop_columns(["ledger_id"]), folder / "part-0.parquet")
    for command in ("replay", "history"):
        refused = ackwell(command, str(tmp_path))
        assert refused.code == 1
        assert "ledger_id contains a value that is not a 64-bit integer" in refused.err


def test_integers_are_names_in_every_command(tmp_path: Path) -> None:
    """A table of numbered topics has integers as names."""
    events = [event._replace(topic="5") for event in deliveries()]
    with_column("topic", lambda table: pa.array([5] * table.num_rows))(events, tmp_path)
    assert {event.topic for event in read_events([tmp_path])} == {"5"}
    assert [state.topic for state in replay_files([tmp_path])] == ["5"]


@pytest.mark.parametrize("name", ["consumer", "key", "detail", "time_ms", "redelivery_count"])
def test_a_column_of_a_wrong_type_is_refused_by_history_and_named(tmp_path: Path, name: str) -> None:
    with_column(name, lambda table: pa.array([{"a": 1}] * table.num_rows))(deliveries(), tmp_path)
    with pytest.raises(AckwellError, match=f"column '{name}' is struct"):
        list(read_events([tmp_path]))


def test_the_runs_of_a_recorder_into_one_folder_follow_each_other(tmp_path: Path) -> None:
    """Each run numbers its events from 1. The second one begins with a seek."""
    from ackwell.recording.event_files import EventFiles

    runs = [[Kind.PUBLISH, Kind.ACK], [Kind.SEEK, Kind.PUBLISH]]
    for kinds in runs:
        with EventFiles(tmp_path, file_format="parquet") as files:
            for sequence, kind in enumerate(kinds, start=1):
                files.write(Event("t", "s", sequence, kind, ledger_id=3, entry_id=0))
    assert [event.kind for event in read_events([tmp_path])] == [*runs[0], *runs[1]]
    (state,) = replay_files([tmp_path])
    assert not state.cursor.is_acked(3, 0)


def test_a_bad_event_is_located_in_its_file_and_row(tmp_path: Path) -> None:
    events = deliveries()
    pq.write_table(layouts.table_of(events[1::2]), tmp_path / "a.parquet")
    table = layouts.table_of(events[::2])
    kinds = table.column("kind").to_pylist()
    kinds[2] = "odd"
    index = table.schema.get_field_index("kind")
    pq.write_table(table.set_column(index, "kind", pa.array(kinds)), tmp_path / "b.parquet")
    with pytest.raises(EventError, match="'odd'") as found:
        list(read_events([tmp_path]))
    assert (found.value.file, found.value.line) == (str(tmp_path / "b.parquet"), 3)


DOCUMENTED = {
    "JSON lines": {"json_lines", "zipped_lines", "zstandard_lines"},
    "Parquet": {"parquet", "small_row_groups", "delta_byte_array", "dictionaries_as_deltas"},
    "an empty file": {"empty_file"},
    "names of columns": {"upper_case", "column_kind"},
    "optional columns are missing": {"no_optional_columns", "evolved", "null_subscriptions"},
    "columns in the path": {"by_kind", "by_topic", "by_size", "by_subscription", "by_day"},
    "narrow or unsigned integers": {"narrow_integers", "doubles"},
    "`time_ms`": {"timestamps", "timestamps_us"},
    "rows in any order": {"shuffled", "small_row_groups"},
    "`sequence` is missing": {"no_sequence"},
}


@pytest.mark.checkout
def test_the_manual_lists_the_tested_layouts() -> None:
    text = (Path(__file__).parents[2] / "docs/events.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", text.partition("## Layouts")[2].partition("\n## ")[0], re.MULTILINE)
    _head, *listed = (row for row in rows if row != "---")
    assert len(listed) == len(DOCUMENTED)
    assert all(row.startswith(begin) for row, begin in zip(listed, DOCUMENTED, strict=True))
    assert set().union(*DOCUMENTED.values()) == LAYOUTS.keys()
