"""A split of a Parquet file folds to what its events fold to, whatever is left unread of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.errors import EventError
from ackwell.replay.columns import fold_batches
from ackwell.replay.events import Event, Kind
from ackwell.replay.folded import Turns
from ackwell.spark.tasks.cursors import cursor_batches
from ackwell.spark.tasks.files import Split, fold_split, look_at
from ackwell.spark.tasks.reading import to_batches

NONE = Turns({}, {})


def written(events: list[Event], path: Path) -> Split:
    table = pa.Table.from_batches(to_batches(events))
    pq.write_table(table, path, row_group_size=7)
    return Split(path.as_uri(), 0, path.stat().st_size)


def history(names: int, *, batches: bool = False) -> list[Event]:
    sized: dict[str, Any] = {"batch_index": 1, "batch_size": 3} if batches else {}
    return [
        Event(f"topic-{entry % names}", "sub", entry, kind, ledger_id=3, entry_id=entry, **sized)
        for entry in range(50)
        for kind in (Kind.PUBLISH, Kind.ACK)
        if kind is Kind.PUBLISH or entry % 3
    ]


def cursors(partials: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    given = [part.append_column("directory", pa.nulls(part.num_rows)) for part in partials]
    return [row for batch in cursor_batches(given) for row in batch.to_pylist()]


@pytest.mark.parametrize("names", [1, 4])
@pytest.mark.parametrize("batches", [False, True])
def test_a_split_folds_to_what_its_events_do(tmp_path: Path, names: int, batches: bool) -> None:
    events = history(names, batches=batches)
    split = written(events, tmp_path / "events.parquet")
    expected = list(fold_batches(to_batches(events), NONE))
    assert [part.to_pylist() for part in fold_split(split, NONE)] == [part.to_pylist() for part in expected]
    rows = cursors(list(fold_split(split, NONE, ordered=False)))
    assert rows == cursors(expected)
    assert len(rows) == names


def test_many_names_are_grouped_as_few(tmp_path: Path) -> None:
    events = [
        Event(f"topic-{n % 300}", f"sub-{n % 299}", n, Kind.PUBLISH, ledger_id=3, entry_id=n)
        for n in range(5_000)
    ]
    (batch,) = to_batches(events)
    whole = cursors(list(fold_batches([batch], NONE)))
    assert whole == cursors(list(fold_batches((batch.slice(n, 10) for n in range(0, 5_000, 10)), NONE)))
    assert len(whole) == 5_000


def test_a_row_that_is_no_event_is_named_though_its_sequence_was_not_read(tmp_path: Path) -> None:
    events = history(1)
    split = written([*events, events[0]._replace(sequence=41, entry_id=-3)], tmp_path / "events.parquet")
    with pytest.raises(EventError, match="entry_id is negative") as refused:
        list(fold_split(split, NONE, ordered=False))
    assert refused.value.line == 41


def test_a_survey_tells_of_turns(tmp_path: Path) -> None:
    events = history(1)
    split = written(events, tmp_path / "plain.parquet")
    expected = {"path": split.path, "start": 0, "end": split.end, "turning": False}
    assert look_at(split.path).to_pylist() == [expected]
    seek = Event("topic-0", "sub", 99, Kind.SEEK, ledger_id=3, entry_id=1)
    split = written([*events, seek], tmp_path / "turning.parquet")
    assert [row["turning"] for row in look_at(split.path).to_pylist()] == [True]
