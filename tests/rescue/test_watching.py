"""The decisions of `ackwell rescue watch` in random histories of one subscription."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ackwell.broker.stats import UnreadableSource
from ackwell.devbroker.entry import LogEntry
from ackwell.position import Position
from ackwell.rescue.planning import plan
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.watching import (
    AGE_MS_MAX,
    RANGES_MIN,
    Decision,
    Transition,
    decide,
    is_at_risk,
    unchanged_remaining,
)
from tests.rescue.histories import BEFORE, HARMLESS, SEEKS, History, existing_only
from tests.samples import number_of_commit

if TYPE_CHECKING:
    from ackwell.rescue.snapshot import Snapshot

ACKED = BEFORE | {"acknowledge": 6.0, "acknowledge_parts": 0.3, "publish": 6.0}
RESTARTS = HARMLESS | {"acknowledge": 1.0, "publish": 4.0, "clear": 0.0, "unload": 2.0}
MIXED = RESTARTS | SEEKS | {"crash": 0.3, "seek": 0.8}
ROUNDS = 10


def watched(seed: int) -> Counter[str]:
    """Play a history, watch it in rounds, restore, and check each restore; return counts."""
    history = History(seed, limit=(8, 16, 32)[seed % 3])
    history.run(ACKED, 16)
    before: Snapshot | UnreadableSource = history.observe(connected=True)
    history.begin()
    counted = Counter({"histories": 1})
    for _ in range(ROUNDS):
        history.run(MIXED if seed % 2 else RESTARTS, history.chance.randint(0, 3))
        now = history.observe(connected=True)
        if isinstance(before, UnreadableSource) or isinstance(now, UnreadableSource):
            # A watch forgets a subscription that cannot be read.
            counted["unread"] += 1
            before = now
            continue
        lost = existing_only(before.acked, history) - (before.acked - history.truth) - now.acked
        decision = decide(before, now)
        counted[str(decision.change)] += 1
        counted["rounds with a loss"] += bool(len(lost))
        if decision.change is Transition.LOST:
            assert decision.plan is not None
            left, parts = unchanged_remaining(decision.plan, history.snapshot(connected=True))
            wrong = left - history.truth
            assert not len(wrong), f"seed {seed}: {wrong}; {history.log}"
            assert not parts
            assert left == lost, f"seed {seed}: {lost - left}; {history.log}"
            for position in left.positions():
                history.ack(position)
            counted["restored"] += left.cardinality
            now = history.observe(connected=True)
        before = now
    return counted


def watch_all(seeds: range) -> Counter[str]:
    counted: Counter[str] = sum(map(watched, seeds), Counter())
    print(dict(counted))
    assert counted["lost"] > 0.1 * len(seeds)
    assert counted["moved"] > 0.1 * len(seeds)
    assert counted["refused"] > 0.1 * len(seeds)
    return counted


def test_a_loss_is_restored_and_a_seek_is_not() -> None:
    before, history = at_the_limit()
    history.do("unload")
    decision = decide(before, history.snapshot())
    assert (decision.change, decision.missing) == (Transition.LOST, 11)
    assert decision.plan is not None
    assert decision.plan.missing == before.acked - history.snapshot().acked
    before, history = at_the_limit()
    history.subscription.seek(Position(0, 0))
    assert decide(before, history.snapshot()).change is Transition.MOVED


def test_a_seek_and_a_load_between_two_observations_are_refused() -> None:
    before, history = at_the_limit()
    history.subscription.seek(Position(0, 0))
    history.do("unload")
    decision = decide(before, history.snapshot())
    assert decision.change is Transition.REFUSED
    assert decision.refusal is not None
    assert decision.refusal.code == "first-range-gone"


def test_a_seek_forward_after_the_load_is_refused() -> None:
    """`plan` cannot tell it from acknowledgments of all entries before; the unchanged ranges can."""
    before, history = at_the_limit()
    history.do("unload")
    made = decide(before, history.snapshot()).plan
    assert made is not None
    history.subscription.seek(Position(0, 30))
    live = history.snapshot()
    assert len(plan(before, live).missing)
    assert code_of(decide(before, live)) == "few-ranges-kept"
    with pytest.raises(RefusedError, match="only 0 ranges"):
        unchanged_remaining(made, live)


def test_an_old_observation_is_refused() -> None:
    before, history = at_the_limit()
    history.do("unload")
    live = history.snapshot()
    for age_ms in (AGE_MS_MAX, AGE_MS_MAX + 1, -AGE_MS_MAX, -AGE_MS_MAX - 1):
        assert before.stats.time_ms is not None
        later = replace(live, stats=replace(live.stats, time_ms=before.stats.time_ms + age_ms))
        refusal = decide(before, later).refusal
        assert (None if refusal is None else refusal.code) == (
            None if abs(age_ms) == AGE_MS_MAX else "snapshot-too-old"
        )
    # The clock was set back since the observation.
    assert refusal is not None
    assert "is 15 min newer than the live state, and the limit of `rescue watch` is 15 min" in str(refusal)
    unknown = replace(before, stats=replace(before.stats, time_ms=None))
    assert code_of(decide(unknown, live)) == "snapshot-too-old"


def test_fewer_unchanged_ranges_than_required_are_refused() -> None:
    # A broker of 4.2 keeps one range more than the limit.
    for limit, code in ((RANGES_MIN - 1, None), (RANGES_MIN - 2, "few-ranges-kept")):
        before, history = at_the_limit(limit)
        history.do("unload")
        # Ranges after the first missing entry do not count, because consumers may acknowledge them again.
        for entry_id in (35, 37, 39):
            history.ack(Position(0, entry_id))
        assert code_of(decide(before, history.snapshot())) == code


def test_a_new_subscription_and_a_new_topic_of_the_same_name_restore_nothing() -> None:
    for name in ("make_again", "make_topic_again"):
        before, history = at_the_limit()
        history.do(name)
        history.do("unload")
        assert decide(before, history.snapshot()).change in (Transition.NONE, Transition.REFUSED), name


def test_a_subscription_is_at_risk_from_most_of_a_limit_on() -> None:
    assert is_at_risk(at_the_limit(20)[0])
    assert is_at_risk(at_the_limit(24)[0])
    before, _ = at_the_limit(25)
    assert not is_at_risk(before)
    assert is_at_risk(replace(before, broker=None))
    assert not is_at_risk(replace(before, stats=replace(before.stats, durable=False)))


def at_the_limit(limit: int = 8) -> tuple[Snapshot, History]:
    """Return a snapshot with 20 ranges of one entry, and its history."""
    histories = (History(seed, limit=limit) for seed in range(1000))
    history = next(
        each
        for each in histories
        if not each.own["managedLedgerPersistIndividualAckAsLongArray"]
        and each.state.settings.entries_per_ledger == 1000
        and each.facts.version == "4.2.0"
    )
    for _ in range(41):
        history.topic.publish(LogEntry(b"m", 1, history.state.clock.now_ms()))
    for entry_id in range(1, 41, 2):
        history.ack(Position(0, entry_id))
    history.begin()
    return history.snapshot(connected=True), history


def code_of(decision: Decision) -> str | None:
    return None if decision.refusal is None else decision.refusal.code


@pytest.mark.slow
def test_a_watch_restores_only_acknowledgments_that_no_seek_removed() -> None:
    """Each commit plays 300 of the 3,000 histories that `make proof` plays.

    Of 60 histories too few restore anything for the bounds of `watch_all`.
    """
    first = number_of_commit(10) * 300
    watch_all(range(first, first + 300))


@pytest.mark.proof
def test_a_watch_is_right_in_a_large_sample() -> None:
    watch_all(range(3_000))
