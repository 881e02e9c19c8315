"""Summary, audits and validation of a subscription."""

from __future__ import annotations

import pytest

from ackwell import Position
from ackwell.pending_ack import PendingAck
from tests import reference
from tests.subscription.helpers import deliver, opened


def test_a_summary_knows_the_oldest_hole_and_since_when() -> None:
    subscription = opened("Shared", 5)
    deliver(subscription, 1_000)
    assert subscription.summary(1_500).oldest_hole == (3, 0)
    subscription.ack_many("a", [3, 3], [0, 2])
    assert subscription.summary(4_000).oldest_hole_age_ms == 0
    summary = subscription.summary(9_000)
    assert (summary.oldest_hole, summary.oldest_hole_age_ms) == ((3, 1), 5_000)
    subscription.ack_many("a", [3, 3, 3], [1, 3, 4])
    assert subscription.summary(9_000).oldest_hole is None


def test_the_oldest_hole_is_as_old_as_the_first_call_with_a_time_that_saw_it() -> None:
    subscription = opened("Shared", 5)
    subscription.advance(1_000)
    assert subscription.summary(6_000).oldest_hole_age_ms == 5_000


def test_an_audit_describes_a_counter_that_drifted() -> None:
    subscription = opened("Shared", 2)
    deliver(subscription)
    subscription._state.consumers["a"].unacked += 5
    assert subscription.audit() == ["a: unacked is 7, its entries sum to 2"]
    with pytest.raises(AssertionError, match="sum to 2"):
        subscription.validate()


def test_validation_checks_the_pending_entries_of_every_consumer() -> None:
    subscription = opened("Shared", 9, permits=10, engine=reference)
    subscription.dispatch(3, 0, now_ms=0)
    subscription.validate()
    pending = subscription._state.consumers.by_key["a"].pending
    pending._values[Position(3, 0)] = PendingAck(-1, 0)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        subscription._state.consumers.validate()
