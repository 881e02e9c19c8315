"""Kills ZooKeeper and the bookie, or a broker, at random points of `rescue begin` and `end`.

    python -m tests.pulsar.window_faults --trials 12 --topics 3

A trial runs `begin`, restarts a broker, and runs `end`, with one kill during one of the two commands. The
command is repeated until it succeeds. The subscriptions that were held with a snapshot at the time of the
kill must receive no acknowledged message again. The last command must name each hold that remains.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ackwell.cluster.admin import Admin, quoted, topic_path
from ackwell.cluster.endpoint import Endpoint
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

    from tests.pulsar.cluster import Cluster

ATTEMPTS_MAX = 8
Name = tuple[str, str]


class Trial(NamedTuple):
    """The result of a trial."""

    during: str
    killed: str
    after_s: float
    codes: list[int]
    """The exit codes of the command that was disturbed, in order."""
    protected: int
    """The subscriptions that were held with a snapshot at the time of the kill."""
    again: int
    """Acknowledged messages that these received again."""
    others_again: int
    """Acknowledged messages that the others received again: not held yet, or released already."""
    held: list[Name]
    """The holds that remain."""
    named: list[Name]
    """The holds that the last command names."""


def trials(folder: Path, count: int, topics: int, seed: int) -> Iterator[Trial]:
    """Play trials on one cluster; `AssertionError` for an acknowledgment that no consumer made."""
    chance = random.Random(seed)
    lasted = {"begin": 5.0, "end": 10.0}
    with running_cluster(folder, "4.2.4", **SETTINGS) as cluster:
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        application = Application(cluster, topics)
        try:
            use(application, 160)
            for number in range(count):
                kill, during = ("store", "broker")[number % 2], ("end", "begin")[number // 2 % 2]
                yield _trial(cluster, application, folder / f"window{number}", during, kill, lasted, chance)
                use(application, 10)
            check_acknowledgments(cluster, application, "none")
        finally:
            application.close()


def _trial(
    cluster: Cluster,
    application: Application,
    window: Path,
    during: str,
    killed: str,
    lasted: dict[str, float],
    chance: random.Random,
) -> Trial:
    before = application.again_by_name()
    after_s = chance.uniform(0.5, lasted[during])
    protected: set[Name] = set()

    def kill() -> None:
        time.sleep(after_s)
        of = Window(window)
        if of.file.exists():
            protected.update(
                each for each in of.names() if of.journal(each).exists() and of.snapshot(each).exists()
            )
        if killed == "store":
            cluster.kill_store()
        else:
            broker = chance.choice(cluster.brokers)
            broker.stop(crash=True)
            broker.start()

    codes, out = [], ""
    commands = {
        "begin": ("begin", NAMESPACE, "-o", str(window)),
        "end": ("end", str(window), "--restart", "crash"),
    }
    for command, words in commands.items():
        if command == "end":
            broker = chance.choice(cluster.brokers)
            broker.stop()
            broker.start()
        thread = threading.Thread(target=kill)
        if command == during:
            thread.start()
        for _ in range(ATTEMPTS_MAX):
            began_s = time.monotonic()
            done = ackwell("rescue", *words, "--admin", admins(cluster), "--yes")
            out = done.out
            if command == during:
                codes.append(done.code)
                thread.join()
            if done.code == 0:
                break
        lasted[command] = time.monotonic() - began_s
    time.sleep(QUIET_S)
    application.wait_until_quiet()
    again = application.again_by_name()
    more = {name: again[name] - before[name] for name in again}
    held = [name for name in again if _is_held(cluster, name)]
    return Trial(
        during,
        killed,
        round(after_s, 1),
        codes,
        len(protected),
        sum(more[name] for name in protected),
        sum(more[name] for name in more.keys() - protected),
        held,
        [name for name in held if f"still held: {name[1]!r} of {name[0]}" in out],
    )


def _is_held(cluster: Cluster, name: Name) -> bool:
    topic, subscription = name
    path = f"{topic_path(topic)}/{quoted(subscription)}/dispatchRate"
    return bool(Admin(Endpoint(url=admins(cluster))).ask(path) == HOLD)


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
