"""Subscriptions on disks that fail: 1,000 lives in `make test`, a million in `make proof`.

Both levels check the same claims. A fault that one life in 10,000 shows is found by the large sample only.
"""

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
from tests.samples import number_of_commit
from tests.simulation import FAULTS, OUTCOMES, Life
from tests.simulation.defects import DEFECTS, FIRST_SEEDS
from tests.simulation.life import OPERATIONS_MIN

LIVES = 500
"""The lives of one test. There are two such tests, so that two workers share them."""

BASES = 100
"""The number of bases among which the commits rotate. `make proof` plays more lives."""

SEEDS_MAX = 3_000
"""The number of seeds within which the proof must find each defect."""

RARE = {"write torn: cut short": 123, "deletion done in part": 680, "write torn: sectors missing": 48}
"""Faults in less than 2 % of the lives, which 500 lives may miss; each with a seed that has it."""


def base_of_commit() -> int:
    """Return the first seed for this commit. A failing life names its seed, so it can be replayed."""
    return number_of_commit(BASES) * 2 * LIVES


def live(seeds: range) -> Counter[str]:
    """Run the life of every seed; return the counts of events."""
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
@pytest.mark.parametrize("part", range(2))
def test_nothing_is_lost_when_disks_and_owners_fail(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    start_s = process_time()
    first = base_of_commit() + part * LIVES
    seen = live(range(first, first + LIVES))
    with capsys.disabled():
        print(report(LIVES, seen, process_time() - start_s))
    assert seen["operations"] >= LIVES * OPERATIONS_MIN
    assert [name for name in (*OUTCOMES, *FAULTS) if not (seen[name] or name in RARE)] == []


@pytest.mark.parametrize(("fault", "seed"), RARE.items(), ids=RARE)
def test_nothing_is_lost_under_a_rare_fault(fault: str, seed: int) -> None:
    assert Life(seed).live()[fault] > 0


@pytest.mark.proof
@pytest.mark.parametrize("part", range(10))
def test_nothing_is_lost_in_a_million_lives(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    ranges = [range(at, at + 2_500) for at in range(part * 100_000, (part + 1) * 100_000, 2_500)]
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        seen = sum(workers.map(live, ranges), Counter[str]())
    with capsys.disabled():
        print(report(100_000, seen, 0.0))
    assert seen["operations"] >= 100_000 * OPERATIONS_MIN
    assert [name for name in (*OUTCOMES, *FAULTS) if not seen[name]] == []


def test_the_reference_engine_has_the_same_lives() -> None:
    for seed in range(10):
        native, plain = Life(seed).live(), Life(seed, engine=reference).live()
        assert native == plain, seed


def test_every_defect_has_a_seed() -> None:
    assert FIRST_SEEDS.keys() == DEFECTS.keys()


@pytest.mark.parametrize("name", DEFECTS)
def test_the_life_of_its_seed_finds_a_defect(name: str) -> None:
    """The pinned life passes without the defect and fails with it."""
    seed = FIRST_SEEDS[name]
    Life(seed).live()
    with DEFECTS[name](), pytest.raises(AssertionError) as caught:
        Life(seed).live()
    assert f"python -m tests.simulation {seed}" in caught.value.__notes__[0]


@pytest.mark.proof
@pytest.mark.parametrize("name", DEFECTS)
def test_the_first_seed_of_a_defect_is_the_pinned_one(name: str) -> None:
    """Searches all earlier seeds; a difference shows that lives changed, and which seed to pin now."""
    with DEFECTS[name]():
        for seed in itertools.count():
            assert seed < SEEDS_MAX, "not found"
            try:
                Life(seed).live()
            except AssertionError:
                break
    assert seed == FIRST_SEEDS[name]


TRACES = """
import hashlib, sys
from tests.simulation.life import Life
digest = hashlib.sha256()
for seed in range(int(sys.argv[1])):
    Life(seed, trace=lambda line: digest.update(line.encode())).live()
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_a_life_does_not_depend_on_the_process_nor_on_the_order_of_its_sets() -> None:
    command = [sys.executable, "-c", TRACES, "100"]
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
