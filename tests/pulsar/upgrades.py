"""`ackwell upgrade-check` compared with rolling upgrades and downgrades of a real cluster.

    python -m tests.pulsar.upgrades --states 16 --seed 1

A round makes random subscriptions on two brokers of one release, predicts each with the command, and starts
one broker after the other with the other release. A topic of the second broker moves once. A topic of the
first one moves twice if the second broker loads it in between. The redelivered messages must be those of the
prediction for this number of moves. Then the topics that lost nothing are unloaded, which must redeliver the
messages that the command predicts for a later restart.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell import Position, PositionRangeSet
from ackwell.cursor.ack_sets import from_words
from ackwell.protocol.constants import SubscriptionType
from tests.commands import ackwell
from tests.pulsar.cluster import Cluster, ClusterBroker, running_cluster
from tests.pulsar.lives.life import CONSUMER, MANY, Life

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALL = {"managedLedgerMaxEntriesPerLedger": "30"}
ROUNDS: tuple[dict[str, Any], ...] = (
    {"managedLedgerMaxEntriesPerLedger": "20000"},
    {
        **SMALL,
        "managedLedgerMaxUnackedRangesToPersist": "20",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "5",
        "managedLedgerMaxBatchDeletedIndexToPersist": "4",
    },
    {
        **SMALL,
        "managedLedgerMaxUnackedRangesToPersist": "8",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "8",
        "managedLedgerPersistIndividualAckAsLongArray": "false",
    },
)
"""The settings of the brokers, which both releases have. The defaults of the releases apply to all others."""

LARGE = (12_000, 16_000)
"""The holes of the large states of the first round, whose limits are the defaults."""


class UpgradeLife(Life):
    """A random subscription under the settings of the cluster."""

    def __init__(self, broker: ClusterBroker, seed: int, holes: int = 0) -> None:
        super().__init__(broker, seed)
        self.settings = {}
        self._holes = holes

    def move_to(self, broker: ClusterBroker) -> None:
        """Use the broker that now serves the topic."""
        self._broker = broker

    @property
    def namespace(self) -> str:
        """The namespace of the topic."""
        return self._name.rpartition("/")[0]

    def unload(self) -> None:
        """Unload the topic."""
        self._broker.admin("PUT", f"persistent/{self._name}/unload")

    def act(self) -> None:
        """Act at random; a large state has its holes first."""
        if not self._holes:
            super().act()
            return
        client = self._client
        assert client is not None
        client.subscribe(CONSUMER, "c", self._kind)
        first = client.sequence_id + 1
        for _ in range(2 * self._holes):
            client.publish_later("k")
        positions = [client.receipt(number) for number in range(first, client.sequence_id + 1)]
        self._batch_sizes |= dict.fromkeys(positions, 1)
        client.flow(CONSUMER, MANY)
        for start in range(1, len(positions), 2_000):
            client.ack(CONSUMER, [(each, (), 0) for each in positions[start : start + 2_000 : 2]])
        self._settle()

    def acked(self) -> dict[Position, int]:
        """Return the messages of each entry that are acknowledged in the broker's memory, as bits."""
        cursor = self._cursor()
        mark_delete = Position(*cursor["markDelete"])
        ranges = PositionRangeSet((ledger, lower, upper) for _, lower, ledger, upper in cursor["ranges"])
        found = {}
        for position, size in self._batch_sizes.items():
            everything = (1 << size) - 1
            words = cursor["batchDeletedIndexes"].get(str(position))
            whole = position <= mark_delete or position in ranges
            unacked = 0 if whole else everything if words is None else from_words(words)
            found[position] = everything & ~unacked
        return found


class ProtectedLife(UpgradeLife):
    """A Shared subscription of single messages, whose consumer stays connected and requests no messages."""

    def __init__(self, broker: ClusterBroker, seed: int) -> None:
        super().__init__(broker, seed)
        self._sizes, self._kind = (None,), SubscriptionType.SHARED

    def attach(self, broker: ClusterBroker) -> None:
        """Connect the consumer to the broker that serves the topic."""
        self.leave()
        self.move_to(broker)
        self.load()
        assert self._client is not None
        self._client.subscribe(CONSUMER, "c", self._kind)


class Prediction(NamedTuple):
    """The prediction for one state, and the acknowledged messages at that time."""

    life: UpgradeLife
    found: dict[str, Any]
    acked: dict[Position, int]


class Outcome(NamedTuple):
    """The number of redelivered messages of one state, and the prediction."""

    what: str
    predicted: dict[str, Any]
    lost: int
    seed: int

    @property
    def is_wrong(self) -> bool:
        """Whether the number is outside the predicted bounds."""
        most = self.predicted["max"]
        return self.lost < self.predicted["min"] or (most is not None and self.lost > most)


def predicted(cluster: Cluster, lives: Sequence[UpgradeLife], to: str) -> Iterator[Prediction]:
    """Yield the prediction of the command for each state."""
    names = sorted({life.namespace for life in lives})
    arguments = ("--to", to, "--admin", cluster.brokers[0].admin_url, "--count-backlogs", "--format", "json")
    answer = ackwell("upgrade-check", *arguments, "--metadata-node-bytes", "10485760", *names)
    assert answer.code in (0, 3, 4), answer
    by_topic = {each["topic"]: each for each in json.loads(answer.out)["subscriptions"]}
    for life in lives:
        yield Prediction(life, by_topic[life.topic], life.acked())


def rolled(cluster: Cluster, lives: Sequence[UpgradeLife], to: str, chance: random.Random) -> list[Outcome]:
    """Predict, restart every broker with another release, and compare."""
    first, second = cluster.brokers
    on_first = [life for life in lives if cluster.owner(life.topic, first) is first]
    predictions = list(predicted(cluster, lives, to))
    for life in lives:
        life.leave()
    moved_twice = [life for life in on_first if chance.random() < 0.7]
    first.stop()
    for life in moved_twice:
        assert cluster.owner(life.topic, second) is second
        life.move_to(second)
        life.load()
        life.leave()
    first.change_release(to)
    first.start()
    second.stop()
    second.change_release(to)
    second.start()
    outcomes = []
    for life, found, acked in predictions:
        life.move_to(cluster.owner(life.topic, first))
        life.load()
        moves = found["moves"][life in moved_twice]["ackedMessagesLost"]["graceful"]
        name = "two moves" if life in moved_twice else "one move"
        outcome = Outcome(name, moves, life.lost(acked), life.seed)
        outcomes.append(outcome)
        if not outcome.lost:
            life.unload()
            life.load()
            later = found["restartAfter"]["ackedMessagesLost"]["graceful"]
            outcomes.append(Outcome("later restart", later, life.lost(acked), life.seed))
        life.leave()
    return outcomes


def protected(cluster: Cluster, lives: Sequence[ProtectedLife], to: str, folder: Path) -> list[Outcome]:
    """Upgrade with `ackwell rescue begin` and `end` around each restart; return the redelivered messages."""
    first, second = cluster.brokers
    predictions = list(predicted(cluster, lives, to))
    for stopped, other in ((first, second), (second, first)):
        for life in lives:
            life.attach(cluster.owner(life.topic, other))
        names = sorted({life.namespace for life in lives})
        window = folder / f"window-{stopped.ports.admin}"
        connection = ("--admin", other.admin_url, "--audit", str(folder / "audit.jsonl"), "--yes")
        owner = f"127.0.0.1:{stopped.ports.admin}"
        begun = ackwell("rescue", "begin", *connection, "--owner", owner, "--output", str(window), *names)
        assert begun.code == 0, begun
        stopped.stop()
        for life in lives:
            life.attach(cluster.owner(life.topic, other))
        stopped.change_release(to)
        stopped.start()
        if window.exists():
            ended = ackwell("rescue", "end", str(window), *connection)
            assert ended.code == 0, ended
    outcomes = []
    for life, (_, found, acked) in zip(lives, predictions, strict=True):
        life.leave()
        life.move_to(cluster.owner(life.topic, first))
        life.load()
        unprotected = found["moves"][0]["ackedMessagesLost"]["graceful"]
        outcomes.append(Outcome("protected", unprotected, life.lost(acked), life.seed))
        life.leave()
    return outcomes


def made(cluster: Cluster, states: int, seed: int, large: Sequence[int]) -> list[UpgradeLife]:
    """Make random states on both brokers."""
    lives = []
    for number in range(states):
        broker = cluster.brokers[number % 2]
        holes = large[number // 2] if number // 2 < len(large) else 0
        life = UpgradeLife(broker, 1_000 * seed + number, holes)
        cluster.move(life.namespace, life.topic, broker)
        life.load()
        life.act()
        lives.append(life)
    time.sleep(1)
    return lives


def compared(
    folder: Path, old: str, new: str, states: int, seed: int, rounds: Sequence[int] = range(len(ROUNDS))
) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the outcomes of the upgrade and of the downgrade of each round."""
    for number in rounds:
        settings = ROUNDS[number]
        chance = random.Random(seed + number)
        here = folder / str(number)
        here.mkdir()
        large = [] if number else LARGE
        with running_cluster(here, old, journalSyncData="false", **settings) as cluster:
            for name, to in ((f"{old} to {new}", new), (f"{new} to {old}", old)):
                lives = made(cluster, states, 10 * seed + 2 * number + (to == old), large)
                yield name, rolled(cluster, lives, to, chance)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the number of comparisons by kind."""
    kinds = Counter(each.what for each in outcomes)
    exact = sum(each.predicted["exact"] for each in outcomes)
    lost = sum(each.lost > 0 for each in outcomes)
    wrong = sum(each.is_wrong for each in outcomes)
    return f"{dict(kinds)}, {exact} predicted exactly, {lost} redelivered something, {wrong} wrong"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", default="4.2.4")
    parser.add_argument("--new", default="5.0.1")
    parser.add_argument("--states", type=int, default=16, help="subscriptions of each direction and round")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, outcomes in compared(Path(folder), asked.old, asked.new, asked.states, asked.seed):
            print(f"{name}: {summary(outcomes)}", flush=True)
            for each in outcomes:
                if each.is_wrong:
                    wrong += 1
                    print(f"  {each}", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
