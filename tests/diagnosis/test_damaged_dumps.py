"""Damaged dumps of healthy brokers: the answer becomes unknown or wider, never exact and different.

The truth is the recorded number of messages that a restart redelivered, or the prediction for the undamaged
dump. Two damages have no trace in any other field and are not counted against the positions: another id of a
ledger to which no position belongs, and on a busy topic a `lastConfirmedEntry` that differs by the entries of
a tenth of a second. The delivery verdict is only required not to fail, because consumers' permits and the
flags of reads are each in one field.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.contradictions import ONE_ANSWER_SECONDS
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.broker.writes import RESTARTS
from ackwell.diagnosis.doctor import Diagnosis, Verdict, diagnose
from ackwell.diagnosis.holes import blockage
from ackwell.errors import StatsError
from tests.cluster.overviews import random_answers
from tests.diagnosis.damages import KINDS, Place, damaged, places_of, read_places
from tests.diagnosis.test_delivery import recorded as stalls
from tests.diagnosis.test_doctor_lives import recorded as lives
from tests.samples import number_of_commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.broker.writes import Restart

SAMPLE, SAMPLES = 2_000, 60
"""The dumps of a sample, and the samples that `make proof` plays; each commit plays one of them."""


class Healthy(NamedTuple):
    """A dump of a healthy broker, with an earlier one."""

    answer: dict[str, Any]
    before: dict[str, Any] | None
    version: str
    settings: BrokerSettings
    restarts: Sequence[Restart]
    lost: int | None
    """The messages that the restart redelivered; None if it was not recorded."""

    def diagnosis(self, now: SubscriptionStats) -> Diagnosis:
        """Return the doctor's diagnosis of a dump."""
        before = None if self.before is None else subscription_of(self.before)
        return diagnose(now, self.settings, restarts=self.restarts, before=before, version=self.version)


def subscriptions_of(answer: dict[str, Any]) -> list[SubscriptionStats]:
    return [each for each in from_answer(answer, "topic", "dump") if isinstance(each, SubscriptionStats)]


def subscription_of(answer: dict[str, Any]) -> SubscriptionStats:
    return subscriptions_of(answer)[0]


@cache
def healthy() -> list[Healthy]:
    def settings(version: str, values: dict[str, Any]) -> BrokerSettings:
        return BrokerSettings.of(version).with_values([f"{name}={value}" for name, value in values.items()])

    found = [
        Healthy(
            case.answer,
            case.before,
            case.version,
            settings(case.version, case.settings),
            [case.restart],
            case.lost,
        )
        for case in lives()
    ]
    for stall in stalls():
        before, now = stall["answers"]
        made = settings(stall["version"], stall["settings"])
        found.append(Healthy(now, before, stall["version"], made, RESTARTS, None))
    few = settings("4.2", {"managedLedgerMaxUnackedRangesToPersist": 4})
    found += [Healthy(answer, None, "4.2", few, RESTARTS, None) for answer in random_answers(40).values()]
    # The simulated broker does not fill every field as a real one does.
    healthy = [each for each in found if not subscription_of(each.answer).contradictions]
    assert len(healthy) > 0.95 * len(found)
    return healthy


@cache
def places(number: int) -> tuple[list[Place], list[Place]]:
    """Return the places of all fields of a dump, and of those that commands read."""
    answer = healthy()[number].answer
    return list(places_of(answer)), read_places(answer)


def overlap(one: Bounds, other: Bounds) -> bool:
    def most(count: Bounds) -> float:
        return float("inf") if count.at_most is None else count.at_most

    return one.at_least <= most(other) and other.at_least <= most(one)


def wrong(case: Healthy, now: SubscriptionStats, done: Sequence[tuple[str, Place]]) -> str | None:
    """Return the number about a damaged dump that is neither unknown nor contains the truth."""
    right = subscription_of(case.answer)
    diagnosis, truth = case.diagnosis(now), case.diagnosis(right)
    count = diagnosis.messages_lost
    true_count = truth.messages_lost if case.lost is None else Bounds(case.lost, case.lost)
    if not overlap(count, true_count):
        return f"{count} messages are lost, not {true_count}"
    if diagnosis.verdict is Verdict.FINE and true_count.at_least:
        return f"fine, and {true_count} messages are lost"
    if now.backlog_entries not in (None, right.backlog_entries):
        added = (now.ledgers.last_position or (0, 0))[1] - (right.ledgers.last_position or (0, 0))[1]
        if LAST_CONFIRMED in {place for _, place in done} and 0 < added <= added_while_answered(case.answer):
            return None
        return f"a backlog of {now.backlog_entries} entries, not {right.backlog_entries}"
    if any(place[-1] == "ledgerId" for _, place in done):
        return None
    try:
        found, expected = blockage(now), blockage(right)
    except StatsError:
        return None
    for name in ("hole", "acked_after", "next_mark_delete"):
        if getattr(found, name, None) != getattr(expected, name, None):
            return f"{name} is {getattr(found, name, None)}, not {getattr(expected, name, None)}"
    return None


LAST_CONFIRMED: Place = ("internalStats", "lastConfirmedEntry")


def added_while_answered(answer: dict[str, Any]) -> int:
    """Return the most entries by which `lastConfirmedEntry` may exceed the counters of a busy topic."""
    stats = answer.get("stats", {})
    of_each = [stats, *stats.get("subscriptions", {}).values()]
    if not any(each.get(rate) for each in of_each for rate in ("msgRateIn", "msgRateOut", "messageAckRate")):
        return 0
    # A damaged rate is ignored if it exceeds the counter of the same messages.
    counted: int = sum(each.get("msgInCounter", 0) + 2 * each.get("msgOutCounter", 0) + 2 for each in of_each)
    return ceil(counted * ONE_ANSWER_SECONDS)


def check(count: int, seed: int) -> Counter[str]:
    """Damage dumps and compare; return how many answers were exact, wider, unknown, or not read."""
    chance, results = random.Random(seed), Counter[str]()
    for _ in range(count):
        number = chance.randrange(len(healthy()))
        case, (every, read) = healthy()[number], places(number)
        picked = [
            chance.choice(read if chance.random() < 0.9 else every) for _ in range(chance.choice((1, 1, 2)))
        ]
        answer, done = damaged(case.answer, picked, chance, case.before)
        if not done:
            results["unchanged"] += 1
            continue
        results["damaged"] += 1
        found = subscriptions_of(answer)
        results["not read"] += not found
        for now in found:
            said = wrong(case, now, done)
            assert said is None, (seed, said, done, now.contradictions)
            lost = case.diagnosis(now).messages_lost
            results[
                "exact" if lost.exact is not None else "unknown" if lost.at_most is None else "wider"
            ] += 1
    return results


@pytest.mark.slow
def test_a_damaged_dump_is_unknown_or_wider_and_never_exact_and_different() -> None:
    """One of the samples; the claim for all of them rests on `make proof`."""
    seed = number_of_commit(SAMPLES)
    results = check(SAMPLE, seed)
    assert min(results[each] for each in ("exact", "wider", "unknown", "not read")) > 0, (seed, results)


@pytest.mark.proof
def test_many_damaged_dumps_are_unknown_or_wider() -> None:
    results = Counter[str]()
    for seed in range(SAMPLES):
        results += check(SAMPLE, seed)
    print(results)
    assert results["damaged"] >= 80_000


def test_each_kind_of_damage_changes_dumps() -> None:
    """A property over damages that change nothing would show nothing."""
    chance, kinds = random.Random(3), Counter[str]()
    for _ in range(1_500):
        number = chance.randrange(len(healthy()))
        case = healthy()[number]
        _, done = damaged(case.answer, [chance.choice(places(number)[1])], chance, case.before)
        kinds.update(kind for kind, _ in done)
    assert kinds.keys() == {*KINDS, "swap", "older"}


def test_no_subscription_is_lost_because_of_another_one() -> None:
    chance = random.Random(random.randrange(1 << 32))
    for _ in range(300):
        number = chance.randrange(len(healthy()))
        case = healthy()[number]
        both = copy.deepcopy(case.answer)
        name = next(iter(both["internalStats"]["cursors"]))
        for part in (both["internalStats"]["cursors"], both["stats"]["subscriptions"]):
            if name in part:
                part["other"] = copy.deepcopy(part[name])
        inside = [place for place in read_places(both) if name in place and place[-1] != name]
        answer, done = damaged(both, [chance.choice(inside)], chance)
        kept, now = ({each.subscription: each for each in subscriptions_of(dump)} for dump in (both, answer))
        assert "other" in now, done
        assert json.dumps(case.diagnosis(now["other"]).to_json()) == json.dumps(
            case.diagnosis(kept["other"]).to_json()
        ), done
