"""The state does not depend on the files, the order or the repetition of events."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ackwell import Cursor, EventError, Ledgers
from ackwell.broker.stats import parse_stats
from ackwell.errors import Flaw, ProtocolError
from ackwell.replay.columns import cursor_batches
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import EFFECTS, Event, Kind
from ackwell.replay.files import read_events
from ackwell.replay.fold import Fold
from ackwell.replay.resets import NO_RESETS
from ackwell.replay.states import Replay, SubscriptionState, replay_files, state_of_row
from tests import reference
from tests.replay import layouts

TRACES = Path(__file__).parents[2] / "examples" / "traces"
SMALL = TRACES / "shared_small_holes.jsonl"
LINES = SMALL.read_text(encoding="utf-8").splitlines(keepends=True)


def state_of(*files: Path, **options: int) -> dict[str, object]:
    (state,) = replay_files(files, **options)  # type: ignore[arg-type]
    return state.to_json()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_a_trace_leads_to_its_state() -> None:
    state = state_of(SMALL)
    assert state["markDeletePosition"] == "45:-1"
    assert str(state["individuallyDeletedMessages"]).startswith("[(45:0..45:2],(45:3..45:5],")
    assert state["backlogEntries"] == 20


def test_at_stops_after_so_many_events() -> None:
    acks = [line for line, text in enumerate(LINES, start=1) if '"ev":"ack"' in text]
    before, after = state_of(SMALL, at=acks[0] - 1), state_of(SMALL, at=acks[0])
    assert before["backlogEntries"] == 60
    assert after["backlogEntries"] == 59
    assert state_of(SMALL, at=len(LINES)) == state_of(SMALL)


def test_shuffled_events_lead_to_the_same_state(tmp_path: Path) -> None:
    shuffled = LINES[1:]
    random.Random(7).shuffle(shuffled)
    assert state_of(write(tmp_path / "a.jsonl", LINES[:1] + shuffled)) == state_of(SMALL)


def test_duplicated_lines_lead_to_the_same_state(tmp_path: Path) -> None:
    doubled = [line for line in LINES for _ in range(2)]
    assert state_of(write(tmp_path / "a.jsonl", doubled)) == state_of(SMALL)


def test_events_split_over_files_in_any_order_lead_to_the_same_state(tmp_path: Path) -> None:
    late = write(tmp_path / "a.jsonl", LINES[:1] + LINES[90:])
    early = write(tmp_path / "b.jsonl", LINES[:90])
    assert state_of(late, early) == state_of(early, late) == state_of(SMALL)


def test_the_reference_engine_leads_to_the_same_state() -> None:
    trace = TRACES / "batch_partial.jsonl.gz"
    native, plain = replay_files([trace]), Replay(engine=reference)
    for each in read_events([trace]):
        plain.feed(each)
    assert [state.to_json() for state in native] == [state.to_json() for state in plain.states()]
    assert native[0].cursor.batch_deleted


def test_an_ack_of_what_was_never_published_names_its_line(tmp_path: Path) -> None:
    ack = json.dumps({"t": 1, "ev": "ack", "c": "c0", "l": 45, "e": 60}) + "\n"
    path = write(tmp_path / "a.jsonl", [*LINES, ack])
    with pytest.raises(EventError, match="45:60, which no event published") as refused:
        replay_files([path])
    assert (refused.value.file, refused.value.line) == (str(path), len(LINES) + 1)
    assert refused.value.position == (45, 60)


def test_an_error_carries_what_its_message_says() -> None:
    replay = Replay()
    for each in (PUBLISHED[0], event(2, Kind.ACK, 1, 7)):
        replay.feed(each)
    with pytest.raises(ProtocolError) as refused:
        replay.states()
    assert (refused.value.subscription, refused.value.position) == (("t", "s"), (1, 7))
    replay.feed(event(3, Kind.ACK, -1, 7))
    with pytest.raises(EventError) as flawed:
        replay.states()
    assert (flawed.value.flaw, flawed.value.line) == (Flaw.NEGATIVE, 2)


def test_the_line_that_is_named_is_of_the_subscription_that_failed(tmp_path: Path) -> None:
    def line(kind: str, topic: str, entry_id: int = 5) -> str:
        return json.dumps({"ev": kind, "topic": topic, "sub": "s", "l": 3, "e": entry_id}) + "\n"

    # The same position, with a valid acknowledgment in an earlier and in a later topic.
    others = [line(kind, topic) for topic in "ac" for kind in ("publish", "ack")]
    path = write(tmp_path / "a.jsonl", [*others, line("publish", "b", 4), line("ack", "b"), line("ack", "b")])
    with pytest.raises(EventError, match="3:5, which no event published") as refused:
        replay_files([path])
    assert refused.value.line == 6


def event(sequence: int, kind: Kind, ledger_id: int, entry_id: int, **fields: object) -> Event:
    return Event("t", "s", sequence, kind, ledger_id=ledger_id, entry_id=entry_id, **fields)  # type: ignore[arg-type]


PUBLISHED = [event(entry_id, Kind.PUBLISH, 1, entry_id) for entry_id in range(6)]


def fold(events: list[Event]) -> dict[str, object]:
    whole = Replay()
    for one in events:
        whole.feed(one)
    return whole.states()[0].to_json()


def test_a_seek_makes_what_came_before_it_void() -> None:
    acks = [event(6, Kind.ACK_CUMULATIVE, 1, 4), event(7, Kind.ACK, 1, 5)]
    state = fold([*PUBLISHED, *acks, event(8, Kind.SEEK, 1, 2), event(9, Kind.ACK, 1, 3)])
    assert state["markDeletePosition"] == "1:1"
    assert state["individuallyDeletedMessages"] == "[(1:2..1:3]]"


def test_a_cleared_backlog_acknowledges_what_was_published_until_then() -> None:
    cleared = Event("t", "s", 9, Kind.CLEAR_BACKLOG)
    state = fold([*PUBLISHED[:4], cleared, *PUBLISHED[4:]])
    assert (state["markDeletePosition"], state["backlogEntries"]) == ("1:3", 2)


def test_a_batch_index_that_no_batch_has_is_refused() -> None:
    batch = [event(0, Kind.PUBLISH, 1, 0, batch_size=3)]
    with pytest.raises(Exception, match="batch index 3 of 1:0, which holds 3 messages"):
        fold([*batch, event(1, Kind.ACK, 1, 0, batch_index=3)])
    with pytest.raises(Exception, match="no event says how many messages"):
        fold([PUBLISHED[0], event(1, Kind.ACK, 1, 0, batch_index=0)])


def test_a_cleared_backlog_reaches_what_was_shown_to_exist_of_the_topic_or_of_the_subscription() -> None:
    for shown in (Kind.PUBLISH, Kind.DISPATCH, Kind.RECEIVE):
        for first, second in (("s", ""), ("", "s")):
            if not second and not EFFECTS[shown].of_topic:
                continue
            replay = Replay()
            replay.feed(Event("t", first, 0, Kind.PUBLISH, ledger_id=3, entry_id=0))
            replay.feed(Event("t", second, 1, shown, ledger_id=3, entry_id=5))
            replay.feed(Event("t", second, 2, shown, ledger_id=3, entry_id=2))
            replay.feed(Event("t", "s", 3, Kind.CLEAR_BACKLOG))
            assert replay.state("t", "s").cursor.mark_delete_position == (3, 5)


def test_a_subscription_can_be_asked_for_after_each_event() -> None:
    replay = Replay()
    for entry_id in range(3):
        for kind in (Kind.PUBLISH, Kind.ACK):
            replay.feed(Event("t", "s", 0, kind, ledger_id=3, entry_id=entry_id))
        assert replay.state("t", "s").cursor.mark_delete_position == (3, entry_id)


@pytest.mark.parametrize(("enabled", "kept"), [("false", {}), ("true", {(3, 0): (2,)})])
def test_a_recording_says_whether_batch_indexes_are_acknowledged(
    enabled: str, kept: dict[tuple[int, int], tuple[int, ...]]
) -> None:
    detail = json.dumps({"acknowledgmentAtBatchIndexLevelEnabled": enabled})
    replay = Replay()
    replay.feed(Event("t", "s", 0, Kind.META, detail=detail))
    replay.feed(Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0, batch_size=2))
    replay.feed(Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=0, batch_index=0))
    assert replay.state("t", "s").cursor.batch_deleted == kept
    (row,) = (row for batch in cursor_batches(replay.fold) for row in batch.to_pylist())
    assert dict(row["batch_deleted"]) == {
        f"{ledger_id}:{entry_id}": [*words] for (ledger_id, entry_id), words in kept.items()
    }


def test_a_subscription_that_was_removed_has_no_state() -> None:
    replay = Replay()
    for subscription in ("s", "other"):
        replay.feed(Event("t", subscription, 0, Kind.PUBLISH, ledger_id=3, entry_id=0))
    replay.feed(Event("t", "s", 1, Kind.UNSUBSCRIBE))
    assert [state.subscription for state in replay.states()] == ["other"]


def test_the_columns_of_a_caller_stay_as_they_were() -> None:
    events = [
        Event("t", "s", 0, Kind.PUBLISH, ledger_id=3, entry_id=0),
        Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=0, transaction="1"),
    ]
    columns, again = columns_of(events), columns_of(events)
    Fold(NO_RESETS).feed(columns)
    assert columns.kinds[0] is not None
    assert again.kinds[0] is not None
    assert columns.kinds[0].tolist() == again.kinds[0].tolist()


def test_the_first_cumulative_acknowledgment_of_what_was_never_published_is_named(tmp_path: Path) -> None:
    lines = [
        json.dumps({"topic": "t", "sub": "s", "ev": "publish", "l": 3, "e": 0}),
        json.dumps({"topic": "t", "sub": "s", "ev": "ack_cumulative", "l": 3, "e": 4}),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(EventError, match="3:4, which no event published") as caught:
        replay_files([tmp_path / "a.jsonl"])
    assert caught.value.line == 2


def test_a_broker_s_answer_is_a_start_with_its_ledgers_and_ack_sets(tmp_path: Path) -> None:
    cursor = {"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:4..3:5]]"}
    ledgers = [{"ledgerId": 3, "entries": 9}, {"ledgerId": 5, "entries": 4}]
    answer = {
        "internalStats": {"ledgers": ledgers, "cursors": {"s": cursor}},
        "cursor": {"name": "s", "batchDeletedIndexes": {"3:3": [6]}},
        "t": 5,
    }
    (known,) = parse_stats(json.dumps(answer).encode(), "answer.json", name="t")
    line = {"topic": known.topic, "sub": "s", "ev": "ack", "l": 5, "e": 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (state,) = replay_files([tmp_path / "a.jsonl"], start_from=[known])
    assert state.to_json() == {
        "topic": known.topic,
        "subscription": "s",
        "markDeletePosition": "3:1",
        "individuallyDeletedMessages": "[(3:4..3:5],(5:2..5:3]]",
        "batchDeletedIndexes": {"3:3": (6,)},
        "backlogEntries": 9,
    }


def test_a_row_of_cursors_is_the_state_that_it_was_built_from() -> None:
    replay = Replay()
    replay.feed(Event("t", "s", 0, Kind.PUBLISH, ledger_id=3, entry_id=0, batch_size=7))
    replay.feed(Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=0, batch_index=2))
    (row,) = (row for batch in cursor_batches(replay.fold) for row in batch.to_pylist())
    state, found = replay.state("t", "s"), state_of_row(row)
    assert found == state
    assert found.batch_sizes == {(3, 0): 7}


def test_a_start_counts_too_where_a_trace_is_read_twice(tmp_path: Path) -> None:
    """The commits are known only at the end of the file."""
    lines = [
        {"topic": "t", "sub": "s", "ev": "ack", "l": 3, "e": 1, "txn": "1"},
        {"topic": "t", "sub": "s", "ev": "commit", "txn": "1"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    cursor = Cursor(Ledgers({3: 4}))
    cursor.ack(3, 0)
    known = SubscriptionState("t", "s", cursor, {}, {})
    (state,) = replay_files([tmp_path / "a.jsonl"], start_from=[known])
    assert state.cursor.mark_delete_position == (3, 1)
    layouts.parquet([Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=1)], tmp_path)
    (state,) = replay_files([tmp_path / "part-0.parquet"], start_from=[known])
    assert state.cursor.mark_delete_position == (3, 1)


def test_a_row_of_a_parquet_file_that_is_no_event_is_named(tmp_path: Path) -> None:
    events = [Event("t", "s", n, Kind.PUBLISH, ledger_id=3, entry_id=n) for n in range(5)]
    layouts.parquet([*events[:3], events[3]._replace(entry_id=-2), events[4]], tmp_path)
    with pytest.raises(EventError) as caught:
        list(read_events([tmp_path]))
    assert caught.value.line == 4


def test_the_state_of_many_batches_is_shown_in_a_line() -> None:
    replayed = Replay()
    for entry_id in range(5_000):
        replayed.feed(Event("t", "s", entry_id, Kind.PUBLISH, ledger_id=3, entry_id=entry_id, batch_size=7))
    (state,) = replayed.states()
    assert len(state.batch_sizes) == 5_000
    assert len(repr(state)) < 500


@pytest.mark.parametrize("acked", [0, 1, 4, 9, 10])
def test_the_batch_sizes_of_a_row_are_those_after_its_mark_delete_position(acked: int) -> None:
    replayed = Replay()
    places = [(ledger_id, entry_id) for ledger_id in (3, 4) for entry_id in range(10)]
    for number, (ledger_id, entry_id) in enumerate(places):
        replayed.feed(
            Event("t", "s", number, Kind.PUBLISH, ledger_id=ledger_id, entry_id=entry_id, batch_size=7)
        )
    for entry_id in range(acked):
        replayed.feed(Event("t", "s", 20 + entry_id, Kind.ACK, ledger_id=3, entry_id=entry_id))
    (row,) = [row for batch in cursor_batches(replayed.fold) for row in batch.to_pylist()]
    assert state_of_row(row).batch_sizes == dict.fromkeys(places[acked:], 7)


@pytest.mark.parametrize("place", range(9))
def test_a_control_character_in_a_text_is_not_json(tmp_path: Path, place: int) -> None:
    """The quick reader of lines compares eight bytes at a time."""
    lines = [
        f'{{"kind":"publish","topic":"t","sequence":{n},"ledger_id":3,"entry_id":{n}}}' for n in range(5)
    ]
    lines[3] = lines[3].replace('"t"', f'"{"a" * place}\x01{"a" * (9 - place)}"')
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(EventError) as error:
        replay_files([tmp_path / "a.jsonl"])
    assert error.value.line == 4


@pytest.mark.parametrize("place", range(9))
def test_an_escape_in_a_text_is_read_as_its_character(tmp_path: Path, place: int) -> None:
    """The quick reader of lines leaves a text with a backslash to another reader."""
    topic, written = f"{'a' * place}b{'a' * 17}", f"{'a' * place}\\u0062{'a' * 17}"
    lines = [
        f'{{"kind":"ack","topic":"{name}","subscription":"s","sequence":{n},"ledger_id":3,"entry_id":{n}}}'
        for n, name in enumerate([topic, topic, topic, written, topic])
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (state,) = replay_files([tmp_path / "a.jsonl"])
    assert state.topic == topic
