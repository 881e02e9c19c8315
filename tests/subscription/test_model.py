"""Whole subscriptions against the naive model: any order of events, with crashes and restarts."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackwell import Ledgers, Position, ProtocolError
from ackwell.ack_sets import to_words
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import CommandAck, MessageId, Subscription, SubscriptionSettings, TransactionId
from tests.subscription.naive import Message, Naive

LEDGERS = {3: 4, 5: 1, 9: 5}
SIZES = {
    Position(ledger_id, entry_id): (1, 3, 2, 70)[(ledger_id + entry_id) % 4]
    for ledger_id, entries in LEDGERS.items()
    for entry_id in range(entries)
}
positions = st.sampled_from(sorted(SIZES))
consumers = st.sampled_from("abc")
transactions = st.integers(1, 3)


class SharedSubscription(RuleBasedStateMachine):
    """Shared, with batches, transactions, redelivery, limits, saves and crashes."""

    type: ClassVar[str] = "Shared"
    limits: ClassVar[SubscriptionSettings] = SubscriptionSettings(
        max_unacked_per_consumer=80, max_unacked_per_subscription=120, round_robin_batch_size=2
    )

    def __init__(self) -> None:
        super().__init__()
        self.ledger = MemoryLedger()
        self.store = MemoryStore(self.ledger)
        self.ledgers = Ledgers(LEDGERS)
        self.subscription = self.new()
        self.model = Naive(dict(SIZES), individual=self.type in ("Shared", "Key_Shared"))
        self.now_ms = 0

    def new(self) -> Subscription:
        return Subscription(self.type, self.ledgers, settings=self.limits)

    def hash_of(self, position: Position) -> int:
        return 0

    @rule(name=consumers)
    def join_or_leave(self, name: str) -> None:
        if name in self.subscription.consumers:
            self.subscription.remove_consumer(name)
            self.model.close(name)
        else:
            self.subscription.add_consumer(name)
            self.subscription.flow(name, 100)

    @rule(name=consumers, permits=st.integers(1, 100))
    def flow(self, name: str, permits: int) -> None:
        if name in self.subscription.consumers:
            self.subscription.flow(name, permits)

    @rule(limit=st.integers(1, 12), stop=st.integers(1, 12), at_once=st.booleans())
    def dispatch(self, limit: int, stop: int, at_once: bool) -> None:
        reads = self.subscription.next_reads(limit, self.now_ms)
        if self.type == "Shared":
            assert reads == [*sorted(self.model.queue), *self.model.unread()][: len(reads)]
        reads = reads[:stop]
        if at_once and reads:
            self.dispatch_at_once(reads)
            return
        for position in reads:
            name = self.subscription.dispatch(
                *position,
                self.now_ms,
                batch_size=SIZES[position],
                sticky_key_hash=self.hash_of(position),
            )
            self.told(position, name)

    def dispatch_at_once(self, reads: list[Position]) -> None:
        deliveries = self.subscription.dispatch_many(
            [p.ledger_id for p in reads],
            [p.entry_id for p in reads],
            self.now_ms,
            batch_sizes=[SIZES[p] for p in reads],
            sticky_key_hashes=[self.hash_of(p) for p in reads],
        )
        owner = {}
        for delivery in deliveries:
            for pair in zip(delivery.ledger_ids.tolist(), delivery.entry_ids.tolist(), strict=True):
                owner[Position(*pair)] = delivery.consumer
        for position in reads:
            self.told(position, owner.get(position))

    def told(self, position: Position, name: object) -> None:
        self.model.dispatched(position, name)

    @rule(position=positions, name=consumers)
    def ack(self, position: Position, name: str) -> None:
        who = name if name in self.subscription.consumers else None
        changed = self.subscription.ack(who, *position)
        assert changed == (not self.model.is_acked(position))
        self.model.ack(self.model.messages(position))

    @rule(chosen=st.lists(positions, max_size=8), name=consumers)
    def ack_many(self, chosen: list[Position], name: str) -> None:
        who = name if name in self.subscription.consumers else None
        changed = self.subscription.ack_many(who, *([list(c) for c in zip(*chosen, strict=True)] or [[], []]))
        assert changed == len({p for p in chosen if not self.model.is_acked(p)})
        self.model.ack({message for p in chosen for message in self.model.messages(p)})

    @rule(position=positions, indexes=st.sets(st.integers(0, 2), min_size=1), name=consumers)
    def ack_batch(self, position: Position, indexes: set[int], name: str) -> None:
        messages = {(position, index) for index in indexes if index < SIZES[position]}
        if not messages:
            return
        who = name if name in self.subscription.consumers else None
        changed = self.subscription.ack(who, *position, ack_set(messages))
        assert changed == bool(messages - self.model.now.acked)
        self.model.ack(messages)

    @rule(chosen=st.sets(positions), name=consumers, everything=st.booleans())
    def redeliver(self, chosen: set[Position], name: str, everything: bool) -> None:
        if name not in self.subscription.consumers:
            return
        self.subscription.redeliver(name, None if everything else sorted(chosen))
        self.model.release(name, set(SIZES) if everything else chosen, counted=True)

    @rule(position=positions, name=consumers)
    def nack(self, position: Position, name: str) -> None:
        if name not in self.subscription.consumers:
            return
        has = self.subscription.nack(name, *position, self.now_ms)
        assert has == (self.model.holder.get(position) == name)
        # Its back-off is over long before the next event.
        self.now_ms += 100_000
        self.subscription.advance(self.now_ms)
        self.model.release(name, {position}, counted=True)

    @rule(transaction=transactions, position=positions, indexes=st.sets(st.integers(0, 2)), name=consumers)
    def ack_in_transaction(self, transaction: int, position: Position, indexes: set[int], name: str) -> None:
        messages = {(position, index) for index in indexes if index < SIZES[position]}
        messages = messages or self.model.messages(position)
        if name not in self.subscription.consumers:
            return
        whole = messages == self.model.messages(position)
        message = MessageId(*position, ack_set=() if whole else ack_set(messages), batch_size=SIZES[position])
        command = CommandAck(1, message_ids=(message,), transaction=TransactionId(0, transaction))
        may = self.model.hold(transaction, messages)
        try:
            self.subscription.handle(name, command.encode())
        except ProtocolError:
            assert not may
        else:
            assert may

    @rule(transaction=transactions, commits=st.booleans())
    def end_transaction(self, transaction: int, commits: bool) -> None:
        if commits:
            self.subscription.commit(TransactionId(0, transaction))
            self.model.commit(transaction)
        else:
            self.subscription.abort(TransactionId(0, transaction))
            self.model.abort(transaction)

    @rule()
    def save(self) -> None:
        self.subscription.save(self.store)
        self.model.save()

    @rule(mended=st.booleans())
    def crash_and_restart(self, mended: bool) -> None:
        self.store = MemoryStore(self.ledger)
        self.subscription = Subscription.load(self.type, self.store, self.ledgers, settings=self.limits)
        self.model.restart()
        if mended:
            self.subscription.add_consumer("a")
            self.subscription.flow("a", 1000)

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        self.subscription.validate()
        self.model.check(self.subscription)

    def teardown(self) -> None:
        """Whatever happened, what is owed can be delivered and acknowledged, and then nothing is left."""
        subscription, model = self.subscription, self.model
        for transaction in list(model.now.held):
            subscription.abort(TransactionId(0, transaction))
            model.abort(transaction)
        for name in subscription.consumers:
            subscription.remove_consumer(name)
            model.close(str(name))
        subscription.add_consumer("z")
        subscription.flow("z", 10**6)
        while reads := subscription.next_reads(3, self.now_ms):
            for position in reads:
                who = subscription.dispatch(*position, self.now_ms, batch_size=SIZES[position])
                model.dispatched(position, who)
                assert who == "z"
                subscription.ack("z", *position)
                model.ack(model.messages(position))
        assert subscription.cursor.backlog_entries == 0
        assert subscription.summary(0).unacked == 0


def ack_set(messages: set[Message]) -> tuple[int, ...]:
    """Return the words that acknowledge these messages of one entry, bit set = not acknowledged."""
    ((position, _), *_) = messages
    acked = sum(1 << index for _, index in messages)
    return to_words(((1 << SIZES[position]) - 1) & ~acked)


class KeySharedSubscription(SharedSubscription):
    """Key_Shared: what Shared does, and order per key whoever comes and goes."""

    type: ClassVar[str] = "Key_Shared"

    def __init__(self) -> None:
        super().__init__()

    def hash_of(self, position: Position) -> int:
        return 1 + 20_000 * ((position.ledger_id + position.entry_id) % 3)

    def told(self, position: Position, name: object) -> None:
        super().told(position, name)
        key = self.hash_of(position)
        if not isinstance(name, str):
            # Passed over, so that other keys go on: it waits in the queue.
            if position in self.model.unread() and position < self.subscription._state.unread.position:
                self.model.passed(position)
                self.model.queue.add(position)
            return
        older = [p for p in self.model.queue if p < position and self.hash_of(p) == key]
        assert not older, f"{position} overtook {older} of its key"
        elsewhere = {
            holder for p, holder in self.model.holder.items() if self.hash_of(p) == key and holder != name
        }
        assert not elsewhere, f"{position} went to {name} while its key was with {elsewhere}"


TestShared = SharedSubscription.TestCase
TestShared.settings = settings(stateful_step_count=40)
TestKeyShared = KeySharedSubscription.TestCase
TestKeyShared.settings = settings(stateful_step_count=40)
