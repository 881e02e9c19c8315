"""Local replay of any files, in one fold and without Spark, equals the oracle of plain sets."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackwell import AckwellError, SchemaError
from ackwell.broker.stats import read_each
from ackwell.devbroker import loading
from ackwell.errors import EventError
from ackwell.recording.event_files import EventFiles
from ackwell.replay import parquet
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import fold_files, path_columns, read_events
from ackwell.replay.fold import Fold
from ackwell.replay.local import replay_events
from ackwell.replay.parquet import ParquetEvents
from ackwell.replay.states import SubscriptionState, replay_files
from ackwell.replay.traces import line
from ackwell.rescue.acks import read_acks
from ackwell.rescue.audit import AuditFile
from ackwell.rescue.snapshot import read_snapshots
from ackwell.store import SqliteStore
from tests.replay import layouts
from tests.replay.histories import random_history
from tests.replay.test_fold import folded, merged, resets_of, rows_of, same_as_truth

LAYOUTS = layouts.PARQUET | layouts.LINES
ODD_NAMES = (
    "é",
    "día=1",
    "日本",
    "a b",
    "100%",
    "%41",
    "[x]",
    "{y}",
    "a:b",
    "a+b",
    "a#b",
    "a?b",
    "a&b;c",
    "'",
    "e\u0301",
)


def histories(count: int) -> list[Event]:
    """The events are in one file, because lines order a trace."""
    found = []
    for seed in range(count):
        if seed != 7:
            found += random_history(seed, by_topic=bool(seed // 2 % 2))
    return [event._replace(file=None, sequence=n) for n, event in enumerate(found)]


@pytest.mark.slow
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_every_layout_folds_to_the_truth(layout: str, tmp_path: Path) -> None:
    events = histories(40)
    LAYOUTS[layout](events, tmp_path)
    same_as_truth(events, rows_of(fold_files([tmp_path])))


@pytest.mark.slow
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_every_layout_without_seeks_and_batches_folds_to_the_truth(layout: str, tmp_path: Path) -> None:
    """No event needs an order, so the lean fold reads no sequence."""
    kinds = (Kind.PUBLISH, Kind.ACK, Kind.ACK_CUMULATIVE, Kind.CONSUMER_OPEN)
    events = [
        event._replace(batch_index=None, batch_size=None, ack_set=None, transaction=None)
        for event in histories(40)
        if event.kind in kinds
    ]
    LAYOUTS[layout](events, tmp_path)
    same_as_truth(events, rows_of(fold_files([tmp_path])))


SIZES = ((70,), (1,), (2, 3), (10,), (63, 64, 65), (128, 129), (1_000, 7), (5, 300, 64), (4_096,))


def of_any_size(seed: int) -> list[Event]:
    """Return histories of one to four subscriptions with batches of 1 to 4,096 messages."""
    draw = random.Random(seed)
    sizes, by_topic = draw.choice(SIZES), draw.random() < 0.5
    lives = range(draw.randint(1, 4))
    # Take one history for each topic. Events of two would have the same sequences.
    found = [
        event
        for life in lives
        for event in random_history(20 * seed + 2 * life + (seed + life) % 2, by_topic=by_topic, sizes=sizes)
    ]
    return [event._replace(file=None, sequence=number) for number, event in enumerate(found)]


def in_any_layout(seed: int, place: Path) -> None:
    events = of_any_size(seed)
    shuffled = random.Random(seed).sample(events, len(events))
    resets = resets_of(events)
    same_as_truth(events, rows_of(folded(events)))
    same_as_truth(events, rows_of(folded(shuffled, ordered=False)))
    parts = [folded(shuffled[part::3], resets, ordered=False) for part in range(3)]
    same_as_truth(events, rows_of(merged(parts)))
    place.mkdir()
    LAYOUTS[sorted(LAYOUTS)[seed % len(LAYOUTS)]](events, place)
    same_as_truth(events, rows_of(fold_files([place], threads=1 + seed % 2)))


@pytest.mark.slow
def test_batches_of_any_size_fold_to_the_truth(tmp_path: Path) -> None:
    for seed in range(len(LAYOUTS)):
        in_any_layout(seed, tmp_path / str(seed))


@pytest.mark.proof
@pytest.mark.parametrize("block", range(20))
def test_many_batches_of_any_size_fold_to_the_truth(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + 100 * block, 1_100 + 100 * block):
        in_any_layout(seed, tmp_path / str(seed))


def test_json_lines_beside_parquet_are_both_read(tmp_path: Path) -> None:
    events = histories(20)
    layouts.parquet(events[::2], tmp_path)
    layouts.json_lines(events[1::2], tmp_path)
    events = [
        event._replace(file=str(tmp_path / "events.jsonl") if number % 2 else None)
        for number, event in enumerate(events)
    ]
    same_as_truth(events, rows_of(fold_files([tmp_path])))


def answers(states: Sequence[SubscriptionState]) -> list[dict[str, object]]:
    return [state.to_json() for state in states]


def test_yesterdays_states_and_todays_events_are_those_of_both(tmp_path: Path) -> None:
    kinds = (Kind.PUBLISH, Kind.ACK, Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.DISPATCH)
    for seed in range(60):
        events = [e._replace(file=None, transaction=None) for e in random_history(seed) if e.kind in kinds]
        half = len(events) // 2
        layout = layouts.parquet if seed % 2 else layouts.json_lines
        folders = [tmp_path / f"{seed}-{name}" for name in ("both", "early", "late")]
        for folder, part in zip(folders, (events, events[:half], events[half:]), strict=True):
            folder.mkdir()
            layout(part, folder)
        early = replay_files([folders[1]])
        whole = answers(replay_files([folders[0]]))
        if any(state.batch_sizes for state in early):
            # A cursor does not include the batch sizes.
            continue
        assert whole == answers(replay_files([folders[2]], start_from=early)), seed


def test_a_row_that_is_no_event_is_named_though_its_sequence_was_not_read(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(20)]
    layouts.parquet([*events, events[0]._replace(sequence=41, entry_id=-3)], tmp_path)
    with pytest.raises(EventError, match="a negative ledger id") as refused:
        replay_files([tmp_path])
    # The error names the file and the row's position in it; the event keeps its sequence.
    assert (Path(str(refused.value.file)).parent, refused.value.line) == (tmp_path, 21)


@pytest.mark.parametrize("threads", [1, 2])
def test_of_several_bad_files_the_first_is_named(tmp_path: Path, threads: int) -> None:
    """Whether a row, a line or a whole file is bad."""
    good = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(9)]
    folders = [tmp_path / name for name in "abcd"]
    for folder, write in zip(
        folders, (layouts.parquet, layouts.parquet, layouts.json_lines, layouts.parquet), strict=True
    ):
        folder.mkdir()
        bad = folder.name == "b"
        write([*good[:6], good[6]._replace(batch_index=10**9 if bad else None), *good[7:]], folder)
    paths = [next(folder.iterdir()) for folder in folders]
    paths[2].write_bytes(b"{" + paths[2].read_bytes())
    paths[3].write_bytes(paths[3].read_bytes()[:-9])
    with pytest.raises(EventError, match="beyond the largest batch") as refused:
        replay_files([tmp_path], threads=threads)
    assert (refused.value.file, refused.value.line) == (str(paths[1]), 7)
    with pytest.raises(EventError, match="not JSON") as refused:
        replay_files(paths[:1] + paths[2:], threads=threads)
    assert (refused.value.file, refused.value.line) == (str(paths[2]), 1)


def test_a_topic_that_is_no_text_is_named_with_its_file(tmp_path: Path) -> None:
    layouts.parquet(
        [Event("some-topic", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(3)], tmp_path
    )
    (path,) = tmp_path.iterdir()
    table = pq.read_table(path)
    topics = pa.array([b"some-topic", b"\xff\xfe", b"some-topic"]).view(pa.string())
    table = table.set_column(table.schema.get_field_index("topic"), "topic", topics)
    pq.write_table(table, path, use_dictionary=False)
    with pytest.raises(EventError, match=r"\.parquet: unreadable") as refused:
        replay_files([tmp_path])
    assert refused.value.file == str(path)


@pytest.mark.slow
def test_an_interrupt_ends_a_replay_on_several_threads_once_their_jobs_are_done(tmp_path: Path) -> None:
    """Files that no thread has started to read stay unread."""
    for number in range(300):
        folder = tmp_path / f"{number:03}"
        folder.mkdir()
        layouts.json_lines([Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=number)], folder)
    script = """
import os, signal, sys, time
from ackwell.replay.states import replay_files
# A process that a shell starts in the background inherits an ignored SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
seen = []
def on_file(path):
    seen.append(path)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    if len(seen) >= 3:
        time.sleep(0.02)
try:
    replay_files([sys.argv[1]], threads=2, on_file=on_file)
except KeyboardInterrupt:
    print(len(seen))
"""
    run = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert 3 <= int(run.stdout) < 300


def test_a_file_without_a_needed_column_is_refused_by_name(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = layouts.table_of([Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)])
    pq.write_table(table.drop_columns(["entry_id"]), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"a\.parquet: column 'entry_id' is missing"):
        replay_files([tmp_path])
    pq.write_table(table.set_column(4, "kind", table.column("sequence")), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"differ in case only|expected string"):
        replay_files([tmp_path])
    with pytest.raises(SchemaError, match="'topic' and 'Topic' differ in case only"):
        replay_events(table.append_column("Topic", table.column("topic")))


def test_a_file_that_was_read_is_closed(tmp_path: Path) -> None:
    layouts.parquet([Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0)], tmp_path)
    (path,) = tmp_path.iterdir()
    with ParquetEvents(str(path)) as events:
        assert not events._source.closed
    assert events._source.closed


def test_a_cut_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    layouts.parquet(histories(3), tmp_path)
    path = tmp_path / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(EventError, match=r"part-0\.parquet: unreadable"):
        replay_files([tmp_path])


@pytest.mark.parametrize("seek_first", [True, False])
def test_a_seek_in_any_file_of_several_is_known_to_all(seek_first: bool, tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n, file="a") for n in range(4)]
    events += [
        Event("t", "s", 4, Kind.ACK, ledger_id=3, entry_id=2, file="a"),
        Event("t", "s", 5, Kind.SEEK, ledger_id=3, entry_id=1, file="a"),
        Event("t", "s", 6, Kind.ACK, ledger_id=3, entry_id=3, file="a"),
    ]
    parts = [events[5:], events[:5]] if seek_first else [events[:5], events[5:]]
    for number, part in enumerate(parts):
        folder = tmp_path / str(number)
        folder.mkdir()
        layouts.parquet(part, folder)
    (state,) = replay_files([tmp_path])
    assert state.to_json()["individuallyDeletedMessages"] == "[(3:2..3:3]]"


def test_rows_without_a_sequence_are_in_the_order_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a file that is read in many batches."""
    monkeypatch.setattr(parquet, "_SLICE_VALUES_OF_ONE", 12)
    kinds = [Kind.PUBLISH] * 8 + [Kind.ACK] * 4 + [Kind.SEEK] + [Kind.ACK] * 2
    entries = [*range(8), 4, 5, 6, 7, 1, 3, 5]
    events = [
        Event("t", "s", number, kind, ledger_id=3, entry_id=entry_id)
        for number, (kind, entry_id) in enumerate(zip(kinds, entries, strict=True))
    ]
    pq.write_table(layouts.table_of(events).drop_columns(["sequence", "file"]), tmp_path / "a.parquet")
    (state,) = replay_files([tmp_path])
    assert state.to_json()["markDeletePosition"] == "3:0"
    assert state.to_json()["individuallyDeletedMessages"] == "[(3:2..3:3],(3:4..3:5]]"


def test_a_null_among_equal_names_is_not_that_name(tmp_path: Path) -> None:
    events = [
        Event("t", "", 1, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("t", "", 2, Kind.PUBLISH, ledger_id=3, entry_id=1),
        Event("t", "", 3, Kind.PUBLISH, ledger_id=3, entry_id=2),
        Event("t", "s", 4, Kind.ACK, ledger_id=3, entry_id=0),
        Event("t", "u", 5, Kind.ACK, ledger_id=3, entry_id=1),
    ]
    table = layouts.table_of(events)
    index = table.schema.get_field_index("subscription")
    names = [event.subscription or None for event in events]
    pq.write_table(
        table.set_column(index, "subscription", pa.array(names)), tmp_path / "a.parquet", row_group_size=4
    )
    found = {each.subscription: each.cursor.backlog_entries for each in replay_files([tmp_path])}
    assert found == {"s": 2, "u": 2}


def test_the_kind_may_be_in_the_path_alone(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(4)]
    events += [
        Event("t", "s", 7, Kind.SEEK, ledger_id=3, entry_id=1),
        Event("t", "s", 5, Kind.ACK, ledger_id=3, entry_id=2),
        Event("t", "s", 9, Kind.ACK, ledger_id=3, entry_id=3),
    ]
    for kind in (Kind.PUBLISH, Kind.SEEK, Kind.ACK):
        folder = tmp_path / f"kind={kind.value}"
        folder.mkdir()
        table = layouts.table_of([event for event in events if event.kind is kind])
        pq.write_table(table.drop_columns(["kind"]), folder / "a.parquet")
    (state,) = replay_files([tmp_path])
    assert state.to_json()["individuallyDeletedMessages"] == "[(3:2..3:3]]"


def test_a_row_that_is_no_event_is_said_whichever_row_group_has_it(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(4)]
    events[0] = events[0]._replace(entry_id=-3)
    layouts.parquet(events, tmp_path, row_group_size=2)
    group = parquet.RowGroups(str(tmp_path / "part-0.parquet"), (0, 1))
    assert parquet.fold_row_groups(Fold(), [group])
    assert not parquet.fold_row_groups(Fold(), [group._replace(indexes=(1,))])


@pytest.mark.parametrize("sequences", [[1, None], [None, 1], [None, None]])
def test_a_null_among_the_sequences_is_refused_by_the_fold_and_by_the_reader(
    sequences: list[int | None], tmp_path: Path
) -> None:
    table = layouts.table_of([Event("t", "s", n, Kind.ACK, ledger_id=3, entry_id=n) for n in range(2)])
    index = table.schema.get_field_index("sequence")
    pq.write_table(
        table.set_column(index, "sequence", pa.array(sequences, pa.int64())), tmp_path / "a.parquet"
    )
    for read in (replay_files, read_events):
        with pytest.raises(EventError, match="no sequence") as error:
            list(read([tmp_path / "a.parquet"]))
        assert error.value.line == 1 + sequences.index(None)


def test_events_and_lines_are_counted_as_they_come(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(7)]
    layouts.json_lines(events, tmp_path)
    (state,) = replay_files([tmp_path], at=5)
    assert state.cursor.backlog_entries == 5
    path = tmp_path / "b.jsonl"
    path.write_text('\n{"ev": "meta", "topic": "t", "sub": "s"}\n\n{"ev": "ack", "l": -1, "e": 0}\n')
    with pytest.raises(EventError) as refused:
        replay_files([path])
    assert refused.value.line == 4


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_path_is_read_as_hadoop_prints_it_whatever_its_letters(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    layouts.parquet(histories(1), tmp_path / name)
    (file,) = (tmp_path / name).glob("*.parquet")
    # Java quotes the characters that URIs forbid, but not non-ASCII letters.
    letters = [each if each.isalnum() or each in "/:@&=+$,;-_.!~*'()" else quote(each) for each in str(file)]
    for path in (str(file), "file:" + "".join(letters), "file://" + "".join(letters)):
        with ParquetEvents(path) as events:
            assert events.survey().group_bytes


def test_a_parquet_column_of_times_or_of_bytes_that_are_no_text_is_an_error_of_ours(tmp_path: Path) -> None:
    columns = {
        "topic": pa.array(["t", "t"]),
        "subscription": pa.array(["s", "s"]),
        "sequence": pa.array([0, 1]),
        "kind": pa.array(["publish", "ack"]),
        "ledger_id": pa.array([3, 3]),
        "entry_id": pa.array([0, 0]),
    }
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes())
    no_text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe\xff\xfe")])
    times = pa.array([0, 1], pa.timestamp("us"))
    for name, column in (("sequence", times), ("topic", no_text), ("subscription", no_text)):
        pq.write_table(pa.table(columns | {name: column}), tmp_path / "events.parquet")
        with pytest.raises(AckwellError, match=r"sequence|UTF-8"):
            replay_files([tmp_path / "events.parquet"])


def test_without_statistics_the_order_of_a_seek_is_read_everywhere(tmp_path: Path) -> None:
    events = [Event(f"t{n % 2}", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n // 2) for n in range(12)]
    events += [
        Event("t0", "s", 20, Kind.ACK, ledger_id=3, entry_id=1),
        Event("t0", "s", 21, Kind.SEEK, ledger_id=3, entry_id=1),
        Event("t1", "s", 22, Kind.ACK, ledger_id=3, entry_id=1),
    ]
    for statistics in (True, False):
        layouts.parquet(events, tmp_path, row_group_size=5, write_statistics=statistics)
        same_as_truth(events, rows_of(fold_files([tmp_path])))


def test_a_sequence_is_read_of_the_row_groups_alone_that_may_name_an_ordered_topic(tmp_path: Path) -> None:
    events = [Event(topic, "s", n, Kind.ACK, ledger_id=3, entry_id=n) for n, topic in enumerate("aabbcc")]

    def have_sequences(*ordered: str) -> list[bool]:
        with ParquetEvents(str(tmp_path / "part-0.parquet")) as file:
            found = file.columns(lean=True, ordered=ordered)
            return [columns.sequences is not None for columns in found]

    layouts.parquet(events, tmp_path, row_group_size=2)
    assert have_sequences() == [False, False, False]
    assert have_sequences("b") == [False, True, False]
    assert have_sequences("aa", "c") == [False, False, True]
    # Unknown bounds can include any topic.
    layouts.parquet(events, tmp_path, row_group_size=2, write_statistics=["sequence"])
    assert have_sequences("b") == [True, True, True]


def test_the_bytes_of_a_row_group_are_of_the_columns_that_a_lean_fold_reads(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.ACK, ledger_id=3, entry_id=n) for n in range(40)]
    table = layouts.table_of(events)
    sizes = []
    for name, without in (("all", []), ("few", ["sequence"])):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table.drop_columns(without), path)
        with ParquetEvents(str(path), {} if not without else {"sequence": "0"}) as file:
            sizes.append(file.survey().group_bytes)
    assert sizes[0] == sizes[1]


class Watched(ParquetEvents):
    """Events that record the number of values that each read requests at a time."""

    requested: ClassVar[list[int]] = []

    def batches(
        self, groups: Iterable[int] | None, names: list[str], *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        self.requested.append(rows * len(names))
        return super().batches(groups, names, rows=rows)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which `Watched` adds."""
    values: list[int] = []
    monkeypatch.setattr(Watched, "requested", values)
    return values


@pytest.mark.parametrize(
    ("names", "has_dictionary", "slice_values"),
    [(1, True, 1_200), (2, True, 2_400), (800, True, 4_800), (800, False, 2_400)],
)
def test_a_slice_is_larger_if_a_dictionary_shows_many_names(
    names: int,
    has_dictionary: bool,
    slice_values: int,
    requested: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet, "_SLICE_VALUES_OF_ONE", 1_200)
    monkeypatch.setattr(parquet, "_SLICE_VALUES", 2_400)
    monkeypatch.setattr(parquet, "_SLICE_VALUES_OF_MANY", 4_800)
    events = [Event("t", f"s{n % names}", n, Kind.ACK, ledger_id=3, entry_id=n) for n in range(800)]
    layouts.parquet(events, tmp_path, use_dictionary=has_dictionary)
    with Watched(str(tmp_path / "part-0.parquet")) as file:
        assert sum(len(columns.ledger_ids) for columns in file.columns()) == 800
    assert requested == [slice_values]


@pytest.mark.parametrize("column", [b"topic", b"subscription"])
def test_a_row_group_whose_footer_names_a_column_in_another_way_is_read(
    column: bytes, tmp_path: Path
) -> None:
    """PyArrow reads columns by their number. Only the statistics of the column are unknown."""
    names = [{"topic": f"t{n % 3}", "subscription": f"s{n % 3}"} for n in range(30)]
    rows = [
        {**each, "sequence": n, "kind": "ack", "ledger_id": 3, "entry_id": n} for n, each in enumerate(names)
    ]
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file, store_schema=False)
    before, _, after = file.read_bytes().rpartition(column)
    file.write_bytes(before + column[:-1] + b"_" + after)
    assert len(replay_files([file])) == 3


def test_kinds_are_found_in_slices_and_dictionaries_only_in_one_row(
    requested: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [Event("t", "s", n, Kind.ACK if n else Kind.SEEK, ledger_id=3, entry_id=n) for n in range(9)]
    monkeypatch.setattr(parquet, "_SLICE_VALUES", 4)
    for encoded in (True, False):
        layouts.parquet(events, tmp_path, use_dictionary=encoded, store_schema=False)
        with Watched(str(tmp_path / "part-0.parquet")) as file:
            assert file.kinds() == {"seek", "ack"}
            assert file.kinds(dictionaries_only=True) == ({"seek", "ack"} if encoded else {"seek"})
    assert requested == [4, 1] * 2


def test_a_column_in_the_path_is_named_before_the_equals_sign() -> None:
    assert path_columns(Path("Topic=a%2Fb/kind=ack/region=x/sequence/part-0.parquet")) == {
        "topic": "a/b",
        "kind": "ack",
    }
    assert path_columns(Path("subscription=__HIVE_DEFAULT_PARTITION__/file=x")) == {"subscription": None}


@pytest.mark.parametrize("read", [read_events, replay_files, read_each, read_snapshots])
def test_another_value_than_a_list_of_paths_is_refused(read: Callable[[Any], Iterable[object]]) -> None:
    for one in ("/nowhere.jsonl", Path("/nowhere.jsonl")):
        with pytest.raises(TypeError, match=r"one path, .*expected a list of paths: \['/nowhere.jsonl'\]"):
            list(read(one))
    for kind, other in (("dict", {"file": "/nowhere.jsonl"}), ("bytes", b"/nowhere"), ("int", 5)):
        with pytest.raises(TypeError, match=f"a value of type {kind}; expected a list of paths"):
            list(read(other))


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").touch()
    calls: Sequence[Callable[[], object]] = (
        lambda: list(read_events([""])),
        lambda: replay_files([""]),
        lambda: read_acks("", "t", "s"),
        lambda: EventFiles(""),
        lambda: SqliteStore(""),
        lambda: loading.read([""], now_ms=0),
        lambda: AuditFile(""),
    )
    for call in calls:
        with pytest.raises(FileNotFoundError, match=r"^the path is empty"):
            call()
    for read in (read_each, read_snapshots):
        assert list(read([""])) == [
            ("", None, "cannot be read: the path is empty; '.' is the current folder")
        ]
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


def test_an_error_in_the_files_of_an_iterator_has_its_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    publish, ack = (
        line(Event("t", "s", sequence, kind, ledger_id=3, entry_id=entry))
        for sequence, kind, entry in ((1, Kind.PUBLISH, 0), (2, Kind.ACK, 7))
    )
    for second, reason in ((ack, "acknowledgment of 3:7"), ("{}\n", "unknown event kind None")):
        file.write_text(publish + second)
        with pytest.raises(EventError, match=f"a.jsonl, line 2: {reason}"):
            replay_files(iter([file]))
