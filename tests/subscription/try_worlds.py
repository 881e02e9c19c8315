"""A subscription whose consumers report their entries in hand, and a simple implementation of the rule.

`World` tracks the place of each message and what each consumer has in hand. At every delivery it checks that
a suspect is delivered alone, that no message is delivered after its last try, and on Key_Shared that no
message overtakes an earlier one of its key. After every operation the counts, the suspects and the dead
letters must be those of the rule. `rounds_to_drain` checks liveness.

Each client requests as many messages as it has room for (`PREFETCH`), and one more for each that it finishes
or returns. Consumers are numbered in the order in which they joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ackwell.subscription import (
    CommandAck,
    MessageId,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
)
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
    Silent,
    Way,
    visit,
)
from tests.subscription.key_worlds import ByRemainder

BACKOFF_MS, TIMEOUT_MS = 1_000, 10_000
CONSUMERS_MAX, PREFETCH = 2, 2


class Message(NamedTuple):
    """The place of a message, and its history."""

    place: int = UNREAD
    consumer: int = 0
    waits: bool = False
    """It is in its back-off."""
    lost_tries: int = 0
    suspect: bool = False


class Client(NamedTuple):
    """A consumer, as the rule sees it."""

    order: tuple[int, ...] = ()
    """Its messages in the order of their delivery, and the late ones."""
    late: frozenset[int] = frozenset()
    """Messages that timed out in hand, and after which it has finished no other one."""
    started: frozenset[int] = frozenset()
    reports: bool = True


class Rule(NamedTuple):
    """A subscription type, and how its consumers report."""

    kind: str
    concurrency: int | None
    tries: int = 2

    @property
    def individual(self) -> bool:
        """Whether each message is tracked."""
        return self.kind in ("Shared", "Key_Shared")

    def options(self) -> dict[str, Any]:
        """Return the arguments of the subscription."""
        settings = SubscriptionSettings(
            nack_backoff=RedeliveryBackoff(BACKOFF_MS, BACKOFF_MS),
            ack_timeout_ms=TIMEOUT_MS,
            max_redeliver_count=self.tries - 1,
            round_robin_batch_size=1,
        )
        selector = ByRemainder() if self.kind == "Key_Shared" else None
        return {"settings": settings, "selector": selector}


START: Way = (("join", 0), ("deliver", 0))


class World(MessageWorld):
    """A subscription and the expected state of each message. `keys[i]` is the key of entry i."""

    changing = ("messages", "clients")

    def __init__(self, keys: tuple[int, ...], rule: Rule) -> None:
        self.rule, self.ledgers = rule, LEDGERS[len(keys)]
        subscription = Subscription(SubscriptionType(rule.kind), self.ledgers, **rule.options())
        super().__init__(keys, [Message() for _ in keys], subscription)
        self.clients: dict[int, Client] = {}
        self.now_ms = self.joined = 0

    # What can happen

    def operations(self) -> Iterator[Operation]:
        """Return every operation that can change something."""
        if len(self.clients) < (1 if self.rule.kind == "Exclusive" else CONSUMERS_MAX):
            yield "join", 0
        for index in range(len(self.clients)):
            yield from [("lose", index), ("leave", index)]
        yield from [("deliver", 0), ("deliver many", 0)]
        if any(message.waits for message in self.messages):
            yield "tick", 0
        if any(message.place == OUT for message in self.messages) and self.rule.individual:
            yield "time out", 0
        for index, message in enumerate(self.messages):
            yield from [(name, index) for name in self._of_message(index, message)]
        if any(message.place == HELD for message in self.messages):
            yield from [("commit", 0), ("abort", 0)]
        if self._saved() != self.saved:
            yield "save", 0
        if self.saved is not None:
            yield "restart", 0

    def _of_message(self, index: int, message: Message) -> Iterator[str]:
        if message.place == DEAD:
            yield "ack"
        if message.place != OUT:
            return
        yield "ack"
        if message.waits:
            return
        yield from ("nack", "redeliver", "return")
        if not any(each.place == HELD for each in self.messages):
            yield "hold"
        if self.rule.concurrency is None and index not in self.clients[message.consumer].started:
            yield "start"

    def do(self, operation: Operation) -> None:
        super().do(operation)
        self._check()

    def state(self) -> object:
        """Return the values that distinguish this state from others."""
        number = {name: index for index, name in enumerate(self.clients)}
        return (
            tuple(each._replace(consumer=number.get(each.consumer, -1)) for each in self.messages),
            tuple(self.clients.values()),
            self.subscription.read_position.entry_id,
            None if self.saved is None else tuple(self.saved),
        )

    def _is_predicted(self, name: str) -> bool:
        # On Exclusive and Failover the read position depends on the subscription.
        return self.rule.individual and name != "restart" and not name.startswith("deliver")

    def _check(self) -> None:
        """Compare counts, suspects and dead letters. Nothing here drops entries that are gone."""
        asked = self.subscription
        if isinstance(asked, Silent):
            return
        counts = [asked.redelivery_count(3, index) for index in range(len(self.keys))]
        suspects = [position.entry_id for position in asked.suspects]
        dead = [position.entry_id for position in asked.dead_letters]
        found = counts, suspects, dead
        places = [(index, message) for index, message in enumerate(self.messages)]
        expected = (
            [message.lost_tries for message in self.messages],
            [index for index, message in places if message.suspect],
            [index for index, message in places if message.place == DEAD],
        )
        if found != expected:
            raise BrokenError(f"counts, suspects, dead letters are {found}, expected {expected}")

    # The rule

    def in_hand(self, name: int) -> list[int]:
        """Return the messages that a consumer has in hand."""
        client = self.clients[name]
        mine = {i for i, each in enumerate(self.messages) if each.place == OUT and each.consumer == name}
        mine = {i for i in mine if not self.messages[i].waits}
        if not self.rule.individual:
            if name != next(iter(self.clients)):
                return []
            if self.rule.concurrency is None:
                undone = (UNREAD, OUT)
                return sorted(i for i in client.started if self.messages[i].place in undone)
            return sorted(mine)[: self.rule.concurrency]
        if self.rule.concurrency is None:
            return sorted(mine & client.started)
        working = [i for i in client.order if i in mine or i in client.late][: self.rule.concurrency]
        return [i for i in working if i not in client.late]

    def _lost(self, indexes: list[int]) -> None:
        for index in indexes:
            self._put(index, lost_tries=self.messages[index].lost_tries + 1, suspect=True)

    def _finished(self, index: int, *, timed_out: bool = False) -> None:
        """Take a message out of the hands of its consumer."""
        name = self.messages[index].consumer
        client = self.clients[name]
        if not timed_out and index in client.order:
            before = client.order[: client.order.index(index)]
            client = client._replace(
                late=client.late.difference(before),
                order=tuple(i for i in client.order if not (i in client.late and i in before)),
            )
        self.clients[name] = client._replace(
            order=tuple(i for i in client.order if i != index),
            started=client.started - {index},
        )

    def _take(self, index: int, place: int, *, timed_out: bool = False, **values: object) -> None:
        """Move a message from its consumer to another place; the client requests one more."""
        name = self.messages[index].consumer
        self._finished(index, timed_out=timed_out)
        self._put(index, place=place, consumer=0, waits=False, **values)
        self._request(name, 1)

    def _request(self, name: int, messages: int) -> None:
        if messages:
            self.subscription.flow(str(name), messages)

    # Consumers

    def _join(self, _: int) -> None:
        self.joined += 1
        self.subscription.add_consumer(str(self.joined), concurrency=self.rule.concurrency)
        self.clients[self.joined] = Client(reports=self.rule.concurrency is not None)
        self._request(self.joined, PREFETCH)

    def _lose(self, index: int) -> None:
        name = [*self.clients][index]
        self._lost(self.in_hand(name))
        self._leaves(index)

    def _leave(self, index: int) -> None:
        name = [*self.clients][index]
        self.subscription.redeliver(str(name), counted=False)
        self._clear_suspicion(name)
        self._leaves(index)

    def _clear_suspicion(self, name: int) -> None:
        for each, message in enumerate(self.messages):
            if message.place == OUT and message.consumer == name:
                self._put(each, suspect=False)

    def _leaves(self, index: int) -> None:
        name = [*self.clients][index]
        self.subscription.remove_consumer(str(name))
        del self.clients[name]
        place = QUEUED if self.rule.individual else UNREAD
        for each, message in enumerate(self.messages):
            if message.place == OUT and message.consumer == name:
                self._put(each, place=place, consumer=0, waits=False)
        if not self.rule.individual and index == 0:
            self._find_dead_again()

    def _rewind(self) -> None:
        """Read everything again for the same active consumer, whose client drops its messages."""
        out = [index for index, message in enumerate(self.messages) if message.place == OUT]
        for index in out:
            self._put(index, place=UNREAD, consumer=0, waits=False)
        if out:
            self._request(next(iter(self.clients)), len(out))
        self._find_dead_again()

    def _find_dead_again(self) -> None:
        for index, message in enumerate(self.messages):
            if message.place == DEAD:
                self._put(index, place=UNREAD)

    # Dispatch

    def _deliver(self, _: int) -> None:
        before = self._waiting_suspects()
        got: set[int] = set()
        for position in self.subscription.next_reads(9, self.now_ms):
            index, read = position.entry_id, self.subscription.read_position
            answer = self.subscription.dispatch(
                3, index, now_ms=self.now_ms, sticky_key_hash=self.keys[index]
            )
            if answer.consumer is not None:
                self._delivered(index, int(answer.consumer))
                got |= {int(answer.consumer)} if not self.messages[index].suspect else set()
            else:
                self._undelivered(index, passed=self.subscription.read_position != read)
        self._check_room(before, got)

    def _deliver_many(self, _: int) -> None:
        before = self._waiting_suspects()
        read, owner = self._dispatched(self.now_ms)
        for index in read:
            if index in owner:
                self._delivered(index, owner[index])
            else:
                self._undelivered(index, passed=(3, index) < self.subscription.read_position)
        self._check_room(before, {who for i, who in owner.items() if not self.messages[i].suspect})

    def _delivered(self, index: int, name: int) -> None:
        message, key = self.messages[index], self.keys[index]
        has = [i for i, each in enumerate(self.messages) if each.place == OUT and each.consumer == name]
        has = [i for i in has if not self.messages[i].waits]
        if message.place not in (UNREAD, QUEUED):
            raise BrokenError(f"{index} was delivered: {message}")
        if message.lost_tries >= self.rule.tries:
            raise BrokenError(f"{index} was delivered after its last try: {message}")
        if has and (message.suspect or any(self.messages[i].suspect for i in has)):
            raise BrokenError(f"{index} went to {name}, which has {has}: {self.messages}")
        if len([i for i in self.messages if i.place == OUT and i.consumer == name]) >= PREFETCH:
            raise BrokenError(f"{index} went to {name}, which has no room: {self.messages}")
        if self.rule.kind != "Shared":
            for earlier, other in enumerate(self.messages[:index]):
                same = self.keys[earlier] == key or not self.rule.individual
                if same and (other.place in (UNREAD, QUEUED) or other.waits) and self.rule.individual:
                    raise BrokenError(f"{index} overtakes {earlier}: {self.messages}")
                if same and other.place == UNREAD:
                    raise BrokenError(f"{index} overtakes {earlier}: {self.messages}")
        self._put(index, place=OUT, consumer=name, waits=False)
        client = self.clients[name]
        if self.rule.individual and index in client.order and index not in client.late:
            self._finished(index)
            client = self.clients[name]
        self.clients[name] = client._replace(
            order=(*(i for i in client.order if i != index), index),
            late=client.late - {index},
        )

    def _undelivered(self, index: int, *, passed: bool) -> None:
        message = self.messages[index]
        if message.place in (UNREAD, QUEUED):
            if message.lost_tries >= self.rule.tries:
                if (3, index) in self.subscription.dead_letters:
                    self._put(index, place=DEAD, suspect=False)
            elif passed and message.place == UNREAD:
                self._put(index, place=QUEUED)

    def _waiting_suspects(self) -> list[int]:
        return [
            index
            for index, message in enumerate(self.messages)
            if message.suspect and message.place == QUEUED and not self._key_waits(index)
        ]

    def _key_waits(self, index: int) -> bool:
        return self.rule.kind == "Key_Shared" and any(
            each.place in (QUEUED, HELD, UNREAD, OUT) and key == self.keys[index]
            for each, key in zip(self.messages[:index], self.keys[:index], strict=True)
        )

    def _check_room(self, before: list[int], got: set[int]) -> None:
        """Check that a consumer makes room for a suspect that still waits: any on Shared, else the owner."""
        names = [*self.clients]
        for index in before:
            if self.messages[index].place == QUEUED and names:
                owner = names[self.keys[index] % len(names)]
                starves = got >= {*names} if self.rule.kind == "Shared" else owner in got
                if starves:
                    raise BrokenError(f"{index} waits, and no consumer makes room for it: {self.messages}")

    # Messages

    def _who(self, index: int) -> str:
        return str(self.messages[index].consumer)

    def _ack(self, index: int) -> None:
        if self.messages[index].place == DEAD:
            self.subscription.ack(None, 3, index)
            self.messages[index] = Message(ACKED)
            return
        self.subscription.ack(self._who(index), 3, index)
        self._take(index, ACKED, lost_tries=0, suspect=False)

    def _nack(self, index: int) -> None:
        if not self.subscription.nack(self._who(index), 3, index, now_ms=self.now_ms):
            raise BrokenError(f"{index} is not with {self._who(index)}")
        self._finished(index)
        self._put(index, waits=True, suspect=False)

    def _redeliver(self, index: int, *, counted: bool = True) -> None:
        name = self.messages[index].consumer
        self.subscription.redeliver(str(name), [(3, index)], counted=counted)
        if self.rule.individual:
            self._take(index, QUEUED, lost_tries=self.messages[index].lost_tries + counted, suspect=False)
            return
        self._clear_suspicion(name)
        self.clients[name] = self.clients[name]._replace(started=frozenset())
        self._rewind()

    def _return(self, index: int) -> None:
        self._redeliver(index, counted=False)

    def _start(self, index: int) -> None:
        name = self.messages[index].consumer
        self.subscription.started(str(name), 3, index)
        client = self.clients[name]
        self.clients[name] = client._replace(started=client.started | {index}, reports=True)

    def _hold(self, index: int) -> None:
        command = CommandAck(0, message_ids=(MessageId(3, index),), transaction=TXN)
        self.subscription.handle(self._who(index), command)
        self._take(index, HELD)

    def _abort(self, _: int) -> None:
        read_up_to = self.subscription.read_position.entry_id
        self.subscription.abort(TXN)
        for index, message in enumerate(self.messages):
            if message.place == HELD:
                if self.rule.individual and index < read_up_to:
                    self._put(index, place=QUEUED, lost_tries=message.lost_tries + 1)
                else:
                    self._put(index, place=UNREAD)
        if not self.rule.individual:
            self._rewind()

    # Time

    def _tick(self, _: int) -> None:
        self.now_ms += BACKOFF_MS
        self.subscription.advance(self.now_ms)
        self._end_backoffs()

    def _end_backoffs(self) -> None:
        waiting = [index for index, message in enumerate(self.messages) if message.waits]
        for index in waiting:
            if self.rule.individual:
                self._take(index, QUEUED, lost_tries=self.messages[index].lost_tries + 1)
            else:
                self._put(index, waits=False)
        if waiting and not self.rule.individual:
            self._rewind()

    def _time_out(self, _: int) -> None:
        """Every delivery of the past times out."""
        self.now_ms += 2 * TIMEOUT_MS
        self.subscription.advance(self.now_ms)
        self._end_backoffs()
        in_hand = {name: self.in_hand(name) for name in self.clients}
        for index, message in enumerate(self.messages):
            if message.place != OUT:
                continue
            client = self.clients[message.consumer]
            held = index in in_hand[message.consumer]
            count = message.lost_tries + (held or not client.reports)
            suspect = message.suspect or held
            if held and self.rule.concurrency is not None:
                self.clients[message.consumer] = client._replace(late=client.late | {index})
                self._put(index, place=QUEUED, consumer=0, lost_tries=count, suspect=suspect)
                self._request(message.consumer, 1)
            else:
                self._take(index, QUEUED, timed_out=True, lost_tries=count, suspect=suspect)

    # Durability

    def _restart(self, _: int) -> None:
        assert self.saved is not None
        options = self.rule.options()
        self.subscription = Subscription.load(
            SubscriptionType(self.rule.kind), self.store, self.ledgers, **options
        )
        self.messages, self.clients = [*self.saved], {}

    def _saved(self) -> list[Message]:
        """Return each message as a load finds it."""
        in_hand = {index for name in self.clients for index in self.in_hand(name)}
        found = []
        for index, message in enumerate(self.messages):
            if message.place in (ACKED, HELD):
                found.append(message._replace(consumer=0, waits=False))
                continue
            held = index in in_hand
            found.append(Message(lost_tries=message.lost_tries + held, suspect=message.suspect or held))
        return found

    # Liveness

    def rounds_to_drain(self, known: dict[int, int]) -> int:
        """Continue without faults; return the number of rounds until everything is acknowledged."""
        beside = self._beside()
        if not self.clients:
            beside._join(0)
        name = hash((beside.state(), bool(self.clients)))
        if name not in known:
            if not self.clients:
                self._join(0)
            known[name] = self._drain()
        return known[name]

    def _drain(self) -> int:
        """In each round back-offs end, and each consumer finishes its oldest message."""
        if any(message.place == HELD for message in self.messages):
            self._abort(0)
        for rounds in range(6 + 2 * len(self.keys)):
            if all(message.place == ACKED for message in self.messages):
                return rounds
            if any(message.waits for message in self.messages):
                self._tick(0)
            self._deliver(0)
            self._check()
            for index in [i for i, message in enumerate(self.messages) if message.place == DEAD]:
                self._ack(index)
            for name in self.clients:
                mine = [i for i in self.clients[name].order if self.messages[i].consumer == name]
                if mine:
                    self._ack(mine[0])
        raise BrokenError(f"something is never delivered: {self.messages}")


def explore(
    keys: tuple[int, ...],
    rule: Rule,
    depth: int,
    *,
    start: Way = START,
    on_depth: Callable[[Explored], None] = lambda _: None,
) -> Explored:
    """Visit every state within `depth` operations of a start (see `visit`)."""
    return visit(lambda: World(keys, rule), start, depth, on_depth=on_depth)
