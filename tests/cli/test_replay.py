"""`ackwell replay` prints the same values as Pulsar's tools, and reports an error in one line."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ackwell import Cursor, Ledgers, NotLoadedError, StoreError
from ackwell.replay.events import Event, Kind
from ackwell.replay.saved_states import ledger_name, save_states
from ackwell.replay.states import Replay, SubscriptionState, replay_files
from ackwell.store import SqliteStore
from ackwell.store.sqlite import ledger_names
from ackwell.store.witness import confirmed_writes

TRACES = Path(__file__).parents[2] / "examples" / "traces"
SMALL = TRACES / "shared_small_holes.jsonl"


def ackwell(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ackwell", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_json_is_an_array_under_pulsars_own_names() -> None:
    (state,) = json.loads(ackwell("replay", SMALL, "--format", "json").stdout)
    stats = json.loads((TRACES / "shared_small_holes.live.stats.json").read_text())
    cursor = stats["internalStats"]["cursors"]["sub"]
    assert state == {
        "topic": "persistent://public/default/shared_small_holes-53405",
        "subscription": "sub",
        "markDeletePosition": cursor["markDeletePosition"],
        "individuallyDeletedMessages": cursor["individuallyDeletedMessages"],
        "batchDeletedIndexes": {},
        "backlogEntries": 20,
    }


def test_batch_indexes_are_signed_words() -> None:
    (state,) = json.loads(ackwell("replay", TRACES / "batch_partial.jsonl.gz", "--format", "json").stdout)
    stats = json.loads((TRACES / "batch_partial.live.stats.json").read_text())
    assert state["batchDeletedIndexes"] == stats["cursor"]["batchDeletedIndexes"]
    assert len(state["batchDeletedIndexes"]) == 296


@pytest.mark.slow
def test_at_gives_the_state_of_that_moment() -> None:
    trace = TRACES / "cumulative_batch.jsonl.gz"
    lines = gzip.decompress(trace.read_bytes()).decode().splitlines()
    snapshots = {n: json.loads(text) for n, text in enumerate(lines, 1) if '"snapshot"' in text}
    assert len(snapshots) == 8
    for line, snapshot in list(snapshots.items())[:3]:
        (state,) = json.loads(ackwell("replay", trace, "--at", line, "--format", "json").stdout)
        assert state["markDeletePosition"] == snapshot["markDelete"]
        assert state["backlogEntries"] == snapshot["backlog"]
    assert json.loads(ackwell("replay", trace, "--at", 0, "--format", "json").stdout) == []


def test_saved_cursors_come_back(tmp_path: Path) -> None:
    trace = TRACES / "batch_partial.jsonl.gz"
    ackwell("replay", trace, "--save", tmp_path / "cursors.db")
    (state,) = replay_files([trace])
    with SqliteStore(tmp_path / "cursors.db", f"{state.topic} {state.subscription}") as store:
        again = Cursor.load(store, state.cursor.ledgers)
    assert again.batch_deleted == state.cursor.batch_deleted
    assert again.individually_deleted == state.cursor.individually_deleted
    assert again.mark_delete_position == state.cursor.mark_delete_position


@pytest.mark.slow
def test_saved_cursors_are_replaced_only_when_told_to(tmp_path: Path) -> None:
    file = tmp_path / "cursors.db"
    trace, other = TRACES / "batch_partial.jsonl.gz", TRACES / "shared_all_acked.jsonl.gz"
    ackwell("replay", trace, "--save", file)
    (state,) = replay_files([trace])
    name = f"{state.topic} {state.subscription}"
    with SqliteStore(file, name) as owner:
        cursor = Cursor.load(owner, state.cursor.ledgers)
        before = ledger_names(file)
        refused = ackwell("replay", trace, other, "--save", file, code=1)
        assert f"already holds 1 of these cursors, such as '{name}'" in refused.stderr
        assert "--replace" in refused.stderr
        # Nothing was saved, and the owner continues.
        assert ledger_names(file) == before
        cursor.properties["still"] = 1
        cursor.save(owner)
    ackwell("replay", trace, other, "--save", file, "--replace")
    assert len(ledger_names(file)) == 2
    with SqliteStore(file, name, read_only=True) as store:
        assert Cursor.load(store, state.cursor.ledgers).properties == state.cursor.properties


def test_names_with_spaces_are_ledgers_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "cursors.db"
    names = [("a b", "c"), ("a", "b c"), ("a%20b", "c")]
    events = [
        Event(topic, subscription, line, kind, ledger_id=3, entry_id=number)
        for number, (topic, subscription) in enumerate(names)
        for line, kind in enumerate((Kind.PUBLISH, Kind.ACK))
    ]
    replayed = Replay()
    for event in events:
        replayed.feed(event)
    save_states(replayed.states(), file)
    assert ledger_names(file) == ["a b%20c", "a%20b c", "a%2520b c"]
    for number, (topic, subscription) in enumerate(names):
        with SqliteStore(file, ledger_name(topic, subscription), read_only=True) as store:
            assert Cursor.load(store, Ledgers({3: number + 1})).is_acked(3, number)


def test_a_new_file_has_all_cursors_or_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = Replay()
    for number, subscription in enumerate("ab"):
        for line, kind in enumerate((Kind.PUBLISH, Kind.ACK)):
            replayed.feed(Event("topic", subscription, line, kind, ledger_id=3, entry_id=number))
    file, states, save = tmp_path / "cursors.db", replayed.states(), Cursor.save

    def fails(cursor: Cursor, *arguments: Any, **options: Any) -> object:
        if cursor is states[1].cursor:
            raise StoreError("the disk is full")
        return save(cursor, *arguments, **options)

    monkeypatch.setattr(Cursor, "save", fails)
    with pytest.raises(StoreError, match="full"):
        save_states(states, file)
    assert [(each.name, each.stat().st_size) for each in tmp_path.iterdir()] == [(file.name, 0)]
    monkeypatch.undo()
    save_states(states, file)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cursors.db", "cursors.db-witness"]
    assert ledger_names(file) == ["topic a", "topic b"]
    file.unlink()
    link = tmp_path / "link.db"
    link.symlink_to(file)
    for gone in (file, link):
        with pytest.raises(StoreError, match="belongs to a file that is gone"):
            save_states(states, gone)
    with pytest.raises(StoreError, match="no such folder"):
        save_states(states, tmp_path / "missing" / "cursors.db")


def test_a_file_that_exists_gets_all_cursors_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = Ledgers({3: 3})

    def states(subscriptions: str, *acked: int) -> list[SubscriptionState]:
        replayed = Replay()
        for subscription in subscriptions:
            for line, entry_id in enumerate((0, 1, 2)):
                replayed.feed(
                    Event("topic", subscription, line, Kind.PUBLISH, ledger_id=3, entry_id=entry_id)
                )
            for entry_id in acked:
                replayed.feed(Event("topic", subscription, 5, Kind.ACK, ledger_id=3, entry_id=entry_id))
        return replayed.states()

    def saved() -> dict[str, list[int]]:
        found = {}
        for name in ledger_names(file):
            with SqliteStore(file, name, read_only=True) as store:
                cursor = Cursor.load(store, ledgers)
                found[name] = [entry_id for entry_id in range(3) if cursor.is_acked(3, entry_id)]
        return found

    file, save, more = tmp_path / "cursors.db", Cursor.save, states("abc", 0, 1)
    save_states(states("b", 0), file)

    def fails(cursor: Cursor, *arguments: Any, **options: Any) -> object:
        if cursor is more[2].cursor:
            raise StoreError("the disk is full")
        return save(cursor, *arguments, **options)

    monkeypatch.setattr(Cursor, "save", fails)
    with pytest.raises(StoreError, match="full"):
        save_states(more, file, replace=True)
    assert saved() == {"topic b": [0]}
    monkeypatch.undo()
    save_states(more, file, replace=True)
    assert saved() == {"topic a": [0, 1], "topic b": [0, 1], "topic c": [0, 1]}
    # The confirmed save is recorded, and the file is still usable.
    assert len(confirmed_writes(file)) == 3
    save_states(states("c", 2), file, replace=True)
    assert saved() == {"topic a": [0, 1], "topic b": [0, 1], "topic c": [2]}


def one_state(subscription: str) -> list[SubscriptionState]:
    replayed = Replay()
    for line, kind in enumerate((Kind.PUBLISH, Kind.ACK)):
        replayed.feed(Event("topic", subscription, line, kind, ledger_id=3, entry_id=0))
    return replayed.states()


def test_a_worker_that_creates_the_file_during_a_save_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker waits for the transaction of the save."""
    file, save = tmp_path / "cursors.db", Cursor.save
    program = (
        "import sys; from ackwell import Cursor, Ledgers; from ackwell.store import SqliteStore\n"
        "with SqliteStore(sys.argv[1], 'worker', timeout_s=60) as store:\n"
        "    print('opened', flush=True)\n"
        "    Cursor(Ledgers({3: 1})).save(store)"
    )
    workers = []

    def saves(cursor: Cursor, *arguments: Any, **options: Any) -> object:
        workers.append(subprocess.Popen([sys.executable, "-c", program, file], stdout=subprocess.PIPE))
        assert workers[0].stdout is not None
        assert workers[0].stdout.readline() == b"opened\n"
        return save(cursor, *arguments, **options)

    monkeypatch.setattr(Cursor, "save", saves)
    save_states(one_state("a"), file)
    (worker,) = workers
    worker.communicate()
    assert worker.returncode == 0
    assert ledger_names(file) == ["topic a", "worker"]


@pytest.mark.slow
def test_two_replays_that_save_to_one_new_file_at_once_both_save(tmp_path: Path) -> None:
    file = tmp_path / "cursors.db"
    traces = []
    for subscription in "abcd":
        traces.append(tmp_path / f"{subscription}.jsonl")
        traces[-1].write_text(
            "".join(
                json.dumps({"topic": "t", "sub": subscription, "ev": kind, "l": 3, "e": 0}) + "\n"
                for kind in ("publish", "ack")
            )
        )
    command = [sys.executable, "-m", "ackwell", "replay", "--save", str(file)]
    processes = [subprocess.Popen([*command, trace], stdout=subprocess.DEVNULL) for trace in traces]
    assert [process.wait() for process in processes] == [0] * len(traces)
    assert ledger_names(file) == [f"t {subscription}" for subscription in "abcd"]


def test_a_save_follows_a_link_and_replaces_neither_links_nor_devices(tmp_path: Path) -> None:
    file, link = tmp_path / "cursors.db", tmp_path / "link.db"
    link.symlink_to(file)
    save_states(one_state("a"), link)
    save_states(one_state("b"), file)
    assert link.is_symlink()
    assert ledger_names(link) == ledger_names(file) == ["topic a", "topic b"]
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/null"), tmp_path / "pipe"):
        with pytest.raises(StoreError, match="not a regular file"):
            save_states(one_state("a"), path)
    assert Path("/dev/null").is_char_device()


def test_a_save_that_is_refused_changes_no_cursor_of_another_save(tmp_path: Path) -> None:
    file = tmp_path / "cursors.db"
    save_states(one_state("b"), file)
    before = file.read_bytes()
    with pytest.raises(NotLoadedError, match="already holds 1 of these cursors, such as 'topic b'"):
        save_states([*one_state("a"), *one_state("b")], file)
    assert file.read_bytes() == before


def test_a_file_whose_first_save_was_killed_after_its_commit_is_saved_to(tmp_path: Path) -> None:
    """The journal of the file is not a write-ahead log yet."""
    file = tmp_path / "cursors.db"
    save_states(one_state("a"), file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    save_states([*one_state("a"), *one_state("b")], file, replace=True)
    assert ledger_names(file) == ["topic a", "topic b"]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("left", ["wal", "journal"])
def test_no_new_file_is_put_beside_the_log_of_another(tmp_path: Path, left: str) -> None:
    replayed = Replay()
    for line, kind in enumerate((Kind.PUBLISH, Kind.ACK)):
        replayed.feed(Event("topic", "a", line, kind, ledger_id=3, entry_id=0))
    file, log = tmp_path / "cursors.db", tmp_path / f"cursors.db-{left}"
    with SqliteStore(file, ledger_name("topic", "a")) as store:
        Cursor(Ledgers({3: 1})).save(store)
        found = (tmp_path / "cursors.db-wal").read_bytes()
    for each in tmp_path.iterdir():
        each.unlink()
    log.write_bytes(found)
    # SQLite would use it as the log of the new file, and read the older cursor.
    with pytest.raises(StoreError, match=f"cursors.db-{left} belongs to a file that is gone"):
        save_states(replayed.states(), file)
    assert [each.name for each in tmp_path.iterdir()] == [log.name]
    assert log.read_bytes() == found


@pytest.mark.slow
def test_a_live_store_is_inspected_and_compared_without_fencing_its_owner(tmp_path: Path) -> None:
    file, other = tmp_path / "cursors.db", tmp_path / "other.db"
    ledgers = Ledgers({3: 100})
    owners = {}
    for path, entry_ids in ((file, [4, 7]), (other, [4, 9])):
        owners[path] = SqliteStore(path, "orders billing")
        cursor = Cursor(ledgers)
        for entry_id in entry_ids:
            cursor.ack(3, entry_id)
            cursor.save(owners[path])
    with SqliteStore(other, "empty") as empty:
        empty.own()
    (shown,) = json.loads(ackwell("inspect", file, "--format", "json").stdout)
    assert shown["individuallyDeletedMessages"] == "[(3:3..3:4],(3:6..3:7]]"
    assert shown["file"] == f"{file}, orders billing"
    assert "no state was saved" in ackwell("inspect", other).stdout
    assert "no ledger 'x'" in ackwell("inspect", other, "--ledger", "x", code=1).stderr
    found = json.loads(
        ackwell("diff", file, other, "--ledger", "orders billing", "--format", "json", code=3).stdout
    )
    assert (found["acked"], found["unacked"]) == ("[(3:8..3:9]]", "[(3:6..3:7]]")
    assert "name one ledger with --ledger" in ackwell("diff", file, other, code=1).stderr
    for owner in owners.values():
        owner.append(b"the owner goes on")
        owner.close()
    damaged = ackwell("inspect", file, code=1).stderr
    assert "entry 2 is damaged" in damaged
    assert "the newest undamaged state is at entry 1" in damaged


def test_a_table_lists_every_subscription() -> None:
    printed = ackwell("replay", TRACES / "shared_all_acked.jsonl.gz", SMALL).stdout
    assert "41:1999" in printed
    assert "45:-1" in printed
    note = "acked, redelivered: by a graceful restart of a 4.2 broker with its default settings"
    assert printed.splitlines()[-1] == note


@pytest.mark.parametrize("text", ['{"ev":"ack"', '{"ev":"ack","l":99,"e":2}'])
def test_a_bad_line_is_one_line_of_error(tmp_path: Path, text: str) -> None:
    trace = tmp_path / "torn.jsonl"
    trace.write_text(SMALL.read_text(encoding="utf-8") + text)
    error = ackwell("replay", trace, code=1).stderr
    assert error.count("\n") == 1
    assert "torn.jsonl, line 167" in error


@pytest.mark.slow
def test_bad_subscriptions_are_named_in_a_line_each_and_the_others_are_shown(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    lines = SMALL.read_text().splitlines()
    lines += [json.dumps({"ev": "ack", "topic": f"[/red] {'long ' * 40}", "sub": "s"})]
    trace.write_text("\n".join(lines))
    kept = ackwell("replay", trace, "--keep-going", "--format", "json", code=1)
    assert len(json.loads(kept.stdout)) == 1
    bad, last = kept.stderr.splitlines()
    assert bad.startswith("not replayed: [/red] long ")
    assert bad.endswith("no position; this kind needs a ledger id and an entry id")
    assert last == "error: 1 of 2 subscriptions were not replayed"
    assert "without --spark" in ackwell("replay", trace, "--keep-going", "--spark", code=2).stderr


def test_a_missing_file_is_named() -> None:
    assert "nowhere.jsonl: no such file" in ackwell("replay", "nowhere.jsonl", code=1).stderr


def test_help_shows_examples() -> None:
    assert "ackwell replay examples/traces" in ackwell("replay", "--help").stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m ackwell replay --format json {TRACES / 'cumulative.jsonl.gz'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[\n", "")
