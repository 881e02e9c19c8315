"""Order per key in every state that few operations reach, and the wrong ways that must not survive it."""

from __future__ import annotations

import time

import pytest

from tests.subscription.exploring import BrokenError, Explored, Way
from tests.subscription.key_defects import DEFECTS
from tests.subscription.key_worlds import BOTH, OURS, PIP_493, START, Rule, explore

RULES = {"ours": OURS, "PIP-493": PIP_493, "both": BOTH}
KEYS = (1, 1, 1, 2)
ROUNDS_MAX = len(KEYS) + 2
"""With PIP-493 a round delivers one message of a key; an open transaction adds rounds."""

# Each more operation takes three to four times as long: 0.3 s, 2 s, 6 s, …, 8 minutes for eight.
DEFAULT_DEPTH, SLOW_DEPTH = 3, 4
SOAKS = {
    (1, 1, 1, 2): (8, 476_000),
    (1, 1, 2, 1): (8, 460_000),
    (1, 2, 1, 1): (8, 415_000),
    (1, 2, 1, 2): (8, 460_000),
    (1, 1, 2, 2): (8, 421_000),
    (1, 2, 2, 1): (8, 460_000),
    (1, 1, 2, 1, 2): (7, 342_000),
    (1, 2, 1, 1, 1): (7, 291_000),
}
"""Keys: how many operations, and to how many states these lead: 3.3 million together."""


@pytest.mark.parametrize("depth", [DEFAULT_DEPTH, pytest.param(SLOW_DEPTH, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_nothing_overtakes_and_nothing_is_kept_for_ever(
    rule: Rule, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    states, transitions, rounds = explore(KEYS, rule, depth)
    with capsys.disabled():
        print(f"\n{states:,} states, {transitions:,} transitions, drained in {rounds} rounds ", end="")
    assert states > (1_500 if depth == SLOW_DEPTH else 400)
    assert rounds <= ROUNDS_MAX


@pytest.mark.proof
@pytest.mark.parametrize(("keys", "reach"), SOAKS.items(), ids=map(str, SOAKS))
def test_nothing_overtakes_in_millions_of_states(
    keys: tuple[int, ...], reach: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.process_time()

    def show(explored: Explored) -> None:
        with capsys.disabled():
            print(f"\n{keys}: {explored}, {time.process_time() - start:.0f} CPU-s ", end="", flush=True)

    depth, states_min = reach
    states, _, rounds = explore(keys, OURS, depth, on_depth=show)
    assert states >= states_min
    assert rounds <= len(keys) + 2


#: For a defect that needs many steps the search starts further on.
FURTHER: dict[str, Way] = {
    "two gates instead of three": (*START, ("flow", 0)),
    "withhold all but the earliest": (*START, ("nack", 1), ("hold", 1)),
    "a counter where a set is needed": (*START, ("nack", 0), ("tick", 0)),
    "forgetting when one consumer leaves": (*START, ("nack", 0), ("hold", 0)),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_way_is_found(defect: str, rule: Rule) -> None:
    start = FURTHER.get(defect, START)
    with pytest.raises(BrokenError):
        explore(KEYS, rule, 4, start=start, prepare=DEFECTS[defect], audits=False)
    # The start is not what breaks it.
    explore(KEYS, rule, 1, start=start)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_client_that_keeps_messages_it_should_return_is_found(rule: Rule) -> None:
    with pytest.raises(BrokenError, match="never delivered"):
        explore(KEYS, rule, 4, client_holds=True)
