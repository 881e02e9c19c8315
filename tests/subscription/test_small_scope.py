"""Compare every state that few operations can reach with the model.

The topic has two ledgers of three entries, and each entry has two messages. Operations are acknowledgments
(whole, in part, cumulative), requests for redelivery, closes, saves, crashes and loads. Equal states are
visited once. The two messages of a batch are interchangeable, so only one of two states that differ in their
order is visited. An operation that changes nothing is still tried on every state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import methodcaller

import pytest

from ackwell import Ledgers, Position, ProtocolError
from ackwell.cursor.ack_sets import to_words
from ackwell.store import MemoryStore
from ackwell.subscription import RedeliveryBackoff, Subscription, SubscriptionType
from tests.subscription.model import Message, Model, State

LEDGERS = Ledgers({3: 3, 5: 3})
WHOLE = 0b11
LOG = {Position(ledger_id, entry_id): Message(WHOLE, 0, 0) for ledger_id in (3, 5) for entry_id in range(3)}
NOTHING = State({}, {}, {})


class World:
    """A running subscription, its model, their saved state, and one consumer with enough permits."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.store = MemoryStore()
        self.saved = NOTHING
        self.start()

    def start(self) -> None:
        self.running = True
        self.subscription = Subscription.load(SubscriptionType(self.kind), self.store, LEDGERS)
        self.model = Model(LOG, self.kind == "Shared", RedeliveryBackoff(), None)
        self.model.restore(self.saved)
        self.join()

    def join(self) -> None:
        self.subscription.add_consumer("a")
        self.subscription.flow("a", 10**6)
        self.model.permits["a"] = 10**6

    def save(self) -> None:
        self.subscription.save(self.store)
        self.saved = self.model.state()

    def crash(self) -> None:
        self.running = False

    def close(self) -> None:
        self.subscription.remove_consumer("a")
        self.model.leave("a")
        self.join()

    def ack(self, position: Position, bits: int) -> None:
        self.subscription.ack("a", *position, to_words(WHOLE & ~bits))
        self.model.acknowledge(position, bits)

    def ack_cumulative(self, position: Position, bits: int) -> None:
        if self.kind == "Shared":
            with pytest.raises(ProtocolError):
                self.subscription.ack_cumulative("a", *position)
            return
        self.subscription.ack_cumulative("a", *position, to_words(WHOLE & ~bits))
        self.model.acknowledge_before(position)
        self.model.acknowledge(position, bits)

    def redeliver(self, position: Position) -> None:
        assert self.subscription.redeliver("a", [position]) == self.model.redeliver("a", [position])

    def deliver(self) -> None:
        """Deliver the unacknowledged entries to the only consumer."""
        for position in self.subscription.next_reads(10, 0) if self.running else ():
            assert self.subscription.dispatch(position, now_ms=0, batch_size=2).consumer == "a"
            self.model.answered(position, "a", 0)

    def check(self) -> None:
        if not self.running:
            return
        self.model.check(self.subscription, 0)
        if self.kind == "Exclusive":
            # The entries of an active consumer are not tracked; it can request all unacknowledged ones.
            self.subscription.redeliver("a")
            assert self.subscription.next_reads(10, 0) == [p for p in LOG if not self.model.is_acked(p)]

    def state(self) -> tuple[bool, State, State]:
        return self.running, self.model.state() if self.running else NOTHING, self.saved


Operation = Callable[[World], object]


def operations(kind: str, *, running: bool) -> Iterator[Operation]:
    """Return every operation."""
    if not running:
        yield World.start
        return
    for each in LOG:
        for bits in (0b11, 0b01, 0b10):
            yield methodcaller("ack", each, bits)
        for bits in (0b11, 0b01) if kind == "Exclusive" else (0b11,):
            yield methodcaller("ack_cumulative", each, bits)
        if kind == "Shared":
            yield methodcaller("redeliver", each)
    yield from (World.close, World.save, World.crash)


def name_of(state: tuple[bool, State, State]) -> Hashable:
    """Return the same name for states that differ only in the order of the messages of a batch."""
    running, now, saved = state
    entries = []
    for position in LOG:
        pair = now.acked.get(position, 0), saved.acked.get(position, 0)
        swapped = tuple((bits & 1) << 1 | bits >> 1 for bits in pair)
        entries.append((min(pair, swapped), now.counts.get(position, 0), saved.counts.get(position, 0)))
    return running, tuple(entries)


def explore(kind: str, depth: int) -> tuple[int, int]:
    """Visit every state; return the numbers of states and transitions."""
    frontier: list[tuple[Operation, ...]] = [()]
    seen = {name_of(World(kind).state())}
    transitions = 0
    for _ in range(depth):
        found = []
        for path in frontier:
            world, before = played(kind, path)
            for operation in operations(kind, running=world.running):
                operation(world)
                world.deliver()
                world.check()
                transitions += 1
                after = world.state()
                if after == before:
                    continue  # the same world will do for the next operation
                if name_of(after) not in seen:
                    seen.add(name_of(after))
                    found.append((*path, operation))
                world, before = played(kind, path)
        frontier = found
    return len(seen), transitions


def played(kind: str, path: tuple[Operation, ...]) -> tuple[World, tuple[bool, State, State]]:
    """Return the world that a path leads to, with its state."""
    world = World(kind)
    world.deliver()
    for operation in path:
        operation(world)
        world.deliver()
    return world, world.state()


# Each further operation takes four to six times as long: 2 s, 15 s, minutes, an hour.
SCOPES = [
    pytest.param("Shared", 3, 1_382),
    pytest.param("Exclusive", 3, 754),
    pytest.param("Shared", 4, 9_356, marks=pytest.mark.proof),
    pytest.param("Exclusive", 4, 3_429, marks=pytest.mark.proof),
    pytest.param("Shared", 5, 56_696, marks=pytest.mark.proof),
    pytest.param("Exclusive", 5, 10_963, marks=pytest.mark.proof),
    pytest.param("Shared", 6, 291_978, marks=pytest.mark.proof),
    pytest.param("Exclusive", 6, 23_769, marks=pytest.mark.proof),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "depth", "states"), SCOPES)
def test_every_state_of_few_operations_equals_the_models(
    kind: str, depth: int, states: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sequences of three operations here; those of four to six in `make proof`."""
    visited, transitions = explore(kind, depth)
    with capsys.disabled():
        print(
            f"\n{kind}: {visited:,} states, {transitions:,} transitions in up to {depth} operations ", end=""
        )
    assert visited == states
