"""Subscriptions on disks that fail: ten thousand lives here, a million in `make proof`."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from time import process_time

import pytest

from tests import reference
from tests.simulation import FAULTS, OUTCOMES, Life
from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.life import OPERATIONS_MIN

#: Lives of one test; four tests, so that two workers share them.
LIVES = 2_500
#: The seeds within which each defect is found; the four tests live more of them.
SEEDS_TO_FIND = 2_500


def live(seeds: range) -> Counter[str]:
    """Live every seed; return what was seen."""
    seen = Counter[str]()
    for seed in seeds:
        seen.update(Life(seed).live())
    return seen


def report(lives: int, seen: Counter[str], cpu_s: float) -> str:
    lines = [f"\n{lives:,} lives, {cpu_s:.1f} s of CPU"]
    drained = sorted(name for name in seen if name.startswith("drained"))
    lines += [f"{seen[name]:12,} {name}" for name in ("operations", "crashes", *drained, *OUTCOMES, *FAULTS)]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2 * LIVES, LIVES))
def test_whatever_fails_nothing_is_lost(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    start_s = process_time()
    seen = live(range(first, first + LIVES))
    with capsys.disabled():
        print(report(LIVES, seen, process_time() - start_s))
    assert seen["operations"] >= LIVES * OPERATIONS_MIN
    assert [name for name in (*OUTCOMES, *FAULTS) if not seen[name]] == []


@pytest.mark.proof
@pytest.mark.parametrize("part", range(10))
def test_whatever_fails_in_a_million_lives_nothing_is_lost(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = [range(at, at + 2_500) for at in range(part * 100_000, (part + 1) * 100_000, 2_500)]
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        seen = sum(workers.map(live, ranges), Counter[str]())
    with capsys.disabled():
        print(report(100_000, seen, 0.0))
    assert seen["operations"] >= 100_000 * OPERATIONS_MIN
    assert [name for name in (*OUTCOMES, *FAULTS) if not seen[name]] == []


def test_the_reference_engine_lives_the_same_lives() -> None:
    for seed in range(10):
        ours, theirs = Life(seed).live(), Life(seed, engine=reference).live()
        assert ours == theirs, seed


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_deliberate_defect_is_found(defect: Defect) -> None:
    with defect():
        for seed in itertools.count():
            assert seed < SEEDS_TO_FIND, "not found"
            try:
                Life(seed).live()
            except Exception:
                return


TRACES = """
import hashlib, sys
from tests.simulation.life import Life
digest = hashlib.sha256()
for seed in range(int(sys.argv[1])):
    Life(seed, trace=lambda line: digest.update(line.encode())).live()
print(digest.hexdigest())
"""


@pytest.mark.parametrize("seeds", [20, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_life_does_not_depend_on_the_process_nor_on_the_order_of_its_sets(seeds: int) -> None:
    command = [sys.executable, "-c", TRACES, str(seeds)]
    digests = [
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert len(digests[0]) == 65
    assert digests[0] == digests[1]


def test_one_command_replays_one_seed_in_words() -> None:
    command = [sys.executable, "-m", "tests.simulation", "1"]
    done = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    assert done[0] == done[1]
    for word in ("published", "acks", "loaded entry", "saved", "crash", "operations"):
        assert word in done[0]


def test_a_life_that_fails_says_how_to_see_it() -> None:
    with DEFECTS["a redelivery is not counted"](), pytest.raises(AssertionError) as caught:
        live(range(SEEDS_TO_FIND))
    assert "python -m tests.simulation" in caught.value.__notes__[0]
