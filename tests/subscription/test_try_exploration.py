"""Tries of lost consumers in every state that few operations reach, and wrong rules that must be found."""

from __future__ import annotations

import time

import pytest

from tests.simulation.defects import TRIES
from tests.subscription.exploring import BrokenError, Explored
from tests.subscription.try_worlds import Rule, explore

KEYS = (1, 1, 2)
KINDS = ("Shared", "Key_Shared", "Exclusive", "Failover")
ROUNDS_MAX = 2 * len(KEYS)
"""A round finishes one message; the back-offs and a dead letter may need one more each."""

# Each further operation takes three to four times as long: 0.3 s, 1 s, 4 s, 15 s, 1 minute, 4 minutes.
DEFAULT_DEPTH, SLOW_DEPTH = 3, 4
SOAKS = [
    *((kind, KEYS, 8) for kind in KINDS),
    ("Shared", (1, 1, 2, 2), 6),
    ("Key_Shared", (1, 2, 1, 2), 6),
]
"""Types, messages, and how many operations."""
STATES_MIN = 1_000_000
"""The states of all soaks together."""


@pytest.mark.parametrize("concurrency", [1, 2, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [DEFAULT_DEPTH, pytest.param(SLOW_DEPTH, marks=pytest.mark.slow)])
def test_only_what_is_in_hand_counts_and_a_suspect_is_delivered_alone(
    kind: str, concurrency: int | None, depth: int
) -> None:
    explored = explore(KEYS, Rule(kind, concurrency), depth)
    assert explored.states > (400 if depth == SLOW_DEPTH else 150)
    assert explored.rounds <= ROUNDS_MAX


@pytest.mark.proof
def test_no_try_is_wrong_in_a_million_states(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    states = 0

    def show(explored: Explored) -> None:
        with capsys.disabled():
            print(f"\n{rule}: {explored}, {time.process_time() - start:.0f} CPU-s ", end="", flush=True)

    for kind, keys, depth in SOAKS:
        for concurrency in (1, 2, None):
            rule = Rule(kind, concurrency)
            explored = explore(keys, rule, depth, on_depth=show)
            assert explored.rounds <= 2 * len(keys)
            states += explored.states
    assert states >= STATES_MIN


#: The messages, the types and the depth that show each wrong rule.
SHOWN_BY = {
    "prefetched entries count a try": (KEYS, KINDS, 1),
    "a load forgets the entries in hand": (KEYS, KINDS, 2),
    "a try counts twice": (KEYS, KINDS, 1),
    "a suspect releases its key": ((1, 1, 1, 1), ("Key_Shared",), 4),
    "the quarantine starves": ((1, 2, 2, 2), ("Shared", "Key_Shared"), 4),
}


@pytest.mark.parametrize("name", TRIES)
def test_a_wrong_rule_is_found(name: str) -> None:
    keys, kinds, depth = SHOWN_BY[name]
    for kind in kinds:
        with TRIES[name](), pytest.raises(BrokenError):
            explore(keys, Rule(kind, 1), depth)
        # The world is not what breaks it.
        explore(keys, Rule(kind, 1), min(depth, 2))
