"""`replay_events` on tables, and `check_events` on files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell.errors import EventError, ProtocolError, SchemaError
from ackwell.replay.checking import check_events
from ackwell.replay.local import replay_events
from ackwell.replay.table_schemas import CURSORS
from tests.commands import ackwell

# The tests of an installed wheel run without pandas and Polars.
pd = pytest.importorskip("pandas")
TRACES = Path(__file__).parents[2] / "examples" / "traces"
EVENTS = pd.DataFrame(
    {
        "topic": "t",
        "subscription": "s",
        "sequence": [1, 2, 3, 4],
        "kind": ["publish", "ack", "ack", "ack"],
        "ledger_id": 1,
        "entry_id": [9, 0, 2, 3],
        "batch_index": [None, None, None, 1],
        "batch_size": [None, None, None, 2],
    }
)
AS_TABLES = {
    "pandas": EVENTS,
    "pandas with categories": EVENTS.astype({"topic": "category", "kind": "category"}),
    "Arrow": pa.Table.from_pandas(EVENTS),
}
with suppress(ModuleNotFoundError):
    import polars as pl

    AS_TABLES |= {
        "Polars": pl.from_pandas(EVENTS),
        "Polars with categories": pl.from_pandas(EVENTS).with_columns(pl.col("kind").cast(pl.Categorical)),
    }


@pytest.mark.parametrize("table", AS_TABLES.values(), ids=AS_TABLES)
def test_a_table_of_any_kind_is_replayed(table: Any) -> None:
    (row,) = replay_events(table).to_pylist()
    assert (row["individually_deleted"], row["batch_deleted"]) == ("[(1:1..1:2]]", [("1:3", [1])])
    assert row["error"] is None


def test_files_and_their_table_give_the_same_rows(tmp_path: Path) -> None:
    seek = EVENTS.iloc[:1].assign(sequence=5, kind="seek", entry_id=2)
    events = pd.concat([EVENTS, seek])
    events.to_parquet(tmp_path / "events.parquet")
    table = replay_events(events)
    assert table.equals(replay_events(tmp_path))
    assert table.equals(replay_events([str(tmp_path)], threads=2))
    assert table.column("individually_deleted").to_pylist() == ["[]"]
    assert table.column_names == [column.name for column in CURSORS]


def test_a_bad_subscription_is_a_row_and_with_strict_an_error() -> None:
    bad = EVENTS.assign(kind="nonsense")
    assert replay_events(bad).column("error").to_pylist() == ["sequence 1: unknown event kind"]
    with pytest.raises(ProtocolError, match="t, s: sequence 1"):
        replay_events(bad, strict=True)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (5, TypeError, "int is neither paths nor a table"),
        (EVENTS.drop(columns="kind"), SchemaError, "column 'kind' is missing"),
        (EVENTS.drop(columns="sequence"), SchemaError, "column 'sequence' is missing"),
        (EVENTS.assign(entry_id="a"), SchemaError, "column 'entry_id' is (large_)?string, expected bigint"),
        (EVENTS.assign(topic=None), EventError, "topic is null"),
        (
            EVENTS.assign(batch_index=0.5),
            EventError,
            "batch_index contains a value that is not a 64-bit integer",
        ),
        (
            pa.Table.from_pandas(EVENTS).append_column(
                "ack_set", pa.array([[2**64 - 1]] * 4, pa.list_(pa.uint64()))
            ),
            EventError,
            "ack_set contains a value that is not a 64-bit integer",
        ),
    ],
)
def test_what_is_not_a_table_of_events_is_refused(table: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replay_events(table)


def test_every_file_that_can_be_replayed_has_no_problem(tmp_path: Path) -> None:
    EVENTS.to_parquet(tmp_path / "events.parquet")
    # The lists are empty, so the type of their values is unknown.
    empty = EVENTS.assign(topic="u", ack_set=[[]] * len(EVENTS))
    empty.to_parquet(tmp_path / "empty.parquet")
    assert check_events([TRACES, tmp_path]) == []
    typed = pa.array(empty["ack_set"], pa.list_(pa.int64()))
    table = pa.Table.from_pandas(empty.drop(columns="ack_set")).append_column("ack_set", typed)
    assert replay_events(empty).equals(replay_events(table))
    assert ackwell("events", "check", str(tmp_path)).code == 0


def test_each_column_has_its_problem_and_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    # The unit that pandas chooses depends on its version.
    time = pd.to_datetime([1, 2, 3, 4], unit="s").as_unit("ns")
    events = EVENTS.assign(sequence=time, time_ms=time, entry_id="9").rename(
        columns={"ledger_id": "ledgerId"}
    )
    table = pa.Table.from_pandas(events.drop(columns="kind")).append_column("TOPIC", pa.nulls(4))
    pq.write_table(table, path, version="2.6")
    found = {problem.column: (problem.problem, problem.remedy) for problem in check_events([path])}
    assert found.keys() == {"topic", "sequence", "kind", "time_ms", "ledger_id", "entry_id"}
    assert found["topic"] == ("several columns differ in case only", "keep one of them")
    assert found["sequence"][0] == "is timestamp[ns], expected int64"
    assert found["kind"] == ("is missing", "add it: the kind: ackwell.replay.events.Kind")
    assert found["time_ms"] == (
        "is timestamp[ns]",
        'Spark does not read it: write it with coerce_timestamps="ms"',
    )
    assert found["ledger_id"] == ("is missing", "rename 'ledgerId' to it")
    assert found["entry_id"][0] in ("is string, expected int64", "is large_string, expected int64")
    assert found["entry_id"][1] == "cast it to int64"


def test_rows_and_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    EVENTS.assign(subscription=["a", "a", "b", "b"], kind=["publish", "ack", "ack", "nonsense"]).to_parquet(
        path
    )
    (problem,) = check_events([path])
    assert problem.source == "t, b"
    done = ackwell("events", "check", str(path))
    assert (done.code, done.out.splitlines()[0]) == (3, f"t, b: {problem.problem}")
    assert done.out.count("t, b") == 1
    path.write_bytes(b"PAR1 and no more")
    (problem,) = check_events([path])
    assert (problem.source, problem.remedy) == (str(path), "write the file again")
