"""A random subscription: publishes, deliveries and acknowledgments, and redeliveries after a restart."""

from __future__ import annotations

import random
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ackwell import Position
from ackwell.cluster.admin import Admin, TopicAnswer
from ackwell.cluster.endpoint import Endpoint
from ackwell.cursor.ack_sets import from_words, to_words
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar.live.client import Client, RefusedError

if TYPE_CHECKING:
    from tests.pulsar import kit

SUBSCRIPTION = "billing"
MANY = 1_000_000
PATIENCE_S = 20.0
CONSUMER = 1

STYLES = ("holes", "holes", "stripes", "parts", "parts", "both", "cumulative", "nothing")
LIMITS: dict[str, tuple[int | str, ...]] = {
    "managedLedgerMaxUnackedRangesToPersist": (10_000, 10_000, 50, 5),
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": (1_000, 1_000, 0, 10),
    "managedLedgerMaxBatchDeletedIndexToPersist": (10_000, 10_000, 3),
    "managedLedgerMaxEntriesPerLedger": (5_000, 30),
    "managedLedgerPersistIndividualAckAsLongArray": ("true", "true", "false"),
    "acknowledgmentAtBatchIndexLevelEnabled": ("true", "true", "true", "false"),
}


class Life:
    """One subscription on one topic, over any number of broker processes."""

    def __init__(self, broker: kit.Broker, seed: int) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self.seed = seed
        self.settings = {name: self._chance.choice(values) for name, values in LIMITS.items()}
        self._sizes = self._chance.choice(((None,), (None,), (10,), (1,), (None, 3, 10), (2, 5, 100)))
        self._kind = self._chance.choice(tuple(SubscriptionType))
        namespace = f"life{seed}-{uuid.uuid4().hex[:8]}"
        broker.create_namespace(namespace)
        self._name = f"public/{namespace}/topic"
        self._batch_sizes: dict[Position, int] = {}
        self._client: Client | None = None

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return f"persistent://{self._name}"

    def load(self) -> None:
        """Connect, and make the broker load the topic under the life's own settings."""
        self._configure()
        self._client = Client(self._broker.ports.binary, f"persistent://{self._name}", SUBSCRIPTION)
        self._client.open_producer()

    def _configure(self) -> None:
        """Apply the life's settings to the topics that the broker loads next."""
        self._broker.configure(**self.settings)

    def leave(self) -> None:
        """Close the connection without closing consumers first."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def act(self) -> None:
        """Publish, receive and acknowledge at random; stay connected, or not."""
        chance = self._chance
        assert self._client is not None
        self._configure()
        self._client.subscribe(CONSUMER, "c", self._kind)
        self._client.flow(CONSUMER, MANY)
        for _ in range(chance.randint(1, 3)):
            for _ in range(chance.choice((0, 5, 20, 80))):
                size = chance.choice(self._sizes)
                self._batch_sizes[self._client.publish(size, None)] = size or 1
            self._settle()
            self._acknowledge(self._client)
        if chance.random() < 0.2:
            self._broker.admin("PUT", f"persistent/{self._name}/unload")
            self._client.open_producer()
        if chance.random() < 0.5:
            self.leave()
        if chance.random() < 0.4:
            self._broker.flush(f"persistent://{self._name}", SUBSCRIPTION)

    def answer(self) -> dict[str, Any]:
        """Return the answers of the admin API in the form that `ackwell.broker.stats` reads."""
        admin = Admin(Endpoint(url=f"http://127.0.0.1:{self._broker.ports.admin}"))
        admin.count_backlogs = True
        (found,) = admin.answers([self.topic])
        assert isinstance(found, TopicAnswer), found
        return found.to_json()

    def acked(self) -> dict[Position, int]:
        """Return the messages of each entry that are acknowledged in the broker's memory, as bits."""
        cursor = self._cursor()
        mark_delete = Position(*cursor["markDelete"])
        found = {}
        for position, size in self._batch_sizes.items():
            whole = position <= mark_delete or any(
                ledger_id == position.ledger_id and lower < position.entry_id <= upper
                for _, lower, ledger_id, upper in cursor["ranges"]
            )
            everything = (1 << size) - 1
            words = cursor["batchDeletedIndexes"].get(str(position))
            owed = 0 if whole else everything if words is None else from_words(words)
            found[position] = everything & ~owed
        return found

    def lost(self, acked: dict[Position, int]) -> int:
        """Receive all messages; return the number of acknowledged ones among them."""
        assert self._client is not None
        backlog = self._cursor()["backlogEntries"]
        self._client.subscribe(CONSUMER, "again", SubscriptionType.EXCLUSIVE)
        self._client.flow(CONSUMER, MANY)
        delivered: dict[Position, int] = {}
        deadline = time.monotonic() + PATIENCE_S
        while len(delivered) < backlog:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(delivered)} of {backlog} entries came back in {PATIENCE_S} s")
            for each in self._client.take():
                everything = (1 << self._batch_sizes[each.position]) - 1
                delivered[each.position] = from_words(each.ack_set) if each.ack_set else everything
            time.sleep(0.002)
        self._client.close_consumer(CONSUMER)
        return sum((owed & acked[position]).bit_count() for position, owed in delivered.items())

    def _cursor(self) -> dict[str, Any]:
        return self._broker.cursor(f"persistent://{self._name}", SUBSCRIPTION)

    def _settle(self) -> None:
        """Give the broker the time to deliver, so that an Exclusive consumer may acknowledge all."""
        assert self._client is not None
        self._client.settle()
        self._client.take()

    def _acknowledge(self, client: Client) -> None:
        chance = self._chance
        positions = sorted(self._batch_sizes)
        if not positions:
            return
        style = chance.choice(
            ("holes", "holes", "stripes", "parts", "parts", "both", "cumulative", "nothing")
        )
        if style == "cumulative":
            if self._kind in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER):
                self._cumulative(client, chance.choice(positions))
            return
        whole = {
            "holes": [each for each in positions if chance.random() < 0.6],
            "stripes": positions[1::2],
            "both": chance.sample(positions, len(positions) // 3),
        }.get(style, [])
        ids: list[tuple[Position, tuple[int, ...], int]] = [
            (each, (), self._batch_sizes[each]) for each in whole
        ]
        if style in ("parts", "both"):
            for each in positions:
                size = self._batch_sizes[each]
                if size > 1 and each not in whole and chance.random() < 0.5:
                    ids.append((each, tuple(to_words(chance.getrandbits(size - 1) | 1 << size - 1)), size))
        if ids:
            client.ack(CONSUMER, ids)

    def _cumulative(self, client: Client, position: Position) -> None:
        size = self._batch_sizes[position]
        ack_set: tuple[int, ...] = ()
        if size > 1 and self._chance.random() < 0.5:
            index = self._chance.randrange(1, size)
            ack_set = tuple(to_words(((1 << size) - 1) >> index << index))
        with suppress(RefusedError):  # 5.0 refuses one before the mark-delete position.
            client.ack(CONSUMER, [(position, ack_set, size)], cumulative=True)
