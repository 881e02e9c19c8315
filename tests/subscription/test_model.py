"""Whole subscriptions against the model: any order of events, with crashes and restarts."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ackwell import Ledgers, Position, ProtocolError
from ackwell.cursor.ack_sets import to_words
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import (
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from tests.subscription.model import Message, Model

LEDGERS = {3: 4, 5: 1, 9: 5}
POSITIONS = [Position(ledger_id, entry) for ledger_id, entries in LEDGERS.items() for entry in range(entries)]
positions = st.sampled_from(POSITIONS)
consumers = st.sampled_from("abc")
transactions = st.builds(TransactionId, st.just(0), st.integers(1, 3))


class SharedSubscription(RuleBasedStateMachine):
    """Shared, with batches, transactions, redelivery, limits, saves and crashes."""

    type: ClassVar[str] = "Shared"
    settings: ClassVar[SubscriptionSettings] = SubscriptionSettings(
        max_unacked_per_consumer=80, max_unacked_per_subscription=120, round_robin_batch_size=2
    )

    def __init__(self) -> None:
        super().__init__()
        self.ledger = MemoryLedger()
        self.store = MemoryStore(self.ledger)
        self.ledgers = Ledgers(LEDGERS)
        self.subscription = Subscription(SubscriptionType(self.type), self.ledgers, settings=self.settings)
        self.log = {
            position: Message((1 << (1, 3, 2, 70)[sum(position) % 4]) - 1, self.hash_of(sum(position)), 0)
            for position in POSITIONS
        }
        self.model = self.new_model()
        self.saved = self.model.state()
        self.now_ms = 0

    def new_model(self) -> Model:
        return Model(self.log, individual=True, backoff=self.settings.nack_backoff, max_redeliver_count=None)

    def hash_of(self, number: int) -> int:
        return 0

    def who(self, name: str) -> str | None:
        return name if name in self.model.permits else None

    def flow(self, name: str, permits: int) -> None:
        self.subscription.flow(name, permits)
        self.model.permits[name] = self.model.permits.get(name, 0) + permits

    @rule(name=consumers, concurrency=st.sampled_from([None, 1, 2]))
    def join_or_leave(self, name: str, concurrency: int | None) -> None:
        if name in self.model.permits:
            self.subscription.remove_consumer(name)
            self.model.leave(name)
        else:
            self.subscription.add_consumer(name, concurrency=concurrency)
            if concurrency is not None:
                self.model.concurrency[name] = concurrency
            self.flow(name, 100)

    @rule(name=consumers, permits=st.integers(1, 100))
    def more_permits(self, name: str, permits: int) -> None:
        if name in self.model.permits:
            self.flow(name, permits)

    @rule(limit=st.integers(1, 12), stop=st.integers(1, 12), at_once=st.booleans())
    def dispatch(self, limit: int, stop: int, at_once: bool) -> None:
        reads = self.subscription.next_reads(limit, self.now_ms)
        if self.type == "Shared" and not self.model.suspects:
            unread = [p for p in self.log if p not in self.model.read and self.model.owed(p)]
            assert reads == [*sorted(self.model.queue), *unread][: len(reads)]
        reads = reads[:stop]
        if at_once and reads:
            self.dispatch_at_once(reads)
            return
        for position in reads:
            message = self.log[position]
            outcome = self.subscription.dispatch(
                position,
                now_ms=self.now_ms,
                batch_size=message.bits.bit_length(),
                sticky_key_hash=message.sticky_key_hash,
            )
            self.answered(position, outcome.reason or outcome.consumer)

    def dispatch_at_once(self, reads: list[Position]) -> None:
        deliveries = self.subscription.dispatch_many(
            [p.ledger_id for p in reads],
            [p.entry_id for p in reads],
            self.now_ms,
            batch_sizes=[self.log[p].bits.bit_length() for p in reads],
            sticky_key_hashes=[self.log[p].sticky_key_hash for p in reads],
        )
        owner = {}
        for delivery in deliveries:
            for pair in zip(delivery.ledger_ids.tolist(), delivery.entry_ids.tolist(), strict=True):
                owner[Position(*pair)] = delivery.consumer
        for position in reads:
            self.answered(position, owner.get(position))

    def answered(self, position: Position, answer: object) -> None:
        read_position = self.subscription.read_position
        self.model.answered(position, answer, self.now_ms, read_position=read_position)

    @rule(position=positions, name=consumers)
    def ack(self, position: Position, name: str) -> None:
        changed = self.subscription.ack(self.who(name), *position)
        assert changed == (not self.model.is_acked(position))
        self.model.acknowledge(position, self.log[position].bits)

    @rule(chosen=st.lists(positions, max_size=8), name=consumers)
    def ack_many(self, chosen: list[Position], name: str) -> None:
        ledger_ids, entry_ids = [p.ledger_id for p in chosen], [p.entry_id for p in chosen]
        changed = self.subscription.ack_many(self.who(name), ledger_ids, entry_ids)
        assert changed == len({p for p in chosen if not self.model.is_acked(p)})
        for position in chosen:
            self.model.acknowledge(position, self.log[position].bits)

    @rule(position=positions, bits=st.integers(1, 7), name=consumers)
    def ack_batch(self, position: Position, bits: int, name: str) -> None:
        whole = self.log[position].bits
        if not (bits := bits & whole):
            return
        changed = self.subscription.ack(self.who(name), *position, to_words(whole & ~bits))
        assert changed == bool(bits & ~self.model.acked.get(position, 0))
        self.model.acknowledge(position, bits)

    @rule(chosen=st.sets(positions), name=consumers, everything=st.booleans())
    def redeliver(self, chosen: set[Position], name: str, everything: bool) -> None:
        if name in self.model.permits:
            asked = None if everything else sorted(chosen)
            assert self.subscription.redeliver(name, asked) == self.model.redeliver(name, asked)

    @rule(position=positions, name=consumers)
    def nack(self, position: Position, name: str) -> None:
        if name in self.model.permits:
            has = self.subscription.nack(name, *position, now_ms=self.now_ms)
            assert has == self.model.nack(name, position, self.now_ms)

    @rule(wait_ms=st.sampled_from([100, 1_000, 100_000]))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        self.subscription.advance(self.now_ms)
        self.model.advance(self.now_ms)

    @rule(transaction=transactions, position=positions, bits=st.integers(0, 7), name=consumers)
    def ack_in_transaction(
        self, transaction: TransactionId, position: Position, bits: int, name: str
    ) -> None:
        if name not in self.model.permits:
            return
        whole = self.log[position].bits
        bits = bits & whole or whole
        message = MessageId(*position, ack_set=to_words(whole & ~bits), batch_size=whole.bit_length())
        command = CommandAck(1, message_ids=(message,), transaction=transaction)
        may = self.model.may_hold(position, bits)
        try:
            self.subscription.handle(name, command.encode())
        except ProtocolError:
            assert not may
        else:
            assert may
            self.model.hold(transaction, position, bits)

    @rule(transaction=transactions, commits=st.booleans())
    def end_transaction(self, transaction: TransactionId, commits: bool) -> None:
        for each in (self.subscription, self.model):
            if commits:
                each.commit(transaction)
            else:
                each.abort(transaction)

    @rule()
    def save(self) -> None:
        self.subscription.save(self.store)
        self.saved = self.model.state()

    @rule(mended=st.booleans())
    def crash_and_restart(self, mended: bool) -> None:
        self.store = MemoryStore(self.ledger)
        self.subscription = Subscription.load(
            SubscriptionType(self.type), self.store, self.ledgers, settings=self.settings
        )
        self.model = self.new_model()
        self.model.restore(self.saved)
        if mended:
            self.join_or_leave("a", 1)

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        self.model.check(self.subscription, self.now_ms)

    def teardown(self) -> None:
        """After any history every unacknowledged message can be delivered and acknowledged."""
        subscription, model = self.subscription, self.model
        for transaction in list(model.held):
            subscription.abort(transaction)
            model.abort(transaction)
        for name in list(model.permits):
            subscription.remove_consumer(name)
            model.leave(name)
        subscription.add_consumer("z")
        self.flow("z", 10**6)
        suspected = bool(model.suspects)
        while reads := subscription.next_reads(3, self.now_ms):
            for position in reads:
                bits = self.log[position].bits
                # One key for all: no entry passes another one.
                outcome = subscription.dispatch(
                    position, now_ms=self.now_ms, batch_size=bits.bit_length(), sticky_key_hash=0
                )
                who = outcome.reason or outcome.consumer
                model.answered(position, who, self.now_ms)
                assert who == "z" or suspected
                if who == "z":
                    subscription.ack("z", *position)
                    model.acknowledge(position, bits)
        assert subscription.cursor.backlog_entries == 0
        assert subscription.summary(0).unacked == 0


class KeySharedSubscription(SharedSubscription):
    """Key_Shared: the rules of Shared, and order per key while consumers join and leave."""

    type: ClassVar[str] = "Key_Shared"

    def hash_of(self, number: int) -> int:
        return 1 + 20_000 * (number % 3)

    def answered(self, position: Position, answer: object) -> None:
        super().answered(position, answer)
        model, log = self.model, self.log
        if isinstance(answer, str):
            same_key = {p for p in log if log[p].sticky_key_hash == log[position].sticky_key_hash}
            older = {p for p in model.queue & same_key if p < position}
            assert not older, f"{position} overtook {older} of its key"
            elsewhere = {p for p in model.holder.keys() & same_key if model.holder[p] != answer}
            assert not elsewhere, f"{position} went to {answer} while its key was elsewhere: {elsewhere}"


TestShared = SharedSubscription.TestCase
TestShared.settings = settings(stateful_step_count=40)
TestKeyShared = KeySharedSubscription.TestCase
TestKeyShared.settings = settings(stateful_step_count=40)
