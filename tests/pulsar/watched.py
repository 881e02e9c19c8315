"""Random histories of subscriptions under `ackwell rescue watch`, on two brokers.

    python -m tests.pulsar.watched --histories 12 --steps 12

Each history is a topic with a live consumer that acknowledges half of the entries. Its steps are publishes,
seeks, resets by time, skips, expiries, clears, deletions of the subscription or of the topic, and unloads,
often one directly after the other. `expected` contains each entry that a consumer or an administrator
acknowledged, and that no later step returned. Every entry that is acknowledged on the broker must be in it.
With `--admin`, the histories are played on a running cluster.
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
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from zlib import crc32

import pulsar

from ackwell import Position
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.errors import AckwellError
from ackwell.rescue import Connection
from tests.pulsar.cluster import running_cluster
from tests.pulsar.rolling import SETTINGS, admins

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = "public/watched"
NAME = "billing"
KINDS = (pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared, pulsar.ConsumerType.Failover)
GAP_S: Final = 2.0
"""The pause before the entries of a step, so that a time separates them from the earlier ones."""
ROUND_S: Final = 2.0
ANSWER_S: Final = 180.0
STEPS = {
    "unload": 5.0,
    "seek": 1.0,
    "reset": 1.0,
    "skip unload": 1.0,
    "clear unload": 0.4,
    "expire unload": 1.0,
    "seek unload": 2.0,
    "reset unload": 1.0,
    "make_again unload": 1.0,
    "make_topic_again unload": 0.4,
    "unload seek": 1.0,
    "unload reset": 0.5,
    "unload skip": 1.0,
    "unload expire": 1.0,
    "unload make_again": 0.5,
}
"""The weight of each step. A step publishes, waits for rounds of the watch, and plays its parts in order."""


@dataclass(frozen=True, slots=True)
class Again:
    """A delivery of an acknowledged entry."""

    at_s: float
    after_s: float
    """The time since the last unload that the history asked for."""


class History:
    """One subscription with a live consumer."""

    def __init__(self, seed: int, url: str, client: Any, connection: Connection) -> None:
        self.chance = random.Random(seed)
        self.topic = f"persistent://{NAMESPACE}/h{seed}-{int(time.time())}"
        self._path = self.topic.replace("://", "/")
        self._url, self._client, self._connection = url, client, connection
        self._kind = KINDS[seed % len(KINDS)]
        self._acks_again = seed % 2 == 0
        """Whether the consumer acknowledges an entry that it receives again."""
        self._gate = threading.RLock()
        self._entries: list[tuple[Position, float]] = []
        """The entries of the topic, with the time before which they were published."""
        self.expected: set[Position] = set()
        self._acked: set[Position] = set()
        """The entries that the consumer acknowledged, and that no step returned."""
        self.again: list[Again] = []
        self._unloaded_s = time.monotonic()
        self.played: list[str] = []
        self._subscribe()

    # Its consumer

    def _subscribe(self, start: Any = pulsar.InitialPosition.Earliest) -> None:
        self._consumer = retried(
            lambda: self._client.subscribe(
                self.topic,
                NAME,
                consumer_type=self._kind,
                initial_position=start,
                receiver_queue_size=500,
                message_listener=self._receive,
            )
        )

    def _receive(self, consumer: Any, message: Any) -> None:
        of = message.message_id()
        entry = Position(of.ledger_id(), of.entry_id())
        with self._gate:
            if entry in self._acked:
                now_s = time.monotonic()
                self.again.append(Again(now_s, now_s - self._unloaded_s))
                if not self._acks_again:
                    return
            if crc32(f"{entry}".encode()) % 2:
                # Before the call: a failed acknowledgment may have an effect.
                self._acked.add(entry)
                self.expected.add(entry)
                consumer.acknowledge(message)

    # The steps

    def play(self) -> None:
        """Play a random step."""
        step = self.chance.choices(list(STEPS), list(STEPS.values()))[0]
        self.played.append(step)
        self.publish()
        time.sleep(3 * ROUND_S)
        for each in step.split():
            time.sleep(self.chance.choice((0, 0, 0.5, 2.5)))
            played: Callable[[], None] = getattr(self, each)
            played()

    def publish(self) -> None:
        time.sleep(GAP_S)
        began_s = time.time()
        producer = retried(lambda: self._client.create_producer(self.topic, send_timeout_millis=120_000))
        for _ in range(self.chance.randint(100, 200)):
            of = producer.send(b"m", partition_key=str(self.chance.randrange(97)))
            self._entries.append((Position(of.ledger_id(), of.entry_id()), began_s))
        producer.close()
        time.sleep(1)

    def unload(self) -> None:
        self._unloaded_s = time.monotonic()
        self._ask("PUT", "unload")

    def seek(self) -> None:
        entry, _ = self.chance.choice(self._entries)
        body = {"ledgerId": entry.ledger_id, "entryId": entry.entry_id, "partitionIndex": -1}
        with self._quiet():
            self._ask("POST", f"subscription/{NAME}/resetcursor", body)
            self._return_others({each for each, _ in self._entries if each < entry})

    def reset(self) -> None:
        """Reset by a time at which no entry was published."""
        _, began_s = self.chance.choice(self._entries)
        at_s = began_s - GAP_S / 2
        with self._quiet():
            self._ask("POST", f"subscription/{NAME}/resetcursor/{int(at_s * 1000)}")
            self._return_others({each for each, other_s in self._entries if other_s < at_s})

    def skip(self) -> None:
        count = self.chance.randint(1, 30)

        def expect() -> None:
            ledgers = self._connection.read_live(self.topic, NAME).stats.ledgers
            # Without a subscription, a broker deletes entries that are not acknowledged.
            there = [each for each, _ in self._entries if ledgers.contains(*each)]
            self.expected.update([each for each in there if each not in self.expected][:count])

        with self._quiet():
            self._ask("POST", f"subscription/{NAME}/skip/{count}", before=expect)

    def expire(self) -> None:
        _, began_s = self.chance.choice(self._entries)
        with self._quiet():
            seconds = int(time.time() - began_s + GAP_S / 2)
            self._ask("POST", f"subscription/{NAME}/expireMessages/{seconds}", refusals=(409, 412))
            last_s = time.time() - seconds
            self.expected |= {each for each, other_s in self._entries if other_s < last_s}
            time.sleep(1)

    def clear(self) -> None:
        with self._quiet():
            self.expected |= {each for each, _ in self._entries}
            self._ask("POST", f"subscription/{NAME}/skip_all")

    def make_again(self) -> None:
        earliest = self.chance.random() < 0.5
        with self._quiet():
            self._consumer.close()
            self._ask("DELETE", f"subscription/{NAME}?force=true", refusals=(404,))
            self._return_others(set() if earliest else {each for each, _ in self._entries})
            start = pulsar.InitialPosition.Earliest if earliest else pulsar.InitialPosition.Latest
            self._subscribe(start)

    def make_topic_again(self) -> None:
        with self._quiet():
            self._consumer.close()
            self._ask("DELETE", "?force=true", refusals=(404,))
            self._entries = []
            self._return_others(set())
            self._subscribe()
        self.publish()

    def _return_others(self, acked: set[Position]) -> None:
        """Expect only these acknowledgments."""
        self.expected = acked
        self._acked &= acked

    def wrong(self) -> set[Position]:
        """Return the acknowledged entries that are not expected."""
        with self._quiet():
            acked = retried(lambda: self._connection.read_live(self.topic, NAME).acked)
            return {Position(*each) for each in acked.positions()} - self.expected

    def close(self) -> None:
        self._consumer.close()

    def _quiet(self) -> ExitStack:
        """Stop the acknowledgments of the consumer, and wait until the client has sent the earlier ones."""
        stack = ExitStack()
        stack.enter_context(self._gate)
        time.sleep(0.6)
        return stack

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        refusals: tuple[int, ...] = (),
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Send a request to the owner, and repeat it while a broker restarts."""
        url = f"{self._url}/admin/v2/{self._path}{'' if path[:1] == '?' else '/'}{path}"

        def once() -> None:
            before()
            try:
                send(method, url, body)
            except HTTPError as error:
                if error.code not in refusals:
                    raise

        retried(once)


def send(method: str, url: str, body: Any = None) -> None:
    """Send a request, and follow a redirect."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        urllib.request.urlopen(request, timeout=60).close()
    except HTTPError as error:
        if error.code != HTTPStatus.TEMPORARY_REDIRECT:
            raise
        send(method, error.headers["Location"], body)


def retried(call: Callable[[], Any]) -> Any:
    """Repeat a call while a broker restarts."""
    end_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return call()
        except (OSError, AckwellError, pulsar.PulsarException):
            if time.monotonic() > end_s:
                raise
            time.sleep(1)


def play(folder: Path, hosts: str, histories: int, steps: int, seed: int) -> dict[str, Any]:
    """Play histories at once under a watch; return the figures."""
    first = f"http://{hosts.split(',')[0].removeprefix('http://')}"
    try:
        send("PUT", f"{first}/admin/v2/namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
    except HTTPError as error:
        # It exists.
        if error.code != HTTPStatus.CONFLICT:
            raise
    audit = folder / "audit"
    words = ["rescue", "watch", NAMESPACE, "--admin", hosts, "--every", f"{ROUND_S:g}s", "--yes"]
    words += ["-o", str(folder / "state"), "--audit", str(audit)]
    wrong: list[str] = []
    with ExitStack() as stack:
        log = stack.enter_context((folder / "watch.log").open("w"))
        process = subprocess.Popen([sys.executable, "-m", "ackwell", *words], stdout=log, stderr=log)
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        connection = stack.enter_context(Connection(Admin(Endpoint(url=hosts))))
        brokers = ",".join(retried(lambda: service_hosts(connection)))
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        client = pulsar.Client(
            f"pulsar://{brokers}",
            logger=logger,
            operation_timeout_seconds=60,
            message_listener_threads=histories,
        )
        stack.callback(client.close)
        played = [
            History(seed + number, first, client, stack.enter_context(connection.renewed()))
            for number in range(histories)
        ]

        def run(history: History) -> None:
            for _ in range(steps):
                history.play()
                time.sleep(history.chance.choice((0, 0, 3 * ROUND_S)))
                check(history)
            time.sleep(4 * ROUND_S)
            check(history)

        def check(history: History) -> None:
            count = restores(audit, history.topic)
            if found := sorted(history.wrong()):
                wrong.append(f"{history.topic}: {found} after {count} restores, {history.played}")
                print(wrong[-1], flush=True)
                history.expected.update(found)

        with ThreadPoolExecutor(histories) as pool:
            # The error of a history is raised here.
            list(pool.map(run, played))
        again = [one for each in played for one in each.again]
        for each in played:
            print(each.topic, restores(audit, each.topic), "restores:", "; ".join(each.played))
            each.close()
    return {
        "histories": histories,
        "steps": sum(len(each.played) for each in played),
        "restores": sum(restores(audit, each.topic) for each in played),
        "wrong": wrong,
        "delivered again": len(again),
        "last after s": round(max((each.after_s for each in again), default=0.0), 1),
    }


def service_hosts(connection: Connection) -> list[str]:
    """Return the binary address of each broker."""
    found = connection.admin.ask("/admin/v2/brokers/standalone") or []
    urls = {
        connection.admin.ask(f"/lookup/v2/topic/persistent/{NAMESPACE}/x{n}")["brokerUrl"] for n in range(16)
    }
    assert urls, found
    return [each.removeprefix("pulsar://") for each in urls]


def restores(audit: Path, topic: str) -> int:
    """Count the restores of a topic."""
    lines = audit.read_text().splitlines() if audit.exists() else []
    return sum(f'"{topic}"' in line and '"acknowledge"' in line for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=12)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--admin", help="a running cluster; by default, one is started")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = asked.admin or admins(stack.enter_context(running_cluster(folder, "4.2.4", **SETTINGS)))
        found = play(folder, hosts, asked.histories, asked.steps, asked.seed)
        print((folder / "watch.log").read_text()[-2000:])
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
