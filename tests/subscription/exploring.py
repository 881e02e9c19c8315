"""Visit every state of a small world: a subscription, and a simple implementation of its rules.

A world forks, does operations, and names its state. Equal states are visited once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from ackwell import Ledgers
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import TransactionId
from tests.subscription.forks import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackwell import Position
    from ackwell.subscription import Subscription

Operation = tuple[str, int]
Way = tuple[Operation, ...]

TXN = TransactionId(0, 1)
LEDGERS = [Ledgers({3: entries}) for entries in range(10)]

UNREAD, OUT, QUEUED, HELD, ACKED, DEAD = range(6)
"""The places of a message."""


class BrokenError(AssertionError):
    """A rule is broken, a message is never delivered, or a counter is wrong."""


class World(Protocol):
    """A subscription and the expected state of each message."""

    subscription: Any

    def operations(self) -> Iterator[Operation]:
        """Return every operation that can change something."""

    def do(self, operation: Operation) -> None:
        """Do one operation; `BrokenError` if something happens that must not."""

    def state(self) -> object:
        """Return the values that distinguish this state from others."""

    def name_after(self, operation: Operation) -> int | None:
        """Return the hash of the state after an operation; `None` if that depends on the subscription."""

    def rounds_to_drain(self, known: dict[int, int]) -> int:
        """Continue without faults; return the number of rounds until everything is acknowledged.

        `known` has the rounds of the states that were drained before.
        """


class Silent:
    """In the place of a subscription: agrees to everything."""

    def __init__(self, read_position: Position) -> None:
        self.read_position = read_position

    def __getattr__(self, name: str) -> Callable[..., bool]:
        return lambda *_, **__: True


class MessageWorld:
    """The common part of the worlds that track the place of each message."""

    changing: ClassVar[tuple[str, ...]] = ("messages",)
    """The lists and dictionaries that operations change in place."""

    def __init__(self, keys: tuple[int, ...], messages: list[Any], subscription: Subscription) -> None:
        self.keys, self.messages, self.subscription = keys, messages, subscription
        self.store = MemoryStore(MemoryLedger())
        self.saved: list[Any] | None = None

    def do(self, operation: Operation) -> None:
        """Do one operation; `BrokenError` if something happens that must not."""
        name, index = operation
        getattr(self, "_" + name.replace(" ", "_"))(index)

    def state(self) -> object:
        """Return the values that distinguish this state from others."""
        raise NotImplementedError

    def name_after(self, operation: Operation) -> int | None:
        """Return the hash of the state after an operation; `None` if that depends on the subscription."""
        if not self._is_predicted(operation[0]):
            return None
        beside = self._beside()
        beside.do(operation)
        return hash(beside.state())

    def _is_predicted(self, name: str) -> bool:
        raise NotImplementedError

    def _beside(self) -> Self:
        """Return a copy whose subscription agrees to everything."""
        beside = self.__class__.__new__(self.__class__)
        beside.__dict__.update(self.__dict__)
        for name in self.changing:
            setattr(beside, name, getattr(self, name).copy())
        beside.subscription = Silent(self.subscription.read_position)  # type: ignore[assignment]
        return beside

    def _dispatched(self, now_ms: int) -> tuple[list[int], dict[int, int]]:
        """Read and dispatch all at once; return the entries, and the consumer of each delivery."""
        ledger_ids, entry_ids = self.subscription.next_reads_many(9, now_ms)
        read = entry_ids.tolist()
        hashes = [self.keys[index] for index in read]
        found = self.subscription.dispatch_many(ledger_ids, entry_ids, now_ms, sticky_key_hashes=hashes)
        return read, {index: int(each.consumer) for each in found for index in each.entry_ids.tolist()}

    def _commit(self, _: int) -> None:
        self.subscription.commit(TXN)
        for index, message in enumerate(self.messages):
            if message.place == HELD:
                self.messages[index] = message.__class__(ACKED)

    def _save(self, _: int) -> None:
        self.subscription.save(self.store)
        self.saved = self._saved()

    def _saved(self) -> list[Any]:
        """Return each message as a load finds it."""
        raise NotImplementedError

    def _put(self, index: int, **values: object) -> None:
        self.messages[index] = self.messages[index]._replace(**values)


class Explored(NamedTuple):
    """The counts of an exploration."""

    states: int
    transitions: int
    rounds: int
    """The most rounds after which nothing was left."""


def visit(
    make: Callable[[], World],
    start: Way,
    depth: int,
    *,
    forks: bool = True,
    audits: bool = True,
    on_depth: Callable[[Explored], None] = lambda _: None,
) -> Explored:
    """Visit every state within `depth` operations of a start, breadth first, and drain each once.

    Raises `BrokenError`, with the operations that lead there, at the first wrong state. With `audits` the
    counters of the subscription are recomputed as well. Without `forks` each world repeats the whole way,
    for a defect that is bound to one subscription. `on_depth` gets the counts up to each depth.
    """
    trail = _Trail(make, forks=forks)
    seen = {hash(trail.world(start).state())}
    drained: dict[int, int] = {}
    frontier: list[Way] = [start]
    transitions = rounds = 0
    for _ in range(depth):
        found: list[Way] = []
        for way in frontier:
            for operation in [*trail.world(way).operations()]:
                transitions += 1
                after = (*way, operation)
                try:
                    expected = trail.world(way).name_after(operation)
                    if expected in seen:
                        continue
                    world = trail.fork(way)
                    world.do(operation)
                    name = hash(world.state())
                    if expected not in (None, name):
                        raise BrokenError(f"{world.state()} is not what this leads to")
                    if name in seen:
                        continue
                    seen.add(name)
                    found.append(after)
                    if audits and (problems := world.subscription.audit()):
                        raise BrokenError("; ".join(problems))
                    rounds = max(rounds, world.rounds_to_drain(drained))
                except AssertionError as error:
                    error.add_note(", ".join(f"{name} {index}" for name, index in after))
                    raise
        frontier = found
        on_depth(Explored(len(seen), transitions, rounds))
    return Explored(len(seen), transitions, rounds)


class _Trail:
    """The worlds on the way to the present one. The next way has most of it in common."""

    def __init__(self, make: Callable[[], World], *, forks: bool) -> None:
        self._make, self._forks = make, forks
        self._way: list[Operation] = []
        self._worlds = [make()]

    def world(self, way: Way) -> World:
        """Return the world at the end of a way. The caller must not change it."""
        common = 0
        while common < len(self._way) and self._way[common : common + 1] == [*way[common : common + 1]]:
            common += 1
        del self._way[common:], self._worlds[common + 1 :]
        for operation in way[common:]:
            world = self._fork()
            world.do(operation)
            self._way.append(operation)
            self._worlds.append(world)
        return self._worlds[-1]

    def fork(self, way: Way) -> World:
        """Return the world at the end of a way, to be changed."""
        self.world(way)
        return self._fork()

    def _fork(self) -> World:
        if self._forks:
            return fork(self._worlds[-1])
        world = self._make()
        for operation in self._way:
            world.do(operation)
        return world
