"""Rolling restarts of two brokers under an application: with `begin` and `end`, with `watch`, or without.

    python -m tests.pulsar.rolling window --restarts graceful crash --topics 10

Each topic has five subscriptions with a live consumer. The consumers of the Shared, the Key_Shared and the
Failover subscription acknowledge about half of the entries, and half of the messages of some batches. The
consumer of the Exclusive subscription acknowledges cumulatively, and that of the fifth one in transactions. A
round restarts both brokers, one after the other: gracefully, with `kill -9`, or to the other release. A
window covers one broker. After each restart the application publishes more batches of random sizes.
"""

from __future__ import annotations

import argparse
import json
import random
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

from ackwell import Position
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.rescue import Connection
from tests.commands import ackwell
from tests.pulsar.cluster import Cluster, ClusterBroker, running_cluster
from tests.pulsar.transacting import TransactionalConsumers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Mode = Literal["none", "window", "watch"]
Restart = Literal["graceful", "crash", "5.0.1", "4.2.4", "store"]
RESTARTS: Final[tuple[Restart, ...]] = ("graceful", "crash", "5.0.1", "4.2.4")
"""The restarts of the rounds, in turn; a release is a restart with that release.

`store` kills ZooKeeper and the bookie; it is played only if it is named.
"""

NAMESPACE = "public/rolling"
KINDS = {
    "shared": pulsar.ConsumerType.Shared,
    "keys": pulsar.ConsumerType.KeyShared,
    "failover": pulsar.ConsumerType.Failover,
    "exclusive": pulsar.ConsumerType.Exclusive,
}
TRANSACTIONS = "transactions"
SETTINGS: Final[dict[str, Any]] = {
    "managedLedgerMaxUnackedRangesToPersist": "20",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "10",
    "managedLedgerPersistIndividualAckAsLongArray": "false",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "transactionCoordinatorEnabled": "true",
    "journalSyncData": "false",
    # A killed broker loses the acknowledgments after the last write of a cursor, by default of a minute.
    "managedLedgerCursorPositionFlushSeconds": "2",
    # The topics of a killed broker move sooner.
    "metadataStoreSessionTimeoutMillis": "8000",
}
SIZES = (1, 1, 1, 2, 5)
"""The messages of an entry; 1 is a message without a batch."""
QUIET_S = 4.0
QUIET_MAX_S = 90.0

Message = tuple[Position, int]
"""An entry, and the index of a message in it."""


class Redelivery(NamedTuple):
    """A delivery of a message that a consumer had acknowledged."""

    at_s: float
    name: tuple[str, str]
    entry: Position
    is_part: bool
    """Whether the batch has other messages that are not acknowledged. The admin API does not show them."""


@dataclass
class Received:
    """The messages of one subscription."""

    acked: set[Message] = field(default_factory=set)
    """The messages that a consumer acknowledged."""
    sizes: dict[Position, int] = field(default_factory=dict)
    """The messages of each entry that was delivered."""
    again: list[tuple[float, Message]] = field(default_factory=list)
    """Each delivery of an acknowledged message, with its time."""

    def is_acked(self, entry: Position) -> bool:
        """Return whether a consumer acknowledged all messages of an entry."""
        return entry in self.sizes and all((entry, index) in self.acked for index in range(self.sizes[entry]))


class Application:
    """Consumers that reconnect by themselves, as the official client does."""

    def __init__(self, cluster: Cluster, topics: int) -> None:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        hosts = (each.service_url.removeprefix("pulsar://") for each in cluster.brokers)
        self._client = pulsar.Client(
            "pulsar://" + ",".join(hosts), logger=logger, operation_timeout_seconds=60
        )
        self._chance = random.Random(topics)
        self.topics = [f"persistent://{NAMESPACE}/t{number}" for number in range(topics)]
        self.received = {(topic, name): Received() for topic in self.topics for name in KINDS}
        self._last_s = time.monotonic()
        self._lock = threading.Lock()
        for topic, name in self.received:
            self._client.subscribe(
                topic,
                name,
                consumer_type=KINDS[name],
                receiver_queue_size=500,
                batch_index_ack_enabled=True,
                message_listener=self._listener(topic, name),
            )
        self.transactional = TransactionalConsumers(
            cluster, [(topic, TRANSACTIONS) for topic in self.topics], self._on_delivery
        )

    def _on_delivery(self) -> None:
        self._last_s = time.monotonic()

    def _listener(self, topic: str, name: str) -> Any:
        received = self.received[topic, name]

        def receive(consumer: Any, message: Any) -> None:
            of = message.message_id()
            entry = Position(of.ledger_id(), of.entry_id())
            one = entry, max(of.batch_index(), 0)
            with self._lock:
                self._on_delivery()
                received.sizes[entry] = int(message.data())
                if one in received.acked:
                    received.again.append((self._last_s, one))
            chosen = crc32(f"{topic}{name}{entry}".encode())
            if name == "exclusive":
                if chosen % 16 == 0 and one[1] == received.sizes[entry] - 1:
                    consumer.acknowledge_cumulative(message)
                    with self._lock:
                        received.acked |= {
                            (each, index)
                            for each, size in received.sizes.items()
                            if each <= entry
                            for index in range(size)
                        }
            # The messages of a batch share the choice, except for those of every eighth batch.
            elif chosen % 2 if chosen % 16 > 1 else crc32(f"{name}{one}".encode()) % 2:
                consumer.acknowledge(message)
                with self._lock:
                    received.acked.add(one)

        return receive

    def publish(self, count: int) -> None:
        """Publish entries to each topic, in batches of random sizes."""
        for topic in self.topics:
            producers = {
                size: self._client.create_producer(
                    topic,
                    batching_enabled=size > 1,
                    batching_max_messages=max(size, 2),
                    batching_max_publish_delay_ms=60_000,
                    block_if_queue_full=True,
                )
                for size in {*SIZES}
            }
            for _ in range(count):
                size = self._chance.choice(SIZES)
                for _ in range(size):
                    key = str(self._chance.randrange(97))
                    producers[size].send_async(str(size).encode(), lambda *_: None, partition_key=key)
            for producer in producers.values():
                producer.flush()
                producer.close()

    def wait_until_quiet(self) -> None:
        """Wait until no message was delivered for some seconds."""
        end = time.monotonic() + QUIET_MAX_S
        while time.monotonic() < min(self._last_s + QUIET_S, end):
            time.sleep(0.2)

    def names(self) -> list[tuple[str, str]]:
        """Return the topic and name of each subscription."""
        return [*self.received, *(each.name for each in self.transactional.consumers)]

    def redelivered(self) -> list[Redelivery]:
        """Return the deliveries of acknowledged messages, in order."""
        with self._lock:
            found = [
                Redelivery(at_s, name, entry, not received.is_acked(entry))
                for name, received in self.received.items()
                for at_s, (entry, _) in received.again
            ]
        for each in self.transactional.consumers:
            found += [Redelivery(at_s, each.name, entry, is_part=False) for at_s, entry in each.again]
        return sorted(found)

    def again(self) -> list[float]:
        """Return the times at which messages of acknowledged entries were delivered again, in order."""
        return [each.at_s for each in self.redelivered() if not each.is_part]

    def parts_again(self) -> int:
        """Return the deliveries of acknowledged messages whose batch has others that are not."""
        return sum(each.is_part for each in self.redelivered())

    def close(self) -> None:
        """Close every consumer."""
        self.transactional.close()
        self._client.close()


class Outcome(NamedTuple):
    """The result of the restart of one broker, or of all."""

    restart: Restart
    again: int
    """Messages that were delivered again although they had been acknowledged."""
    again_for_s: float
    """The time from the first to the last of them."""
    parts_again: int
    """Acknowledged messages of batches with others that are not. The admin API does not show them."""
    seconds: float
    """The time of the restart with its commands."""
    report: str


def play(
    folder: Path,
    mode: Mode,
    restarts: Sequence[Restart],
    topics: int,
    entries: int = 160,
    minutes: float = 600.0,
) -> Iterator[Outcome]:
    """Play a round for each restart; `AssertionError` for an acknowledgment that no consumer made.

    After `minutes`, no round begins.
    """
    end_s = time.monotonic() + 60 * minutes
    with running_cluster(folder, "4.2.4", **SETTINGS) as cluster:
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        with ExitStack() as stack:
            application = Application(cluster, topics)
            stack.callback(application.close)
            use(application, entries)
            if mode == "watch":
                stack.enter_context(_watch(cluster, folder))
                time.sleep(15)
            for restart in restarts:
                if time.monotonic() > end_s:
                    break
                for broker in cluster.brokers if restart != "store" else [None]:
                    yield _restarted(cluster, broker, restart, application, mode, folder)
                    use(application, entries // 16)
            check_acknowledgments(cluster, application, mode)


def use(application: Application, entries: int) -> None:
    """Publish, consume and acknowledge."""
    application.publish(entries)
    application.wait_until_quiet()
    application.transactional.act()
    application.wait_until_quiet()


def _restarted(
    cluster: Cluster,
    broker: ClusterBroker | None,
    restart: Restart,
    application: Application,
    mode: Mode,
    folder: Path,
) -> Outcome:
    before, parts_before = len(application.again()), application.parts_again()
    began_s, report = time.monotonic(), ""
    window = folder / f"window-{time.time_ns()}"
    if mode == "window":
        report = _rescue(cluster, folder, "begin", NAMESPACE, "-o", str(window))
    if broker is None:
        cluster.kill_store()
    else:
        broker.stop(crash=restart == "crash")
        if restart in ("4.2.4", "5.0.1"):
            broker.change_release(restart)
        broker.start()
    if window.exists():
        kind = "crash" if restart in ("crash", "store") else "graceful"
        report += _rescue(cluster, folder, "end", str(window), "--restart", kind)
    seconds = time.monotonic() - began_s
    time.sleep(QUIET_S)
    application.wait_until_quiet()
    again = application.again()[before:]
    parts = application.parts_again() - parts_before
    lasted_s = again[-1] - again[0] if again else 0.0
    return Outcome(restart, len(again), lasted_s, parts, seconds, report)


def _rescue(cluster: Cluster, folder: Path, *arguments: str) -> str:
    """Run a command of a window; return a summary of its output."""
    done = ackwell(
        "rescue", *arguments, "--admin", admins(cluster), "--yes", "--audit", str(folder / "audit")
    )
    restored = sum("restored" in line for line in done.out.splitlines())
    held = sum("still held" in line for line in done.out.splitlines())
    errors = "".join(f"\n{line}" for line in done.err.splitlines()[:5])
    return f"{arguments[0]}: exit {done.code}, {restored} restored, {held} still held; {errors}"


def admins(cluster: Cluster) -> str:
    """Return the admin address of all brokers."""
    return "http://" + ",".join(each.admin_url.removeprefix("http://") for each in cluster.brokers)


@contextmanager
def _watch(cluster: Cluster, folder: Path) -> Iterator[None]:
    words = ["rescue", "watch", NAMESPACE, "--admin", admins(cluster), "--every", "2s", "--yes"]
    words += ["-o", str(folder / "state"), "--audit", str(folder / "audit")]
    with (folder / "watch.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "ackwell", *words], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def check_acknowledgments(cluster: Cluster, application: Application, mode: Mode) -> None:
    """Compare the acknowledgments of the brokers with those of the consumers."""
    with Connection(Admin(Endpoint(url=admins(cluster)))) as connection:
        for (topic, name), received in application.received.items():
            found = connection.read_live(topic, name).acked
            wrong = [each for each in found.positions() if not received.is_acked(Position(*each))]
            assert not wrong, f"{name} of {topic}: {len(wrong)} entries that no consumer acknowledged"
            if mode == "window":
                missing = [each for each in received.sizes if received.is_acked(each) and each not in found]
                assert not missing, f"{name} of {topic}: {len(missing)} acknowledgments are missing"
        for each in application.transactional.consumers:
            entries = {Position(*one) for one in connection.read_live(*each.name).acked.positions()}
            unknown = entries - each.acked - each.perhaps - each.lost
            assert not unknown, f"{each.name}: {len(unknown)} entries that no consumer acknowledged"
            assert mode != "window" or each.acked <= entries, each.name
            assert not each.errors, each.errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=get_args(Mode))
    parser.add_argument("--restarts", nargs="+", default=RESTARTS, choices=get_args(Restart))
    parser.add_argument("--topics", type=int, default=10, help="with five subscriptions each")
    parser.add_argument("--minutes", type=float, default=600.0, help="after these, no round begins")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = []
        try:
            for each in play(Path(folder), asked.mode, asked.restarts, asked.topics, minutes=asked.minutes):
                outcomes.append(each)
                print(json.dumps(each._asdict()), flush=True)
        finally:
            log = Path(folder) / "watch.log"
            print(log.read_text()[-4000:] if log.exists() else "")
        for restart in RESTARTS:
            of = [each for each in outcomes if each.restart == restart]
            again, parts = sum(each.again for each in of), sum(each.parts_again for each in of)
            longest_s = max((each.again_for_s for each in of), default=0.0)
            print(f"{asked.mode}: {len(of)} restarts ({restart}): {again} delivered again", end="")
            print(f" within {longest_s:.1f} s, and {parts} of partly acknowledged batches")


if __name__ == "__main__":
    main()
