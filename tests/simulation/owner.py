"""A process that owns a subscription, and its model. Every operation is applied to both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackwell.cursor.ack_sets import to_words
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.engine import native_engine
from ackwell.errors import ProtocolError
from ackwell.subscription import (
    AckType,
    AutoSplit,
    CommandAck,
    MessageId,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from tests.subscription.model import Model, State

if TYPE_CHECKING:
    from random import Random

    from ackwell._native import Ledgers
    from ackwell.engine import Engine
    from ackwell.position import Position
    from ackwell.store import Store
    from ackwell.subscription.consumer import ConsumerKey
    from tests.subscription.model import Message

CONSUMERS = ("a", "b", "c")
ROUNDS_MAX = 26
"""The rounds after the last fault in which everything must be delivered.

At the smallest limit of unacknowledged messages a round delivers one of 24 entries. Back-offs and delays may
need one more round each.
"""
TRANSACTIONS = tuple(TransactionId(0, number) for number in range(3))


@dataclass
class Topic:
    """The log, the clock and the random numbers that all owners share."""

    kind: str
    settings: SubscriptionSettings
    ledgers: Ledgers
    log: dict[Position, Message]
    random: Random
    engine: Engine
    splits: bool
    """Whether Key_Shared uses `AutoSplit`, which is faster than consistent hashing."""
    now_ms: int = 0

    @classmethod
    def of(cls, chance: Random, kind: str, engine: Engine | None) -> Topic:
        """Return an empty topic."""
        engine = engine or native_engine()
        settings = SubscriptionSettings(
            max_unacked_per_consumer=chance.choice((0, 8, 50)),
            max_unacked_per_subscription=chance.choice((0, 15, 90)),
            round_robin_batch_size=chance.randint(1, 4),
            nack_backoff=RedeliveryBackoff(500, 4_000),
            max_redeliver_count=chance.choice((None, None, 2)),
        )
        return cls(kind, settings, engine.Ledgers(), {}, chance, engine, chance.random() < 0.8)

    @property
    def individual(self) -> bool:
        """Whether the type tracks the pending entries of each consumer."""
        return self.kind in ("Shared", "Key_Shared")

    def options(self) -> dict[str, Any]:
        """Return the arguments of a subscription of this topic."""
        tracker = DelayedDeliveryTracker(self.engine.TimeWheel(1), strict=True)
        selector = AutoSplit() if self.kind == "Key_Shared" and self.splits else None
        return {"settings": self.settings, "delayed": tracker, "selector": selector, "engine": self.engine}

    def load(self, store: Store, **how: Any) -> Subscription:
        """Return the subscription of a store."""
        return Subscription.load(SubscriptionType(self.kind), store, self.ledgers, **how, **self.options())


@dataclass(eq=False)
class Save:
    """A call of `save`: the state, whether it returned, and the entry that completes it if it did."""

    state: State
    owner: Owner | None = None
    in_hand: frozenset[Position] = frozenset()
    """The entries that a load counts a try of."""
    returned: bool = False
    entry_id: int = -1


class Owner:
    """A subscription and its model. Each operation returns its description for the trace."""

    def __init__(
        self, name: str, topic: Topic, subscription: Subscription, saved: Save, store: Store
    ) -> None:
        self.name = name
        self.topic = topic
        self.subscription = subscription
        self.store = store
        settings = topic.settings
        self.model = Model(topic.log, topic.individual, settings.nack_backoff, settings.max_redeliver_count)
        self.model.restore(saved.state)
        self.saved = saved
        """The newest save known to this owner."""
        self.raised: Save | None = None
        """The newest save that raised an error after a write."""
        self.receipts: list[tuple[ConsumerKey, int]] = []
        """The receipts that wait for a save."""
        self.requests = 0
        self.seen: Counter[str] = Counter()

    # Consumers

    def join_or_leave(self) -> tuple[object, ...]:
        name = self.topic.random.choice(CONSUMERS)
        if name in self.model.permits:
            removed = self.subscription.remove_consumer(name)
            self.seen["tries counted when a consumer was lost"] += len(self.model.in_hand(name))
            entries = self.model.leave(name)
            assert removed.entries == entries, f"{removed.entries} entries went back, not {entries}"
            self.receipts = [each for each in self.receipts if each[0] != name]
            return "leaves", name, entries
        concurrency = self.topic.random.choice((None, 1, 2, 3)) if self.topic.individual else None
        try:
            self.subscription.add_consumer(name, concurrency=concurrency)
        except ProtocolError:
            assert self.topic.kind == "Exclusive"
            return "may not join", name
        self.model.permits[name] = 0
        if concurrency is not None:
            self.model.concurrency[name] = concurrency
        self.flow(name, 40)
        return "joins", name, concurrency

    def more_permits(self) -> tuple[object, ...]:
        if not self.model.permits:
            return self.join_or_leave()
        name = self.topic.random.choice(list(self.model.permits))
        self.flow(name, 10)
        return "permits", name

    def flow(self, name: ConsumerKey, permits: int) -> None:
        self.subscription.flow(name, permits)
        self.model.permits[name] += permits

    # Dispatch

    def dispatch(self) -> tuple[object, ...]:
        topic, model = self.topic, self.model
        reads = self.subscription.next_reads(topic.random.randint(1, 8), topic.now_ms)
        model.advance(topic.now_ms)
        told = []
        waiting = model.suspects & model.queue
        for position in reads:
            message = topic.log[position]
            outcome = self.subscription.dispatch(
                position,
                now_ms=topic.now_ms,
                batch_size=message.bits.bit_length(),
                sticky_key_hash=message.sticky_key_hash,
                deliver_at_ms=message.deliver_at_ms,
            )
            who = outcome.reason or outcome.consumer
            self.told(position, who)
            told.append((position, who))
        starved = waiting & model.queue if self.topic.kind == "Shared" and model.permits else ()
        served = {who for position, who in told if position not in model.suspects}
        assert not (starved and served >= model.permits.keys()), f"no consumer makes room for {starved}"
        return "dispatches", *told

    def told(self, position: Position, who: object) -> None:
        read_position = self.subscription.read_position if self.topic.individual else None
        self.model.answered(position, who, self.topic.now_ms, read_position=read_position)
        self.seen["deliveries"] += isinstance(who, str)
        self.seen["suspects delivered"] += isinstance(who, str) and position in self.model.suspects

    def time_passes(self) -> tuple[object, ...]:
        topic = self.topic
        topic.now_ms += topic.random.choice((1, 100, 700, 5_000))
        self.subscription.advance(topic.now_ms)
        self.model.advance(topic.now_ms)
        return "time is", topic.now_ms

    # Acknowledgments

    def pick(self) -> Position | None:
        """Choose an entry, preferably an unacknowledged one; old ones are more likely."""
        chance, model = self.topic.random, self.model
        if model.holder and chance.random() < 0.7:
            return chance.choice(list(model.holder))
        entries = list(self.topic.log)
        return entries[int(len(entries) * chance.random() ** 2)] if entries else None

    def some_bits(self, position: Position) -> int:
        """Choose messages of an entry, at least one."""
        chance, bits = self.topic.random, self.topic.log[position].bits
        return chance.getrandbits(bits.bit_length()) | 1 << chance.randrange(bits.bit_length())

    def anybody(self) -> ConsumerKey | None:
        return self.topic.random.choice([*self.model.permits, None])

    def ack(self) -> tuple[object, ...]:
        position, who = self.pick(), self.anybody()
        if position is None:
            return ("has nothing to acknowledge",)
        new = not self.model.is_acked(position)
        changed = self.subscription.ack(who, *position)
        assert changed == new, f"ack of {position} says {changed}"
        self.model.acknowledge(position, self.topic.log[position].bits)
        return "acks", position

    def ack_part(self) -> tuple[object, ...]:
        position = self.pick()
        if position is None:
            return ("has nothing to acknowledge",)
        bits, whole = self.some_bits(position), self.topic.log[position].bits
        new = bool(bits & ~self.model.acked.get(position, 0))
        changed = self.subscription.ack(self.anybody(), *position, to_words(whole & ~bits))
        assert changed == new, f"ack of {bits:b} of {position} says {changed}"
        self.model.acknowledge(position, bits)
        return "acks a part", position, bin(bits)

    def ack_many(self) -> tuple[object, ...]:
        chosen = [each for each in (self.pick() for _ in range(4)) if each is not None]
        new = len({p for p in chosen if not self.model.is_acked(p)})
        changed = self.subscription.ack_many(
            self.anybody(), [p.ledger_id for p in chosen], [p.entry_id for p in chosen]
        )
        assert changed == new, f"ack of {chosen} says {changed}, not {new}"
        for position in chosen:
            self.model.acknowledge(position, self.topic.log[position].bits)
        return "acks many", *chosen

    def ack_with_receipt(self) -> tuple[object, ...]:
        position = self.pick()
        if position is None or not self.model.permits:
            return ("has nothing to acknowledge",)
        who = self.topic.random.choice(list(self.model.permits))
        self.requests += 1
        command = CommandAck(1, message_ids=(MessageId(*position),), request_id=self.requests)
        self.subscription.handle(who, command)
        self.receipts.append((who, self.requests))
        self.model.acknowledge(position, self.topic.log[position].bits)
        return "acks and wants a receipt", who, position

    def ack_cumulative(self) -> tuple[object, ...]:
        if self.topic.individual:
            return self.ack()
        position = self.pick()
        if position is None:
            return ("has nothing to acknowledge",)
        model, whole = self.model, self.topic.log[position].bits
        # A cumulative acknowledgment of part of a batch covers its messages up to one of them.
        index = self.topic.random.randrange(whole.bit_length())
        bits = (2 << index) - 1
        words = to_words(whole & ~bits)
        command = CommandAck(1, AckType.CUMULATIVE, (MessageId(*position, ack_set=words),))
        if self.subscription.active_consumer is None:
            self.subscription.ack_cumulative(None, *position, words)
        else:
            self.subscription.handle(self.subscription.active_consumer, command)
        behind = all(model.is_acked(p) for p in self.topic.log if p <= position)
        if not behind:
            model.acknowledge_before(position)
            model.acknowledge(position, bits)
        return "acks up to", position, bin(bits)

    # Transactions

    def ack_in_transaction(self) -> tuple[object, ...]:
        chance, transaction = self.topic.random, self.topic.random.choice(TRANSACTIONS)
        # The entry may be undelivered.
        position = self.pick() if chance.random() < 0.6 else chance.choice([*self.topic.log, None])
        if position is None or not self.model.permits:
            return ("has nothing to acknowledge",)
        who = chance.choice(list(self.model.permits))
        whole = self.topic.log[position].bits
        bits = self.some_bits(position) if chance.random() < 0.5 else whole
        size = whole.bit_length()
        message = MessageId(*position, ack_set=to_words(whole & ~bits), batch_size=size)
        may = self.model.may_hold(position, bits)
        did = True
        try:
            self.subscription.handle(who, CommandAck(1, message_ids=(message,), transaction=transaction))
        except ProtocolError:
            did = False
        assert did == may, f"{transaction} acknowledges {bits:b} of {position}: {did}"
        if not did:
            return "may not ack in", transaction, position
        self.model.hold(transaction, position, bits)
        return "acks in", transaction, position, bin(bits)

    def end_transaction(self) -> tuple[object, ...]:
        chance = self.topic.random
        transaction = chance.choice(list(self.model.held) or TRANSACTIONS)
        if chance.random() < 0.5:
            self.subscription.commit(transaction)
            self.model.commit(transaction)
            return "commits", transaction
        self.subscription.abort(transaction)
        self.model.abort(transaction)
        return "aborts", transaction

    # Redelivery

    def nack(self) -> tuple[object, ...]:
        position = self.pick()
        if position is None or not self.model.permits:
            return ("has nothing to give back",)
        who = self.topic.random.choice(list(self.model.permits))
        has = self.subscription.nack(who, *position, now_ms=self.topic.now_ms)
        if self.topic.individual:
            assert has == self.model.nack(who, position, self.topic.now_ms)
        return "nacks", who, position, has

    def redeliver(self) -> tuple[object, ...]:
        if not self.model.permits:
            return ("has nothing to give back",)
        chance, model = self.topic.random, self.model
        who = chance.choice(list(model.permits))
        mine = [p for p, holder in model.holder.items() if holder == who]
        listed = None if chance.random() < 0.3 else mine[:2]
        returned = self.subscription.redeliver(who, listed)
        assert returned == model.redeliver(who, listed), f"{returned} entries went back"
        return "asks again for", who, listed

    def seek(self) -> tuple[object, ...]:
        position = self.topic.random.choice([*self.topic.log, None])
        if position is None or self.model.held:
            return ("does not seek",)
        self.subscription.seek(*position)
        self.model.seek(position)
        return "seeks", position

    # Durability

    def given(self, receipts: list[Any]) -> None:
        """Check that a save returned every waiting receipt, in order."""
        given = [tuple(each) for each in receipts]
        assert given == self.receipts, f"receipts {given} were given, {self.receipts} waited"
        self.seen["receipts"] += len(given)
        self.receipts = []

    def drain(self) -> int:
        """Deliver and acknowledge everything that remains; return the number of rounds.

        On Shared and Key_Shared the consumers stay. In each round all back-offs and delays end, every
        consumer gets permits, and acknowledges its messages.
        """
        subscription, model = self.subscription, self.model
        for transaction in list(model.held):
            subscription.abort(transaction)
            model.abort(transaction)
        if not self.topic.individual or not model.permits:
            for name in list(model.permits):
                subscription.remove_consumer(name)
                model.leave(name)
            self.receipts = []
            subscription.add_consumer("z")
            model.permits["z"] = 0
        for rounds in range(ROUNDS_MAX + 1):
            if not subscription.cursor.backlog_entries:
                return rounds
            self.drain_once()
        raise AssertionError(f"something owed was not delivered within {ROUNDS_MAX} rounds")

    def drain_once(self) -> None:
        """Deliver all available messages to all consumers, and acknowledge them."""
        subscription, model, topic = self.subscription, self.model, self.topic
        topic.now_ms += 10**6
        for name in model.permits:
            self.flow(name, 10**6)
        reads = subscription.next_reads(len(topic.log), topic.now_ms)
        model.advance(topic.now_ms)
        for position in reads:
            message = topic.log[position]
            outcome = subscription.dispatch(
                position,
                now_ms=topic.now_ms,
                batch_size=message.bits.bit_length(),
                sticky_key_hash=message.sticky_key_hash,
                deliver_at_ms=message.deliver_at_ms,
            )
            who = outcome.reason or outcome.consumer
            self.told(position, who)
            if who == "z":
                model.holder[position] = "z"
        for position, name in list(model.holder.items()):
            subscription.ack(name, *position)
            model.acknowledge(position, topic.log[position].bits)
            model.holder.pop(position, None)
        for position in subscription.dead_letters:
            subscription.ack(None, *position)
            model.acknowledge(position, topic.log[position].bits)
