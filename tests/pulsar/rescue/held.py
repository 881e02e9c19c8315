"""An application that reconnects at once while its topic is unloaded or its broker is killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import apply, hold, plan, release, unload
from tests.pulsar.live.client import Client, Delivered, RefusedError
from tests.pulsar.rescue.play import NAME, connection

if TYPE_CHECKING:
    from ackwell import Position
    from tests.pulsar import kit

KEYS = 50
WINDOW = 1_000
QUEUE = 1_000
"""The permits that a client requests at once."""


BAD = (
    "still missing",
    "acknowledged ones delivered",
    "to the helper",
    "rounds with something in replay",
    "rounds with something stuck",
    "overtaken",
)
"""The counters of a series that has no such event."""


def say(broker: kit.Broker, counted: Counter[str], rounds: int) -> None:
    """Print the counters every ten rounds, and after each crash, because crashes take long."""
    if rounds % 10 == 0 or "crashes" in counted:
        print(broker.version, rounds, dict(counted), flush=True)


class Application:
    """Consumers of one subscription that reconnect without a pause, and never acknowledge by themselves."""

    def __init__(self, broker: kit.Broker, topic: str, kind: SubscriptionType, consumers: int = 1) -> None:
        self._broker, self._topic, self._kind, self._consumers = broker, topic, kind, consumers
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.delivered: list[Delivered] = []
        """Since it was last looked at."""
        self.session: list[Delivered] = []
        """Since the consumers last connected."""
        self.connected = threading.Event()
        self.held_by_us: dict[Position, int] = {}
        """The messages of each consumer since its last connection."""

    def __enter__(self) -> Self:
        self._thread.start()
        self.connected.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def take(self) -> list[Delivered]:
        with self._lock:
            taken, self.delivered = self.delivered, []
        return taken

    def has(self, wanted: set[Position], seconds: float = 30.0) -> bool:
        """Wait until the consumers have got all of these since they connected, or it takes too long."""
        end = time.monotonic() + seconds
        while not wanted <= self.held_by_us.keys() and time.monotonic() < end:
            time.sleep(0.05)
        return wanted <= self.held_by_us.keys()

    def quiet(self, seconds: float = 0.5) -> None:
        """Wait until nothing was delivered for a while."""
        before = -1
        while before != len(self.delivered):
            before = len(self.delivered)
            time.sleep(seconds)

    def _run(self) -> None:
        while not self._ended:
            with suppress(RefusedError, OSError):
                client = Client(self._broker.ports.binary, self._topic, NAME)
                try:
                    self._serve(client)
                finally:
                    self.connected.clear()
                    client.close()

    def _serve(self, client: Client) -> None:
        # As clients do: a look-up brings the topic back.
        client.open_producer()
        for number in range(1, self._consumers + 1):
            client.subscribe(number, f"app-{number}", self._kind)
            client.flow(number, QUEUE)
        with self._lock:
            self.held_by_us, self.session = {}, []
        self.connected.set()
        while not self._ended and not client.closed:
            client.settle()
            new = client.take()
            with self._lock:
                self.delivered += new
                self.session += new
                self.held_by_us |= {each.position: each.consumer_id for each in new}
            time.sleep(0.002)


def publish(client: Client, entries: int, keys: int) -> list[Position]:
    """Publish many entries without waiting for each."""
    positions = []
    for start in range(0, entries, WINDOW):
        first = client.sequence_id + 1
        numbers = range(start, min(start + WINDOW, entries))
        for number in numbers:
            client.publish_later(f"k{number % keys}")
        positions += [client.receipt(first + number - start) for number in numbers]
    return positions


def make(
    broker: kit.Broker, topic: str, kind: SubscriptionType, entries: int, *, keys: int = KEYS
) -> list[Position]:
    """Publish entries, and acknowledge every second one out of order."""
    client = Client(broker.ports.binary, topic, NAME)
    client.open_producer()
    client.subscribe(1, "first", kind)
    positions = publish(client, entries, keys)
    for start in range(1, entries, 1_000):
        client.ack(1, [(each, (), 0) for each in positions[start : start + 1_000 : 2]])
    client.close()
    return positions


def unloads(
    broker: kit.Broker, topic: str, rounds: int, folder: Path, *, entries: int = 2_000
) -> Counter[str]:
    """Unload a topic many times, and count the acknowledged messages that the application received."""
    positions = make(broker, topic, SubscriptionType.SHARED, entries)
    acked, first = set(positions[1::2]), set(positions[::2][: QUEUE // 2])
    counted: Counter[str] = Counter()
    with Application(broker, topic, SubscriptionType.SHARED) as application, connection(broker) as at:
        application.quiet()
        application.take()
        for number in range(rounds):
            report = unload(at, topic, NAME, journal=folder / f"{number}.journal")
            application.connected.wait()
            counted["rounds with something stuck"] += not application.has(first)
            came = application.take()
            counted["unloads"] += 1
            counted["put back"] += report.sent
            counted["still missing"] += report.missing
            counted["delivered"] += len(came)
            counted["acknowledged ones delivered"] += sum(each.position in acked for each in came)
            counted["to the helper"] += at.received
            assert (
                at.admin.ask(f"persistent/{topic.removeprefix('persistent://')}/{NAME}/dispatchRate") is None
            )
            say(broker, counted, number + 1)
    return counted


def crashes(
    broker: kit.Broker, topic: str, rounds: int, folder: Path, *, entries: int = 2_000, held: bool = True
) -> Counter[str]:
    """Kill the broker many times, and put back three seconds after it is up."""
    positions = make(broker, topic, SubscriptionType.SHARED, entries)
    acked, first = set(positions[1::2]), set(positions[::2][: QUEUE // 2])
    counted: Counter[str] = Counter()
    for number in range(rounds):
        with Application(broker, topic, SubscriptionType.SHARED) as application:
            application.quiet()
            application.take()
            journal = folder / f"crash-{number}.journal"
            with connection(broker) as at:
                if held:
                    hold(at, topic, NAME, journal)
                before = at.read_live(topic, NAME)
            broker.stop(crash=True)
            broker.start()
            time.sleep(3)
            application.connected.wait()
            with connection(broker) as at:
                report = apply(plan(before, at.read_live(topic, NAME), restart="crash"), at)
                if held:
                    release(at, journal)
                counted["crashes"] += 1
                counted["put back"] += report.sent
                counted["still missing"] += report.missing
                counted["rounds with something stuck"] += not application.has(first)
                came = application.take()
                counted["delivered"] += len(came)
                counted["acknowledged ones delivered"] += sum(each.position in acked for each in came)
                say(broker, counted, number + 1)
    return counted


def keys(broker: kit.Broker, topic: str, rounds: int, folder: Path) -> Counter[str]:
    """Unload a Key_Shared subscription many times and check that no message stays withheld by the helper."""
    positions = make(broker, topic, SubscriptionType.KEY_SHARED, 400)
    number_of = {position: number for number, position in enumerate(positions)}
    unacked = set(positions[::2])
    counted: Counter[str] = Counter()
    kind = SubscriptionType.KEY_SHARED
    with Application(broker, topic, kind, consumers=2) as application, connection(broker) as at:
        for number in range(rounds):
            application.quiet(0.2)
            application.take()
            received = at.received
            report = unload(at, topic, NAME, journal=folder / f"key-{number}.journal", hold=number % 2 == 0)
            application.connected.wait()
            counted["rounds with something stuck"] += not application.has(unacked)
            counted["rounds"] += 1
            counted["put back"] += report.sent
            counted["still missing"] += report.missing
            # On a busy broker `wake` may receive a message, which no other consumer misses.
            counted["to the helper that wakes"] += at.received - received
            counted["rounds with something in replay"] += bool(at.read_live(topic, NAME).shown["msgInReplay"])
            last: dict[int, Position] = {}
            for each in application.session:
                # The first delivery of a session; redeliveries may follow.
                key = number_of[each.position] % KEYS
                if each.redelivery_count == 0:
                    counted["overtaken"] += each.position < last.get(key, each.position)
                    last[key] = max(last.get(key, each.position), each.position)
            say(broker, counted, number + 1)
    return counted
