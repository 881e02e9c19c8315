"""`ackwell replay` prints what Pulsar's own tools would, and says what is wrong in one line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ackwell import Cursor
from ackwell.replay.states import replay_files
from ackwell.store import SqliteStore

TRACES = Path(__file__).parents[2] / "examples" / "traces"
SMALL = TRACES / "shared_small_holes.jsonl"


def ackwell(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ackwell", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_json_is_an_array_under_pulsars_own_names() -> None:
    (state,) = json.loads(ackwell("replay", SMALL, "--json").stdout)
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
    (state,) = json.loads(ackwell("replay", TRACES / "batch_partial.jsonl.gz", "--json").stdout)
    stats = json.loads((TRACES / "batch_partial.live.stats.json").read_text())
    assert state["batchDeletedIndexes"] == stats["cursor"]["batchDeletedIndexes"]
    assert len(state["batchDeletedIndexes"]) == 296


def test_at_gives_the_state_of_that_moment() -> None:
    trace = TRACES / "cumulative_batch.jsonl.gz"
    lines = gzip.decompress(trace.read_bytes()).decode().splitlines()
    snapshots = {n: json.loads(text) for n, text in enumerate(lines, 1) if '"snapshot"' in text}
    assert len(snapshots) == 8
    for line, snapshot in list(snapshots.items())[:3]:
        (state,) = json.loads(ackwell("replay", trace, "--at", line, "--json").stdout)
        assert state["markDeletePosition"] == snapshot["markDelete"]
        assert state["backlogEntries"] == snapshot["backlog"]
    assert json.loads(ackwell("replay", trace, "--at", 0, "--json").stdout) == []


def test_saved_cursors_come_back(tmp_path: Path) -> None:
    trace = TRACES / "batch_partial.jsonl.gz"
    ackwell("replay", trace, "--save", tmp_path / "cursors.db")
    (state,) = replay_files([trace])
    with SqliteStore(tmp_path / "cursors.db", f"{state.topic} {state.subscription}") as store:
        again = Cursor.load(store, state.cursor.ledgers)
    assert again.batch_deleted == state.cursor.batch_deleted
    assert again.individually_deleted == state.cursor.individually_deleted
    assert again.mark_delete_position == state.cursor.mark_delete_position


def test_a_table_lists_every_subscription() -> None:
    printed = ackwell("replay", TRACES / "shared_all_acked.jsonl.gz", SMALL).stdout
    assert "41:1999" in printed
    assert "45:-1" in printed


@pytest.mark.parametrize("text", ['{"ev":"ack"', '{"ev":"ack","l":1,"e":2}'])
def test_a_bad_line_is_one_line_of_error(tmp_path: Path, text: str) -> None:
    trace = tmp_path / "torn.jsonl"
    trace.write_text(SMALL.read_text(encoding="utf-8") + text)
    error = ackwell("replay", trace, code=1).stderr
    assert error.count("\n") == 1
    assert "torn.jsonl, line 167" in error


def test_a_missing_file_is_named() -> None:
    assert "nowhere.jsonl: no such file" in ackwell("replay", "nowhere.jsonl", code=1).stderr


def test_help_shows_examples() -> None:
    assert "ackwell replay examples/traces" in ackwell("replay", "--help").stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m ackwell replay --json {TRACES / 'cumulative.jsonl.gz'} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[\n", "")
