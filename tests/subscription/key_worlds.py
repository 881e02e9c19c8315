"""A Key_Shared subscription and a second, simple implementation of the rule of order per key.

`World` runs a `Subscription` and tracks the place of each message. At every delivery it checks the earlier
messages of the same key. Each must be acknowledged, pending without a later redelivery, held by a transaction
that acknowledged it before it waited, or a dead letter. Otherwise the delivery overtakes it.
`rounds_to_drain` checks liveness: without further faults every unacknowledged message is delivered.

Consumers are numbered in the order in which they joined, and a hash belongs to the one at its remainder. So
states that differ in the names of consumers only are one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ackwell.subscription import (
    CommandAck,
    MessageId,
    NonDelivery,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
)
from ackwell.subscription.sticky_key import FROM_ONE
from tests.subscription.exploring import (
    ACKED,
    DEAD,
    HELD,
    LEDGERS,
    OUT,
    QUEUED,
    TXN,
    UNREAD,
    BrokenError,
    Explored,
    MessageWorld,
    Operation,
    Way,
    visit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.subscription import ConsumerKey
    from ackwell.subscription.sticky_key import HashRange

TICK_MS = 1_000
BACKOFF_TICKS = 2
PERMITS_MAX = 2
CONSUMERS_MAX = 2
REDELIVERED_MAX = 1
OF_MESSAGE: dict[int, tuple[str, ...]] = {
    UNREAD: (),
    OUT: ("ack", "nack", "redeliver", "hold"),
    QUEUED: ("hold",),
    HELD: (),
    # Acknowledged once more: that changes nothing.
    ACKED: ("ack",),
    DEAD: ("ack",),
}
"""What can happen to a message, by its place."""
PREDICTED = {
    *("join", "flow", "leave", "tick", "skip", "ack", "nack", "redeliver", "hold", "commit", "abort", "save")
}
"""What leads to a state that the subscription has no say in; it is run if it leads to a new one."""


class ByRemainder:
    """A selector: a hash belongs to the consumer at its remainder, in the order of joining."""

    slots: HashRange = FROM_ONE

    def __init__(self) -> None:
        self.keys: list[ConsumerKey] = []

    def add(
        self, consumer: ConsumerKey, hash_ranges: Sequence[HashRange] = (), *, name: str | None = None
    ) -> None:
        self.keys.append(consumer)

    def remove(self, consumer: ConsumerKey) -> None:
        self.keys.remove(consumer)

    def select(self, sticky_key_hash: int) -> ConsumerKey | None:
        return self.keys[sticky_key_hash % len(self.keys)] if self.keys else None

    def boundaries(self) -> list[tuple[int, ConsumerKey | None]]:
        """List the few hashes that are in use."""
        return [(slot, self.select(slot)) for slot in (0, 1, 2, FROM_ONE[1])]


class Message(NamedTuple):
    """The place of a message, and its history."""

    place: int = UNREAD
    consumer: int = 0
    """The name of the one that has it."""
    due_tick: int = 0
    """When its back-off ends, if it is in one."""
    waits: bool = False
    """It was delivered, and is to be delivered again."""
    nacked: bool = False
    redelivered: int = 0


class Rule(NamedTuple):
    """Which order is promised, under which settings."""

    waiting_holds_key: bool
    nack_holds_until_acked: bool

    @cache  # noqa: B019 # there are three rules
    def settings(self) -> SubscriptionSettings:
        return SubscriptionSettings(
            nack_backoff=RedeliveryBackoff(TICK_MS * BACKOFF_TICKS, TICK_MS * BACKOFF_TICKS),
            max_redeliver_count=REDELIVERED_MAX,
            waiting_holds_key=self.waiting_holds_key,
            nack_holds_until_acked=self.nack_holds_until_acked,
        )


OURS = Rule(waiting_holds_key=True, nack_holds_until_acked=False)
PIP_493 = Rule(waiting_holds_key=False, nack_holds_until_acked=True)
BOTH = Rule(waiting_holds_key=True, nack_holds_until_acked=True)

START: Way = (("join", 0), ("flow", 0), ("flow", 0), ("deliver", 0))
"""Before that nothing can go wrong."""
Prepare = Callable[[Subscription], None]


class World(MessageWorld):
    """A subscription and the expected state of each message. `keys[i]` is the key of entry i."""

    changing = ("messages", "permits", "reads")

    def __init__(
        self, keys: tuple[int, ...], rule: Rule, prepare: Prepare | None = None, *, client_holds: bool = False
    ) -> None:
        self.rule, self.prepare, self.client_holds = rule, prepare, client_holds
        self.ledgers = LEDGERS[len(keys)]
        self.permits: dict[int, int] = {}
        self.reads: list[int] = []
        self.tick = 0
        self.joined = 0
        subscription = Subscription(
            "Key_Shared", self.ledgers, settings=rule.settings(), selector=ByRemainder()
        )
        super().__init__(keys, [Message() for _ in keys], subscription)
        if prepare is not None:
            prepare(self.subscription)

    # What can happen

    def operations(self) -> Iterator[Operation]:
        """Return every operation that can change something."""
        yield from self._of_consumers()
        yield "read", 0
        yield from [("dispatch", 0), ("skip", 0)] if self.reads else [("deliver", 0)]
        if any(message.due_tick for message in self.messages):
            yield "tick", 0
        for index, message in enumerate(self.messages):
            for name in OF_MESSAGE[message.place]:
                yield name, index
            if message.place == OUT and self._has_later_of_key(index):
                yield "nack and return", index
        if any(message.place == HELD for message in self.messages):
            yield from [("commit", 0), ("abort", 0)]
        # A restart forgets who nacked what, and PIP-493 promises nothing beyond it.
        if self.rule.waiting_holds_key and not self.rule.nack_holds_until_acked:
            if self._saved() != self.saved:
                yield "save", 0
            if self.saved is not None:
                yield "restart", 0

    def _of_consumers(self) -> Iterator[Operation]:
        if len(self.permits) < CONSUMERS_MAX:
            yield "join", 0
        for index, permits in enumerate(self.permits.values()):
            if permits < PERMITS_MAX:
                yield "flow", index
            yield "leave", index

    def _has_later_of_key(self, index: int) -> bool:
        return any(
            later.place == OUT and key == self.keys[index]
            for later, key in zip(self.messages[index + 1 :], self.keys[index + 1 :], strict=True)
        )

    def state(self) -> object:
        """Return the values that distinguish this state from others."""
        number = {name: index for index, name in enumerate(self.permits)}
        remembers_nacks = self.rule.nack_holds_until_acked
        return (
            tuple(
                (
                    each.place,
                    number.get(each.consumer, -1) if each.place == OUT else -1,
                    max(each.due_tick - self.tick, 0),
                    each.waits,
                    each.nacked and remembers_nacks,
                    each.redelivered,
                )
                for each in self.messages
            ),
            tuple(self.permits.values()),
            tuple(self.reads),
            self.subscription.read_position.entry_id,
            None if self.saved is None else tuple(self.saved),
        )

    def _is_predicted(self, name: str) -> bool:
        return name in PREDICTED

    def rounds_to_drain(self, known: dict[int, int]) -> int:
        """Continue without faults; return the number of rounds until everything is acknowledged.

        In each round every back-off ends, every consumer gets permits, and acknowledges its
        messages. With `client_holds` a client acknowledges no message after one that it negatively
        acknowledged. First an open transaction stays open. It may delay only messages after those that it
        holds. Many states become equal at the start of a round: `known` has the rounds of drained states.
        """
        beside = self._beside()
        beside._begin_to_drain()
        name = hash(beside.state())
        if name not in known:
            self._begin_to_drain()
            if hash(self.state()) != name:
                raise BrokenError(f"{self.state()} is not what a round begins with")
            known[name] = self._rounds()
        return known[name]

    def _begin_to_drain(self) -> None:
        self.reads, self.saved = [], None
        if not self.permits:
            self._join(0)
        self._begin_round()

    def _rounds(self) -> int:
        rounds = 0
        if any(message.place == HELD for message in self.messages):
            behind = {index for index in range(len(self.keys)) if self._is_behind_held(index)}
            rounds += self._drain(set(range(len(self.keys))) - behind)
            self._abort(0)
        return rounds + self._drain(set(range(len(self.keys))))

    def _drain(self, wanted: set[int]) -> int:
        for rounds in range(2 + 2 * len(self.keys)):
            left = [index for index in wanted if self.messages[index].place not in (ACKED, HELD)]
            if not left:
                return rounds
            self._begin_round()
            self._deliver_one_by_one()
            for index, message in enumerate(self.messages):
                held_back = self.client_holds and self._is_behind(index)
                if message.place == DEAD or (message.place == OUT and not held_back):
                    self._ack(index)
        raise BrokenError(f"{left} are never delivered: {self.messages}")

    def _begin_round(self) -> None:
        self._ticks(BACKOFF_TICKS)
        for index, name in enumerate([*self.permits]):
            self._grant(index, len(self.keys) + PERMITS_MAX - self.permits[name])

    def _is_behind_held(self, index: int) -> bool:
        """Return whether an open transaction holds an earlier message of the key that has to go first."""
        return any(
            self.keys[earlier] == self.keys[index] and message.place == HELD and self._comes_first(message)
            for earlier, message in enumerate(self.messages[:index])
        )

    # Consumers

    def _join(self, _: int) -> None:
        self.joined += 1
        self.subscription.add_consumer(str(self.joined))
        self.permits[self.joined] = 0

    def _leave(self, index: int) -> None:
        name = [*self.permits][index]
        self.subscription.remove_consumer(str(name))
        del self.permits[name]
        for each, message in enumerate(self.messages):
            if message.place == OUT and message.consumer == name:
                self._queue(each, counted=False)

    def _flow(self, index: int) -> None:
        self._grant(index, 1)

    def _grant(self, index: int, permits: int) -> None:
        name = [*self.permits][index]
        self.subscription.flow(str(name), permits)
        self.permits[name] += permits

    # Dispatch

    def _read(self, _: int) -> None:
        self.reads = [position.entry_id for position in self.subscription.next_reads(9, self.now_ms)]

    def _skip(self, _: int) -> None:
        """The first read failed, so the caller goes on with the next one."""
        self.reads.pop(0)

    def _dispatch(self, _: int) -> None:
        index = self.reads.pop(0)
        before = self.subscription.read_position
        answer = self.subscription.dispatch(3, index, now_ms=self.now_ms, sticky_key_hash=self.keys[index])
        if answer.consumer is None:
            self._undelivered(index, answer.reason, new=before != self.subscription.read_position)
        else:
            self._delivered(index, int(answer.consumer))

    def _deliver(self, _: int) -> None:
        """Read and dispatch all at once."""
        before = self.subscription.read_position.entry_id
        read, owner = self._dispatched(self.now_ms)
        dead = {position.entry_id for position in self.subscription.dead_letters}
        for index in read:
            if index in owner:
                self._delivered(index, owner[index])
            elif index in dead:
                self._undelivered(index, NonDelivery.DEAD_LETTER, new=False)
            elif before <= index < self.subscription.read_position.entry_id:
                self._undelivered(index, NonDelivery.KEY_WAITS, new=True)

    def _deliver_one_by_one(self) -> None:
        self._read(0)
        while self.reads:
            self._dispatch(0)

    def _delivered(self, index: int, consumer: int) -> None:
        key = self.keys[index]
        for earlier, message in enumerate(self.messages[:index]):
            if self.keys[earlier] == key and self._comes_first(message):
                raise BrokenError(f"{index} overtakes {earlier}: {self.messages}")
        for other, message in enumerate(self.messages):
            if self.keys[other] == key and message.place == OUT and message.consumer != consumer:
                raise BrokenError(
                    f"{index} goes to {consumer}, and {other} of its key is with {message.consumer}"
                )
        self._put(index, place=OUT, consumer=consumer, waits=False, due_tick=0)
        self.permits[consumer] -= 1

    def _comes_first(self, message: Message) -> bool:
        """Return whether no later message of its key may go out."""
        if message.place in (ACKED, DEAD):
            return False
        if self.rule.nack_holds_until_acked and message.nacked:
            return True
        if not self.rule.waiting_holds_key:
            return False
        return message.waits or message.place in (UNREAD, QUEUED)

    def _undelivered(self, index: int, answer: NonDelivery | None, *, new: bool) -> None:
        if answer is NonDelivery.DEAD_LETTER:
            self._put(index, place=DEAD, waits=False)
        elif new and self.messages[index].place == UNREAD:
            self._put(index, place=QUEUED)

    # Acknowledgments

    def _ack(self, index: int) -> None:
        message = self.messages[index]
        self.subscription.ack(str(message.consumer) if message.place == OUT else None, 3, index)
        self.messages[index] = Message(ACKED)

    def _nack(self, index: int) -> None:
        consumer = str(self.messages[index].consumer)
        if not self.subscription.nack(consumer, 3, index, now_ms=self.now_ms):
            raise BrokenError(f"{index} is not with {consumer}")
        self._put(index, waits=True, nacked=True, due_tick=self.tick + BACKOFF_TICKS)

    def _nack_and_return(self, index: int) -> None:
        self._nack(index)
        consumer = self.messages[index].consumer
        later = self.subscription.later_of_key(str(consumer), 3, index)
        self.subscription.redeliver(str(consumer), later, counted=False)
        for position in later:
            self._queue(position.entry_id, counted=False)

    def _redeliver(self, index: int) -> None:
        self.subscription.redeliver(str(self.messages[index].consumer), [(3, index)])
        self._queue(index, counted=True)

    def _hold(self, index: int) -> None:
        if not self.permits:
            return
        consumer = str(next(iter(self.permits)))
        command = CommandAck(0, message_ids=(MessageId(3, index),), transaction=TXN)
        self.subscription.handle(consumer, command)
        message = self.messages[index]
        self._put(index, place=HELD, waits=message.waits or message.place == QUEUED, due_tick=0)

    def _abort(self, _: int) -> None:
        read_up_to = self.subscription.read_position.entry_id
        self.subscription.abort(TXN)
        for index, message in enumerate(self.messages):
            if message.place == HELD:
                if index < read_up_to:
                    self._queue(index, counted=True)
                else:
                    self._put(index, place=UNREAD, waits=False)

    # Time, and redeliveries that it causes

    @property
    def now_ms(self) -> int:
        return self.tick * TICK_MS

    def _tick(self, _: int) -> None:
        self._ticks(1)

    def _ticks(self, ticks: int) -> None:
        self.tick += ticks
        self.subscription.advance(self.now_ms)
        for index, message in enumerate(self.messages):
            if message.due_tick and message.due_tick <= self.tick:
                self._queue(index, counted=True)

    def _restart(self, _: int) -> None:
        assert self.saved is not None
        self.subscription = Subscription.load(
            "Key_Shared", self.store, self.ledgers, settings=self.rule.settings(), selector=ByRemainder()
        )
        if self.prepare is not None:
            self.prepare(self.subscription)
        self.messages, self.permits, self.reads = [*self.saved], {}, []

    def _saved(self) -> list[Message]:
        """Return the saved state of each message."""
        found = []
        for message in self.messages:
            if message.place == ACKED:
                found.append(Message(ACKED))
            elif message.place == HELD:
                found.append(Message(HELD, waits=message.waits, redelivered=message.redelivered))
            else:
                found.append(Message(redelivered=message.redelivered))
        return found

    # The words of the above

    def _queue(self, index: int, *, counted: bool) -> None:
        redelivered = self.messages[index].redelivered + counted
        self._put(index, place=QUEUED, consumer=0, due_tick=0, waits=True, redelivered=redelivered)

    def _is_behind(self, index: int) -> bool:
        return any(
            self.keys[earlier] == self.keys[index] and message.nacked and message.place != ACKED
            for earlier, message in enumerate(self.messages[:index])
        )


def explore(
    keys: tuple[int, ...],
    rule: Rule,
    depth: int,
    *,
    start: Way = START,
    prepare: Prepare | None = None,
    client_holds: bool = False,
    audits: bool = True,
    on_depth: Callable[[Explored], None] = lambda _: None,
) -> Explored:
    """Visit every state within `depth` operations of a start (see `visit`)."""

    def make() -> World:
        return World(keys, rule, prepare, client_holds=client_holds)

    return visit(make, start, depth, forks=prepare is None, audits=audits, on_depth=on_depth)
