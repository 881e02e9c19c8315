"""The batch API and the scalar API give the same deliveries, after any sequence of calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ackwell import DelayedDeliveryTracker, Ledgers, Position, ProtocolError
from ackwell.store import MemoryStore
from ackwell.subscription import (
    AutoSplit,
    CommandAck,
    MessageId,
    RedeliveryBackoff,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)
from ackwell.subscription.policies import ByKeyPolicy

ENTRIES = {3: 25, 5: 40}
POSITIONS = [
    Position(ledger_id, entry_id) for ledger_id, count in ENTRIES.items() for entry_id in range(count)
]
TXN = TransactionId(0, 1)

names = st.sampled_from("abc")
places = st.integers(0, len(POSITIONS) - 1)
limits = st.sampled_from([1, 3, 10, 100])
OPERATIONS = st.one_of(
    st.tuples(st.just("join"), names, st.sampled_from([None, 1, 3]), st.sampled_from([0, 5, 30])),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("flow"), names, st.sampled_from([1, 5, 30])),
    st.tuples(st.just("deliver"), limits),
    st.tuples(st.just("deliver"), limits),
    st.tuples(st.just("ack"), names, st.lists(places, max_size=12)),
    st.tuples(st.just("nack"), names, places),
    st.tuples(st.just("redeliver"), names, st.lists(places, max_size=6)),
    st.tuples(st.just("hold"), names, places),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([100, 2_000, 9_000])),
    st.tuples(st.just("save"), st.booleans()),
)
SETTINGS = st.builds(
    SubscriptionSettings,
    max_unacked_per_consumer=st.sampled_from([0, 12]),
    max_unacked_per_subscription=st.sampled_from([0, 20]),
    round_robin_batch_size=st.sampled_from([1, 3]),
    nack_backoff=st.just(RedeliveryBackoff(1_000, 1_000)),
    max_redeliver_count=st.sampled_from([None, 1]),
    ack_timeout_ms=st.sampled_from([0, 8_000]),
    allow_out_of_order_delivery=st.booleans(),
)


class Side:
    """A subscription, and how it is called."""

    def __init__(
        self, kind: str, given_settings: SubscriptionSettings, *, sized: bool, delayed: bool
    ) -> None:
        self.kind, self.settings, self.sized, self.delayed = kind, given_settings, sized, delayed
        self.store = MemoryStore()
        self.now_ms = 0
        self.subscription = Subscription(SubscriptionType(kind), Ledgers(ENTRIES), **self.options())

    def options(self) -> dict[str, Any]:
        tracker = DelayedDeliveryTracker(strict=True) if self.delayed else None
        selector = AutoSplit() if self.kind == "Key_Shared" else None
        return {"settings": self.settings, "selector": selector, "delayed": tracker}

    def message(self, position: Position) -> tuple[int, int, int]:
        """Return the batch size, the hash and the delivery time of an entry."""
        number = position.ledger_id * 7 + position.entry_id
        key_hash = 1 + number % 6 * 10_000 if self.kind == "Key_Shared" else 0
        deliver_at_ms = 5_000 if self.delayed and number % 11 == 0 else 0
        return (1, 1, 2, 4)[number % 4] if self.sized else 1, key_hash, deliver_at_ms

    def do(self, name: str, *values: Any) -> object:
        """Perform an operation; return its result, or the code of the refusal."""
        try:
            return getattr(self, name)(*values)
        except ProtocolError as error:
            return error.code

    def join(self, name: str, concurrency: int | None, permits: int) -> object:
        changes = self.subscription.add_consumer(name, concurrency=concurrency)
        self.subscription.flow(name, permits)
        return changes

    def leave(self, name: str) -> object:
        return self.subscription.remove_consumer(name)

    def flow(self, name: str, permits: int) -> object:
        self.subscription.flow(name, permits)
        return None

    def nack(self, name: str, place: int) -> object:
        return self.subscription.nack(name, *POSITIONS[place], now_ms=self.now_ms)

    def redeliver(self, name: str, chosen: list[int]) -> object:
        return self.subscription.redeliver(name, [POSITIONS[place] for place in chosen])

    def hold(self, name: str, place: int) -> object:
        message = MessageId(*POSITIONS[place])
        return self.subscription.handle(name, CommandAck(1, message_ids=(message,), transaction=TXN))

    def end(self, commits: bool) -> object:
        return self.subscription.commit(TXN) if commits else self.subscription.abort(TXN)

    def wait(self, wait_ms: int) -> object:
        self.now_ms += wait_ms
        return self.subscription.advance(self.now_ms)

    def save(self, restarts: bool) -> object:
        self.subscription.save(self.store)
        if restarts:
            self.subscription = Subscription.load(
                SubscriptionType(self.kind), self.store, Ledgers(ENTRIES), **self.options()
            )
        return None

    def state(self) -> tuple[object, ...]:
        """Return the visible state."""
        subscription = self.subscription
        summary = subscription.summary(self.now_ms)
        pending = {name: subscription.pending(name) for name in subscription.consumers}
        counts = [subscription.redelivery_count(*position) for position in POSITIONS]
        numbers = summary.unacked, summary.to_redeliver, summary.delayed, summary.backing_off
        return (
            pending,
            counts,
            numbers,
            subscription.dead_letters,
            subscription.suspects,
            subscription.permits,
        )


class Scalar(Side):
    """One call for each entry."""

    def deliver(self, limit: int) -> dict[object, list[Position]]:
        found: dict[object, list[Position]] = {}
        for position in self.subscription.next_reads(limit, self.now_ms):
            size, key_hash, deliver_at_ms = self.message(position)
            who = self.subscription.dispatch(
                position,
                now_ms=self.now_ms,
                batch_size=size,
                sticky_key_hash=key_hash,
                deliver_at_ms=deliver_at_ms,
            ).consumer
            if who is not None:
                found.setdefault(who, []).append(position)
        return found

    def ack(self, name: str, chosen: list[int]) -> object:
        who = name if name in self.subscription.consumers else None
        return sum(self.subscription.ack(who, *POSITIONS[place]) for place in chosen)


class Batch(Side):
    """One call for many entries."""

    def deliver(self, limit: int) -> dict[object, list[Position]]:
        ledger_ids, entry_ids = self.subscription.next_reads_many(limit, self.now_ms)
        reads = [Position(*pair) for pair in zip(ledger_ids.tolist(), entry_ids.tolist(), strict=True)]
        sizes, hashes, times = zip(*map(self.message, reads), strict=True) if reads else ((), (), ())
        found: dict[object, list[Position]] = {}
        for each in self.subscription.dispatch_many(
            ledger_ids,
            entry_ids,
            self.now_ms,
            batch_sizes=sizes if self.sized else None,
            sticky_key_hashes=hashes if self.kind == "Key_Shared" else None,
            deliver_at_ms=times if self.delayed else None,
        ):
            pairs = zip(each.ledger_ids.tolist(), each.entry_ids.tolist(), strict=True)
            found.setdefault(each.consumer, []).extend(Position(*pair) for pair in pairs)
        return found

    def ack(self, name: str, chosen: list[int]) -> object:
        who = name if name in self.subscription.consumers else None
        columns = zip(*(POSITIONS[place] for place in chosen), strict=True) if chosen else ((), ())
        return self.subscription.ack_many(who, *columns)


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Exclusive", "Failover"])
@given(
    operations=st.lists(OPERATIONS, min_size=5, max_size=40),
    chosen=SETTINGS,
    sized=st.booleans(),
    delayed=st.booleans(),
)
def test_both_give_the_same_deliveries(
    kind: str, operations: list[tuple[Any, ...]], chosen: SubscriptionSettings, sized: bool, delayed: bool
) -> None:
    check(kind, operations, chosen, sized=sized, delayed=delayed)


def check(
    kind: str, operations: list[tuple[Any, ...]], chosen: SubscriptionSettings, *, sized: bool, delayed: bool
) -> None:
    """Do the operations on both sides, and compare after each.

    Two consumers come first: the second owns hashes that are pending at the first.
    """
    sides = [side(kind, chosen, sized=sized, delayed=delayed) for side in (Scalar, Batch)]
    begin: list[tuple[Any, ...]] = [
        ("join", "a", None, 30),
        ("deliver", 10),
        ("join", "b", None, 30),
        ("deliver", 10),
    ]
    for operation in [*begin, *operations]:
        answers = [side.do(*operation) for side in sides]
        assert answers[0] == answers[1], f"{operation}: {answers[0]} one by one, {answers[1]} at once"
        states = [side.state() for side in sides]
        assert states[0] == states[1], operation
        for side in sides:
            side.subscription.validate()


def test_a_run_with_draining_hashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property finds a `dispatch_many` that gives a new owner the entries of draining hashes."""
    owners_of = ByKeyPolicy._owners_of

    def not_draining(self: ByKeyPolicy, run: Any) -> Any:
        draining = self._consumers.draining
        pending, draining.pending = draining.pending, {}
        try:
            return owners_of(self, run)
        finally:
            draining.pending = pending

    monkeypatch.setattr(ByKeyPolicy, "_owners_of", not_draining)

    @settings(max_examples=40, derandomize=True, database=None, phases=[Phase.generate])
    @given(operations=st.lists(OPERATIONS, min_size=5, max_size=40))
    def find(operations: list[tuple[Any, ...]]) -> None:
        check("Key_Shared", operations, SubscriptionSettings(), sized=False, delayed=False)

    with pytest.raises(AssertionError):
        find()
