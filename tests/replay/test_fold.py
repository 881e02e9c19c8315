"""The fold of split, shuffled, repeated and merged events equals the oracle of plain sets."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ackwell.errors import CorruptStateError, EventError, NewerVersionError
from ackwell.replay import states
from ackwell.replay.columns import BatchReader, cursor_batches, fold_batches, merge_rows, partial_batches
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import _limited
from ackwell.replay.fold import Fold
from ackwell.replay.in_order import OrderedFold
from ackwell.replay.resets import Resets, find_resets
from ackwell.replay.states import Replay
from ackwell.replay.table_schemas import EVENTS, arrow_schema
from tests.replay import layouts
from tests.replay.cases import CASES
from tests.replay.histories import random_history
from tests.replay.oracle import found_row, truths

Rows = dict[tuple[str, str], dict[str, Any]]


def resets_of(events: Sequence[Event]) -> Resets:
    return find_resets(lambda: [columns_of(events)])


def rows_of(fold: Fold) -> Rows:
    rows = [row for batch in cursor_batches(fold) for row in batch.to_pylist()]
    return {(row["topic"], row["subscription"]): row for row in rows}


def folded(events: Sequence[Event], resets: Resets | None = None, *, ordered: bool = True) -> Fold:
    fold = Fold(resets_of(events) if resets is None else resets, ordered=ordered)
    if events:
        fold.feed(columns_of(events))
    return fold


def merged(folds: Iterable[Fold]) -> Fold:
    whole = Fold()
    for fold in folds:
        for batch in partial_batches(fold):
            merge_rows(whole, batch)
    return whole


def same_as_truth(events: Sequence[Event], rows: Rows) -> None:
    expected = {name: truth.to_row() for name, truth in truths(events).items()}
    assert sorted(expected) == sorted(rows)
    for name, row in rows.items():
        assert expected[name] == found_row(row), (name, row["error"])


@pytest.mark.parametrize("name", CASES)
def test_what_was_once_wrong_folds_to_the_truth(name: str) -> None:
    events = CASES[name]
    same_as_truth(events, rows_of(folded(events)))
    same_as_truth(events, rows_of(folded(events, ordered=False)))


def test_an_entry_without_an_id_is_not_the_last_one_before_a_cleared_backlog() -> None:
    """The fold, which sees every event, reports the missing id."""
    for ledger_id, entry_id in ((None, 5), (3, None)):
        events = [
            Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=4),
            Event("t", "s", 2, Kind.PUBLISH, ledger_id=ledger_id, entry_id=entry_id),
            Event("t", "s", 3, Kind.CLEAR_BACKLOG),
        ]
        assert resets_of(events).clears == resets_of([events[0], events[2]]).clears != {}
        (row,) = rows_of(folded(events)).values()
        assert "without" in row["error"] or "no " in row["error"]


@pytest.mark.slow
@pytest.mark.parametrize("by_topic", [False, True])
def test_random_histories_fold_to_the_truth(by_topic: bool) -> None:
    seeds = range(400)
    kinds = set()
    for seed in seeds:
        events = random_history(seed, by_topic=by_topic)
        kinds |= {event.kind for event in events}
        same_as_truth(events, rows_of(folded(events)))
        same_as_truth(events, rows_of(folded(events, ordered=False)))
    assert {Kind.SEEK, Kind.CLEAR_BACKLOG, Kind.META, Kind.TRIM, Kind.COMMIT, Kind.SKIP} <= kinds


@pytest.mark.parametrize("by_topic", [False, True])
def test_fed_one_by_one_in_order_they_lead_to_the_truth(
    by_topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for waiting, seeds in ((3, range(20)), (40, range(20, 60)), (4_096, range(60, 160))):
        monkeypatch.setattr(states, "_WAITING_MAX", waiting)
        for seed in seeds:
            events = random_history(seed, by_topic=by_topic)
            replay = Replay()
            for event in events:
                replay.feed(event)
            same_as_truth(events, rows_of(replay.fold))


@pytest.mark.slow
@pytest.mark.parametrize("by_topic", [False, True])
def test_shuffled_repeated_and_merged_they_fold_to_the_same(by_topic: bool) -> None:
    for seed in range(0, 400, 4):
        draw = random.Random(seed)
        events = [
            event for near in range(seed, seed + 4) for event in random_history(near, by_topic=by_topic)
        ]
        resets = resets_of(events)
        again = events + draw.sample(events, len(events) // 3)
        draw.shuffle(again)
        assert resets_of(again) == resets
        parts = [folded(again[number::3], resets) for number in range(3)]
        draw.shuffle(parts)
        rows = rows_of(merged([*parts, parts[0]]))
        same_as_truth(events, rows)
        assert rows == rows_of(folded(events)), seed


def states_of(events: Sequence[Event]) -> list[tuple[int | None, bytes]]:
    rows = pa.Table.from_batches(partial_batches(folded(events))).to_pylist()
    assert rows
    return [(row["ledger_id"], row["state"]) for row in rows]


def decoded(ledger_id: int | None, state: bytes) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(
        [{"topic": "t", "subscription": "s", "ledger_id": ledger_id, "state": state}],
        schema=pa.schema(
            [
                ("topic", pa.string()),
                ("subscription", pa.string()),
                ("ledger_id", pa.int64()),
                ("state", pa.binary()),
            ]
        ),
    )
    fold = Fold()
    merge_rows(fold, batch)
    return [row for each in partial_batches(fold) for row in each.to_pylist()]


def test_the_bytes_of_partials_come_back_as_they_were() -> None:
    for ledger_id, state in states_of(random_history(3)):
        assert [(row["ledger_id"], row["state"]) for row in decoded(ledger_id, state)] == [(ledger_id, state)]


@pytest.mark.parametrize("ledger_id", [-1, -(2**63) + 1])
def test_a_partial_of_a_ledger_that_cannot_be_is_refused_and_nothing_is_joined(ledger_id: int) -> None:
    (_, state), *_ = [each for each in states_of(random_history(3)) if each[0] is not None]
    with pytest.raises(CorruptStateError, match=f"ledger {ledger_id}"):
        decoded(ledger_id, state)


def test_no_flipped_bit_and_no_torn_end_of_a_partial_is_read() -> None:
    for ledger_id, state in states_of(random_history(3)):
        for bit in range(8 * len(state)):
            flipped = bytearray(state)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptStateError):
                decoded(ledger_id, bytes(flipped))
        for end in range(len(state)):
            with pytest.raises(CorruptStateError):
                decoded(ledger_id, state[:end])


def test_a_partial_of_a_newer_version_is_refused_by_name() -> None:
    import zlib

    ledger_id, state = states_of(random_history(3))[0]
    body = state[:4] + bytes([state[4] + 1]) + state[5:-4]
    newer = body + zlib.crc32(body).to_bytes(4, "little")
    with pytest.raises(NewerVersionError, match=f"version {state[4] + 1}, newer than {state[4]}"):
        decoded(ledger_id, newer)


def event(sequence: int, kind: Kind, subscription: str = "s", **fields: Any) -> Event:
    return Event("t", subscription, sequence, kind, **fields)


def test_a_bad_subscription_has_an_error_and_the_others_go_on() -> None:
    good = [event(1, Kind.PUBLISH, "good", ledger_id=3, entry_id=0)]
    bad = [event(1, Kind.PUBLISH, "bad", ledger_id=3, entry_id=0)]
    for wrong, message in (
        ({"ledger_id": -3, "entry_id": 0}, "sequence 2: a negative"),
        ({"ledger_id": None, "entry_id": 0}, "sequence 2: no position"),
        ({"ledger_id": 3, "entry_id": 8}, "3:8, which was never published"),
        ({"ledger_id": 3, "entry_id": 0, "batch_index": 4}, "no event says how many"),
        ({"ledger_id": 3, "entry_id": 0, "batch_index": 4, "batch_size": 3}, "which holds 3 messages"),
        ({"ledger_id": 3, "entry_id": 0, "batch_index": 10**9}, "beyond the largest batch"),
        ({"ledger_id": 3, "entry_id": 0, "batch_size": 10**9}, "beyond the largest batch"),
    ):
        rows = rows_of(folded([*good, *bad, event(2, Kind.ACK, "bad", **wrong)], resets=Resets({}, {})))
        assert message in rows["t", "bad"]["error"]
        assert rows["t", "bad"]["backlog_entries"] is None
        assert (rows["t", "good"]["error"], rows["t", "good"]["backlog_entries"]) == (None, 1)


def test_a_recording_that_begins_in_the_middle_says_what_it_can() -> None:
    events = [
        event(1, Kind.ACK, ledger_id=2, entry_id=4),
        event(2, Kind.ACK, ledger_id=2, entry_id=5, batch_index=1),
        event(3, Kind.PUBLISH, ledger_id=3, entry_id=7),
        event(4, Kind.ACK, ledger_id=3, entry_id=6),
    ]
    rows = rows_of(folded(events))
    same_as_truth(events, rows)
    assert dict(rows["t", "s"]["ledgers"]) == {2: 6, 3: 8}
    assert rows["t", "s"]["individually_deleted"] == "[(2:3..2:4],(3:5..3:6]]"


def test_a_deleted_subscription_has_no_row_until_it_is_made_again() -> None:
    events = [
        event(1, Kind.PUBLISH, "", ledger_id=3, entry_id=0),
        event(2, Kind.ACK, ledger_id=3, entry_id=0),
        event(3, Kind.UNSUBSCRIBE),
    ]
    assert rows_of(folded(events)) == {}
    again = [*events, event(4, Kind.SEEK, ledger_id=3, entry_id=0, detail="made")]
    same_as_truth(again, rows_of(folded(again)))
    assert rows_of(folded(again))["t", "s"]["backlog_entries"] == 1


def test_an_event_that_is_none_is_raised_at_once_where_that_was_asked_for() -> None:
    def batch(**fields: Any) -> pa.RecordBatch:
        row = {"topic": "t", "kind": "ack", "sequence": 1, "ledger_id": 3, "entry_id": 0}
        return pa.RecordBatch.from_pylist([row | fields], schema=arrow_schema(EVENTS))

    negative = batch(subscription="s", entry_id=-3)
    with pytest.raises(EventError, match="negative"):
        list(fold_batches([negative], strict=True))
    # Otherwise it is the error of its subscription. Without a subscription the fold must raise it.
    assert list(fold_batches([negative]))
    for strict in (False, True):
        with pytest.raises(EventError, match="no subscription"):
            list(fold_batches([batch()], strict=strict))


def test_a_replay_raises_an_event_that_is_none_before_it_gives_the_fold() -> None:
    replay = Replay()
    replay.feed(event(1, Kind.PUBLISH, "s", ledger_id=3, entry_id=0))
    replay.feed(event(2, Kind.ACK, "s", ledger_id=3, entry_id=0, batch_index=10**9))
    with pytest.raises(EventError, match="largest batch"):
        _ = replay.fold


def test_an_ack_set_with_null_is_refused() -> None:
    row = {"topic": "t", "subscription": "s", "kind": "ack", "sequence": 1, "ledger_id": 3, "entry_id": 0}
    batch = pa.RecordBatch.from_pylist([row | {"ack_set": [1, None]}], schema=arrow_schema(EVENTS))
    with pytest.raises(EventError, match="null"):
        list(fold_batches([batch]))


def test_a_seek_to_no_entry_resets_nothing() -> None:
    assert not resets_of([event(1, Kind.SEEK, "s", ledger_id=3, entry_id=-1)]).seeks
    assert resets_of([event(1, Kind.SEEK, "s", ledger_id=3, entry_id=0)]).seeks


@pytest.mark.parametrize("at", range(8))
def test_the_first_events_are_counted_over_all_batches(at: int) -> None:
    events = [event(number, Kind.PUBLISH, "s", ledger_id=3, entry_id=number) for number in range(6)]
    batches = [columns_of(events[number : number + 2]) for number in range(0, 6, 2)]
    taken = [batch.row(row) for batch in _limited(iter(batches), at) for row in range(len(batch.ledger_ids))]
    assert [row["entry_id"] for row in taken] == list(range(min(at, 6)))


def test_the_first_rows_of_columns_are_the_columns_of_the_first_events() -> None:
    for seed in range(12):
        events = random_history(seed)
        columns = columns_of(events)
        for rows in range(0, len(events) + 1, 5):
            few, expected = columns.head(rows), columns_of(events[:rows])
            assert [few.row(row) for row in range(len(few.ledger_ids))] == [
                expected.row(row) for row in range(rows)
            ]
            assert few.settings == expected.settings
            Fold().feed(few)


@pytest.mark.parametrize("encoded", [True, False])
def test_a_fold_of_parquet_imports_no_pandas(encoded: bool, tmp_path: Path) -> None:
    """The import of pandas takes 60 MB and a second: twice a fold of twenty million events."""
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    events = [
        Event("t", "", 0, Kind.PUBLISH, **at, batch_size=3),
        Event("t", "s", 1, Kind.META, detail="{}"),
        Event("t", "s", 2, Kind.ACK, **at, batch_index=1),
        Event("t", "s", 3, Kind.ACK, **at, ack_set=(5,)),
        Event("t", "s", 4, Kind.ACK, **at, batch_index=0, transaction="1"),
        Event("t", "s", 5, Kind.COMMIT, transaction="1"),
        Event("t", "u", 6, Kind.UNSUBSCRIBE),
    ]
    layouts.parquet(events, tmp_path, use_dictionary=encoded)
    code = (
        "import sys; from ackwell.replay.columns import cursor_batches; "
        "from ackwell.replay.files import fold_files; "
        f"print(sum(batch.num_rows for batch in cursor_batches(fold_files([{str(tmp_path)!r}]))), "
        "'pandas' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows, has_pandas = told.stdout.split()
    assert int(rows) > 0
    assert has_pandas == "False"


def test_what_was_dispatched_or_received_exists() -> None:
    for shown in (Kind.PUBLISH, Kind.DISPATCH, Kind.RECEIVE):
        clear = Event("t", "s", 9, Kind.CLEAR_BACKLOG)
        shown_late = Event("t", "s", 1, shown, ledger_id=3, entry_id=4)
        assert resets_of([shown_late, clear]).clears == {("t", "s"): (("", 9), (3, 4))}
        events = [
            Event("t", "s", 1, shown, ledger_id=3, entry_id=4),
            Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=0),
        ]
        (row,) = rows_of(folded(events)).values()
        assert (row["error"], dict(row["ledgers"])) == (None, {3: 5})


@pytest.mark.parametrize("sought", [4, 7])
def test_a_seek_that_comes_late_voids_what_was_before_it_where_resets_are_not_known(sought: int) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(4)]
    events += [
        Event("t", "s", 5, Kind.ACK, ledger_id=3, entry_id=0),
        Event("t", "s", 6, Kind.ACK, ledger_id=3, entry_id=2),
    ]
    seek = Event("t", "s", sought, Kind.SEEK, ledger_id=3, entry_id=0)
    fold = Fold(ordered=False)
    for part in (events, [seek]):
        fold.feed(columns_of(part))
    same_as_truth([*events, seek], rows_of(fold))


def test_settings_are_those_of_the_last_file_and_need_none() -> None:
    def meta(file: str | None, sequence: int, batch_index_acks: bool) -> Event:
        detail = json.dumps({"batchIndexAcks": batch_index_acks})
        return event(sequence, Kind.META, detail=detail)._replace(file=file)

    published = event(1, Kind.PUBLISH, ledger_id=3, entry_id=0)
    for metas, expected in (
        ([meta("a", 9, False), meta("b", 1, True)], True),
        ([meta("b", 1, False), meta("a", 9, True)], False),
    ):
        for parts in ([metas], [[one] for one in metas]):
            fold = Fold()
            for part in ([published], *parts):
                fold.feed(columns_of(part))
            assert [each["batchIndexAcks"] for each in fold.settings()[0].values()] == [expected]
    fold = Fold()
    fold.feed(columns_of([published, meta(None, 2, True)])._replace(files=None))
    assert [each["batchIndexAcks"] for each in fold.settings()[0].values()] == [True]


def test_an_event_that_is_none_is_said_wherever_a_backlog_is_cleared() -> None:
    good = event(1, Kind.PUBLISH, ledger_id=3, entry_id=0)
    clear, bad = event(2, Kind.CLEAR_BACKLOG), event(3, Kind.ACK, ledger_id=3, entry_id=-3)
    for events, flawed in (
        ([good, clear], False),
        ([good, bad, clear, good], True),
        ([good, clear, good, bad], True),
        ([bad, good, clear], True),
    ):
        assert OrderedFold().feed(columns_of(events)) is flawed


def test_what_waits_for_its_commit_is_looked_at_at_the_end_and_waits_on() -> None:
    published = event(1, Kind.PUBLISH, ledger_id=3, entry_id=0)
    no_event = Fold(whole=True)
    assert not no_event.feed(columns_of([published, event(2, Kind.ACK, transaction="1:2")]))
    assert no_event.end()
    fold = Fold(whole=True)
    assert not fold.feed(
        columns_of([published, event(2, Kind.ACK, ledger_id=3, entry_id=0, transaction="1:2")])
    )
    for sequence, backlog_entries in ((3, 1), (4, 0)):
        assert not fold.end()
        assert rows_of(fold)["t", "s"]["backlog_entries"] == backlog_entries
        fold.feed(columns_of([event(sequence, Kind.COMMIT, transaction="1:2")]))


def test_an_error_of_an_absorbed_fold_names_its_own_file() -> None:
    one, other = Fold(), Fold()
    one.feed(columns_of([Event("t", "r", 1, Kind.ACK, ledger_id=3, entry_id=0, file="a")]))
    other.feed(columns_of([Event("t", "s", 1, Kind.ACK, file="z")]))
    one.absorb(other)
    with pytest.raises(EventError, match="no position") as error:
        one.raise_flaw()
    assert error.value.file == "z"


def test_acknowledgments_that_a_seek_voids_are_not_before_a_later_seek() -> None:
    """A fold that does not know the seeks in advance keeps the order of the acknowledgments that count."""

    def plain(kind: str, sequences: list[int]) -> pa.RecordBatch:
        """Return rows of one ledger without a column of batches, which the fold takes together."""
        names = {"topic": "t", "subscription": "s", "kind": kind, "ledger_id": 3}
        columns = {name: [value] * len(sequences) for name, value in names.items()}
        return pa.RecordBatch.from_pydict(columns | {"sequence": sequences, "entry_id": sequences})

    void, later = list(range(1, 400)), list(range(600, 1_000))
    fold, reader = Fold(), BatchReader()
    for batch in (plain("seek", [500]), plain("ack", void), plain("ack", later), plain("seek", [550])):
        fold.feed(reader.columns(batch))
    fold.raise_flaw()


@pytest.mark.parametrize(("index", "error"), [(-5, "negative"), (1 << 40, "largest batch")])
def test_a_wrong_batch_index_in_a_run_of_rows_is_an_error(index: int, error: str) -> None:
    first = Event("t", "s", 0, Kind.ACK, ledger_id=3, entry_id=0, batch_index=0, batch_size=2)
    rows = [first._replace(sequence=number, entry_id=number) for number in range(400)]
    rows[50] = rows[50]._replace(batch_index=index)
    fold = Fold()
    fold.feed(columns_of(rows))
    with pytest.raises(EventError, match=error):
        fold.raise_flaw()


@pytest.mark.parametrize("entries", [2, 4, 5, 6, 60])
def test_batches_far_apart_in_a_ledger_keep_their_acknowledgments(entries: int) -> None:
    """The acknowledgments of a batch are joined even if those of distant batches are between them."""
    places = [17 * number for number in range(entries)]
    published = [
        Event("t", "s", number, Kind.PUBLISH, ledger_id=3, entry_id=entry_id, batch_size=3)
        for number, entry_id in enumerate(places)
    ]
    acked = [
        Event(
            "t", "s", 100 + 60 * index + number, Kind.ACK, ledger_id=3, entry_id=entry_id, batch_index=index
        )
        for index in (0, 2, 1)
        for number, entry_id in enumerate(places)
        if index != 1 or number % 2
    ]
    for ordered in (True, False):
        same_as_truth(published + acked, rows_of(folded(published + acked, ordered=ordered)))


@pytest.mark.parametrize("size_max", [63, 64, 100, 127, 128, 1_000])
def test_an_ack_set_in_a_run_of_rows_has_the_words_of_the_largest_batch_at_most(
    size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackwell.replay.fold.BATCH_SIZE_MAX", size_max)
    words_max = size_max // 64
    rows = [
        Event("t", "s", number, Kind.ACK, ledger_id=3, entry_id=number, ack_set=(1,) * words_max)
        for number in range(40)
    ]
    fold = Fold()
    fold.feed(columns_of(rows))
    fold.raise_flaw()
    rows[20] = rows[20]._replace(ack_set=(1,) * (words_max + 1))
    fold = Fold()
    fold.feed(columns_of(rows))
    with pytest.raises(EventError, match="largest batch"):
        fold.raise_flaw()
