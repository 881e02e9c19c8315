"""Rolling restarts of two brokers under an application: with `begin` and `end`, with `watch`, or without.

    python -m tests.pulsar.rolling window --restarts graceful crash --topics 10

Each topic has a Shared, a Key_Shared and a Failover subscription, whose consumers acknowledge every second
entry, and an Exclusive one, which acknowledges all. Half of the topics have batches. A round restarts both
brokers, one after the other: gracefully, with `kill -9`, or to the other release. A window covers one broker,
or a change of the release of both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args
from zlib import crc32

import pulsar

from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.rescue import Connection
from tests.commands import ackwell
from tests.pulsar.cluster import Cluster, ClusterBroker, running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Mode = Literal["none", "window", "watch"]
Restart = Literal["graceful", "crash", "5.0.1", "4.2.4", "store"]
RESTARTS: Final[tuple[Restart, ...]] = ("graceful", "crash", "5.0.1", "4.2.4")
"""The restarts of the rounds, in turn; a release is a restart with that release.

One window covers a change of the release of both brokers: while they differ, 5.0.1 cannot read the topic
policies of a namespace that a 4.2.4 broker serves (its internal client looks up the listener `internal`), and
loads none of its topics. `store` kills ZooKeeper and the bookie; it is played only if it is named.
"""

NAMESPACE = "public/rolling"
KINDS = {
    "shared": pulsar.ConsumerType.Shared,
    "keys": pulsar.ConsumerType.KeyShared,
    "failover": pulsar.ConsumerType.Failover,
    "exclusive": pulsar.ConsumerType.Exclusive,
}
SETTINGS = {
    "managedLedgerMaxUnackedRangesToPersist": "100",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "50",
    "managedLedgerPersistIndividualAckAsLongArray": "false",
    "journalSyncData": "false",
    # The topics of a killed broker move sooner.
    "metadataStoreSessionTimeoutMillis": "8000",
}
QUIET_S = 4.0
QUIET_MAX_S = 90.0


@dataclass
class Received:
    """The messages of one subscription."""

    acked: set[tuple[int, int]] = field(default_factory=set)
    """The entries whose messages a consumer acknowledged."""
    again_s: list[float] = field(default_factory=list)
    """The times at which a message of such an entry was delivered again."""


class Application:
    """Consumers that reconnect by themselves, as the official client does."""

    def __init__(self, urls: Sequence[str], topics: int) -> None:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        service = "pulsar://" + ",".join(url.removeprefix("pulsar://") for url in urls)
        self._client = pulsar.Client(service, logger=logger, operation_timeout_seconds=60)
        self.topics = [f"persistent://{NAMESPACE}/t{number}" for number in range(topics)]
        self.received = {(topic, name): Received() for topic in self.topics for name in KINDS}
        self._last_s = time.monotonic()
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Connect a consumer of each subscription."""
        for topic, name in self.received:
            self._client.subscribe(
                topic,
                name,
                consumer_type=KINDS[name],
                receiver_queue_size=500,
                message_listener=self._listener(topic, name),
            )

    def _listener(self, topic: str, name: str) -> Any:
        received = self.received[topic, name]

        def receive(consumer: Any, message: Any) -> None:
            message_id = message.message_id()
            entry = message_id.ledger_id(), message_id.entry_id()
            with self._lock:
                self._last_s = time.monotonic()
                if entry in received.acked:
                    received.again_s.append(self._last_s)
            # The messages of a batch share their entry.
            if name == "exclusive" or crc32(f"{topic}{name}{entry}".encode()) % 2:
                consumer.acknowledge(message)
                with self._lock:
                    received.acked.add(entry)

        return receive

    def publish(self, count: int) -> None:
        """Publish entries to each topic; those of odd topics are batches of three messages."""
        for number, topic in enumerate(self.topics):
            producer = self._client.create_producer(
                topic, batching_enabled=bool(number % 2), batching_max_messages=3, block_if_queue_full=True
            )
            for key in range(count * (3 if number % 2 else 1)):
                producer.send_async(b"m", lambda *_: None, partition_key=str(key % 97))
            producer.flush()
            producer.close()

    def wait_until_quiet(self) -> None:
        """Wait until no message was delivered for some seconds."""
        end = time.monotonic() + QUIET_MAX_S
        while time.monotonic() < min(self._last_s + QUIET_S, end):
            time.sleep(0.2)

    def again(self) -> list[float]:
        """Return the times of all messages that were delivered after their acknowledgment, in order."""
        with self._lock:
            return sorted(each for received in self.received.values() for each in received.again_s)

    def close(self) -> None:
        """Close every consumer."""
        self._client.close()


class Outcome(NamedTuple):
    """The result of the restart of one broker, or of all."""

    restart: Restart
    again: int
    """Messages that were delivered again although they had been acknowledged."""
    again_for_s: float
    """The time from the first to the last of them."""
    seconds: float
    """The time of the restart with its commands."""
    report: str


def play(
    folder: Path,
    mode: Mode,
    restarts: Sequence[Restart],
    topics: int,
    entries: int = 500,
) -> Iterator[Outcome]:
    """Play a round for each restart; `AssertionError` for an acknowledgment that no consumer made."""
    with running_cluster(folder, "4.2.4", **SETTINGS) as cluster:
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        application = Application([each.service_url for each in cluster.brokers], topics)
        with ExitStack() as stack:
            stack.callback(application.close)
            application.connect()
            application.publish(entries)
            application.wait_until_quiet()
            if mode == "watch":
                stack.enter_context(_watch(cluster, folder))
                time.sleep(15)
            for restart in restarts:
                together = restart in ("4.2.4", "5.0.1", "store")
                for brokers in [cluster.brokers] if together else [[each] for each in cluster.brokers]:
                    yield _restarted(cluster, brokers, restart, application, mode, folder)
            _check(cluster, application)


def _restarted(
    cluster: Cluster,
    brokers: Sequence[ClusterBroker],
    restart: Restart,
    application: Application,
    mode: Mode,
    folder: Path,
) -> Outcome:
    before, began_s, report = len(application.again()), time.monotonic(), ""
    window = folder / f"window-{time.time_ns()}"
    if mode == "window":
        report = _rescue(cluster, folder, "begin", NAMESPACE, "-o", str(window))
    if restart == "store":
        cluster.kill_store()
    for broker in brokers if restart != "store" else ():
        broker.stop(crash=restart == "crash")
        if restart in ("4.2.4", "5.0.1"):
            broker.change_release(restart)
        broker.start()
    if mode == "window":
        kind = "crash" if restart in ("crash", "store") else "graceful"
        report += _rescue(cluster, folder, "end", str(window), "--restart", kind)
    seconds = time.monotonic() - began_s
    time.sleep(QUIET_S)
    application.wait_until_quiet()
    again = application.again()[before:]
    return Outcome(restart, len(again), again[-1] - again[0] if again else 0.0, seconds, report)


def _rescue(cluster: Cluster, folder: Path, *arguments: str) -> str:
    """Run a command of a window; return a summary of its output."""
    done = ackwell(
        "rescue", *arguments, "--admin", _admins(cluster), "--yes", "--audit", str(folder / "audit")
    )
    restored = sum("restored" in line for line in done.out.splitlines())
    held = sum("still held" in line for line in done.out.splitlines())
    errors = "".join(f"\n{line}" for line in done.err.splitlines()[:5])
    return f"{arguments[0]}: exit {done.code}, {restored} restored, {held} still held; {errors}"


def _admins(cluster: Cluster) -> str:
    return "http://" + ",".join(each.admin_url.removeprefix("http://") for each in cluster.brokers)


@contextmanager
def _watch(cluster: Cluster, folder: Path) -> Iterator[None]:
    words = ["rescue", "watch", NAMESPACE, "--admin", _admins(cluster), "--every", "2s", "--yes"]
    words += ["-o", str(folder / "state"), "--audit", str(folder / "audit")]
    with (folder / "watch.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "ackwell", *words], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def _check(cluster: Cluster, application: Application) -> None:
    """Compare the acknowledgments of the brokers with those of the consumers."""
    with Connection(Admin(Endpoint(url=_admins(cluster)))) as connection:
        for (topic, name), received in application.received.items():
            acked = set(connection.read_live(topic, name).acked.positions())
            wrong = acked - received.acked
            assert not wrong, f"{name} of {topic}: {len(wrong)} entries that no consumer acknowledged"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=get_args(Mode))
    parser.add_argument("--restarts", nargs="+", default=RESTARTS, choices=get_args(Restart))
    parser.add_argument("--topics", type=int, default=10, help="with four subscriptions each")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = []
        try:
            for each in play(Path(folder), asked.mode, asked.restarts, asked.topics):
                outcomes.append(each)
                print(json.dumps(each._asdict()), flush=True)
        finally:
            log = Path(folder) / "watch.log"
            print(log.read_text()[-4000:] if log.exists() else "")
        print(asked.mode, len(outcomes), "restarts,", sum(each.again for each in outcomes), "delivered again")


if __name__ == "__main__":
    main()
