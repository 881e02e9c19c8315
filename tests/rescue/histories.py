"""Random histories of one subscription on the dev broker's own state, without sockets and without waiting.

Each history also keeps the expected state: the acknowledgments that no seek removed. A restart changes only
the broker's state; a seek changes both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.cluster.admin import BrokerFacts
from ackwell.cursor.ack_sets import all_messages, from_words, to_words
from ackwell.cursor.cursor_state import existing
from ackwell.devbroker.admin_api.topic_stats import internal_stats, stats
from ackwell.devbroker.broker_state import BrokerState
from ackwell.devbroker.clock import Clock
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.entry import LogEntry
from ackwell.position import Position
from ackwell.protocol.constants import SubscriptionType
from ackwell.protocol.topic_name import TopicName
from ackwell.rescue.snapshot import Snapshot, snapshots_of

if TYPE_CHECKING:
    from ackwell import PositionRangeSet
    from ackwell.broker.stats import UnreadableSource
    from ackwell.cursor.cursor_state import CursorState
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.topic import Topic

TOPIC = "persistent://public/default/orders"
NAME = "billing"
BATCH = 4
START_MS = 4_000_000_000_000


@dataclass(frozen=True, kw_only=True)
class Settings(DevBrokerSettings):
    """A dev broker with limits that short histories reach."""

    own: dict[str, int | bool] = field(default_factory=dict)

    @cached_property
    def broker(self) -> BrokerSettings:
        values = [f"{name}={str(value).lower()}" for name, value in self.own.items()]
        return BrokerSettings.of(self.version).with_values(values)


class History:
    """One subscription with its expected state."""

    def __init__(self, seed: int, *, limit: int | None = None) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        limit = chance.choice((1, 2, 4, 8, 16)) if limit is None else limit
        self.limit = limit
        self.own: dict[str, int | bool] = {
            "managedLedgerMaxUnackedRangesToPersist": limit,
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore": chance.choice((1, 2, 1000)),
            "managedLedgerPersistIndividualAckAsLongArray": chance.random() < 0.5,
            "acknowledgmentAtBatchIndexLevelEnabled": True,
        }
        version = chance.choice(("4.0", "4.2", "5.0"))
        self.facts = BrokerFacts(
            version=f"{version}.0",
            settings={name: str(value).lower() for name, value in self.own.items()},
            assumed=(),
        )
        settings = Settings(version=version, entries_per_ledger=chance.choice((5, 20, 1000)), own=self.own)
        clock = Clock()
        clock.freeze()
        # Two histories with the same seed have the same clock.
        clock.advance(START_MS - clock.now_ms())
        self.state = BrokerState(settings, clock)
        self.type = chance.choice((SubscriptionType.SHARED, SubscriptionType.KEY_SHARED))
        self.log: list[str] = []
        self.steps: list[tuple[str, Any]] = []
        """The steps since the snapshot, each with the random state before it."""
        self.partly: dict[Position, int] = {}
        self.sought = False
        """Whether a step removed acknowledgments on purpose since the snapshot."""
        self.crashed = False
        self._make(earliest=True)

    # The state

    @property
    def topic(self) -> Topic:
        return self.state.topics[TOPIC]

    @property
    def subscription(self) -> TopicSubscription:
        return self.topic.subscriptions[NAME]

    def snapshot(self, *, connected: bool = False) -> Snapshot:
        found = self.observe(connected=connected)
        assert isinstance(found, Snapshot), found
        return found

    def observe(self, *, connected: bool = False) -> Snapshot | UnreadableSource:
        """Return the snapshot; it is unreadable if a counter contradicts it, as after a seek."""
        self.subscription.had_consumer = connected or self.subscription.had_consumer
        answer = {
            "internalStats": internal_stats(self.topic),
            "stats": stats(self.topic),
            "t": self.state.clock.now_ms(),
        }
        (found,) = snapshots_of(answer, TOPIC, "the dev broker", self.facts, "standalone")
        return found

    def memory(self) -> CursorState:
        """Return the state with its ack sets, as a memory dump shows it."""
        return self.subscription.cursor.to_state()

    def parts(self) -> dict[Position, int]:
        """Return the unacknowledged messages of each partly acknowledged batch, as bits."""
        everything = all_messages(BATCH)
        return {
            position: from_words(words) & everything
            for position, words in self.subscription.cursor.batch_deleted.items()
        }

    def lost_parts(self, before: CursorState) -> bool:
        """Return whether the broker lost acknowledgments within a batch."""
        now, acked = self.parts(), self.subscription.cursor.acknowledged()
        return any(
            self.topic.content.log.ledgers.contains(*position)
            and position not in acked
            and now.get(position, -1) & all_messages(BATCH) & ~from_words(words)
            for position, words in (before.batch_deleted or {}).items()
        )

    # The steps

    def begin(self) -> None:
        """Start to record steps; the broker's state at the snapshot is the expected state."""
        self.truth, self.partly = self.subscription.cursor.acknowledged(), self.parts()
        self.sought = self.crashed = False
        self.steps = []
        self.log.append("snapshot")

    def _make(self, *, earliest: bool) -> None:
        topic = self.state.topic(TOPIC)
        content = topic.content
        start = content.first_position if earliest else content.end_position
        topic.subscribe(NAME, self.type, start, durable=True)
        self.subscription.had_consumer = True
        self.truth = self.subscription.cursor.acknowledged()
        self.partly = {}

    def _merged(self) -> None:
        """Add the broker's acknowledgments to the expected state."""
        acked = self.subscription.cursor.acknowledged()
        self.truth |= acked
        for position, bits in self.parts().items():
            self.partly[position] = self.partly.get(position, -1) & bits
        for position, bits in list(self.partly.items()):
            if not bits:
                self.truth.add(*position)
            if position in self.truth:
                del self.partly[position]

    def _taken_over(self) -> None:
        """Replace the expected state by the broker's, because the step removed acknowledgments on purpose."""
        self.truth, self.partly = self.subscription.cursor.acknowledged(), self.parts()
        self.sought = True

    def publish(self) -> None:
        for _ in range(self.chance.randint(1, 25)):
            size = BATCH if self.chance.random() < 0.3 else 1
            self.topic.publish(LogEntry(b"m", size, self.state.clock.now_ms()))

    def acknowledge(self) -> None:
        unacked = self.unacked()
        for position in self.chance.sample(unacked, self.chance.randint(0, len(unacked))):
            self.ack(position)

    def acknowledge_few(self) -> None:
        unacked = self.unacked()
        for position in self.chance.sample(unacked, min(len(unacked), self.chance.randint(1, 6))):
            self.ack(position)

    def acknowledge_parts(self) -> None:
        sizes = self.topic.content.batch_sizes()
        for position in self.unacked():
            if sizes.get(position, 1) > 1 and self.chance.random() < 0.5:
                bits = all_messages(BATCH) & ~(1 << self.chance.randrange(BATCH))
                self.subscription.subscription.ack(None, *position, to_words(bits))
                self.subscription.acknowledged(whole=False)
        self._merged()

    def roll(self) -> None:
        self.topic.content.log.roll()

    def trim(self) -> None:
        self.topic.trim()

    def wait(self) -> None:
        self.state.clock.advance(self.chance.choice((300, 2_000, 70_000)))

    def skip(self) -> None:
        self.subscription.skip(self.chance.randint(1, 5))
        self._merged()

    def expire(self) -> None:
        positions = self._positions()
        if positions:
            self.subscription.expire(self.chance.choice(positions))
            self._merged()

    def clear(self) -> None:
        self.subscription.clear_backlog()
        self._merged()

    def seek(self) -> None:
        """Seek to a random position, most often one that removes few acknowledgments, as a restart does."""
        positions = self._positions()
        mark = self.subscription.cursor.mark_delete_position
        near = [each for each in positions if each > mark][:3]
        if positions:
            self.subscription.seek(
                self.chance.choice(near or positions)
                if self.chance.random() < 0.6
                else self.chance.choice(positions)
            )
            self._taken_over()

    def make_again(self) -> None:
        self.subscription.delete()
        self._make(earliest=self.chance.random() < 0.5)
        self.sought = True

    def make_topic_again(self) -> None:
        self.state.delete_topic(TopicName.parse(TOPIC))
        self._make(earliest=True)
        self.publish()
        self.sought = True

    def unload(self) -> None:
        self.state.unload(self.topic)

    def crash(self) -> None:
        self.state.reload("crash", "pulsar")
        self.crashed = True

    def run(self, weights: dict[str, float], steps: int) -> None:
        names = list(weights)
        for name in self.chance.choices(names, list(weights.values()), k=steps):
            self.do(name)

    def do(self, name: str) -> None:
        self.log.append(name)
        self.steps.append((name, self.chance.getstate()))
        step: Callable[[], Any] = getattr(self, name)
        step()

    def _positions(self) -> list[Position]:
        return [
            Position(ledger_id, entry_id)
            for ledger_id, entries in self.topic.content.log.ledgers
            for entry_id in range(entries)
        ]

    def unacked(self) -> list[Position]:
        acked = self.subscription.cursor.acknowledged()
        return [each for each in self._positions() if each not in acked]

    def ack(self, position: Position) -> None:
        self.subscription.subscription.ack(None, *position)
        self.subscription.acknowledged(whole=True)
        self._merged()


BEFORE = {
    "publish": 3.0,
    "acknowledge": 1.0,
    "acknowledge_few": 3.0,
    "acknowledge_parts": 1.0,
    "roll": 0.5,
    "wait": 1.0,
}
BEFORE |= {"trim": 0.3, "seek": 0.2, "unload": 0.2, "crash": 0.1}
HARMLESS = {
    "publish": 2.0,
    "acknowledge_few": 2.0,
    "acknowledge_parts": 0.5,
    "roll": 0.5,
    "trim": 0.5,
    "wait": 1.0,
}
HARMLESS |= {"skip": 0.4, "expire": 0.2, "clear": 0.1, "unload": 1.5}
SEEKS = {"seek": 1.5, "make_again": 0.4, "make_topic_again": 0.2}


def existing_only(ranges: PositionRangeSet, history: History) -> PositionRangeSet:
    """Return the positions that the topic still has."""
    return existing(ranges, history.topic.content.log.ledgers)
