"""A refused call changes nothing: every public method, with bad arguments of every kind."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ackwell import AckwellError, Ledgers
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.protocol.command_ack import AckColumns
from ackwell.subscription import (
    AckType,
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    SubscriptionType,
    TransactionId,
)

REFUSALS = (TypeError, ValueError, OverflowError, AckwellError)
BAD = [
    None,
    "a",
    "no such consumer",
    b"\xff",
    -1,
    -(2**63) - 1,
    2**63,
    2**64,
    1.5,
    float("nan"),
    True,
    [],
    [1.5],
    ["x"],
    [-1],
    [2**64],
    [(3, 1.5)],
    [(1, 2, 3)],
    (1.5, 2),
    object(),
    CommandAck(1),
    CommandAck(1, 7, (MessageId(3, 5),)),  # type: ignore[arg-type]
    CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 999),)),
    CommandAck(1, AckType.CUMULATIVE, (MessageId(3, 1), MessageId(3, 2))),
    CommandAck(1, message_ids=(MessageId(3, 5), MessageId(3, 999))),
    CommandAck(1, message_ids=(MessageId(3, 5), MessageId(3, 6, ack_set=(1.5,)))),  # type: ignore[arg-type]
    CommandAck(1, message_ids=(MessageId(3, 5),), properties=(("p", 1.5),)),  # type: ignore[arg-type]
    CommandAck(1, message_ids=(MessageId(3, 5),), properties=((7, 1),)),  # type: ignore[arg-type]
    CommandAck(1, message_ids=(MessageId(3, 5),), request_id="x"),  # type: ignore[arg-type]
    CommandAck(1, message_ids=(MessageId(3, 5),), transaction=(1.5, 2)),  # type: ignore[arg-type]
]
"""Invalid values for every argument of every method."""

GOOD: dict[str, dict[str, Any]] = {
    "abort": {"transaction": TransactionId(1, 1)},
    "accepted_part": {"command": AckColumns.of(CommandAck(1, message_ids=(MessageId(3, 5),)))},
    "ack": {"consumer": "a", "position": 3, "entry_id": 5, "ack_set": (0b10,)},
    "ack_cumulative": {"consumer": "a", "position": 3, "entry_id": 5, "ack_set": (0b10,)},
    "ack_many": {
        "consumer": "a",
        "ledger_ids": [3, 3],
        "entry_ids": [5, 6],
        "ack_sets": ([0, 1, 2], [2, 2]),
    },
    "ack_set": {"position": 3, "entry_id": 5},
    "add_consumer": {
        "name": "c",
        "consumer_id": 7,
        "priority": 1,
        "hash_ranges": [],
        "epoch": 3,
        "concurrency": 2,
    },
    "advance": {"now_ms": 50},
    "change_type": {"type": "Exclusive", "selector": None},
    "commit": {"transaction": TransactionId(1, 1)},
    "cumulative_ack": {"transaction": TransactionId(1, 1)},
    "delivered": {
        "consumer": "b",
        "position": 3,
        "entry_id": 5,
        "now_ms": 50,
        "batch_size": 2,
        "sticky_key_hash": 5,
    },
    "dispatch": {
        "position": 3,
        "entry_id": 10,
        "now_ms": 50,
        "batch_size": 2,
        "sticky_key_hash": 5,
        "deliver_at_ms": 1,
    },
    "dispatch_many": {
        "ledger_ids": [3, 3],
        "entry_ids": [10, 11],
        "now_ms": 50,
        "batch_sizes": [1, 2],
        "sticky_key_hashes": [5, 6],
        "deliver_at_ms": [0, 0],
    },
    "expire": {"position": 3, "entry_id": 5},
    "extend": {"consumer": "a", "positions": [(3, 5)], "now_ms": 50},
    "is_in_transaction": {"position": 3, "entry_id": 5},
    "flow": {"consumer": "a", "permits": 5},
    "handle": {"consumer": "a", "command": CommandAck(1, message_ids=(MessageId(3, 5),))},
    "holder": {"position": 3, "entry_id": 5},
    "later_of_key": {"consumer": "a", "position": 3, "entry_id": 5},
    "limit_unacked": {"per_consumer": 5, "per_subscription": 50},
    "nack": {"consumer": "a", "position": 3, "entry_id": 5, "now_ms": 50},
    "nack_in_order": {"consumer": "a", "position": 3, "entry_id": 5, "now_ms": 50},
    "next_reads": {"limit": 5, "now_ms": 50},
    "next_reads_many": {"limit": 5, "now_ms": 50},
    "in_hand": {"consumer": "a"},
    "pending": {"consumer": "a"},
    "started": {"consumer": "a", "position": 3, "entry_id": 5},
    "redeliver": {"consumer": "a", "positions": [(3, 5)], "counted": False, "epoch": 4},
    "redelivery_count": {"position": 3, "entry_id": 5},
    "remove_consumer": {"consumer": "a"},
    "seek": {"position": 3, "entry_id": 5, "ack_set": (0b10,)},
    "skip": {"entries": 3},
    "sticky_key_hash": {"key": "k", "producer_name": "p", "sequence_id": 7},
    "summary": {"now_ms": 50},
}
WITHOUT_ARGUMENTS = {"audit", "clear_backlog", "next_wakeup_ms", "stage", "validate"}
OF_SAVING = {"confirm", "save", "load"}


def living(kind: str) -> Subscription:
    """Return a subscription with something in every place."""
    settings = SubscriptionSettings(ack_timeout_ms=10_000, max_redeliver_count=3)
    delayed = DelayedDeliveryTracker(strict=True)
    subscription = Subscription(
        SubscriptionType(kind), Ledgers({2: 2, 3: 20}), settings=settings, delayed=delayed
    )
    for name in "a" if kind == "Exclusive" else "ab":
        subscription.add_consumer(name)
        subscription.flow(name, 100)
    for position in subscription.next_reads(12, 0):
        delay = 1_000 if position.entry_id == 9 else 0
        subscription.dispatch(
            *position, now_ms=0, batch_size=2, sticky_key_hash=1 + position.entry_id, deliver_at_ms=delay
        )
    subscription.ack("a", 3, 1)
    subscription.ack("a", 3, 2, (0b10,))
    subscription.redeliver("a", [(3, 0), (3, 3)])
    subscription.nack("a", 3, 4, now_ms=10)
    held = MessageId(3, 6, ack_set=(0b01,), batch_size=2)
    subscription.handle("a", CommandAck(1, message_ids=(held,), transaction=TransactionId(1, 1)))
    subscription.handle("a", CommandAck(1, message_ids=(MessageId(3, 7),), request_id=1))
    subscription.validate()
    return subscription


def test_every_public_method_is_among_those_that_are_tested() -> None:
    public = {
        name
        for name, method in inspect.getmembers(Subscription, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == GOOD.keys() | WITHOUT_ARGUMENTS | OF_SAVING - {"load"}
    for name, values in GOOD.items():
        assert values.keys() == inspect.signature(getattr(Subscription, name)).parameters.keys() - {"self"}


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Failover", "Exclusive"])
@pytest.mark.parametrize("method", GOOD)
def test_a_refused_call_changes_nothing(kind: str, method: str) -> None:
    before = living(kind)
    subscription = copy.deepcopy(before)
    assert subscription == before
    refused = 0
    for name in GOOD[method]:
        for bad in BAD:
            values = GOOD[method] | {name: bad}
            try:
                getattr(subscription, method)(**values)
            except REFUSALS:
                refused += 1
                assert subscription == before, f"{method}({values}) was refused and changed something"
                assert encoded(subscription) == encoded(before)
            else:
                # It was taken after all, as text is for a key; the next one starts from the same state.
                assert not (method == "handle" and isinstance(bad, CommandAck) and bad.ack_type == 7)
                assert name != "selector" or bad is None
                subscription.validate()
                subscription = copy.deepcopy(before)
    assert refused > 0


def encoded(subscription: Subscription) -> bytes:
    return subscription.stage().info.encode("compact")


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared", "Failover", "Exclusive"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_is_equal_and_shares_nothing(kind: str, copied: Callable[[Any], Any]) -> None:
    original = living(kind)
    other = copied(original)
    assert other == original
    assert other.cursor.ledgers is not original.cursor.ledgers
    other.validate()
    for subscription in (original, other):
        subscription.advance(5_000)
    assert other == original
    # The two go on alike, and each change is of one of them only.
    changes: list[Callable[[Subscription], object]] = [
        lambda each: each.ack("a", 3, 0),
        lambda each: each.flow("a", 7),
        lambda each: each.redeliver("a"),
        lambda each: each.next_reads(5, 6_000),
        lambda each: each.cursor.ledgers.grow(3, 21),
        lambda each: each.commit(TransactionId(1, 1)),
        lambda each: each.remove_consumer("a"),
    ]
    for change in changes:
        first = change(other)
        second = change(original)
        assert (first, other) == (second, original)
    other.seek(3, 0)
    assert other != original


def test_the_type_is_changed_by_its_own_method_only() -> None:
    subscription = living("Shared")
    with pytest.raises(AttributeError):
        subscription.type = "Exclusive"  # type: ignore[misc, assignment]
    assert subscription.type == "Shared"


def test_a_type_of_a_subscription_that_does_not_exist_is_named_beside_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"'KeyShared'.* expected Exclusive, Shared, Failover, Key_Shared$"):
        Subscription("KeyShared")  # type: ignore[arg-type]
