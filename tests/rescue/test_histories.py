"""Random histories: a plan has only acknowledgments that no seek removed, and a restart is not refused.

Two kinds of history are undecidable from a broker's answers, and are counted separately:

- A seek that leaves as many acknowledgments as the limit looks like a graceful restart. For each one,
  `tests.rescue.seekless` must find a history without a seek that gives `plan` the same input.
- If a restart lost only parts of batches, and no range of the snapshot is left, nothing excludes a seek. The
  plan is refused until the user excludes one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ackwell.cursor.ack_sets import from_words
from ackwell.rescue.planning import Plan, plan
from ackwell.rescue.refusals import RefusedError
from tests.rescue.histories import BEFORE, HARMLESS, SEEKS, History, existing_only
from tests.rescue.seekless import has_seekless_history, to_the_snapshot
from tests.samples import number_of_commit

if TYPE_CHECKING:
    from ackwell.broker.writes import Restart


def judged(seed: int) -> Counter[str]:
    """Play a history, make a plan, and check it; return counts of its outcome."""
    history = History(seed)
    chance = history.chance
    before, memory = to_the_snapshot(history)
    kinds = [HARMLESS, HARMLESS | {"crash": 1.0}, HARMLESS | SEEKS | {"crash": 0.5}]
    history.run(kinds[seed % 3], chance.randint(1, 7))
    history.do("crash" if seed % 3 == 1 and chance.random() < 0.5 else "unload")
    now = history.snapshot()
    # `crash` also states that there was no seek.
    restart: Restart = "crash" if history.crashed and not history.sought else "graceful"
    shown = memory if seed % 2 else None
    lost = existing_only(before.acked, history) - (before.acked - history.truth) - now.acked
    parts = shown is not None and history.lost_parts(shown)
    counted = Counter({"histories": 1, "sought": history.sought, "lost": bool(len(lost) or parts)})
    try:
        made = plan(before, now, restart=restart, ack_sets=shown)
    except RefusedError as refused:
        if history.sought or not (len(lost) or parts):
            return counted + Counter({"refused rightly": 1})
        made = plan(before, now, restart="crash", ack_sets=shown)
        assert not wrong(made, history)
        return counted + Counter({f"refused {refused.code}": 1})
    if wrong(made, history):
        assert history.sought, f"seed {seed}: {made.missing - history.truth}; {history.log}"
        assert has_seekless_history(history, seed, before, now, made, shown), f"seed {seed}: {history.log}"
        return counted + Counter({"undecidable": 1})
    assert made.missing == lost, f"seed {seed}: {lost}, {made.missing}; {history.log}"
    return counted + Counter({"right": 1, "put back": bool(made)})


def wrong(made: Plan, history: History) -> bool:
    """Return whether a plan has acknowledgments that a seek removed."""
    return bool(len(made.missing - history.truth)) or any(
        position not in history.truth and history.partly.get(position, -1) & ~from_words(words) & 0b1111
        for position, words in made.ack_sets.items()
    )


def judge_all(seeds: range) -> Counter[str]:
    counted: Counter[str] = sum((judged(seed) for seed in seeds), Counter())
    print(dict(counted))
    assert counted["lost"] > 0.15 * len(seeds)
    assert counted["put back"] > 0.1 * len(seeds)
    return counted


@pytest.mark.slow
def test_only_acknowledged_entries_are_restored() -> None:
    """Each commit plays 300 of the 12,000 histories that `make proof` plays, which also counts refusals."""
    first = number_of_commit(40) * 300
    judge_all(range(first, first + 300))


@pytest.mark.parametrize("seed", [161201, 155930])
def test_a_seek_after_a_trim_is_undecidable(seed: int) -> None:
    """Acknowledgments and a trim of the same ledgers leave the same state as the seek."""
    assert judged(seed)["undecidable"] == 1


@pytest.mark.proof
def test_few_restarts_are_refused_in_a_large_sample() -> None:
    counted = judge_all(range(12_000))
    # The limits are 1 to 16 here, so a seek can leave that number; a broker's default is 10,000.
    assert counted["undecidable"] < 0.15 * counted["sought"]
    assert counted["refused no-range-kept"] < 0.1 * counted["lost"]
    false = sum(counted[each] for each in counted if each.startswith("refused ")) - counted["refused rightly"]
    assert false - counted["refused no-range-kept"] <= 0.01 * counted["lost"]


@pytest.mark.slow
def test_above_what_a_history_acknowledges_no_seek_is_taken_for_a_restart() -> None:
    """With a limit above the acknowledgments of a history, no plan is wrong."""
    sought = 0
    for seed in range(300):
        history = History(seed, limit=10_000)
        history.run(BEFORE, history.chance.randint(4, 14))
        before = history.snapshot(connected=True)
        history.begin()
        history.run(HARMLESS | SEEKS, history.chance.randint(1, 7))
        history.unload()
        sought += history.sought
        try:
            made = plan(before, history.snapshot())
        except RefusedError:
            continue
        assert not wrong(made, history), f"seed {seed}: {history.log}"
    assert sought > 100
