"""The data sources, and the restart audit on their rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import PositionInfo
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import read_stats
from ackwell.spark import read_events, register, replay, restart_audit
from ackwell.spark.data_sources import EventTrace, contains
from ackwell.spark.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACES = Path("examples/traces").resolve()


@pytest.mark.connect
@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ('{"ev":"meta","topic":"t","sub":"s"}\n{"ev":"ack","l":1,"e"', 2, "torn"),
        ('{"ev":"meta","topic":"t","sub":"s"}\n\n{"ev":"hop"}\n', 3, "unknown event kind"),
    ],
)
def test_a_bad_line_is_refused_with_its_file_and_number(
    spark: SparkSession, tmp_path: Path, lines: str, line: int, message: str
) -> None:
    trace = tmp_path / "bad.jsonl"
    trace.write_text(lines)
    with pytest.raises(Exception, match=message) as refused:
        read_events(spark, str(trace)).collect()
    assert f"{trace}, line {line}: " in str(refused.value)


@pytest.mark.connect
def test_stats_dumps_are_read_as_the_doctor_reads_them(spark: SparkSession) -> None:
    register(spark)
    table = spark.read.format("pulsar_stats").load(str(TRACES))
    found = {(row.file, row.subscription): row for row in table.collect()}
    expected = list(read_stats(TRACES))
    assert expected
    assert {(stats.source, stats.subscription) for stats in expected} == set(found)
    for stats in expected:
        row = found[stats.source, stats.subscription]
        assert str(stats.individually_deleted) == row.individually_deleted
        assert stats.backlog_entries == row.backlog_entries


def test_saved_cursors_are_a_row_a_save(spark: SparkSession, tmp_path: Path) -> None:
    """An invalid entry does not affect the others, and the last save can be an initial state."""
    folder = tmp_path / "topic=persistent%3A%2F%2Fa" / "subscription=s"
    folder.mkdir(parents=True)
    for number, info in enumerate((PositionInfo(3, 1), PositionInfo(3, 1, [(3, 2, 4)], {(3, 7): [-2]}))):
        (folder / f"{number}.bin").write_bytes(info.encode("pulsar-ranges"))
    (folder / "2.bin").write_bytes(b"\xff\xff")
    (folder / ".3.bin").write_bytes(b"hidden")
    register(spark)
    table = spark.read.format("pulsar_saves").load(str(tmp_path))
    first, second, bad = table.orderBy("number").collect()
    assert (first.topic, first.subscription, first.number) == ("persistent://a", "s", 0)
    assert (first.mark_delete_entry_id, first.individually_deleted, first.error) == (1, "[]", None)
    assert (second.individually_deleted, second.batch_deleted) == ("[(3:2..3:4]]", {"3:7": [-2]})
    assert (bad.individually_deleted, bad.error is None) == (None, False)
    events = spark.createDataFrame(
        [("persistent://a", "s", 1, "publish", 3, 9), ("persistent://a", "s", 2, "ack", 3, 2)],
        "topic string, subscription string, sequence long, kind string, ledger_id long, entry_id long",
    )
    (row,) = replay(events, start_from=table.where("number = 1")).collect()
    assert (row.mark_delete_entry_id, row.error) == (4, None)
    assert dict(row.batch_deleted) == {"3:7": [-2]}


def test_the_folders_of_collect_are_read_as_dumps(spark: SparkSession, tmp_path: Path) -> None:
    """The manifest and the files of an interrupted run are not read as dumps."""
    run = tmp_path / "2026-11-22T07-45-00Z"
    run.mkdir()
    name = "holes_long_10k_graceful.before.stats.json.gz"
    (run / name).write_bytes((TRACES / name).read_bytes())
    (run / f".{name}.tmp").write_bytes(b"half")
    (run / f".{name}").write_bytes(b"hidden")
    (run / "collected.manifest").write_text("{}")
    register(spark)
    (row,) = spark.read.format("pulsar_stats").load(str(tmp_path)).collect()
    assert row.file == str(run / name)


def test_the_audit_is_the_in_process_one_worst_first(spark: SparkSession) -> None:
    from ackwell.replay.states import replay_files

    traces = [TRACES / f"{name}.jsonl.gz" for name in ("holes_long_10k_graceful", "batch_partial")]
    states = {state.topic: state for state in replay_files(traces)}
    cursors = replay(read_events(spark, *map(str, traces)))
    rows = restart_audit(cursors, restarts=("graceful",)).collect()
    assert [row.topic for row in rows] == sorted(
        states, key=lambda topic: -states[topic].restart_loss().messages.at_least
    )
    assert rows[0].lost_messages_min == 17_500
    for row in rows:
        loss = states[row.topic].restart_loss()
        assert (loss.messages.at_least, loss.messages.at_most, loss.entries) == (
            row.lost_messages_min,
            row.lost_messages_max,
            row.lost_entries,
        )
        assert [str(reason) for reason in loss.reasons] == row.reasons


@pytest.mark.connect
def test_the_audit_takes_stats_dumps_too(spark: SparkSession) -> None:
    register(spark)
    dump = TRACES / "holes_long_10k_graceful.before.stats.json.gz"
    table = spark.read.format("pulsar_stats").load(str(dump))
    rows = restart_audit(table).collect()
    assert {"graceful", "crash"} == {row.restart for row in rows}
    assert all(row.lost_messages_min == 17_500 for row in rows)
    enough = BrokerSettings().with_values(["managedLedgerMaxUnackedRangesToPersist=100000"])
    assert [
        row.lost_messages_min for row in restart_audit(table, enough, restarts=("graceful",)).collect()
    ] == [0]


def test_a_stream_that_ends_leaves_files_that_come_later_to_the_next_run(tmp_path: Path) -> None:
    def arrive(name: str, modified_ns: int) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(modified_ns, modified_ns))

    for number, name in enumerate(("b.jsonl", "a.jsonl"), 1):
        arrive(name, number)
    reader: Any = EventTrace({"path": str(tmp_path)}).streamReader(EVENTS)
    begin = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    arrive("c.jsonl", 3)
    end = reader.latestOffset(begin, None)
    assert end == {"modified_ns": 2, "path": str(tmp_path / "a.jsonl")}
    assert [part.value for part in reader.partitions(begin, end)] == [str(tmp_path / "b.jsonl"), end["path"]]
    assert reader.latestOffset(end, None) == end
    later: Any = EventTrace({"path": str(tmp_path)}).streamReader(EVENTS)
    assert later.latestOffset(end, None) == {"modified_ns": 3, "path": str(tmp_path / "c.jsonl")}


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(os, "scandir", refuse)
    for read in (EventTrace({"path": str(tmp_path)}).files, lambda: contains(str(tmp_path), (".jsonl",))):
        with pytest.raises(PermissionError):
            read()
