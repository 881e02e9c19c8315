"""Each existing entry is in exactly one place: `validate` sees every way in which that can fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ackwell import Ledgers
from ackwell.cursor.ack_sets import WHOLE
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import Subscription, SubscriptionSettings, TransactionId
from ackwell.subscription.state import State
from ackwell.subscription.transactions import HeldEntry

Violation = Callable[[State], object]


def state_of_places() -> Subscription:
    """Return a subscription with an entry in each place: 3:0 is acknowledged, 3:1 queued, and so on."""
    settings = SubscriptionSettings(max_redeliver_count=0)
    tracker = DelayedDeliveryTracker(strict=True)
    subscription = Subscription("Shared", Ledgers({3: 7}), settings=settings, delayed=tracker)
    for name in "ab":
        subscription.add_consumer(name)
        subscription.flow(name, 100)
    for entry_id in range(6):
        subscription.dispatch(3, entry_id, now_ms=0, deliver_at_ms=100 if entry_id == 4 else 0)
    subscription.ack("a", 3, 0)
    subscription.redeliver("a", [(3, 1), (3, 5)])
    subscription.dispatch(3, 5, now_ms=0)
    state = subscription._state
    state.consumers.remove_pending(3, 3)
    state.transactions.hold(TransactionId(0, 1), state.cursor.mark_delete_position._replace(entry_id=3), HELD)
    subscription.validate()
    assert state.replay.as_set().cardinality == 1
    assert subscription.dead_letters == [(3, 5)]
    return subscription


HELD = HeldEntry(WHOLE, 1, 0)


def pend(state: State, entry_id: int, consumer: str = "a") -> None:
    state.consumers.deliver(state.consumers[consumer], 3, entry_id, 1, 0, 0)


@pytest.mark.parametrize(
    ("message", "violate"),
    [
        ("3:2 is pending at two consumers", lambda state: pend(state, 2, "b")),
        ("3:1 is pending and queued", lambda state: pend(state, 1)),
        ("3:0 is acknowledged and pending", lambda state: pend(state, 0)),
        ("3:3 is in a transaction and pending", lambda state: pend(state, 3)),
        ("3:4 is pending and delayed", lambda state: pend(state, 4)),
        ("3:5 is pending and a dead letter", lambda state: pend(state, 5)),
        ("3:6 is pending and unread", lambda state: pend(state, 6)),
        ("3:0 is acknowledged and queued", lambda state: state.replay.add(3, 0)),
        ("3:2 is pending and queued", lambda state: state.replay.add(3, 2)),
        ("3:3 is in a transaction and queued", lambda state: state.replay.add(3, 3)),
        ("3:4 is queued and delayed", lambda state: state.replay.add(3, 4)),
        ("3:5 is queued and a dead letter", lambda state: state.replay.add(3, 5)),
        ("3:6 is queued and unread", lambda state: state.replay.add(3, 6)),
        ("3:2 is in no place", lambda state: state.consumers.remove_pending(3, 2)),
        ("3:1 is in no place", lambda state: state.replay.discard(3, 1)),
        ("3:3 is in no place", lambda state: state.transactions.end(TransactionId(0, 1))),
        ("3:4 is in no place", lambda state: state.delayed.clear()),
        ("3:5 is in no place", lambda state: state.counts.reset(3, 5)),
        ("3:6 is in no place", lambda state: setattr(state.unread, "position", (3, 7))),
        ("3:2 is pending and unread", lambda state: state.unread.rewind()),
    ],
)
def test_validate_names_an_entry_that_is_nowhere_or_in_two_places(message: str, violate: Violation) -> None:
    subscription = state_of_places()
    violate(subscription._state)
    with pytest.raises(AssertionError, match=f"^{message}"):
        subscription.validate()


def test_an_entry_of_a_trimmed_ledger_is_missed_nowhere() -> None:
    ledgers = Ledgers({0: 3, 1: 3})
    subscription = Subscription("Shared", ledgers)
    subscription.add_consumer("a")
    subscription.flow("a", 100)
    for position in subscription.next_reads(5, 0):
        subscription.dispatch(*position, now_ms=0)
    ledgers.trim_before(1)
    subscription.validate()
    subscription.redeliver("a")
    assert subscription.next_reads(9, 0) == [(1, 0), (1, 1), (1, 2)]
    assert not [entry for entry in range(3) if subscription.redelivery_count(0, entry)]
    subscription.validate()
