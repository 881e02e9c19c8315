"""The holes of a subscription, compared with entries counted one by one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackwell import Cursor, Ledgers, Position, PositionRangeSet
from ackwell.broker.stats import LedgerSize, SubscriptionStats
from ackwell.diagnosis.holes import blockage, holes
from ackwell.diagnosis.prometheus import prometheus_holes
from tests.broker.answers import subscription
from tests.diagnosis.test_delivery import subscription_of
from tests.diagnosis.test_delivery import told as stalled

ENTRIES = {3: 4, 5: 6, 8: 1, 9: 3}


def told(cursor: Cursor) -> SubscriptionStats:
    return replace(
        subscription("[]"),
        ledgers=cursor.ledgers,
        ledger_sizes=tuple(
            LedgerSize(ledger_id=ledger_id, entries=entries, size_bytes=10**ledger_id)
            for ledger_id, entries in ENTRIES.items()
        ),
        mark_delete_position=cursor.mark_delete_position,
        individually_deleted=cursor.individually_deleted,
    )


def cursor_of(seed: int) -> Cursor:
    random_of_seed = random.Random(seed)
    cursor = Cursor(Ledgers(ENTRIES))
    share = random_of_seed.random()
    for ledger_id, entries in ENTRIES.items():
        for entry_id in range(entries):
            if random_of_seed.random() < share:
                cursor.ack(ledger_id, entry_id)
    return cursor


@pytest.mark.parametrize("seed", range(40))
def test_every_unacknowledged_entry_is_in_one_hole_and_no_two_holes_touch(seed: int) -> None:
    cursor = cursor_of(seed)
    found = list(holes(told(cursor)))
    listed = [(h.first.ledger_id, e) for h in found for e in range(h.first.entry_id, h.last.entry_id + 1)]
    every = [(ledger_id, entry_id) for ledger_id, entries in ENTRIES.items() for entry_id in range(entries)]
    assert listed == [each for each in every if not cursor.is_acked(*each)]
    touching = [(a, b) for a, b in pairwise(found) if a.last == (b.first[0], b.first[1] - 1)]
    assert not touching


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_hole_frees_what_its_acknowledgment_lets_the_cursor_pass(seed: int) -> None:
    cursor = cursor_of(seed)
    state = told(cursor)
    found, first = blockage(state), next(holes(state), None)
    assert (found is None) == (first is None) == (cursor.backlog_entries == 0)
    if found is None or first is None:
        return
    assert found.hole == first
    assert found.acked_after == cursor.individually_deleted.cardinality
    pinned = [ledger_id for ledger_id in ENTRIES if ledger_id >= first.first.ledger_id]
    assert found.pinned_bytes == sum(10**ledger_id for ledger_id in pinned)
    for entry_id in range(first.first.entry_id, first.last.entry_id + 1):
        cursor.ack(first.first.ledger_id, entry_id)
    entries = [(i, e) for i in ENTRIES for e in range(ENTRIES[i])]
    unacked = [each for each in entries if not cursor.is_acked(*each)]
    last_acked = entries[(entries.index(unacked[0]) if unacked else len(entries)) - 1]
    assert found.next_mark_delete == last_acked
    freed = [
        i for i in pinned[:-1] if all(cursor.is_acked(i, e) for e in range(ENTRIES[i])) and i <= last_acked[0]
    ]
    freed = [i for i in freed if (i, ENTRIES[i] - 1) <= last_acked]
    assert (found.freed_ledgers, found.freed_bytes) == (len(freed), sum(10**i for i in freed))


def test_ranges_of_ledgers_that_are_gone_or_shorter_by_now_hide_no_hole() -> None:
    deleted = PositionRangeSet()
    for ledger_id, lower, upper in ((3, 0, 2), (4, 0, 7), (5, 2, 3), (5, 7, 9), (9, 0, 1)):
        deleted.add_range(ledger_id, lower, upper)
    state = replace(told(Cursor(Ledgers(ENTRIES))), mark_delete_position=Position(3, 3))
    found = [str(hole) for hole in holes(replace(state, individually_deleted=deleted))]
    assert found == ["5:0..2", "5:4..5", "8:0", "9:0", "9:2"]


def test_a_hole_is_with_the_only_consumer_that_has_anything() -> None:
    has = {"consumerName": "a", "availablePermits": 3, "unackedMessages": 7}
    idle = {"consumerName": "b", "availablePermits": 9, "unackedMessages": 0}

    def holder(consumers: list[dict[str, object]], read: str = "3:5", **shown: object) -> str | None:
        found = blockage(subscription_of(stalled({"readPosition": read}, consumers=consumers, **shown)))
        assert found is not None
        return None if found.holder is None else found.holder.name

    assert holder([has, idle]) == "a"
    assert holder([has, {**idle, "unackedMessages": 1}]) is None
    assert holder([has, idle], read="3:0") is None
    # It may have no consumer, and wait for redelivery.
    assert holder([has, idle], msgInReplay=1) is None


def test_holes_as_metrics_have_no_age_if_the_broker_shows_none() -> None:
    found = blockage(told(cursor_of(1)))
    assert found is not None
    families = {each.name: each for each in text_string_to_metric_families(prometheus_holes([found]))}
    assert families["ackwell_subscription_oldest_hole_pinned_bytes"].samples[0].value == found.pinned_bytes
    assert not families["ackwell_subscription_oldest_hole_seconds"].samples
    assert not families["ackwell_subscription_oldest_hole_message_age_seconds"].samples


def test_the_age_of_the_oldest_message_is_a_metric_where_a_broker_has_it() -> None:
    found = blockage(subscription_of(stalled(oldestBacklogMessageAgeSeconds=77)))
    assert found is not None
    families = {each.name: each for each in text_string_to_metric_families(prometheus_holes([found]))}
    (sample,) = families["ackwell_subscription_oldest_hole_message_age_seconds"].samples
    assert (sample.value, found.to_json()["oldestMessageAgeSeconds"]) == (77, 77)
