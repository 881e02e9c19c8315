"""The functions of executors, without a session: every column of every table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pytest

from ackwell import ManagedCursorInfo, PositionInfo, PositionRangeSet, TimeBuckets, TimeWheel, TripleLongHeap
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.restart import restart_loss
from ackwell.broker.stats import read_stats
from ackwell.cursor.cursor_state import CursorState
from ackwell.errors import EventError, StatsError
from ackwell.position import Position
from ackwell.replay import table_schemas
from ackwell.replay.columns import fold_batches
from ackwell.replay.events import Event, Kind
from ackwell.replay.resets import Resets, Seek
from ackwell.saving.chunks import EntrySettings, encode_entries
from ackwell.spark.tasks import (
    audit_rows,
    buckets,
    fold_files,
    fold_rows,
    index_sizes,
    merging,
    moment_rows,
    source_rows,
    unpacking,
)
from tests.spark.task_inputs import with_texts

EVENTS = [Event("t", "s", number, Kind.ACK, 5, "c", 3, number, ack_set=(5, -1)) for number in range(5)]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


# Sources


def test_events_become_rows_some_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source_rows, "_ROWS", 2)
    batches = list(source_rows.to_batches(EVENTS))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert all(batch.schema == source_rows.EVENT_SCHEMA for batch in batches)
    expected = [event._asdict() | {"ack_set": [5, -1], "kind": "ack"} for event in EVENTS]
    assert rows_of(iter(batches)) == expected
    assert list(source_rows.to_batches([])) == []
    path = tmp_path / "a.jsonl"
    path.write_text('{"kind":"publish","topic":"t","sequence":9,"ledger_id":3,"entry_id":0}\n')
    read = source_rows.PartReader(source_rows.__name__, "event_batches", ["no such file", str(path)])
    (row,) = rows_of(read([pa.RecordBatch.from_pydict({"id": [1]})]))
    assert (row["topic"], row["kind"], row["sequence"], row["file"]) == ("t", "publish", 9, str(path))
    path.write_text("{")
    with pytest.raises(EventError, match="not JSON"):
        list(source_rows.event_batches(str(path)))


def test_a_dump_becomes_a_row_for_each_subscription(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    cursor = {"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3:4]]"}
    dump = {"cursors": {"s": cursor}, "ledgers": [{"ledgerId": 3, "entries": 10, "size": 100}]}
    path.write_text(f"persistent://public/default/t\n{json.dumps(dump)}")
    (row,) = rows_of(source_rows.stats_batches(str(path)))
    assert {name: row[name] for name in row if name != "ledgers"} == {
        "topic": "persistent://public/default/t", "subscription": "s", "file": str(path), "time_ms": None,
        "mark_delete_ledger_id": 3, "mark_delete_entry_id": 1, "individually_deleted": "[(3:2..3:4]]",
        "range_count": 1, "individually_deleted_entries": 2, "batch_deleted": None,
        "backlog_entries": row["backlog_entries"], "delayed_messages": None, "error": None,
    }  # fmt: skip
    assert row["ledgers"] == [(3, 10)]
    (stats,) = read_stats(path)
    shown = source_rows._stats_row(
        replace(stats, batch_deleted={Position(3, 6): (5, -1)}, delayed_messages=2)
    )
    assert (shown["batch_deleted"], shown["delayed_messages"]) == ({"3:6": [5, -1]}, 2)
    path.write_text("x")
    with pytest.raises(StatsError):
        list(source_rows.stats_batches(str(path)))


def test_an_answer_without_a_cursor_is_the_error_of_its_subscription(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    answer = {"subscriptions": {"s": {"type": "Shared", "msgBacklog": 2, "msgDelayed": 1, "consumers": []}}}
    path.write_text(f"persistent://public/default/t\n{json.dumps(answer)}")
    (row,) = rows_of(source_rows.stats_batches(str(path)))
    assert (row["topic"], row["subscription"]) == ("persistent://public/default/t", "s")
    assert "does not show the cursor" in row["error"]
    assert str(path) not in row["error"]
    assert (row["delayed_messages"], row["mark_delete_ledger_id"], row["ledgers"]) == (1, None, None)


def test_a_folder_of_saves_becomes_a_row_for_each_save(tmp_path: Path) -> None:
    folder = tmp_path / "topic=t" / "subscription=s"
    folder.mkdir(parents=True)
    info = PositionInfo(3, 5, [(3, 7, 20), (3, 25, 26)], {(3, 30): [5]})
    saved = {
        "a": info.encode(),
        "b": b"\xff\xff",
        "c": ManagedCursorInfo(9).encode(),
    }
    for name, data in saved.items():
        (folder / name).write_bytes(data)
    files = json.dumps([str(folder / name) for name in saved])
    whole, broken, elsewhere = rows_of(source_rows.saved_batches(files))
    assert [(row["topic"], row["subscription"]) for row in (whole, broken, elsewhere)] == [("t", "s")] * 3
    assert [row["number"] for row in (whole, broken, elsewhere)] == [0, 1, 2]
    assert [Path(row["file"]).name for row in (whole, broken, elsewhere)] == ["a", "b", "c"]
    assert {name: whole[name] for name in whole if name not in ("file", "form")} == {
        "topic": "t", "subscription": "s", "number": 0, "kind": "PositionInfo", "size_bytes": len(saved["a"]),
        "entries": 1, "cursor_ledger_id": None, "mark_delete_ledger_id": 3, "mark_delete_entry_id": 5,
        "individually_deleted": "[(3:7..3:20],(3:25..3:26]]", "range_count": 2,
        "individually_deleted_entries": 14, "batch_deleted": [("3:30", [5])], "error": None,
    }  # fmt: skip
    assert (broken["kind"], broken["mark_delete_ledger_id"]) == (None, None)
    assert broken["error"]
    assert (elsewhere["kind"], elsewhere["cursor_ledger_id"]) == ("ManagedCursorInfo", 9)
    assert (elsewhere["individually_deleted"], elsewhere["error"]) == (None, None)
    # Without the broken entry they are read together, and each is independent.
    whole_again, elsewhere_again = rows_of(
        source_rows.saved_batches(json.dumps([str(folder / name) for name in "ac"]))
    )
    assert (whole_again, elsewhere_again) == (whole, elsewhere | {"number": 1})


# Audit


def cursor_row(**fields: Any) -> dict[str, Any]:
    row = {
        "topic": "t", "subscription": "s", "mark_delete_ledger_id": 3, "mark_delete_entry_id": 1,
        "individually_deleted": "[(3:2..3:4]]", "batch_deleted": [("3:6", [5])], "ledgers": [(3, 10)],
        "batch_sizes": None,
    }  # fmt: skip
    return row | fields


CURSORS = pa.schema(
    [
        ("topic", pa.string()), ("subscription", pa.string()), ("mark_delete_ledger_id", pa.int64()),
        ("mark_delete_entry_id", pa.int64()), ("individually_deleted", pa.string()),
        ("batch_deleted", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("ledgers", pa.map_(pa.int64(), pa.int64())), ("batch_sizes", pa.binary()),
    ]
)  # fmt: skip


@pytest.mark.parametrize("ledgers", [[(3, 10)], None])
def test_an_audit_is_the_loss_of_each_restart(ledgers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_rows, "_ROWS", 2)
    settings = BrokerSettings.of("4.0")
    given = [cursor_row(subscription=str(number), ledgers=ledgers) for number in range(3)]
    given.insert(1, cursor_row(mark_delete_ledger_id=None, individually_deleted=None))
    given.append(cursor_row(subscription="none", batch_deleted=None, individually_deleted="[]"))
    batch = pa.RecordBatch.from_pylist(given, schema=CURSORS)
    found = rows_of(audit_rows.audit_batches([batch], settings, ("crash", "graceful")))
    assert [(row["subscription"], row["restart"]) for row in found] == [
        (name, restart) for name in ("0", "s", "1", "2", "none") for restart in ("crash", "graceful")
    ]
    from ackwell import Ledgers

    state = CursorState(
        Position(3, 1), PositionRangeSet.parse("[(3:2..3:4]]"), {Position(3, 6): (5,)},
        None if ledgers is None else Ledgers({3: 10}),
    )  # fmt: skip
    for row in found[:2]:
        loss = restart_loss(state, settings, row["restart"], batch_sizes=None)
        assert {name: row[name] for name in row if name not in ("topic", "subscription", "restart")} == {
            "place": loss.place, "form": loss.form, "lost_entries": loss.entries,
            "lost_partial_entries": loss.partial_entries, "lost_messages_min": loss.messages.at_least,
            "lost_messages_max": loss.messages.at_most,
            "before_flush_min": loss.messages_before_flush.at_least,
            "before_flush_max": loss.messages_before_flush.at_most,
            "reasons": [str(reason) for reason in loss.reasons],
        }  # fmt: skip
    assert found[-1]["lost_messages_min"] == 0
    assert list(audit_rows.audit_batches([], settings, ("crash",))) == []


# Ordered


FIELDS: dict[str, Any] = dict.fromkeys(Event._fields)


def event_row(sequence: int | None, kind: str, entry_id: int | None = None, **fields: Any) -> dict[str, Any]:
    given = {
        "topic": "t",
        "subscription": "s",
        "sequence": sequence,
        "kind": kind,
        "file": "f",
        "time_ms": sequence,
    }
    return FIELDS | given | ({} if entry_id is None else {"ledger_id": 3, "entry_id": entry_id}) | fields


def followed(rows: list[dict[str, Any]], *moments: int) -> list[tuple[Any, ...]]:
    """Replay rows in order. Return the mark-delete entry, or the error, at each moment."""
    batches = [pa.RecordBatch.from_pylist(rows, schema=source_rows.EVENT_SCHEMA)] if rows else []
    return [
        (row["topic"], row["subscription"], row["at_ms"], row["error"] or row["mark_delete_entry_id"])
        for row in rows_of(moment_rows.follow_batches(batches, moments))
    ]


def test_a_moment_is_before_the_events_that_are_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment_rows, "_ROWS", 2)
    rows = [event_row(number, "publish", number, subscription="") for number in range(4)]
    rows += [event_row(10 + number, "ack", number) for number in range(3)]
    assert followed(rows, 9, 10, 11, 99) == [
        ("t", "s", 10, 0), ("t", "s", 11, 1), ("t", "s", 99, 2), ("t", "s", None, 2),
    ]  # fmt: skip
    # An event without a time does not end a moment.
    untimed = [row | {"time_ms": None} for row in rows]
    assert [each[2:] for each in followed(untimed, 5)] == [(5, 2), (None, 2)]
    assert followed([]) == []


def test_the_moment_0_is_a_moment_and_holds_up_no_other() -> None:
    rows = [event_row(0, "publish", 0, subscription=""), event_row(0, "ack", 0)]
    rows += [event_row(1, "publish", 1, subscription=""), event_row(1, "ack", 1)]
    rows += [event_row(2, "publish", 2, subscription=""), event_row(2, "ack", 2)]
    assert followed(rows, 0, 1) == [("t", "s", 0, 0), ("t", "s", 1, 1), ("t", "s", None, 2)]


def test_a_transaction_is_applied_at_the_moment_of_its_commit() -> None:
    rows = [event_row(0, "publish", 0, subscription=""), event_row(1, "ack", 0, transaction="(1,2)")]
    rows.append(event_row(2, "commit", transaction="(1,2)"))
    assert [each[2:] for each in followed(rows, 1, 2)] == [(1, -1), (2, 0), (None, 0)]


def test_a_repeated_row_counts_once_and_topics_follow_one_another() -> None:
    rows = []
    for topic in "ab":
        rows += [
            event_row(0, "publish", 0, topic=topic, subscription=""),
            event_row(1, "ack", 0, topic=topic),
        ]
        rows.append(rows[-1])
    assert followed(rows) == [("a", "s", None, 0), ("b", "s", None, 0)]


def consumers(batches: list[pa.RecordBatch], *moments: int, strict: bool = False) -> list[dict[str, Any]]:
    """Replay batches in order, and return the columns of consumers."""
    names = ("topic", "at_ms", "unacked_messages", "pending_entries", "pending_messages", "redeliveries")
    rows = rows_of(moment_rows.follow_batches(batches, moments, strict=strict))
    return [{name: row[name] for name in names} for row in rows]


def delivered(topic: str = "t") -> list[dict[str, Any]]:
    """Return rows in which a consumer receives and returns an entry, then receives it with another."""
    opened: dict[str, Any] = {"consumer": "c", "topic": topic}
    return [
        event_row(0, "publish", 0, subscription="", topic=topic),
        event_row(1, "publish", 1, subscription="", topic=topic),
        event_row(2, "consumer_open", detail="Shared", **opened),
        event_row(3, "dispatch", 0, **opened),
        event_row(4, "nack", 0, **opened),
        event_row(5, "dispatch", 0, redelivery_count=1, **opened),
        event_row(6, "dispatch", 1, **opened),
    ]


def test_a_topic_goes_on_in_the_next_batch_and_another_begins_anew() -> None:
    batches = [
        pa.RecordBatch.from_pylist([row], schema=source_rows.EVENT_SCHEMA)
        for topic in "abc"
        for row in delivered(topic)
    ]
    assert consumers(batches) == [
        {
            "topic": topic,
            "at_ms": None,
            "unacked_messages": 2,
            "pending_entries": [("c", 2)],
            "pending_messages": [("c", 2)],
            "redeliveries": 1,
        }
        for topic in "abc"
    ]


def test_a_repeated_delivery_counts_once_unless_nothing_says_that_it_is_the_same() -> None:
    twice = [row for row in delivered() for _ in range(2)]
    whole = [
        pa.RecordBatch.from_pylist(rows, schema=source_rows.EVENT_SCHEMA) for rows in (delivered(), twice)
    ]
    once, repeated = ([each["redeliveries"] for each in consumers([batch])] for batch in whole)
    assert once == repeated == [1]


def test_what_a_consumer_has_is_of_the_moment() -> None:
    batch = pa.RecordBatch.from_pylist(delivered(), schema=source_rows.EVENT_SCHEMA)
    found = consumers([batch], 3, 4, 5, 6)
    assert [(each["at_ms"], each["unacked_messages"], each["redeliveries"]) for each in found] == [
        (3, 1, 0),
        (4, 0, 0),
        (5, 1, 1),
        (6, 2, 1),
        (None, 2, 1),
    ]


def test_strictly_a_bad_event_of_any_subscription_ends_it() -> None:
    rows = [*delivered(), event_row(7, "ack", None)]
    batch = pa.RecordBatch.from_pylist(rows, schema=source_rows.EVENT_SCHEMA)
    assert [each["unacked_messages"] for each in consumers([batch])] == [None]
    with pytest.raises(EventError, match="no position"):
        consumers([batch], strict=True)
    # An error of the topic itself always fails the query.
    trimmed = [*delivered(), event_row(8, "trim", None, subscription="")]
    batch = pa.RecordBatch.from_pylist(trimmed, schema=source_rows.EVENT_SCHEMA)
    with pytest.raises(EventError, match="no position"):
        consumers([batch], strict=True)
    # Only the replay of consumers reads a redelivery count.
    wrong = [event_row(8, "dispatch", 0, subscription=name, redelivery_count=-1) for name in "zay"]
    batch = pa.RecordBatch.from_pylist([*delivered(), *wrong], schema=source_rows.EVENT_SCHEMA)
    with pytest.raises(EventError, match=r"t, a: .*redelivery_count is -1"):
        consumers([batch], strict=True)


def test_a_bad_row_is_the_error_of_its_subscription_alone() -> None:
    rows = [event_row(0, "publish", 0, subscription="")]
    rows += [event_row(1, "ack", 0, subscription="good"), event_row(2, "ack", None, subscription="bad")]
    good, bad = sorted(followed(rows), key=lambda each: each[1], reverse=True)
    assert good == ("t", "good", None, 0)
    assert bad[1] == "bad"
    assert "no position" in bad[3]
    unnumbered = followed([*rows[:2], event_row(None, "ack", 0, subscription="odd")])
    assert "no sequence" in next(each[3] for each in unnumbered if each[1] == "odd")
    # The fold does not read a redelivery count, so only the replay of consumers reports it, with its file.
    for file, place in (("f", "f, line 3: "), ("", "")):
        wrong = event_row(3, "dispatch", 0, subscription="good", redelivery_count=-1, file=file)
        (found,) = followed([*rows[:2], wrong])
        assert (found[1], found[3]) == ("good", f"{place}redelivery_count is -1; it is at least 0")
    trimmed = followed([*rows[:2], event_row(3, "trim", None, subscription="")])
    assert [(each[1], "sequence 3: no position" in each[3]) for each in trimmed] == [("good", True)]
    with pytest.raises(EventError, match="topic is null") as error:
        followed([event_row(3, "ack", 0, topic=None)])
    assert (error.value.file, error.value.line) == ("f", 3)
    assert followed([*rows[:2], event_row(5, "unsubscribe", subscription="good")]) == []


# Partials


def partials(events: list[Event]) -> list[pa.RecordBatch]:
    return list(fold_batches(source_rows.to_batches(events), Resets({}, {}), ordered=False, strict=True))


def test_only_a_strict_task_fails_on_an_invalid_event_of_a_subscription() -> None:
    batch = pa.RecordBatch.from_pylist([event_row(1, "ack")], schema=source_rows.EVENT_SCHEMA)
    batch = with_texts(batch)
    assert list(fold_rows.RowFold(Resets({}, {}), ordered=False, strict=False)([batch]))
    with pytest.raises(EventError, match="no position"):
        list(fold_rows.RowFold(Resets({}, {}), ordered=False, strict=True)([batch]))


def test_ranges_come_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_RANGES", 2)
    info = PositionInfo(3, 1, [(3, 2, 4), (3, 6, 7), (4, -1, 3)])
    given = pa.RecordBatch.from_pydict({"topic": ["t"], "subscription": ["s"], "compact": [info.encode()]})
    batches = list(merging.explode_ranges([given]))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert [tuple(row.values()) for row in rows_of(iter(batches))] == [
        ("t", "s", 3, 2, 4), ("t", "s", 3, 6, 7), ("t", "s", 4, -1, 3),
    ]  # fmt: skip
    assert batches[0].schema == merging.RANGE_SCHEMA


def test_what_a_subscription_had_before_is_where_its_events_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_ROWS", 1)
    given = [
        cursor_row(),
        cursor_row(mark_delete_ledger_id=None),
        cursor_row(subscription="other", ledgers=None),
    ]
    given[2] |= {"individually_deleted": None, "batch_deleted": None}
    batch = pa.RecordBatch.from_pylist(given, schema=CURSORS)
    before = list(merging.start([batch]))
    assert len(before) == 2
    found = {row["subscription"]: row for row in rows_of(merging.CursorMerge(strict=True)(before))}
    assert sorted(found) == ["other", "s"]
    assert (found["s"]["mark_delete_entry_id"], found["s"]["individually_deleted"]) == (1, "[(3:2..3:4]]")
    assert found["s"]["batch_deleted"] == [("3:6", [5])]
    assert found["s"]["ledgers"] == [(3, 10)]
    assert (found["other"]["mark_delete_entry_id"], found["other"]["individually_deleted"]) == (1, "[]")


def test_partials_of_one_ledger_become_one_row() -> None:
    publish = [Event("t", "s", number, Kind.PUBLISH, ledger_id=3, entry_id=number) for number in range(4)]
    acks = [Event("t", "s", 9 + number, Kind.ACK, ledger_id=3, entry_id=number) for number in (0, 3)]
    parts = [batch for event in (*publish, *acks) for batch in partials([event])]
    (merged,) = rows_of(merging.merge(parts))
    assert (merged["topic"], merged["subscription"], merged["ledger_id"]) == ("t", "s", 3)
    (cursor,) = rows_of(merging.CursorMerge(strict=False)([*parts, parts[0].slice(0, 0)]))
    assert (cursor["mark_delete_entry_id"], cursor["individually_deleted"]) == (0, "[(3:2..3:3]]")
    # The ledgers of a topic can come from another table.
    schema = pa.schema([*parts[0].schema, pa.field("directory", pa.map_(pa.int64(), pa.int64()))])
    columns = {name: [None] for name in parts[0].schema.names}
    told = pa.RecordBatch.from_pydict(columns | {"topic": ["t"], "directory": [[(3, 6)]]}, schema=schema)
    (cursor,) = rows_of(merging.CursorMerge(strict=False)([*parts, told]))
    assert cursor["ledgers"] == [(3, 6)]
    assert cursor["backlog_entries"] == 4
    # The order of the columns does not matter.
    first = told.select(["directory", *parts[0].schema.names])
    assert rows_of(merging.CursorMerge(strict=False)([*parts, first])) == [cursor]


def test_a_cursor_that_cannot_be_is_a_row_or_an_error() -> None:
    from ackwell.errors import ProtocolError

    publish = Event("t", "s", 1, Kind.PUBLISH, ledger_id=3, entry_id=0, batch_size=2)
    parts = partials([publish, Event("t", "s", 2, Kind.ACK, ledger_id=3, entry_id=0, batch_index=5)])
    (row,) = rows_of(merging.CursorMerge(strict=False)(parts))
    assert (row["mark_delete_entry_id"], bool(row["error"])) == (None, True)
    with pytest.raises(ProtocolError):
        list(merging.CursorMerge(strict=True)(parts))


# Sizing


def test_delayed_messages_are_weighed_in_every_width() -> None:
    delays = np.array([0, 1_000, 2_000, 3_000, 10_000] * 20, np.int64)
    times = np.full(100, 1_000_000, np.int64)
    entries = np.arange(100, dtype=np.int64)
    batches = [
        pa.RecordBatch.from_pydict(
            {
                "deliver_at_ms": (times + delays)[part] - (5 if part.start == 0 else 0) * (delays[part] == 0),
                "time_ms": times[part], "ledger_id": np.full(50, 3, np.int64), "entry_id": entries[part],
            }
        )
        for part in (slice(0, 50), slice(50, 100))
    ]  # fmt: skip
    widths = [1, 1_024, 2_048]
    key = (pa.scalar("t"), pa.scalar("s"))
    rows = rows_of(index_sizes.sizing_function(widths)(key, iter(batches)))
    heap = TripleLongHeap()
    buckets = {width: TimeBuckets(width.bit_length() - 1) for width in widths}
    wheels = {width: TimeWheel(width) for width in widths}
    for batch in batches:
        columns = [batch.column(name).to_numpy() for name in ("deliver_at_ms", "ledger_id", "entry_id")]
        for index in (heap, *buckets.values(), *wheels.values()):
            index.add_many(*columns)
    heap.shrink_to_fit()
    for row, width in zip(rows, widths, strict=True):
        assert (row["topic"], row["subscription"], row["messages"], row["width_ms"]) == ("t", "s", 100, width)
        # A message with a delivery time before its publish time has a delay of 0.
        spread = [row[f"delay_ms_{name}"] for name in ("min", "p50", "p90", "p99", "max")]
        assert spread == [0, 2_000, 10_000, 10_000, 10_000]
        assert (row["heap_bytes"], row["buckets_bytes"]) == (heap.nbytes, buckets[width].nbytes)
        assert (row["buckets"], row["wheel_bytes"]) == (buckets[width].bucket_count, wheels[width].nbytes)
        assert row["entropy_bound_bytes"] == round(100 * index_sizes.entropy_bound_bytes(delays, width))
    assert [row["recommended"] for row in rows] == [False, True, False]
    assert set(rows[0]) == {column.name for column in table_schemas.SIZING}


def test_sorted_rows_are_measured_by_subscription_across_batches() -> None:
    def measure(key: tuple[pa.Scalar, ...], pieces: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        yield [each.as_py() for each in key], [piece.column("n").to_pylist() for piece in pieces]

    names = ["t", "t", "t", "u"], ["r", "s", "s", "s"]
    whole = pa.RecordBatch.from_pydict({"topic": names[0], "subscription": names[1], "n": [0, 1, 2, 3]})
    batches = iter([whole.slice(0, 2), whole.slice(2, 2), whole.slice(0, 0)])
    assert list(index_sizes.of_sorted(measure)(batches)) == [
        (["t", "r"], [[0]]),
        (["t", "s"], [[1], [2]]),
        (["u", "s"], [[3]]),
    ]


def test_the_entropy_bound_is_that_of_the_delays_and_of_the_tick() -> None:
    assert index_sizes.entropy_bound_bytes(np.full(10_000, 5_000), 1) == 0
    # Two delays: each neighbourhood is both, so the density is 2 / 20 ms.
    assert index_sizes.entropy_bound_bytes(np.array([0, 10]), 1) == pytest.approx(np.log2(20) / 8)
    # The neighbours of 16 delays are the two before and the two after.
    squares = [number**2 for number in range(16)]
    spans = [(max(place - 2, 0), min(place + 2, 15)) for place in range(16)]
    densities = [(high - low) / 16 / (squares[high] - squares[low]) for low, high in spans]
    expected = -np.log2(densities).mean() / 8
    assert index_sizes.entropy_bound_bytes(np.array(squares), 1) == pytest.approx(expected)
    week = np.random.default_rng(1).integers(0, 7 * 86_400_000, 100_000)
    to_the_ms = index_sizes.entropy_bound_bytes(week, 1)
    assert to_the_ms == pytest.approx(3.65, abs=0.03)
    # Each doubling of the tick saves a bit per message.
    assert index_sizes.entropy_bound_bytes(week, 2) == pytest.approx(to_the_ms - 1 / 8)


# Shipping


def archive(folder: Path) -> Path:
    path = folder / "ackwell.zip"
    with ZipFile(path, "w") as packed:
        packed.writestr(f"{unpacking.FOLDER}/ackwell/__init__.py", "from ackwell.part import WHAT\n")
        packed.writestr(f"{unpacking.FOLDER}/ackwell/part.py", "WHAT = 'shipped'\n")
    return path


def test_an_archive_is_unpacked_once_and_becomes_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path)
    place = unpacking.unpack(path)
    assert place == tmp_path / "ackwell.zip.unpacked"
    marker = place / "marker"
    marker.touch()
    assert unpacking.unpack(path) == place
    assert marker.exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ackwell.zip", "ackwell.zip.unpacked"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "ackwell"]:
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    unpacking.import_as_ackwell(place / unpacking.FOLDER / "ackwell")
    made: ModuleType = sys.modules["ackwell"]
    assert made.WHAT == "shipped"
    for name in ("ackwell", "ackwell.part"):
        sys.modules.pop(name)


def test_python_imports_the_package_of_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with ZipFile(path, "a") as packed:
        packed.write(str(unpacking.__file__), "ackwell/__init__.py")
    script = f"import sys; sys.path.insert(0, {str(path)!r}); import ackwell; print(ackwell.WHAT)"
    run = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env={}
    )
    assert run.stdout == "shipped\n"


def test_another_worker_may_be_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path)
    place = tmp_path / "ackwell.zip.unpacked"

    def late(self: Path, target: Path) -> None:
        target.mkdir()
        raise OSError("Directory not empty")

    monkeypatch.setattr(Path, "rename", late)
    assert unpacking.unpack(path) == place
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ackwell.zip", "ackwell.zip.unpacked"]
    place.rmdir()

    def never(self: Path, target: Path) -> None:
        raise OSError("read only")

    monkeypatch.setattr(Path, "rename", never)
    with pytest.raises(OSError, match="read only"):
        unpacking.unpack(path)
    assert [each.name for each in tmp_path.iterdir()] == ["ackwell.zip"]


# Streams


def test_a_micro_batch_with_an_event_of_nobody_is_refused() -> None:
    rows = [event_row(0, "publish", 0, subscription=""), event_row(1, "ack", 0, topic=None)]
    batch = pa.RecordBatch.from_pylist(rows, schema=source_rows.EVENT_SCHEMA)
    with pytest.raises(EventError, match="topic is null"):
        list(buckets.BucketFold(4)([batch]))
    assert list(buckets.BucketFold(4)([batch.slice(0, 0)])) == []
    rows[1] = event_row(1, "ack", 0, subscription="")
    with pytest.raises(EventError, match="no subscription"):
        list(buckets.BucketFold(4)([pa.RecordBatch.from_pylist(rows, schema=source_rows.EVENT_SCHEMA)]))


def folded(*rows: dict[str, Any]) -> bytes:
    """Return the payload of a micro-batch of one topic."""
    batch = pa.RecordBatch.from_pylist(list(rows), schema=source_rows.EVENT_SCHEMA)
    (found,) = buckets.BucketFold(1)([batch])
    assert found.column("bucket").to_pylist() == [0]
    payload = found.column("payload")[0].as_py()
    assert isinstance(payload, bytes)
    return payload


def test_a_bucket_writes_its_young_blob_and_says_when_it_last_heard() -> None:
    published = event_row(0, "publish", 0, subscription="")
    bucket = buckets.Bucket({})
    assert (bucket.oldest_event_ms(), bucket.changed_blobs()) == (None, {})
    bucket.join([folded(published, event_row(1, "ack", 0))], 50)
    bucket.join([folded(event_row(2, "ack", 0, subscription="r"))], 70)
    # An event of the topic counts for each of its subscriptions, and an event of a subscription for its
    # topic.
    assert bucket.oldest_event_ms() == 50
    written = bucket.changed_blobs()
    assert set(written) == {0}
    again = buckets.Bucket({0: written[0] or b""})
    assert (again.oldest_event_ms(), again.changed_blobs()) == (50, {})
    again.forget(49)
    assert again.changed_blobs() == {}
    again.forget(50)
    assert again.oldest_event_ms() == 70
    again.forget(70)
    assert (again.oldest_event_ms(), again.changed_blobs()) == (None, {0: None})


def test_an_invalid_event_in_a_micro_batch_is_the_error_of_its_subscription() -> None:
    bucket = buckets.Bucket({})
    bucket.join([folded(event_row(0, "ack", 0), event_row(1, "ack", None, subscription="bad"))], 50)
    rows = rows_of(buckets.unpack_cursors([pa.RecordBatch.from_pydict({"payload": list(bucket.cursors())})]))
    assert {row["subscription"]: bool(row["error"]) for row in rows} == {"s": False, "bad": True}


def test_a_full_young_blob_keeps_only_the_ledgers_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = buckets.Bucket({})
    many = [event_row(n, "ack", 0, subscription=f"s{n}") for n in range(100)]
    bucket.join([folded(*many)], 50)
    monkeypatch.setattr(buckets, "YOUNG_BYTES_MAX", bucket._tables[0].nbytes)
    bucket.join([folded(event_row(200, "ack", 0, subscription="new"))], 70)
    assert {number: table.num_rows for number, table in bucket._tables.items()} == {0: 1, 1: 100}
    # A micro-batch that fills the young blob alone is not young.
    bucket.join([folded(*many, event_row(201, "ack", 0, subscription="new"))], 90)
    assert {number: table.num_rows for number, table in bucket._tables.items()} == {0: 0, 1: 100, 2: 101}


def test_a_bucket_without_a_clock_has_heard_of_nobody_since_the_beginning() -> None:
    bucket = buckets.Bucket({})
    bucket.join([folded(event_row(0, "publish", 0, subscription=""), event_row(1, "ack", 0))], None)
    assert bucket.oldest_event_ms() == 0
    bucket.forget(-1)
    assert set(bucket.changed_blobs()) == {0}
    bucket.forget(0)
    assert bucket.changed_blobs() == {0: None}


def test_a_subscription_without_published_entries_has_its_own_times() -> None:
    for at_ms in (None, 0, 1, 50):
        bucket = buckets.Bucket({})
        bucket.join([folded(event_row(1, "ack", 0))], at_ms)
        assert bucket.oldest_event_ms() == (at_ms or 0)
        bucket.forget((at_ms or 0) - 1)
        assert bucket.oldest_event_ms() == (at_ms or 0)


def test_the_sizes_of_what_is_written_at_once_are_as_documented() -> None:
    assert (buckets.YOUNG_BYTES_MAX, merging._RANGES, source_rows._ROWS) == (262_144, 65_536, 65_536)
    assert index_sizes._WIDTH_TOLERANCE == 1.1
    assert (audit_rows._ROWS, merging._ROWS, moment_rows._ROWS, moment_rows._EVENTS) == (64, 256, 64, 4_096)


def test_a_save_in_several_entries_is_named_by_its_last_file(tmp_path: Path) -> None:
    info = PositionInfo(3, 5, [(3, 2 * n, 2 * n + 1) for n in range(10, 200)])
    entries = list(encode_entries(info.encode(), EntrySettings(True, 300)))
    assert len(entries) > 2
    for number, data in enumerate([*entries, info.encode()]):
        (tmp_path / f"{number}").write_bytes(data)
    files = [str(tmp_path / f"{number}") for number in range(len(entries) + 1)]
    rows = rows_of(source_rows.saved_batches(json.dumps(files)))
    assert [(row["file"], row["entries"], row["error"]) for row in rows] == [
        (files[-2], len(entries), None),
        (files[-1], 1, None),
    ]


def test_sequences_are_left_out_only_if_nothing_needs_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fold_row_groups(*_: object, lean: bool = False) -> bool:
        asked.append(lean)
        return False

    monkeypatch.setattr(fold_files, "fold_row_groups", fold_row_groups)
    name, order, position = ("t", "s"), ("", 1), Position(3, 0)
    for resets, is_ordered in (
        (Resets({}, {}), False),
        (Resets({}, {}), True),
        (Resets({}, {name: (order, position)}), False),
        (Resets({name: Seek(order, position)}, {}), False),
    ):
        assert list(fold_files.FileFold([[]], resets, ordered=is_ordered, strict=False).fold([])) == []
    assert asked == [True, False, False, False]
