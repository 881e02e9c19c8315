"""A recording through crashes of a real broker: the replay equals its state, or a gap names the difference.

`make lab-test-pulsar` crashes each version once. `CRASHES=20 VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1"` asks for
more.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.replay.states import replay_files
from examples.agreement import Verdict, compare
from tests.pulsar import kit
from tests.pulsar.test_recording import Recording, Session, Snapshot, recording

CRASHES = int(os.environ.get("CRASHES", "1"))
SEED = int(os.environ.get("SEED", "1"))
STEPS = 12
"""Before each crash, and after it."""
TOPICS = 2
RECONNECTED_WITHIN_S = 60.0


class Compared(NamedTuple):
    """One subscription after a crash."""

    subscription: str
    verdict: Verdict
    gaps: list[str]
    mark_deletes: tuple[str, str]


def compared(taken: Snapshot, folder: Path) -> Iterator[Compared]:
    """Replay up to a snapshot, and hold each subscription against the broker's answer."""
    events = [each for each in read_events([folder]) if (each.sequence or 0) <= taken.at]
    states = {
        each.subscription: each for each in replay_files([folder], at=taken.at) if each.topic == taken.topic
    }
    for name, path in taken.answers.items():
        about = (f"the state of {name} ", f"the state of {name}:", f"the position of {name} ")
        gaps = [
            each.detail
            for each in events
            if each.kind is Kind.GAP and each.detail and each.topic in (taken.topic, "*")
            and each.detail.startswith(about)
        ]  # fmt: skip
        verdict = compare(
            states[name], Event(taken.topic, name, taken.at, Kind.SNAPSHOT, detail=str(path)), restarted=False
        ).verdict
        yield Compared(name, verdict, gaps, (str(states[name].cursor.mark_delete_position), str(path)))


def crashes(broker: kit.Broker, record: Recording, seed: int) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Run traffic through a crash; yield the state before it and after it."""
    chance = random.Random(seed)
    sessions = [Session(broker, record, 1_000 * seed + number) for number in range(TOPICS)]
    for each in sessions:
        for _ in range(STEPS):
            each.traffic.step()
    before = [each.snapshot(0) for each in sessions]
    for each in sessions:
        # Changes that the broker does not persist before the crash.
        for _ in range(STEPS // 4):
            chance.choice([each.traffic.acknowledge, each.traffic.come_or_go])()
    broker.stop(crash=True)
    broker.start()
    for each in sessions:
        deadline = time.monotonic() + RECONNECTED_WITHIN_S
        while time.monotonic() < deadline:
            with suppress(Exception):
                each.traffic.producers[0].send(b"back")
                break
        for _ in range(STEPS):
            # A client that was cut off in the middle of a command says so.
            with suppress(Exception):
                each.traffic.step()
    after = [each.snapshot(1) for each in sessions]
    for each in sessions:
        each.traffic.close()
    yield from zip(before, after, strict=True)


@pytest.mark.parametrize("version", os.environ.get("VERSIONS", kit.VERSIONS[0]).split())
def test_a_recording_through_crashes_is_the_brokers_state_or_says_what_it_cannot_see(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    silent: list[str] = []
    (tmp_path / "broker").mkdir()
    folder = tmp_path / "events"
    with kit.running_broker(tmp_path / "broker", version) as broker, recording(broker, folder) as record:
        for seed in range(SEED, SEED + CRASHES):
            for before, after in crashes(broker, record, seed):
                for each in compared(before, folder):
                    assert each.verdict is Verdict.AGREES or each.gaps, (before, each)
                    counts["before"] += 1
                for each in compared(after, folder):
                    agrees = each.verdict is Verdict.AGREES
                    counts["equal" if agrees else "gap" if each.gaps else "silent"] += 1
                    counts["with a gap"] += bool(each.gaps)
                    if not agrees and not each.gaps:
                        silent.append(f"seed {seed}, {after.did}: {each}")
            with capsys.disabled():
                print(f"\n{version}, crash {seed}: {dict(counts)}", *silent, sep="\n", flush=True)
    assert not silent
    # After a crash the protocol shows the mark-delete position of a subscription, and not its ranges. So a
    # few states differ, each with a gap.
    assert counts["equal"] > counts["gap"]
