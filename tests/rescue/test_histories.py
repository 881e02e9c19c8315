"""Random histories: what is planned was acknowledged and not taken back, and a restart is not refused.

Two kinds of history cannot be judged by anything that a broker shows, and are counted apart. A seek that
leaves as many acknowledgments as the limit looks like a graceful restart: each such history gets a twin
without a seek (`tests.rescue.twins`) that shows `plan` the same, or it is a defect. If only parts of batches
were lost, and no acknowledged entry is left to show that nobody sought, it is refused until the user says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ackwell.cursor.ack_sets import from_words
from ackwell.rescue.planning import Plan, plan
from ackwell.rescue.refusals import RefusedError
from tests.rescue.histories import BEFORE, HARMLESS, SEEKS, History, existing_only
from tests.rescue.twins import has_twin, to_the_snapshot
from tests.samples import number_of_commit

if TYPE_CHECKING:
    from ackwell.broker.writes import Restart


def judged(seed: int) -> Counter[str]:
    """Play a history, plan, and name how it ended; assert that it ended well."""
    history = History(seed)
    chance = history.chance
    before, memory = to_the_snapshot(history)
    kinds = [HARMLESS, HARMLESS | {"crash": 1.0}, HARMLESS | SEEKS | {"crash": 0.5}]
    history.run(kinds[seed % 3], chance.randint(1, 7))
    history.do("crash" if seed % 3 == 1 and chance.random() < 0.5 else "unload")
    now = history.snapshot()
    # Whoever says that it was a crash says that nobody sought.
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
        assert has_twin(history, seed, before, now, made, shown), f"seed {seed}: {history.log}"
        return counted + Counter({"undecidable": 1})
    assert made.missing == lost, f"seed {seed}: {lost}, {made.missing}; {history.log}"
    return counted + Counter({"right": 1, "put back": bool(made)})


def wrong(made: Plan, history: History) -> bool:
    """Whether a plan would acknowledge what is not acknowledged."""
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


@pytest.mark.proof
def test_few_restarts_are_refused_in_a_large_sample() -> None:
    counted = judge_all(range(12_000))
    # The limits are 1 to 16 here, so that a seek meets them; a broker's is 10,000.
    assert counted["undecidable"] < 0.15 * counted["sought"]
    assert counted["refused no-witness"] < 0.1 * counted["lost"]
    false = sum(counted[each] for each in counted if each.startswith("refused ")) - counted["refused rightly"]
    assert false - counted["refused no-witness"] <= 0.01 * counted["lost"]


@pytest.mark.slow
def test_above_what_a_history_acknowledges_no_seek_is_taken_for_a_restart() -> None:
    """With a limit that no seek leaves, nothing wrong is planned at all."""
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
