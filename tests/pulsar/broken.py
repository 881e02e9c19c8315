"""The doctor's prediction for brokers whose store fails: `python -m tests.pulsar.broken --help`.

Random subscriptions on one broker of a cluster. Then ZooKeeper and the bookie fail, and the consumers
acknowledge more of the messages that they have, between two dumps. From these the doctor predicts a crash.
The broker is killed and the store is repaired. The number of redelivered messages is compared with the
prediction.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from unittest import mock

from ackwell.cluster.admin import Admin, TopicAnswer
from ackwell.cluster.endpoint import Endpoint
from tests.pulsar.cluster import Cluster, ClusterBroker, running_cluster
from tests.pulsar.lives.case import Case
from tests.pulsar.lives.life import CONSUMER, MANY
from tests.pulsar.upgrades import UpgradeLife

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackwell import Position

Fault = Literal["killed", "stopped", "slow", "full", "ensemble"]
"""Killed: ZooKeeper and the bookie. Stopped: they do not answer. Slow: the bookie does not answer. Full:
their files cannot grow. Ensemble: the policy of the namespace requests more bookies than the cluster has.
"""

FLUSH_S: Final = 2
SETTINGS: Final = {
    "managedLedgerCursorPositionFlushSeconds": str(FLUSH_S),
    # A cursor ledger is full after four writes, so some cursors switch ledgers when the store fails.
    "managedLedgerCursorMaxEntriesPerLedger": "4",
}
OF_THE_TEST: Final = {
    "activeConsumerFailoverDelayTimeMillis": "0",
    "journalSyncData": "false",
    # The client answers pings only when it waits for an answer.
    "keepAliveIntervalSeconds": "600",
    # Requests that need the metadata store occupy a thread until they fail.
    "numHttpServerThreads": "64",
}
"""Settings that do not affect the acknowledgments."""
ROUNDS: Final = 3
"""The acknowledgments of each subscription during a fault; a cursor is written at most once a second."""
PERSISTENCE: Final = {
    "bookkeeperEnsemble": 2,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 1.0,
}


class BrokenLife(UpgradeLife):
    """A random subscription whose consumer stays connected."""

    def __init__(self, broker: ClusterBroker, seed: int) -> None:
        super().__init__(broker, seed)
        # The last state of a cursor without any acknowledgment is one of the cases.
        self._rounds = self._chance.choice((0, 1, 1, 6))
        self.is_quiet = False
        """Whether it acknowledges nothing between the two dumps."""

    def act(self) -> None:
        """Publish, receive, and acknowledge in as many rounds as the life has before the fault."""
        assert self._client is not None
        self._client.subscribe(CONSUMER, "c", self._kind)
        self._client.flow(CONSUMER, MANY)
        for _ in range(self._chance.choice((20, 60))):
            size = self._chance.choice(self._sizes)
            self._batch_sizes[self._client.publish(size, None)] = size or 1
        self._settle()

    def has_round(self, number: int) -> bool:
        """Return whether the life acknowledges in a round before the fault."""
        return number < self._rounds

    def acknowledge(self) -> None:
        """Acknowledge some of the messages."""
        assert self._client is not None
        # 5.0 applies an acknowledgment, but does not answer it before the cursor ledger is created or fails.
        with mock.patch.object(self._client, "ack", self._client.ask_ack):
            self._acknowledge(self._client)
        self._client.settle()


def broken(
    cluster: Cluster, fault: Fault, count: int, seed: int, wait_s: float = FLUSH_S + 2
) -> Iterator[Case]:
    """Play one fault on several subscriptions, and kill the broker; yield a case for each.

    Every second subscription acknowledges nothing in the `wait_s` seconds between the two dumps.
    """
    (broker,) = cluster.brokers
    lives = [BrokenLife(broker, 1_000_000 * seed + number) for number in range(count)]
    for life in lives[::2]:
        life.is_quiet = True
    for life in lives:
        life.load()
        life.act()
    for number in range(6):
        _acknowledge([life for life in lives if life.has_round(number)])
    time.sleep(FLUSH_S + 1)
    _break(cluster, fault, lives)
    for _ in range(ROUNDS - 1):
        _acknowledge(lives)
    earlier = _answers(broker, lives)
    _acknowledge([life for life in lives if not life.is_quiet])
    time.sleep(wait_s)
    now = _answers(broker, lives)
    states = [(life, life.acked()) for life in lives]
    broker.stop(crash=True)
    for life in lives:
        life.leave()
    _repair(cluster, fault, lives)
    for life, acked in states:
        lost = _redelivered(life, acked)
        if life.topic in now:
            yield Case(broker.version, SETTINGS, "crash", now[life.topic], lost, earlier.get(life.topic))
        life.leave()


def _acknowledge(lives: Sequence[BrokenLife]) -> None:
    for life in lives:
        life.acknowledge()
    time.sleep(1.1)


def _answers(broker: ClusterBroker, lives: Sequence[BrokenLife]) -> dict[str, dict[str, Any]]:
    """Return the answers of the admin API about each topic that could be read."""
    admin = Admin(Endpoint(url=broker.admin_url, timeout_seconds=8), requests_at_once=16)
    found = admin.answers([life.topic for life in lives])
    return {each.topic: each.to_json() for each in found if isinstance(each, TopicAnswer)}


def _redelivered(life: BrokenLife, acked: dict[Position, int]) -> int:
    """Load the topic; return the number of acknowledged messages that are delivered again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            life.load()
        except Exception:
            # A broker that has just started may not own the topic yet.
            life.leave()
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return life.lost(acked)


def _break(cluster: Cluster, fault: Fault, lives: Sequence[BrokenLife]) -> None:
    match fault:
        case "killed":
            cluster.signal_store(signal.SIGKILL)
        case "stopped":
            cluster.signal_store(signal.SIGSTOP)
        case "slow":
            cluster.suspend_bookie()
        case "full":
            resource.prlimit(cluster.store_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        case "ensemble":
            for life in lives:
                cluster.brokers[0].admin("POST", f"namespaces/{life.namespace}/persistence", PERSISTENCE)
            time.sleep(2)


def _repair(cluster: Cluster, fault: Fault, lives: Sequence[BrokenLife]) -> None:
    """Start the store and the broker, which has no topic loaded."""
    (broker,) = cluster.brokers
    if fault != "ensemble":
        cluster.signal_store(signal.SIGKILL)
        cluster.start_store()
    broker.start()
    if fault == "ensemble":
        for life in lives:
            broker.admin("DELETE", f"namespaces/{life.namespace}/persistence")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default="4.2.4")
    parser.add_argument("--lives", type=int, default=16, help="subscriptions of each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="+", choices=get_args(Fault), default=get_args(Fault))
    parser.add_argument("--wait", type=float, default=FLUSH_S + 2, help="seconds between the two dumps")
    parser.add_argument("--record", type=Path, help="where to write the cases, a line each")
    asked = parser.parse_args()
    cases: list[Case] = []
    wrong = 0
    for number, fault in enumerate(asked.faults):
        with (
            tempfile.TemporaryDirectory() as folder,
            running_cluster(Path(folder), asked.version, count=1, **OF_THE_TEST, **SETTINGS) as cluster,
        ):
            found = list(broken(cluster, fault, asked.lives, 100 * asked.seed + number, asked.wait))
        print(f"{asked.version}, {fault}: {table(found)}", flush=True)
        errors = [error for each in found if (error := each.wrong_loss()) is not None]
        print(*errors, sep="\n", flush=True)
        wrong += len(errors)
        cases += found
    if asked.record:
        asked.record.write_text("".join(each.to_json() + "\n" for each in cases))
    print(f"{asked.version}: {len(cases)} crashes, {wrong} wrong")
    return wrong > 0


def table(cases: Sequence[Case]) -> str:
    """Return the number of cases by verdict, by the exactness of the prediction, and by a loss."""
    kinds: Counter[str] = Counter()
    for case in cases:
        diagnosis = case.diagnosis()
        exact = "an interval" if diagnosis.messages_lost.exact is None else "exact"
        kinds[f"{diagnosis.verdict}, {exact}, {'something' if case.lost else 'nothing'} lost"] += 1
    return "; ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


if __name__ == "__main__":
    sys.exit(main())
