"""A stream of cursors, its driver and JVM killed at random moments: `make lab-test-faults`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benches.fleet import Fleet, chunk_events, chunks
from tests.spark.rows import local_rows
from tests.spark.test_equality import as_events

ROOT = Path(__file__).parents[2]
FILES = 40
KILLS = 24
MOMENTS = ("recovering", "before offsets", "before commit", "in the sink")
FLEET = Fleet(subscriptions=6, entries=9_000, hot_share=1 / 6, entries_per_ledger=500, ack_window=300)


def write_events(folder: Path) -> pa.Table:
    """A small fleet by time, in files of equal modification order."""
    table = pa.Table.from_batches([chunk_events(FLEET, chunk) for chunk in chunks(FLEET)])
    table = table.sort_by([("time_ms", "ascending"), ("topic", "ascending"), ("sequence", "ascending")])
    folder.mkdir()
    size = table.num_rows // FILES + 1
    for number in range(FILES):
        path = folder / f"{number:03}.parquet"
        pq.write_table(table.slice(number * size, size), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return table


@contextmanager
def streaming(events: Path, place: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the stream, a driver and its JVM, in a new process group."""
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.faults.streamer", str(events), str(place)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def last(folder: Path) -> int:
    """Return the number of the last micro-batch in a log of the checkpoint; -1 for none."""
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)


def standing(place: Path) -> str:
    """Return the moment of a kill, from the files that it left."""
    offsets, commits = (last(place / "checkpoint" / log) for log in ("offsets", "commits"))
    if offsets == commits:
        return "before offsets"
    written = place / "out" / f"{offsets:06}"
    if written.exists() and not (written / "_SUCCESS").exists():
        return "in the sink"
    return "before commit"


def kill_once(events: Path, place: Path, moment: str, chance: random.Random) -> None:
    """Kill the stream at a moment: at once or a little later."""
    logs = {"before offsets": "commits", "before commit": "offsets"}
    with streaming(events, place) as driver:
        assert driver.stdout is not None
        if moment == "recovering":
            time.sleep(chance.uniform(2, 10))
        elif moment == "in the sink":
            for _ in range(chance.randint(1, 2)):
                word, number = driver.stdout.readline().split()
                assert word == "sink"
            while not (place / "out" / f"{int(number):06}").exists():
                time.sleep(0.001)
            time.sleep(chance.random() * 0.3)
        else:
            log = place / "checkpoint" / logs[moment]
            until = last(log) + chance.randint(1, 2)
            while last(log) < until and driver.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.random() * (0.02 if moment == "before offsets" else 0.5))
        assert driver.poll() is None, "the stream ended before it was killed"


def batches(place: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of the sink by micro-batch."""
    names = [("topic", "ascending"), ("subscription", "ascending")]
    return [pq.read_table(folder).sort_by(names).to_pylist() for folder in sorted((place / "out").iterdir())]


@pytest.mark.faults
def test_a_stream_killed_again_and_again_ends_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    events = tmp_path / "events"
    table = write_events(events)
    with streaming(events, tmp_path / "calm") as driver:
        assert driver.wait(300) == 0
    chance, place, moments = random.Random(7), tmp_path / "killed", Counter[str]()
    for number in range(KILLS):
        kill_once(events, place, MOMENTS[number % len(MOMENTS)], chance)
        moments[standing(place)] += 1
    with streaming(events, place) as driver:
        assert driver.wait(300) == 0
    print(f"{KILLS} kills:", dict(moments))
    assert set(MOMENTS[1:]) <= set(moments)
    calm, killed = batches(tmp_path / "calm"), batches(place)
    assert len(calm) == FILES
    for number, (expected, found) in enumerate(zip(calm, killed, strict=True)):
        assert expected == found, f"micro-batch {number}"
    final: dict[str, dict[str, Any]] = {row["topic"]: row for rows in killed for row in rows}
    replayed = local_rows(as_events(table.to_batches()))
    assert len(replayed) == FLEET.subscriptions
    for (topic, _), row in replayed.items():
        for name in ("mark_delete_entry_id", "individually_deleted", "position_info", "compact"):
            assert row[name] == final[topic][name], (topic, name)
