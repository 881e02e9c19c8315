"""Random operations on one subscription, with its counters and guarantees checked after each.

A saved acknowledgment is never undone, an unacknowledged message is never lost, and every counter equals its
sum. The log grows at one end and is acknowledged at the other, so the state stays small. The sums are
compared after every operation, everything else every 500 operations.
"""

from __future__ import annotations

import random

import pytest

from ackwell import Ledgers, Position
from ackwell.cursor.ack_sets import to_words
from ackwell.store import MemoryStore
from ackwell.subscription import Subscription, SubscriptionSettings

LEDGER_ENTRIES = 50
WINDOW = 60
SETTINGS = SubscriptionSettings(
    max_unacked_per_consumer=40, max_unacked_per_subscription=70, round_robin_batch_size=3
)


class Entry:
    """One entry in the model."""

    __slots__ = ("holder", "owed", "queued", "read")

    def __init__(self, owed: int) -> None:
        self.owed = owed
        self.holder: str | None = None
        self.queued = False
        self.read = False


class Walk:
    """A subscription and its model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ledgers = Ledgers()
        self.store = MemoryStore()
        self.saved: dict[Position, int] = {}
        self.saved_next = self.next = Position(1, 0)
        self.entries: dict[Position, Entry] = {}
        self.unacked: dict[str, int] = {}
        self.delivered = self.restarts = self.acked = 0
        self.gone_for_good: set[Position] = set()
        self.subscription = Subscription("Shared", self.ledgers, settings=SETTINGS)

    def size(self, position: Position) -> int:
        return 1 + (position.ledger_id + position.entry_id) % 3

    def step(self) -> None:
        """Do one operation; common operations are more likely."""
        (operation,) = self.random.choices(self.OPERATIONS, self.WEIGHTS)
        operation(self)
        self.check_sums()

    def publish(self) -> None:
        while len(self.entries) < WINDOW:
            self.ledgers.grow(self.next.ledger_id, self.next.entry_id + 1)
            self.entries[self.next] = Entry((1 << self.size(self.next)) - 1)
            last = self.next.entry_id == LEDGER_ENTRIES - 1
            self.next = Position(self.next.ledger_id + last, 0 if last else self.next.entry_id + 1)

    def join_or_leave(self) -> None:
        name = self.random.choice("abc")
        if name not in self.unacked:
            self.subscription.add_consumer(name)
            self.subscription.flow(name, 50)
            self.unacked[name] = 0
            return
        self.subscription.remove_consumer(name)
        for entry in self.entries.values():
            if entry.holder == name:
                entry.holder, entry.queued = None, True
        del self.unacked[name]

    def flow(self) -> None:
        for name in self.unacked:
            self.subscription.flow(name, 20)

    def dispatch(self) -> None:
        self.publish()
        for position in self.subscription.next_reads(self.random.randint(1, 6), 0):
            entry = self.entries[position]  # KeyError: an acknowledged entry was redelivered
            name = self.subscription.dispatch(position, now_ms=0, batch_size=self.size(position)).consumer
            if name is None:
                continue
            assert entry.holder is None
            assert position not in self.gone_for_good
            assert entry.queued or not entry.read
            entry.holder, entry.queued, entry.read = str(name), False, True
            self.unacked[str(name)] += entry.owed.bit_count()
            self.delivered += 1

    def pick(self) -> Position:
        """Choose an entry. Old entries are more likely, so that the window moves."""
        index = int(len(self.entries) * self.random.random() ** 2)
        return list(self.entries)[index]

    def ack(self) -> None:
        if self.entries:
            position = self.pick()
            assert self.subscription.ack(self.random_consumer(), *position)
            self.settle(position, 0)

    def ack_batch(self) -> None:
        if self.entries:
            position = self.pick()
            size = self.size(position)
            keep = self.random.getrandbits(size) & ~(1 << self.random.randrange(size))
            owed = self.entries[position].owed
            changed = self.subscription.ack(self.random_consumer(), *position, ack_set=to_words(keep))
            assert changed == (owed & keep != owed or keep == 0)
            self.settle(position, owed & keep)

    def ack_again(self) -> None:
        """Repeat an acknowledgment; nothing changes."""
        if self.gone_for_good:
            position = next(iter(self.gone_for_good))
            assert not self.subscription.ack(self.random_consumer(), *position)

    def ack_many(self) -> None:
        if self.entries:
            chosen = [self.pick() for _ in range(5)]
            changed = self.subscription.ack_many(
                self.random_consumer(), [p.ledger_id for p in chosen], [p.entry_id for p in chosen]
            )
            assert changed == len(set(chosen))
            for position in set(chosen):
                self.settle(position, 0)

    def redeliver(self) -> None:
        if not self.unacked:
            return
        name = self.random.choice(list(self.unacked))
        mine = [position for position, entry in self.entries.items() if entry.holder == name]
        some = None if self.random.random() < 0.2 else mine[:2]
        assert self.subscription.redeliver(name, some) == len(mine if some is None else some)
        for position in mine if some is None else some:
            entry = self.entries[position]
            entry.holder, entry.queued = None, True
            self.unacked[name] -= entry.owed.bit_count()

    def save(self) -> None:
        self.subscription.save(self.store)
        self.saved = {position: entry.owed for position, entry in self.entries.items()}
        self.saved_next = self.next
        # Acknowledged and saved entries must not be redelivered.
        self.gone_for_good = {
            position
            for ledger_id in (self.next.ledger_id - 1, self.next.ledger_id)
            for entry_id in range(LEDGER_ENTRIES)
            if (position := Position(ledger_id, entry_id)) < self.next
            and position not in self.entries
            and ledger_id > 0
        }

    def crash_and_restart(self) -> None:
        self.subscription = Subscription.load("Shared", self.store, self.ledgers, settings=SETTINGS)
        place = self.saved_next
        owed = dict(self.saved)
        while place < self.next:
            owed[place] = (1 << self.size(place)) - 1
            last = place.entry_id == LEDGER_ENTRIES - 1
            place = Position(place.ledger_id + last, 0 if last else place.entry_id + 1)
        self.entries = {position: Entry(bits) for position, bits in owed.items()}
        self.unacked.clear()
        self.restarts += 1

    def random_consumer(self) -> str | None:
        return self.random.choice([*self.unacked, None])

    def settle(self, position: Position, owed: int) -> None:
        entry = self.entries[position]
        if entry.holder is not None:
            self.unacked[entry.holder] -= (entry.owed & ~owed).bit_count()
        entry.owed = owed
        if not owed:
            del self.entries[position]
            self.acked += 1

    def check_sums(self) -> None:
        outstanding = self.subscription._state.consumers
        assert outstanding.unacked == sum(self.unacked.values())
        for name, unacked in self.unacked.items():
            assert outstanding[name].unacked == unacked
        assert self.subscription.cursor.backlog_entries == len(self.entries)

    def check_all(self) -> None:
        self.subscription.validate()
        outstanding = self.subscription._state.consumers
        pending = {
            position: (consumer.name, remaining)
            for consumer in outstanding
            for position, (remaining, _) in consumer.pending.items()
        }
        assert pending == {
            position: (entry.holder, entry.owed.bit_count())
            for position, entry in self.entries.items()
            if entry.holder is not None
        }
        queued = {position for position, entry in self.entries.items() if entry.queued}
        assert set(self.subscription._state.replay.positions()) == queued
        unread = [position for position, entry in self.entries.items() if not entry.read]
        ours = zip(*map(list, self.subscription._state.unread.first(10**4)), strict=True)
        assert list(ours) == sorted(unread)

    OPERATIONS = (
        dispatch,
        ack,
        ack_batch,
        ack_many,
        ack_again,
        redeliver,
        flow,
        join_or_leave,
        save,
        crash_and_restart,
    )
    WEIGHTS = (30, 40, 15, 3, 2, 3, 6, 2, 1, 0.2)


def walk(operations: int, seed: int) -> Walk:
    walked = Walk(seed)
    for number in range(operations):
        walked.step()
        if number % 500 == 0:
            walked.check_all()
    walked.check_all()
    return walked


@pytest.mark.slow
def test_random_operations_lose_nothing_and_redeliver_nothing_acknowledged() -> None:
    """Twenty thousand operations here, ten million in `make proof`."""
    walked = walk(20_000, seed=1)
    assert walked.delivered > 4_000
    assert walked.acked > 4_000
    assert walked.restarts > 10


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1, 12))
def test_ten_million_random_operations_lose_nothing_and_redeliver_nothing_acknowledged(seed: int) -> None:
    assert walk(1_000_000, seed).restarts > 500
