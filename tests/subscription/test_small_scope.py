"""Every state that few operations can reach, each against a model of bits.

Two ledgers of three entries, two messages in each; every sequence of acknowledgments (whole, in part,
cumulative), negative acknowledgments, closes, saves, crashes and loads. Equal states are visited once.
The two messages of a batch are interchangeable, so of two states that differ only in their names one
is visited; an operation that changes nothing is tried on every state all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from ackwell import Ledgers, Position, ProtocolError
from ackwell.store import MemoryStore
from ackwell.subscription import Subscription

LEDGERS = Ledgers({3: 3, 5: 3})
POSITIONS = [Position(ledger_id, entry_id) for ledger_id in (3, 5) for entry_id in range(3)]
ALL = (1 << 2 * len(POSITIONS)) - 1
NONE = (0,) * len(POSITIONS)


class State(NamedTuple):
    """Acknowledged messages as bits, redelivery counts, the same as saved, and whether it runs."""

    acked: int = 0
    counts: tuple[int, ...] = NONE
    saved_acked: int = 0
    saved_counts: tuple[int, ...] = NONE
    runs: bool = True

    def entry(self, index: int) -> int:
        return self.acked >> 2 * index & 3

    def acknowledged(self, bits: int) -> State:
        acked = self.acked | bits
        counts = tuple(0 if acked >> 2 * index & 3 == 3 else count for index, count in enumerate(self.counts))
        return self._replace(acked=acked, counts=counts)

    def canonical(self) -> State:
        acked, saved = self.acked, self.saved_acked
        for shift in range(0, 2 * len(POSITIONS), 2):
            pair = acked >> shift & 3, saved >> shift & 3
            swapped = _swapped(pair[0]), _swapped(pair[1])
            if swapped < pair:
                acked = acked & ~(3 << shift) | swapped[0] << shift
                saved = saved & ~(3 << shift) | swapped[1] << shift
        return self._replace(acked=acked, saved_acked=saved)


def _swapped(pair: int) -> int:
    return (pair & 1) << 1 | pair >> 1


class World:
    """A running subscription, what it saved, and one consumer that has got all there is to get."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.store = MemoryStore()
        self.start()

    def start(self) -> None:
        self.subscription: Subscription | None = Subscription.load(self.kind, self.store, LEDGERS)
        self.subscription.add_consumer("a")
        self.subscription.flow("a", 10**6)

    @property
    def running(self) -> Subscription:
        assert self.subscription is not None
        return self.subscription

    def crash(self) -> None:
        self.subscription = None

    def close(self) -> None:
        self.running.remove_consumer("a")
        self.running.add_consumer("a")
        self.running.flow("a", 10**6)

    def deliver(self) -> list[Position]:
        """Deliver what is owed; it goes to the only consumer."""
        if self.subscription is None:
            return []
        reads = self.subscription.next_reads(10, 0)
        for position in reads:
            assert self.subscription.dispatch(*position, 0, batch_size=2) == "a"
        return reads


Operation = Callable[[World], object]


def operations(kind: str, state: State) -> Iterator[tuple[Operation, State]]:
    """Return every operation with the state that it must lead to."""
    if not state.runs:
        yield World.start, state._replace(acked=state.saved_acked, counts=state.saved_counts, runs=True)
        return
    for index, position in enumerate(POSITIONS):
        yield _ack(position, ()), state.acknowledged(3 << 2 * index)
        for bit in (0, 1):
            yield _ack(position, (3 & ~(1 << bit),)), state.acknowledged(1 << 2 * index + bit)
        if kind == "Exclusive":
            before = (1 << 2 * index) - 1
            yield _cumulative(position, ()), state.acknowledged(before | 3 << 2 * index)
            yield _cumulative(position, (2,)), state.acknowledged(before | 1 << 2 * index)
        else:
            yield _cumulative(position, (), refused=True), state
            if state.entry(index) == 3:
                yield _redeliver(position), state
            else:
                counts = [*state.counts]
                counts[index] += 1
                yield _redeliver(position), state._replace(counts=tuple(counts))
    yield World.close, state
    yield _save, state._replace(saved_acked=state.acked, saved_counts=state.counts)
    yield World.crash, state._replace(acked=0, counts=NONE, runs=False)


def _ack(position: Position, ack_set: tuple[int, ...]) -> Operation:
    return lambda world: world.running.ack("a", *position, ack_set)


def _cumulative(position: Position, ack_set: tuple[int, ...], *, refused: bool = False) -> Operation:
    def operation(world: World) -> None:
        if refused:
            with pytest.raises(ProtocolError):
                world.running.ack_cumulative("a", *position, ack_set)
        else:
            world.running.ack_cumulative("a", *position, ack_set)

    return operation


def _redeliver(position: Position) -> Operation:
    return lambda world: world.running.redeliver("a", [position])


def _save(world: World) -> None:
    world.running.save(world.store)


def check(world: World, state: State, kind: str) -> None:
    """Compare everything: what is acknowledged, what is with the consumer, counters, what is durable."""
    if world.subscription is None:
        assert not state.runs
        return
    subscription, cursor = world.subscription, world.subscription.cursor
    entries = [state.entry(index) for index in range(len(POSITIONS))]
    for position, bits in zip(POSITIONS, entries, strict=True):
        assert cursor.is_acked(*position) == (bits == 3), position
        assert cursor.unacked_bits(*position) == (3 & ~bits if bits in (1, 2) else None), position
    unacked = [position for position, bits in zip(POSITIONS, entries, strict=True) if bits != 3]
    assert cursor.backlog_entries == len(unacked)
    (consumer,) = subscription._state.consumers
    if kind == "Shared":
        remaining = {
            position: 2 - bits.bit_count()
            for position, bits in zip(POSITIONS, entries, strict=True)
            if bits != 3
        }
        pending = {position: count for position, (count, _) in consumer.pending.items()}
        assert pending == remaining
        assert consumer.unacked == subscription._state.consumers.unacked == sum(remaining.values())
        counts = tuple(subscription.redelivery_count(*position) for position in POSITIONS)
        assert counts == state.counts
    else:
        # Nothing is tracked for one active consumer; it can ask for everything unacknowledged again.
        subscription.redeliver("a")
        assert subscription.next_reads(10, 0) == unacked


def explore(kind: str, depth: int) -> tuple[int, int]:
    """Visit every state; give the numbers of states and transitions."""
    paths: dict[State, tuple[Operation, ...]] = {State(): ()}
    frontier = [State()]
    transitions = 0
    for _ in range(depth):
        found = []
        for state in frontier:
            world = None
            for operation, after in operations(kind, state):
                if world is None:
                    world = World(kind)
                    world.deliver()
                    for earlier in paths[state]:
                        earlier(world)
                        world.deliver()
                operation(world)
                world.deliver()
                check(world, after, kind)
                transitions += 1
                if after == state:
                    continue  # the same world will do for the next operation
                world = None
                name = after.canonical()
                if name not in paths:
                    # The state is visited under the names that its path gives it.
                    paths[name] = paths.setdefault(after, (*paths[state], operation))
                    found.append(after)
        frontier = found
    return len({state.canonical() for state in paths}), transitions


# Each more operation takes four to six times as long: 2 s, 15 s, minutes.
SCOPES = [
    pytest.param("Shared", 3, 1_382),
    pytest.param("Exclusive", 3, 754),
    pytest.param("Shared", 4, 9_356, marks=pytest.mark.slow),
    pytest.param("Exclusive", 4, 3_429, marks=pytest.mark.slow),
    pytest.param("Shared", 5, 56_696, marks=pytest.mark.soak),
    pytest.param("Exclusive", 5, 10_963, marks=pytest.mark.soak),
    pytest.param("Shared", 6, 291_978, marks=pytest.mark.soak),
    pytest.param("Exclusive", 6, 23_769, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("kind", "depth", "states"), SCOPES)
def test_every_state_of_few_operations_is_the_models(
    kind: str, depth: int, states: int, capsys: pytest.CaptureFixture[str]
) -> None:
    visited, transitions = explore(kind, depth)
    with capsys.disabled():
        print(
            f"\n{kind}: {visited:,} states, {transitions:,} transitions in up to {depth} operations ", end=""
        )
    assert visited == states
