"""Kills ZooKeeper and the bookie, or a broker, at random points of `rescue begin` and `end`.

    python -m tests.pulsar.window_faults --trials 12 --topics 3

A trial runs `begin`, restarts a broker, and runs `end`, with one kill at a random progress of one of the two
commands. The command is repeated until it succeeds. The subscriptions that were held with a snapshot at the
time of the kill must receive no acknowledged message again. If the kill came earlier, this holds for the
acknowledgments of the snapshot. The last command must name each hold that remains.
If a killed broker had accepted the release of a subscription, the subscription was not held, even if its
journal still exists. The kill then loses the restored acknowledgments beyond the limit, as after any release.
A kill during `begin` and the restart after it may close a topic of 4.2.4 twice without an acknowledgment. The
broker then loses the acknowledged parts of batches (docs/findings.md), which the admin API does not show.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ackwell.cluster.admin import Admin, quoted, topic_path
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import StatsError
from ackwell.rescue.holding import HOLD
from ackwell.rescue.windows import Window
from tests.commands import ackwell
from tests.pulsar.cluster import running_cluster
from tests.pulsar.rolling import (
    NAMESPACE,
    QUIET_S,
    SETTINGS,
    Application,
    admins,
    check_acknowledgments,
    use,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell import PositionRangeSet
    from tests.pulsar.cluster import Cluster, ClusterBroker

ATTEMPTS_MAX = 8
KILL_MAX_S = 120.0
"""How long a kill waits for the progress that it was drawn for."""
POLICIES_S = 5.0
"""How long a started broker may take to read its policies."""
Name = tuple[str, str]


class Trial(NamedTuple):
    """The result of a trial."""

    during: str
    killed: str
    at: float
    """The share of its files that the command had written at the time of the kill."""
    codes: list[int]
    """The exit codes of the command that was disturbed, in order."""
    protected: int
    """The subscriptions that were held with a snapshot at the time of the kill."""
    again: int
    """Messages of acknowledged entries that these received again; after `begin`, of any saved entry."""
    others_again: int
    """Other messages of acknowledged entries: of subscriptions not held yet, or released already."""
    parts_again: int
    """Acknowledged messages of partly acknowledged batches that were delivered again."""
    conflicts: int
    """Transactions that a consumer aborted because a restored entry was in them."""
    held: list[Name]
    """The holds that remain."""
    named: list[Name]
    """The holds that the last command names."""


class Kill(threading.Thread):
    """Kills ZooKeeper and the bookie, or a broker, at a random progress of a command."""

    def __init__(
        self,
        cluster: Cluster,
        window: Window,
        during: str,
        broker: ClusterBroker | None,
        wanted: float,
        audit: Path,
    ) -> None:
        super().__init__()
        self._cluster, self._window, self._during, self._broker = cluster, window, during, broker
        self._wanted, self._audit = wanted, audit
        self.at = 1.0
        self.protected: set[Name] = set()

    def run(self) -> None:
        """Wait for the progress, kill, and start again."""
        end_s = time.monotonic() + KILL_MAX_S
        while (at := self._progress()) < self._wanted and time.monotonic() < end_s:
            time.sleep(0.01)
        self.at, before = at, self._held()
        if self._during == "begin":
            # A journal is written before its hold.
            before = {each for each in before if _is_held(self._cluster, each)}
        if self._broker is None:
            self._cluster.signal_store(signal.SIGKILL)
            self.protected = before & self._held()
            self._cluster.start_store()
        else:
            self._broker.stop(crash=True)
            after, releasing = before & self._held(), _released(self._audit)
            self._broker.start()
            self.protected = after - releasing | _still_held(self._cluster, after & releasing)

    def _progress(self) -> float:
        """Return the share of the files that the command has written."""
        of = self._window
        if not of.file.exists():
            return 0.0
        names, files = of.names(), [of.report] if self._during == "end" else [of.journal, of.snapshot]
        return sum(file(name).exists() for name in names for file in files) / max(len(files) * len(names), 1)

    def _held(self) -> set[Name]:
        """Return the subscriptions that are held and have a snapshot."""
        of = self._window
        names = of.names() if of.file.exists() else []
        return {each for each in names if of.journal(each).exists() and of.snapshot(each).exists()}


def trials(folder: Path, count: int, topics: int, seed: int) -> Iterator[Trial]:
    """Play trials on one cluster; `AssertionError` for an acknowledgment that no consumer made."""
    chance = random.Random(seed)
    with running_cluster(folder, "4.2.4", **SETTINGS) as cluster:
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        application = Application(cluster, topics)
        try:
            use(application, 160)
            for number in range(count):
                kill, during = ("store", "broker")[number % 2], ("end", "begin")[number // 2 % 2]
                yield _trial(cluster, application, folder / f"window{number}", during, kill, chance)
            check_acknowledgments(cluster, application, "none")
        finally:
            application.close()


def _trial(
    cluster: Cluster,
    application: Application,
    window: Path,
    during: str,
    killed: str,
    chance: random.Random,
) -> Trial:
    before, conflicts = len(application.redelivered()), application.transactional.conflicts()
    codes, out = [], ""
    audit = window.with_suffix(".audit")
    commands = {
        "begin": ("begin", NAMESPACE, "-o", str(window)),
        "end": ("end", str(window), "--restart", "crash"),
    }
    for command, words in commands.items():
        if command == "end":
            broker = _owner(cluster, application, chance)
            broker.stop()
            broker.start()
        if command == during:
            victim = _owner(cluster, application, chance) if killed == "broker" else None
            kill = Kill(cluster, Window(window), during, victim, chance.random(), audit)
            kill.start()
        for _ in range(ATTEMPTS_MAX):
            options = ("--admin", admins(cluster), "--yes", "--audit", str(audit))
            done = ackwell("rescue", *words, *options)
            out = done.out
            if command == during:
                codes.append(done.code)
                kill.join()
            if done.code == 0:
                break
        if command == "begin":
            begun_s = time.monotonic()
    time.sleep(QUIET_S)
    application.wait_until_quiet()
    use(application, 10)
    redelivered = application.redelivered()[before:]
    saved = _saved(Window(window)) if during == "begin" else {}
    again = [
        not each.is_part
        and (
            each.name in kill.protected
            or (each.at_s > begun_s and each.name in saved and each.entry in saved[each.name])
        )
        for each in redelivered
    ]
    parts = sum(each.is_part for each in redelivered)
    held = [name for name in application.names() if _is_held(cluster, name)]
    return Trial(
        during,
        killed,
        round(kill.at, 2),
        codes,
        len(kill.protected),
        sum(again),
        len(redelivered) - sum(again) - parts,
        parts,
        application.transactional.conflicts() - conflicts,
        held,
        [name for name in held if f"still held: {name[1]!r} of {name[0]}" in out],
    )


def _owner(cluster: Cluster, application: Application, chance: random.Random) -> ClusterBroker:
    """Return the broker of a random topic."""
    return cluster.owner(chance.choice(application.topics), cluster.brokers[0])


def _saved(window: Window) -> dict[Name, PositionRangeSet]:
    """Return the acknowledged entries of each snapshot."""
    found = {name: window.read_snapshot(name) for name in window.names()}
    return {name: snapshot.acked for name, snapshot in found.items() if snapshot is not None}


def _released(audit: Path) -> set[Name]:
    """Return the subscriptions whose release was sent."""
    lines = audit.read_text().splitlines() if audit.exists() else []
    return {
        (each["topic"], each["subscription"]) for each in map(json.loads, lines) if each["what"] == "release"
    }


def _is_held(cluster: Cluster, name: Name) -> bool:
    topic, subscription = name
    path = f"{topic_path(topic)}/{quoted(subscription)}/dispatchRate"
    return bool(Admin(Endpoint(url=admins(cluster))).ask(path) == HOLD)


def _still_held(cluster: Cluster, names: set[Name]) -> set[Name]:
    """Return the subscriptions that are held after a kill.

    A broker that was just started may not have read its policies yet.
    """
    held: set[Name] = set()
    end_s = time.monotonic() + POLICIES_S
    while held < names and time.monotonic() < end_s:
        for each in names - held:
            with suppress(StatsError):
                if _is_held(cluster, each):
                    held.add(each)
        time.sleep(0.2)
    return held


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--topics", type=int, default=3, help="with five subscriptions each")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for each in trials(Path(folder), asked.trials, asked.topics, asked.seed):
            found.append(each)
            print(each, flush=True)
    again = sum(each.again for each in found)
    unnamed = sum(each.held != each.named for each in found)
    print(
        f"{len(found)} trials, {again} delivered again to held subscriptions, {unnamed} holds without a line"
    )


if __name__ == "__main__":
    main()
