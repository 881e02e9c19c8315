"""Replay on Spark gives what local replay gives, whatever the strategy and however the input is cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell.replay.events import Event, Kind, read_events
from ackwell.replay.states import Replay
from ackwell.spark import collect_states, cursors, merge, partials, replay
from ackwell.spark.schema import EVENTS
from ackwell.spark.tasks.reading import to_batches
from ackwell.spark.tasks.rows import cursor_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACES = [
    Path("examples/traces", f"{name}.jsonl.gz")
    for name in ("batch_partial", "cumulative", "cumulative_batch", "key_shared_3c")
]
"""Individual, cumulative and batch-index acknowledgments; `make demo` runs them all."""
STRATEGIES = ("files", "words")

Rows = dict[tuple[str, str], dict[str, Any]]


def local_rows(events: Iterable[Event]) -> Rows:
    """The rows that the in-process engine gives."""
    fold = Replay()
    for event in events:
        fold.feed(event)
    return {(state.topic, state.subscription): cursor_row(state) for state in fold.states()}


def same(expected: Rows, found: Rows) -> None:
    """Compare column by column, so that a difference can be read."""
    assert expected
    assert sorted(expected) == sorted(found)
    for name, row in expected.items():
        differing = {c: (row[c], found[name][c]) for c in row if row[c] != found[name][c]}
        assert differing == {}, name
        assert sorted(row) == sorted(found[name])


def rows_of(table: DataFrame) -> Rows:
    return {
        (row["topic"], row["subscription"]): row.asDict()
        | {name: bytes(row[name]) for name in ("position_info", "compact")}
        for row in table.collect()
    }


def parquet_of(
    spark: SparkSession, events: list[Event], path: Path, *, files: int = 3, seed: int = 0
) -> DataFrame:
    """Events as Parquet: shuffled, in several files of small row groups, a tenth of them twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shuffled = events + events[::10]
    random.Random(seed).shuffle(shuffled)
    path.mkdir(parents=True)
    for number in range(files):
        part = shuffled[number::files]
        if part:
            table = pa.Table.from_batches(to_batches(part))
            pq.write_table(table, path / f"{number}.parquet", row_group_size=len(part) // 2 + 1)
    return spark.read.parquet(str(path))


@pytest.fixture(scope="module")
def trace_events() -> list[Event]:
    assert TRACES
    return list(read_events(TRACES))


@pytest.fixture(scope="module")
def trace_rows(trace_events: list[Event]) -> Rows:
    return local_rows(trace_events)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_trace_replays_to_the_local_rows(
    spark: SparkSession,
    trace_events: list[Event],
    trace_rows: Rows,
    tmp_path: Path,
    strategy: Any,
) -> None:
    events = parquet_of(spark, trace_events, tmp_path / "events")
    same(trace_rows, rows_of(replay(events, strategy=strategy)))


@pytest.mark.connect
def test_collected_states_are_those_of_local_replay(
    spark: SparkSession, trace_events: list[Event], trace_rows: Rows, tmp_path: Path
) -> None:
    events = parquet_of(spark, trace_events, tmp_path / "events")
    states = collect_states(replay(events))
    same(trace_rows, {(state.topic, state.subscription): cursor_row(state) for state in states})


@pytest.mark.connect
def test_traces_read_by_spark_are_the_events_read_locally(
    spark: SparkSession, trace_events: list[Event]
) -> None:
    from ackwell.spark import read_events as read_on_spark

    read = read_on_spark(spark, *map(str, TRACES))
    assert read.schema == EVENTS
    assert read.count() == len(trace_events) > 0
    files = {row.file for row in read.select("file").distinct().collect()}
    assert files == {str(path) for path in TRACES}


@pytest.mark.connect
def test_auto_takes_files_only_for_exactly_the_files(
    spark: SparkSession, trace_events: list[Event], tmp_path: Path
) -> None:
    from ackwell.spark.files import is_exactly_files

    events = parquet_of(spark, trace_events[:100], tmp_path / "events")
    assert is_exactly_files(events)
    assert is_exactly_files(spark.read.parquet(*events.inputFiles()))
    assert not is_exactly_files(events.where("sequence > 3"))
    assert not is_exactly_files(events.limit(3))
    assert not is_exactly_files(spark.createDataFrame([], EVENTS))


def random_history(seed: int) -> list[Event]:  # noqa: C901 (a die with many faces)
    """A short life of one subscription: everything that can happen to it, in order."""
    draw = random.Random(seed)
    name = f"topic-{seed // 2}", f"sub-{seed % 2}"
    file = draw.choice([None, "b"])
    batch = draw.random() < 0.5
    entries = {ledger: draw.randint(1, 6) for ledger in draw.sample(range(3, 20), 3)}
    published: list[tuple[int, int]] = []
    todo = [(ledger, entry) for ledger in sorted(entries) for entry in range(entries[ledger])]
    events: list[Event] = []

    def happen(kind: Kind, **fields: Any) -> None:
        at = (2**60 if seed == 7 else 0) + len(events)
        events.append(Event(*name, at, kind, file=file, **fields))

    while todo or draw.random() < 0.9:
        if todo and (not published or draw.random() < 0.4):
            ledger, entry = todo.pop(0)
            published.append((ledger, entry))
            size = 70 if batch and entry % 2 else None
            for index in range(size or 1):
                happen(
                    Kind.PUBLISH,
                    ledger_id=ledger,
                    entry_id=entry,
                    batch_index=index if size else None,
                    batch_size=draw.choice([None, size]) if size else None,
                )
            continue
        ledger, entry = draw.choice(published)
        at: dict[str, Any] = {"ledger_id": ledger, "entry_id": entry}
        if batch and entry % 2 and draw.random() < 0.8:
            at |= draw.choice(
                [
                    {"batch_index": draw.randrange(70)},
                    {"batch_index": draw.randrange(70), "batch_size": 70},
                    {"ack_set": (draw.getrandbits(63), draw.getrandbits(6))},
                    {"ack_set": (-draw.getrandbits(63),)},
                    {"ack_set": (0,)},
                    {"ack_set": ()},
                ]
            )
        roll = draw.random()
        if roll < 0.8:
            happen(Kind.ACK, **at)
        elif roll < 0.9:
            happen(Kind.ACK_CUMULATIVE, **at)
        elif roll < 0.93:
            happen(Kind.SEEK, ledger_id=ledger, entry_id=entry)
        elif roll < 0.95:
            happen(Kind.CLEAR_BACKLOG, **draw.choice([{}, {"ledger_id": ledger, "entry_id": entry}]))
        elif roll < 0.97:
            detail = f'{{"acknowledgmentAtBatchIndexLevelEnabled": {draw.choice(["true", "false"])}}}'
            happen(Kind.META, detail=detail)
        else:
            happen(Kind.CONSUMER_OPEN, consumer="c", detail="Shared")
    return events


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_histories_with_seeks_and_batches_replay_to_the_local_rows(
    spark: SparkSession, tmp_path: Path, strategy: Any
) -> None:
    events = [event for seed in range(200) for event in random_history(seed)]
    kinds = {event.kind for event in events}
    assert {Kind.SEEK, Kind.CLEAR_BACKLOG, Kind.META, Kind.ACK_CUMULATIVE} <= kinds
    expected = local_rows(events)
    table = parquet_of(spark, events, tmp_path / "events")
    same(expected, rows_of(replay(table, strategy=strategy)))


@pytest.mark.connect
def test_partials_of_yesterday_and_today_make_the_cursors_of_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    # A cleared backlog must come with what was published before it.
    events = [
        event for seed in range(100) for event in random_history(seed) if event.kind is not Kind.CLEAR_BACKLOG
    ]
    early = [event for event in events if event.sequence % 2**60 < 60]
    late = [event for event in events if event.sequence % 2**60 >= 60]
    assert early
    assert late
    halves = [
        partials(parquet_of(spark, half, tmp_path / name))
        for half, name in ((early, "early"), (late, "late"))
    ]
    expected = local_rows(events)
    same(expected, rows_of(cursors(halves[0].unionByName(halves[1]))))
    same(expected, rows_of(cursors(merge(*halves, halves[0]))))
