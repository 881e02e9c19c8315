"""Random traffic of real clients through `ackwell record` to a real broker, replayed, is the broker's state.

`make lab-test-pulsar SESSIONS=50 SEED=7` plays more sessions, or other ones. After every few steps the test
waits until neither the recording nor the broker moves: that is a snapshot. The recording is replayed up to
each snapshot and compared with the broker's answer at that time: entries and, from the side door, ack sets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ackwell.position import Position
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import SubscriptionState, replay_files
from examples.agreement import Verdict, compare
from tests.pulsar import kit
from tests.pulsar.traffic import Traffic

VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
SESSIONS = int(os.environ.get("SESSIONS", "12"))
SEED = int(os.environ.get("SEED", "1"))
SNAPSHOTS = 10
"""In each session."""
STEPS = 5
"""Between two snapshots."""
EVENTS_PER_FILE = 5_000
ON_SPARK = int(os.environ.get("ON_SPARK", "3"))
"""Snapshots that Spark replays, too: the last, and others of those before."""
PATIENCE_S = 60.0
"""How long the broker may work on after the recording rests before that is a difference."""


class Snapshot(NamedTuple):
    """A moment at which nothing moved: how many events were recorded, and the broker's answers."""

    seed: int
    did: tuple[str, ...]
    at: int
    topic: str
    answers: dict[str, Path]
    """By subscription."""


class Recording:
    """`ackwell record` in front of a broker."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self._lines: dict[Path, int] = {}

    def events(self) -> int:
        """Count the written events."""
        for path in self.folder.glob("events-*.jsonl"):
            if self._lines.get(path) != EVENTS_PER_FILE:
                self._lines[path] = path.read_bytes().count(b"\n")
        return sum(self._lines.values())


@contextmanager
def recording(broker: kit.Broker, folder: Path) -> Iterator[Recording]:
    command = [sys.executable, "-m", "ackwell", "record", "--broker", broker.service_url]
    command += ["--listen", "127.0.0.1:0", "-o", str(folder), "--events-per-file", str(EVENTS_PER_FILE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Recording(process.stdout.readline().split()[1], folder)
        finally:
            process.terminate()
            process.wait()


class Session:
    """One topic, its traffic, and the snapshots taken of it; `broker` is the topic's owner."""

    def __init__(
        self,
        broker: kit.Broker,
        record: Recording,
        seed: int,
        *,
        namespace: str = "public/default",
        parts: bool = True,
    ) -> None:
        self.broker, self._record, self.seed = broker, record, seed
        self.topic = f"persistent://{namespace}/recorded-{seed}-{uuid.uuid4()}"
        self.traffic = Traffic(record.url, self.topic, seed, parts=parts)

    def play(self) -> Iterator[Snapshot]:
        for number in range(SNAPSHOTS):
            for _ in range(STEPS):
                self.traffic.step()
            if number == SNAPSHOTS - 1:
                self.traffic.close()
            yield self.snapshot(number)

    def snapshot(self, number: int) -> Snapshot:
        """Wait until recording and broker rest in one state, or differ for good."""
        deadline = time.monotonic() + PATIENCE_S
        before: object = None
        while True:
            now = self._record.events(), self.answers()
            if now == before:
                taken = self._taken(number, *now)
                if time.monotonic() > deadline or not differences(taken, self._record.folder):
                    return taken
            before = now
            time.sleep(0.2)

    def answers(self) -> dict[str, Any]:
        internal = self.broker.admin("GET", f"{self.topic.replace('://', '/')}/internalStats")
        return {
            name: {"internalStats": internal, "cursor": self._in_memory(name)}
            for name in internal["cursors"]
            if name.startswith("sub-")
        }

    def _in_memory(self, name: str) -> dict[str, Any]:
        """Return the ack sets that the admin API does not show, without those of acknowledged entries.

        These stay in the broker's memory and mean nothing.
        """
        cursor = self.broker.cursor(self.topic, name)
        acked = [((-1, -1), tuple(cursor["markDelete"]))]
        acked += [(tuple(each[:2]), tuple(each[2:])) for each in cursor["ranges"]]
        sets = {
            position: words
            for position, words in cursor["batchDeletedIndexes"].items()
            if not any(lower < Position.parse(position) <= upper for lower, upper in acked)
        }
        return {"name": name, "batchDeletedIndexes": sets}

    def _taken(self, number: int, at: int, answers: dict[str, Any]) -> Snapshot:
        folder = self._record.folder.with_name("answers")
        folder.mkdir(exist_ok=True)
        paths = {}
        for name, answer in answers.items():
            paths[name] = folder / f"{self.seed}-{number}-{name}.stats.json"
            paths[name].write_text(json.dumps(answer), encoding="utf-8")
        return Snapshot(self.seed, tuple(self.traffic.did), at, self.topic, paths)


def differences(taken: Snapshot, folder: Path) -> list[str]:
    """Replay the recording up to a snapshot; return the differences from the broker's answer."""
    return different(taken, replay_files([folder], at=taken.at))


def different(taken: Snapshot, states: list[SubscriptionState]) -> list[str]:
    ours = {state.subscription: state for state in states if state.topic == taken.topic}
    found = [
        f"{name}: the broker has none"
        for name in ours
        if name not in taken.answers and name.startswith("sub-")
    ]
    for name, path in taken.answers.items():
        if name not in ours:
            found.append(f"{name}: replay has none")
            continue
        event = Event(taken.topic, name, taken.at, Kind.SNAPSHOT, detail=str(path))
        agreement = compare(ours[name], event, restarted=False)
        if agreement.verdict is not Verdict.AGREES:
            found.append(f"{agreement}: ours {ours[name].to_json()}")
    return found and [f"seed {taken.seed}, {taken.did}, after event {taken.at}", *found]


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_traffic_replayed_is_the_brokers_own_state(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "events"
    taken: list[Snapshot] = []
    (tmp_path / "broker").mkdir()
    with kit.running_broker(tmp_path / "broker", version) as broker, recording(broker, folder) as record:
        for seed in range(SEED, SEED + SESSIONS):
            taken += Session(broker, record, seed).play()
    found = [line for each in taken for line in differences(each, folder)]
    compared = sum(len(each.answers) for each in taken)
    with capsys.disabled():
        print(
            f"\n{version}: {len(taken)} snapshots of {compared} cursors, {taken[-1].at} events, "
            f"{len(found)} different"
        )
    assert len(taken) == SESSIONS * SNAPSHOTS
    assert not found, "\n".join(found)
    _on_spark(taken, folder, capsys)


def _on_spark(taken: list[Snapshot], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    from ackwell.spark import replay_files as replay_on_spark

    chosen = taken[-1 :: -max(len(taken) // ON_SPARK, 1)][:ON_SPARK]
    found = [line for each in chosen for line in different(each, replay_on_spark([folder], at=each.at))]
    with capsys.disabled():
        print(f"{len(chosen)} of them on Spark, {len(found)} different")
    assert not found, "\n".join(found)
