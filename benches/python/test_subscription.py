"""A whole subscription: dispatches and acknowledgments per second, bytes per message, and a summary."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ackwell import Ledgers
from ackwell.subscription import (
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    dispatcher,
)
from benches.bars.workloads import section

# The CPU time of this thread, because wall time is wrong on a busy machine.
pytestmark = pytest.mark.benchmark(timer=time.thread_time)
WORKLOADS = section("subscription")
NO_LIMITS = SubscriptionSettings(max_unacked_per_consumer=0, max_unacked_per_subscription=0)
SCALAR_MESSAGES = 50_000
OUTSTANDING = 1_000


def opened(name: str, messages: int) -> Subscription:
    workload = WORKLOADS[name]
    ledgers = Ledgers(dict.fromkeys(range(-(-messages // 50000)), 50000))
    subscription = Subscription(workload["type"], ledgers, settings=NO_LIMITS)
    for number in range(workload["consumers"]):
        subscription.add_consumer(f"c{number}")
        subscription.flow(f"c{number}", 10**9)
    return subscription


def hashes(name: str) -> Any:
    workload = WORKLOADS[name]
    if not workload["hashed"]:
        return None
    return np.random.default_rng(7).integers(1, 65_536, workload["batch"])


def deliver_all(subscription: Subscription, name: str, *, ack: bool) -> None:
    batch, keys = WORKLOADS[name]["batch"], hashes(name)
    while True:
        ledger_ids, entry_ids = subscription.next_reads_many(batch, 0)
        if not len(ledger_ids):
            return
        for each in subscription.dispatch_many(ledger_ids, entry_ids, 0, sticky_key_hashes=keys):
            if ack:
                subscription.ack_many(each.consumer, each.ledger_ids, each.entry_ids)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_pairs_in_batches(benchmark: Any, name: str) -> None:
    messages = WORKLOADS[name]["messages"]
    benchmark.group = "dispatch and ack, in batches"
    benchmark.pedantic(
        lambda subscription: deliver_all(subscription, name, ack=True),
        setup=lambda: ((opened(name, messages),), {}),
        rounds=5,
    )
    benchmark.extra_info["pairs_per_second"] = messages / benchmark.stats.stats.median


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_pairs_one_by_one(benchmark: Any, name: str) -> None:
    def pairs(subscription: Subscription) -> None:
        dispatch, ack, outstanding = subscription.dispatch, subscription.ack, []
        for entry_id in range(SCALAR_MESSAGES):
            consumer = dispatch(0, entry_id, now_ms=0, sticky_key_hash=1 + entry_id % 60_000).consumer
            assert consumer is not None
            outstanding.append((consumer, entry_id))
            if len(outstanding) == OUTSTANDING:
                for consumer, delivered in outstanding:
                    ack(consumer, 0, delivered)
                outstanding.clear()
        assert subscription.cursor.backlog_entries == 0

    benchmark.group = "dispatch and ack, one by one"
    benchmark.pedantic(pairs, setup=lambda: ((opened(name, SCALAR_MESSAGES),), {}), rounds=5, warmup_rounds=1)
    benchmark.extra_info["pairs_per_second"] = SCALAR_MESSAGES / benchmark.stats.stats.median


@pytest.mark.parametrize("few", [0, dispatcher.SINGLE_ENTRIES_MAX], ids=["columns", "one by one"])
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_ten_at_a_time(benchmark: Any, name: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "SINGLE_ENTRIES_MAX", few)
    keys = hashes(name)

    def dispatch(subscription: Subscription) -> None:
        for first in range(0, SCALAR_MESSAGES, 10):
            deliveries = subscription.dispatch_many(
                np.zeros(10, dtype=np.int64),
                np.arange(first, first + 10),
                0,
                sticky_key_hashes=None if keys is None else keys[:10],
            )
            assert deliveries

    benchmark.group = f"dispatch of ten, {name}"
    benchmark.pedantic(
        dispatch, setup=lambda: ((opened(name, SCALAR_MESSAGES),), {}), rounds=5, warmup_rounds=1
    )
    benchmark.extra_info["us_per_ten"] = benchmark.stats.stats.median / (SCALAR_MESSAGES / 10) * 1e6


@pytest.mark.parametrize("name", ["shared", "key-shared"])
def test_bytes_of_an_outstanding_message(benchmark: Any, name: str) -> None:
    messages = WORKLOADS[name]["messages"]
    subscription = opened(name, messages)
    tracemalloc.start()
    deliver_all(subscription, name, ack=False)
    python_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    summary = benchmark(subscription.summary, 0)
    assert summary.unacked == messages
    # Python's objects in addition to the bytes of the structures are a few kilobytes in total.
    total = sum(summary.nbytes.values()) + python_bytes
    benchmark.extra_info["bytes_per_message"] = total / messages


def test_summary_at_a_million_holes(benchmark: Any) -> None:
    subscription = opened("shared", 2_000_000)
    entry_ids = np.arange(1, 50_000, 2)
    for ledger_id in range(40):
        subscription.ack_many(None, np.full_like(entry_ids, ledger_id), entry_ids)
    assert len(subscription.cursor.individually_deleted) == 1_000_000
    benchmark(subscription.summary, 0)


def delivered(kind: str, consumers: int, messages: int) -> Subscription:
    """Return a subscription that has delivered all messages to its consumers, without acknowledgments."""
    subscription = Subscription(SubscriptionType(kind), Ledgers({0: messages}), settings=NO_LIMITS)
    for number in range(consumers):
        subscription.add_consumer(f"c{number}")
        subscription.flow(f"c{number}", 10**9)
    reads = subscription.next_reads_many(messages, 0)
    subscription.dispatch_many(*reads, 0)
    return subscription


@pytest.mark.parametrize(
    ("kind", "consumers"), [("Exclusive", 1), ("Failover", 2), ("Shared", 1), ("Shared", 2)]
)
def test_ack_many_with_others_standing_by(benchmark: Any, kind: str, consumers: int) -> None:
    messages = 50_000
    columns = np.zeros(messages, dtype=np.int64), np.arange(messages)

    def acknowledge(subscription: Subscription) -> None:
        for start in range(0, messages, 1_000):
            part = slice(start, start + 1_000)
            subscription.ack_many("c0", columns[0][part], columns[1][part])

    benchmark.group = "ack_many, 1,000 at a time"
    benchmark.pedantic(
        acknowledge, setup=lambda: ((delivered(kind, consumers, messages),), {}), rounds=9, warmup_rounds=1
    )
    benchmark.extra_info["ns_per_message"] = benchmark.stats.stats.median / messages * 1e9


def test_a_command_of_a_hundred_ids(benchmark: Any) -> None:
    messages = 50_000
    commands = [
        CommandAck(1, message_ids=tuple(MessageId(0, entry) for entry in range(start, start + 100))).encode()
        for start in range(0, messages, 100)
    ]

    def handle(subscription: Subscription) -> None:
        for command in commands:
            subscription.handle("c0", command)

    benchmark.group = "handle, 100 ids a command"
    benchmark.pedantic(
        handle, setup=lambda: ((delivered("Shared", 1, messages),), {}), rounds=9, warmup_rounds=1
    )
    benchmark.extra_info["ns_per_id"] = benchmark.stats.stats.median / messages * 1e9


@pytest.mark.parametrize("waiting", [200, 20_000])
def test_the_next_wakeup_whatever_waits(benchmark: Any, waiting: int) -> None:
    subscription = delivered("Shared", 1, waiting)
    for entry_id in range(waiting):
        subscription.nack("c0", 0, entry_id, now_ms=entry_id)
    benchmark.group = "next_wakeup_ms"
    assert benchmark(subscription.next_wakeup_ms) == 60_000
