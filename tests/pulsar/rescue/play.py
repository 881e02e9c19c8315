"""Random histories on a broker: the final state is exactly the union of snapshot and live acknowledgments."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from ackwell import Ledgers, Position, PositionRangeSet
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from ackwell.cursor.ack_sets import all_messages, from_words, to_words
from ackwell.cursor.cursor_state import CursorState, existing
from ackwell.cursor.rules import acknowledged
from ackwell.protocol.constants import SubscriptionType
from ackwell.rescue import Connection, RefusedError, apply, plan
from tests.pulsar.live.client import Client, Delivered
from tests.pulsar.live.client import RefusedError as AnswerError

if TYPE_CHECKING:
    from tests.pulsar import kit

NAME = "billing"
Reload = Literal["unload", "graceful", "crash"]
RELOADS: tuple[Reload, ...] = ("unload", "graceful", "crash")
GROUP = 25
"""How many histories share a broker's restart, and its settings."""

SHARED = (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)
PERMITS = 500
REWIND_S = 0.3
KEYS = 9
THREADS = 12


def connection(broker: kit.Broker) -> Connection:
    return Connection(Admin(Endpoint(url=f"http://127.0.0.1:{broker.ports.admin}")))


class Memory:
    """The broker's cursor, read through the side door."""

    def __init__(self, dump: dict[str, Any], ledgers: Ledgers) -> None:
        cursor = dump["cursor"]
        ranges = PositionRangeSet()
        for _, lower, ledger_id, upper in cursor["ranges"]:
            ranges.add_range(ledger_id, lower, upper)
        mark = Position(*cursor["markDelete"])
        self.acked = existing(acknowledged(ledgers, mark, ranges), ledgers)
        parts = {Position.parse(text): tuple(words) for text, words in cursor["batchDeletedIndexes"].items()}
        self.parts = {
            position: words
            for position, words in parts.items()
            if position not in self.acked and ledgers.contains(*position)
        }
        """The ack sets that say something."""
        self.ledgers = ledgers
        self.state = CursorState(mark, ranges, self.parts, ledgers)
        self.consumers: dict[str, Any] = {each["name"]: each for each in dump["consumers"]}
        self.dispatcher = dump["dispatcher"]

    def unacked(self, position: Position, size: int) -> int:
        """Return the messages of an entry that are not acknowledged, as bits."""
        if position in self.acked:
            return 0
        return from_words(self.parts[position]) if position in self.parts else all_messages(size)


class History:
    """A topic with one subscription, its producer and its consumers."""

    def __init__(self, broker: kit.Broker, seed: int, namespace: str) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self.seed = seed
        self.topic = f"persistent://public/{namespace}/h{seed}"
        self.kind = self.chance.choice(list(SubscriptionType))
        self.sizes: dict[Position, int] = {}
        self.unacked: dict[Position, int] = {}
        """What consumers have: the messages that are not acknowledged, as bits."""
        self.by: dict[Position, int] = {}
        self.counts: dict[Position, int] = {}
        self._client: Client | None = None
        self.names = ["a", "b"] if self.kind is not SubscriptionType.EXCLUSIVE else ["a"]
        self.counted: Counter[str] = Counter(histories=1)
        self.problems: list[str] = []
        self.completed: set[Position] = set()
        """Batches of which the snapshot and the live state have acknowledged all together."""

    def run(self) -> Generator[None, Reload, None]:
        """Yield before each reload of the topic; the caller chooses its kind."""
        chance = self.chance
        self.connect()
        for _ in range(chance.randint(1, 3)):
            self.publish()
            self.receive()
            self.acknowledge(0.6)
        with connection(self.broker) as at:
            before = at.read_live(self.topic, NAME)
            memory = self.memory()
            if chance.random() < 0.5:
                self.publish()
                self.receive()
            self.acknowledge(0.1)
            all_before = self.memory()
            how = yield
            self.connect()
            if chance.random() < 0.3:
                self.unload()
                self.connect()
            if chance.random() < 0.5:
                self.publish()
            self.receive()
            self.acknowledge(0.15)
            self.rescue(at, before, memory, all_before, how)
        self.client.close()

    def rescue(self, at: Connection, before: Any, memory: Memory, last: Memory, how: Reload) -> None:
        if self.kind is SubscriptionType.EXCLUSIVE:
            self.client.close_consumer(1)
        live = self.memory()
        shown = memory.state if self.chance.random() < 0.6 else None
        ledgers = at.read_live(self.topic, NAME).stats.ledgers
        expected = existing(before.acked, ledgers) | live.acked
        parts = _both(live.parts, shown.batch_deleted if shown else {}, expected, ledgers)
        self.complete(expected, parts)
        lost = expected != live.acked or parts != live.parts
        self.counted["lost"] += lost
        self.counted["entries lost"] += expected.cardinality - live.acked.cardinality
        try:
            now = at.read_live(self.topic, NAME)
            try:
                made = plan(before, now, restart="crash" if how == "crash" else "graceful", ack_sets=shown)
            except RefusedError as refused:
                self.counted[f"refused {refused.code}"] += bool(lost)
                self.counted["the user must say"] += bool(lost)
                made = plan(before, now, restart="crash", ack_sets=shown)
            report = apply(made, at)
        except RefusedError as refused:
            if lost or refused.code != "not-loaded-anew":
                self.problems.append(f"{how}: {refused}")
            return
        after = self.memory()
        again = apply(made, at)
        if report.missing or (again.sent and not made.ack_sets):
            self.problems.append(f"{report}; a second time {again}")
        self.true(last, live, after)
        # The broker may delete fully acknowledged ledgers at the same time.
        now_expected = existing(expected, after.ledgers)
        if after.acked != now_expected:
            self.problems.append(f"expected {now_expected}, got {after.acked}")
        if after.parts != parts:
            self.problems.append(f"ack sets: expected {parts}, got {after.parts}")
        if at.received or at.errors:
            self.problems.append(f"the helper got {at.received} messages, errors {at.errors}")
        self.counted["put back"] += report.sent
        self.others(live, after)

    def complete(self, expected: PositionRangeSet, parts: dict[Position, Any]) -> None:
        """The acknowledgments before and after the snapshot may cover a whole batch."""
        self.completed = {position for position, words in parts.items() if not words}
        for position in self.completed:
            expected.add(*position)
            del parts[position]
        self.counted["completed batches"] += len(self.completed)

    def true(self, last: Memory, live: Memory, after: Memory) -> None:
        """Every acknowledged message was acknowledged by a consumer."""
        for position, size in self.sizes.items():
            unacked = last.unacked(position, size) & live.unacked(position, size)
            if unacked & ~after.unacked(position, size):
                self.problems.append(f"WRONG: {position}")
                self.counted["wrong"] += 1

    def others(self, live: Memory, after: Memory) -> None:
        """The consumers have their permits, and their pending entries are not acknowledged."""
        taken = self.take()
        if after.consumers.keys() != live.consumers.keys():
            self.problems.append(f"consumers {live.consumers.keys()}, then {after.consumers.keys()}")
            return
        for name, now in after.consumers.items():
            then = live.consumers[name]
            got = [each for each in taken if self.names[each.consumer_id - 1] == name]
            entries = {tuple(each[:2]): each[2] for each in now["pending"]}
            acked = {each: count for each, count in entries.items() if Position(*each) in after.acked}
            if wrong := {each: count for each, count in acked.items() if not self.completes(each, count)}:
                self.problems.append(f"{name} has what is acknowledged: {wrong}")
            if self.drift(after, now) != self.drift(live, then):
                self.problems.append(f"{name}: {then['unacked']}, then {now['unacked']} unacked: {entries}")
            if not got and now["permits"] != then["permits"]:
                self.problems.append(f"{name}: permits {then['permits']}, then {now['permits']}")
            # A ledger without unacknowledged entries may be deleted, and its entries are not pending.
            kept = {tuple(each[:2]) for each in then["pending"] if after.ledgers.contains(*each[:2])}
            kept = {each for each in kept if Position(*each) not in after.acked or each in self.completed}
            if not got and kept != entries.keys():
                self.problems.append(f"{name} had {sorted(kept)}, then {sorted(entries)}")
            self.counted["consumers compared"] += 1
        if self.kind is SubscriptionType.FAILOVER and live.dispatcher["active"] != after.dispatcher["active"]:
            self.problems.append(f"active: {live.dispatcher['active']}, then {after.dispatcher['active']}")
        if after.dispatcher.get("replay"):
            self.problems.append(f"waits to be delivered again: {after.dispatcher['replay']}")
        if self.kind in SHARED:
            self.redelivered(after)

    def completes(self, position: tuple[int, int], count: int) -> bool:
        """Whether this is a batch that an ack set completed.

        It stays with its consumer, which has nothing left of it; 4.0 goes on counting its size.
        """
        before_42 = self.broker.version.startswith("4.0")
        left = self.sizes[Position(*position)] if before_42 else 0
        return position in self.completed and count == left

    def drift(self, memory: Memory, consumer: dict[str, Any]) -> int:
        """Return the excess of the broker's count of a consumer's unacknowledged messages."""
        has = [Position(*each[:2]) for each in consumer["pending"]]
        return int(consumer["unacked"]) - sum(memory.unacked(p, self.sizes[p]).bit_count() for p in has)

    def redelivered(self, after: Memory) -> None:
        """The redelivery counts equal the number of redeliveries, as without a rescue."""
        counts = dict(self.counts)
        for number, name in enumerate(self.names, 1):
            # By position: an entry that moves between the two is counted once.
            if has := [Position(*each[:2]) for each in after.consumers[name]["pending"]]:
                self.client.redeliver(number, has)
        for each in self.settled():
            if each.position in after.acked:
                self.problems.append(f"{each.position} came again")
            elif each.redelivery_count != counts.get(each.position, -1) + 1:
                self.problems.append(f"{each}: was counted {counts.get(each.position)} before")
            self.counted["counts compared"] += 1

    # What happens

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def connect(self) -> None:
        """Connect anew, as clients do after a restart."""
        if self._client is not None:
            self._client.close()
        self.unacked.clear()
        self.counts.clear()
        deadline = time.monotonic() + 60
        while True:
            try:
                self._client = Client(self.broker.ports.binary, self.topic, NAME)
                self.client.open_producer()
                for number, name in enumerate(self.names, 1):
                    self.client.subscribe(number, name, self.kind)
                break
            except (AnswerError, OSError):
                if time.monotonic() > deadline:
                    raise
                self.client.close()
                time.sleep(0.2)
        for number in range(1, len(self.names) + 1):
            self.client.flow(number, PERMITS)

    def publish(self) -> None:
        for _ in range(self.chance.randint(10, 30)):
            size = self.chance.choice((None, None, 4))
            position = self.client.publish(size, f"k{self.chance.randrange(KEYS)}")
            self.sizes[position] = size or 1

    def take(self) -> list[Delivered]:
        taken = self.client.take()
        for each in taken:
            everything = all_messages(self.sizes[each.position])
            self.unacked[each.position] = from_words(each.ack_set) or everything
            self.by[each.position] = each.consumer_id
            self.counts[each.position] = each.redelivery_count
        return taken

    def settled(self) -> list[Delivered]:
        """Return all deliveries until the broker delivers nothing."""
        taken: list[Delivered] = []
        quiet = 0
        while quiet < 3:
            self.client.settle()
            new = self.take()
            taken += new
            quiet = 0 if new else quiet + 1
            time.sleep(0.05)
        return taken

    def receive(self) -> None:
        self.settled()

    def acknowledge(self, share: float) -> None:
        for position, bits in list(self.unacked.items()):
            if self.chance.random() >= share:
                continue
            size = self.sizes[position]
            if size > 1 and self.chance.random() < 0.5:
                left = bits & self.chance.getrandbits(size)
                if left and left != bits:
                    self.client.ack(self.by[position], [(position, to_words(left), size)])
                    self.unacked[position] = left
                continue
            self.client.ack(self.by[position], [(position, (), size if size > 1 else 0)])
            del self.unacked[position]

    def unload(self) -> None:
        self.broker.admin("PUT", f"persistent/{self.topic.removeprefix('persistent://')}/unload")

    def memory(self) -> Memory:
        self.client.settle()
        ledgers = connection(self.broker).read_live(self.topic, NAME).stats.ledgers
        return Memory(self.broker.subscription(self.topic, NAME), ledgers)


def _both(
    live: dict[Position, Any], then: Any, acked: PositionRangeSet, ledgers: Ledgers
) -> dict[Position, Any]:
    """Return the ack sets of two states together, of entries that are not acknowledged as a whole."""
    found = {}
    for position in {*live, *then}:
        if position not in acked and ledgers.contains(*position):
            words = [each[position] for each in (live, then) if position in each]
            bits = from_words(words[0])
            for each in words[1:]:
                bits &= from_words(each)
            found[position] = to_words(bits)
    return found


def play(broker: kit.Broker, seeds: range) -> tuple[Counter[str], list[str]]:
    """Play histories side by side up to their reload; a restart of the broker is one for all of them."""
    chance = random.Random(seeds.start)
    how = RELOADS[seeds.start // GROUP % len(RELOADS)]
    namespace = f"r{seeds.start}-{uuid.uuid4().hex[:6]}"
    limit = chance.choice((1, 2, 4))
    broker.configure(
        managedLedgerMaxUnackedRangesToPersist=limit,
        managedLedgerMaxUnackedRangesToPersistInMetadataStore=chance.choice((1, 1000)),
        managedLedgerPersistIndividualAckAsLongArray=chance.random() < 0.5,
        managedLedgerMaxEntriesPerLedger=chance.choice((10, 25, 5000)),
    )
    broker.create_namespace(namespace)
    histories = [History(broker, seed, namespace) for seed in seeds]
    running = [(each, each.run()) for each in histories]
    pool = ThreadPoolExecutor(THREADS)
    list(pool.map(lambda each: next(each[1]), running))
    if how == "unload":
        for each in histories:
            each.unload()
    else:
        broker.stop(crash=how == "crash")
        broker.start(managedLedgerMaxUnackedRangesToPersist=str(limit))

    def end(one: tuple[History, Generator[None, Reload, None]]) -> None:
        try:
            one[1].send(how)
        except StopIteration:
            pass
        except Exception as error:
            one[0].problems.append(repr(error))

    with pool:
        list(pool.map(end, running))
    counted: Counter[str] = sum((each.counted for each in histories), Counter())
    counted[how] += len(histories)
    problems = [
        f"seed {each.seed} {each.kind} {how} limit {limit}: {problem}"
        for each in histories
        for problem in each.problems
    ]
    counted["histories with problems"] += sum(bool(each.problems) for each in histories)
    return counted, problems
