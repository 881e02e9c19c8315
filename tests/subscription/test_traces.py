"""Every recorded trace through `Subscription`: the broker's own snapshots, and dispatch it could explain."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ackwell import Ledgers, Position
from ackwell.cursor.ack_sets import to_words
from ackwell.cursor.rules import acknowledged
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import read_events
from ackwell.subscription import Subscription, SubscriptionSettings, SubscriptionType, sticky_key_hash
from tests.shared import shared_folder

EXAMPLES = Path(__file__).parents[2] / "examples" / "traces"
NO_LIMITS = SubscriptionSettings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)


class TracedSubscription:
    """One trace. Broker deliveries are checked and recorded; client commands are applied."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace
        self.events = list(read_events([trace]))
        self.sizes = Counter(
            Position(event.ledger_id, event.entry_id)
            for event in self.events
            if event.kind is Kind.PUBLISH and event.ledger_id is not None and event.entry_id is not None
        )
        self.deliver_at = {
            (event.ledger_id, event.entry_id): event.deliver_at_ms
            for event in self.events
            if event.deliver_at_ms is not None
        }
        types = [event.detail for event in self.events if event.kind is Kind.CONSUMER_OPEN]
        self.ledgers = Ledgers()
        self.subscription = Subscription(
            SubscriptionType(types[0] or "Shared" if types else "Shared"), self.ledgers, settings=NO_LIMITS
        )
        self.got: Counter[tuple[Position, int | None]] = Counter()
        self.checks = Counter[str]()

    def run(self) -> None:
        for event in self.events:
            if event.kind in (Kind.UNLOAD, Kind.BROKER_RESTART):
                break
            self.feed(event)
        self.subscription.validate()

    def feed(self, event: Event) -> None:  # noqa: C901  # one case a kind
        position = Position(event.ledger_id or 0, event.entry_id or 0)
        match event.kind:
            case Kind.PUBLISH:
                if not self.ledgers.contains(*position):
                    self.ledgers.grow(position.ledger_id, position.entry_id + 1)
            case Kind.CONSUMER_OPEN:
                self.open(event.consumer or "")
            case Kind.CONSUMER_CLOSE:
                self.subscription.remove_consumer(event.consumer or "")
            case Kind.CLIENT_CLOSED:
                for name in self.subscription.consumers:
                    self.subscription.remove_consumer(name)
            case Kind.RECEIVE:
                self.receive(event, position)
            case Kind.ACK | Kind.ACK_CUMULATIVE:
                self.ack(event, position)
            case Kind.NACK:
                # The clients of the trace wait 200 ms, so a redelivered message was returned before.
                self.subscription.redeliver(event.consumer or "", [position])
            case Kind.REDELIVER_UNACKED:
                self.subscription.redeliver(event.consumer or "")
            case Kind.SNAPSHOT:
                self.compare(event)

    def open(self, name: str) -> None:
        if name not in self.subscription.consumers:
            self.subscription.add_consumer(name)
            self.subscription.flow(name, 10**9)

    def receive(self, event: Event, position: Position) -> None:
        """A batch is one delivery, its messages are received one by one."""
        name = event.consumer or ""
        self.open(name)
        self.got[position, event.batch_index] += 1
        if event.batch_index and self.holder(position) == name:
            return
        subscription = self.subscription
        assert not subscription.cursor.is_acked(*position), f"{position} came back though acknowledged"
        assert self.holder(position) is None, f"{position} was delivered twice without cause"
        deliver_at_ms = self.deliver_at.get(position)
        if deliver_at_ms is not None and event.time_ms is not None:
            # The broker's own tracker is early by up to its tick (the lenient cut-off) and the 2 ** 9 ms
            # it cuts off; not a millisecond more.
            assert event.time_ms > deliver_at_ms - 1000 - 512, f"{position} came early"
            self.checks["not early"] += 1
        assert (event.redelivery_count or 0) == subscription.redelivery_count(*position)
        self.checks["redelivered" if event.redelivery_count else "first delivery"] += 1
        key_hash = 0
        if subscription.type == "Key_Shared":
            key_hash = sticky_key_hash(event.key)
            owner = subscription._state.policy.choose(key_hash, new=True)
            assert owner, f"the key of {position} is still with another"
            assert owner.name == name
            self.checks["owner of the key"] += 1
        subscription.delivered(
            name,
            *position,
            now_ms=event.time_ms or 0,
            batch_size=self.sizes[position],
            sticky_key_hash=key_hash,
        )

    def holder(self, position: Position) -> str | None:
        holder = self.subscription.holder(*position)
        return None if holder is None else str(holder)

    def ack(self, event: Event, position: Position) -> None:
        size = self.sizes[position]
        ack_set: tuple[int, ...] = ()
        cumulative = event.kind is Kind.ACK_CUMULATIVE
        if event.batch_index is not None and size > 1:
            through = (1 << event.batch_index + 1) - 1
            acked = through if cumulative else 1 << event.batch_index
            ack_set = to_words(((1 << size) - 1) & ~acked)
        method = self.subscription.ack_cumulative if cumulative else self.subscription.ack
        method(event.consumer, *position, ack_set)

    def compare(self, event: Event) -> None:
        stats = self.stats(event.detail or "")
        if stats is None:
            return
        theirs, ours = stats["cursor"], self.subscription.cursor
        ranges = type(ours.individually_deleted)(
            (ledger_id, lower, upper) for ledger_id, lower, _, upper in theirs["ranges_open_closed"]
        )
        mark_delete = theirs["markDelete"]["ledger"], theirs["markDelete"]["entry"]
        assert ours.acknowledged() == acknowledged(self.ledgers, mark_delete, ranges)
        assert {str(p): list(words) for p, words in ours.batch_deleted.items()} == {
            place: words for place, words in theirs["batchDeletedIndexes"].items() if words
        }
        self.checks["snapshot"] += 1
        self.compare_counters(stats)

    def compare_counters(self, stats: Any) -> None:
        (theirs,) = stats["stats"]["subscriptions"].values()
        consumers = {each["consumerName"]: each["unackedMessages"] for each in theirs["consumers"]}
        ours = {each.name: each.unacked for each in self.subscription.summary(0).consumers}
        owed = sum(
            (
                bits.bit_count()
                if (bits := self.subscription.cursor.unacked_bits(*position)) is not None
                else size
            )
            for position, size in self.sizes.items()
            if self.holder(position) is not None
        )
        assert sum(ours.values()) == owed
        if theirs["type"] in ("Shared", "Key_Shared") and max(self.sizes.values()) == 1:
            # Without batches the broker counts correctly; names that the client chose are equal.
            assert sum(ours.values()) == sum(consumers.values())
            assert all(ours[name] == consumers[name] for name in ours.keys() & consumers.keys())
            self.checks["counters"] += 1

    def stats(self, file: str) -> Any:
        for path in (self.trace.parent / file, self.trace.parent / f"{file}.gz"):
            if path.exists():
                opener = gzip.open if path.suffix == ".gz" else open
                with opener(path, "rt", encoding="utf-8") as text:
                    return json.load(text)
        return None


def _traces(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")))


def _more_traces() -> list[Path]:
    """Return the recordings outside of the repository, if available."""
    folder = shared_folder("data/traces")
    known = {path.name for path in _traces(EXAMPLES)}
    return [path for path in _traces(folder) if path.name not in known] if folder else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "trace", [*_traces(EXAMPLES), *_more_traces()], ids=lambda path: path.name.split(".")[0]
)
def test_a_trace_ends_at_the_brokers_positions_and_every_delivery_has_a_cause(trace: Path) -> None:
    traced = TracedSubscription(trace)
    traced.run()
    assert traced.checks["snapshot"] >= 1
    assert traced.checks["first delivery"] >= len(traced.sizes) * 0.8
    if traced.subscription.type == "Key_Shared":
        assert traced.checks["owner of the key"] == 9547
    if trace.name.startswith("nack_redelivery"):
        assert traced.checks["redelivered"] == 773


def test_6510_unacked_is_right_in_the_case_in_which_the_broker_counted_minus_a_thousand() -> None:
    """apache/pulsar#6510: acknowledgments of batch indexes took away more than there was."""
    traced = TracedSubscription(EXAMPLES / "batch_partial.jsonl.gz")
    for event in traced.events:
        traced.feed(event)
        if event.kind is Kind.SNAPSHOT:
            break
    (theirs,) = traced.stats("batch_partial.live.stats.json")["stats"]["subscriptions"].values()
    assert theirs["unackedMessages"] == -1000
    # 3,000 messages were delivered and 1,816 acknowledged.
    assert traced.subscription.summary(0).unacked == 3000 - 1816
    assert traced.subscription.audit() == []
