"""Poison jobs that kill their worker process, and a server that is killed at random moments.

Each poison job must be a dead letter after exactly its tries, and no other job. A try has a number, which no
other start of the job may have: so no try is missed, and none counts twice.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.try_server import KEYS, TRIES

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("try_worker.py")


class Run(NamedTuple):
    """One run of all jobs."""

    jobs: int
    poison: frozenset[int]
    flaky: frozenset[int]
    kills: int
    """How often the server was killed."""
    lines: list[list[str]]
    """The log of all processes, in the order of time."""


def played(folder: Path, kind: str, jobs: int, poison: int, kills: int, seed: int) -> Run:
    """Run all jobs with two workers; restart each process that dies."""
    chance = random.Random(seed)
    chosen = chance.sample(range(jobs), poison + jobs // 20)
    bad, flaky = frozenset(chosen[:poison]), frozenset(chosen[poison:])
    # A job that was in hand at a kill is delivered first, so it is done long before the next kill.
    part = jobs // (kills + 1)
    kill_at = [part * (number + 1) - chance.randrange(1, part // 2 + 1) for number in range(kills)]
    (folder / "log.txt").touch()
    server = serve(folder, kind, jobs)
    workers = [work(folder, f"w{number}", bad, flaky) for number in range(2)]
    started = 2
    try:
        while server.poll() is None:
            time.sleep(0.002 + 0.01 * chance.random())
            if kill_at and (folder / "log.txt").read_bytes().count(b"done") >= kill_at[0]:
                kill_at.pop(0)
                server.kill()
                server.wait()
                server = serve(folder, kind, jobs)
            for index, worker in enumerate(workers):
                if worker.poll() is not None:
                    workers[index] = work(folder, f"w{started}", bad, flaky)
                    started += 1
        assert server.returncode == 0
    finally:
        (folder / "stop").touch()
        server.kill()
        for worker in workers:
            worker.kill()
            worker.wait()
    lines = [line.split() for line in (folder / "log.txt").read_text().splitlines()]
    return Run(jobs, bad, flaky, kills - len(kill_at), lines)


def serve(folder: Path, kind: str, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.try_server", str(folder), kind, str(jobs)]
    return subprocess.Popen(command, cwd=ROOT)


def work(folder: Path, name: str, poison: frozenset[int], flaky: frozenset[int]) -> subprocess.Popen[bytes]:
    lists = [",".join(map(str, each)) for each in (poison, flaky)]
    return subprocess.Popen([sys.executable, "-S", str(WORKER), str(folder), name, *lists])


def check(run: Run, *, ordered: bool) -> Counter[str]:
    """Check a run; return its events."""
    dead = {(int(job), int(count)) for word, job, count in of(run, "dead")}
    assert dead == {(job, TRIES) for job in run.poison}, f"{dead} are dead letters, not {run.poison}"
    starts = [(int(job), int(number)) for _, job, number, _ in of(run, "start")]
    twice = [each for each, times in Counter(starts).items() if times > 1]
    assert not twice, f"a try has the number of another one: {twice}"
    done = {int(job) for _, job, _ in of(run, "done")}
    assert done == {*range(run.jobs)} - run.poison
    failed = Counter(int(job) for _, job, _ in of(run, "failed"))
    assert failed.keys() <= run.flaky
    last = dict(sorted(starts))
    by_kills = {job: number - 1 - failed[job] for job, number in last.items() if job in done}
    # Each worker has one job in hand when the server is killed.
    assert all(count >= 0 for count in by_kills.values())
    assert sum(by_kills.values()) <= 2 * run.kills, by_kills
    if ordered:
        latest: dict[int, int] = {}
        for job, _ in starts:
            assert job >= latest.get(job % KEYS, 0), f"{latest[job % KEYS]} overtook {job}"
            latest[job % KEYS] = job
    missed = len(run.poison) * TRIES - sum(job in run.poison for job, _ in starts)
    assert missed <= 2 * run.kills, f"{missed} tries of poison jobs were counted and not started"
    return Counter(
        starts=len(starts),
        server_kills=run.kills,
        worker_deaths=sum(job in run.poison for job, _ in starts),
        failures=sum(failed.values()),
        tries_by_server_kills=sum(by_kills.values()) + missed,
        most_prefetched=max(int(each[3]) for each in of(run, "start")),
    )


def of(run: Run, word: str) -> list[list[str]]:
    return [line for line in run.lines if line[0] == word]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_a_poison_job_is_a_dead_letter_after_its_tries_and_no_other_job_is(tmp_path: Path, kind: str) -> None:
    """One run here; 50 of each type, with 1,000 jobs, in `make proof`."""
    check(played(tmp_path, kind, 100, 1, 1, seed=1), ordered=kind == "Key_Shared")


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_fifty_runs_have_exactly_their_poison_jobs_as_dead_letters(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = Counter[str]()
    for seed in range(50):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = check(played(folder, kind, 1_000, 3, 1 + seed % 3, seed), ordered=kind == "Key_Shared")
        prefetched = max(seen["most_prefetched"], run["most_prefetched"])
        seen += run
        seen["most_prefetched"] = prefetched
        with capsys.disabled():
            print(f"\n{kind} {seed + 1}: {dict(seen)} ", end="", flush=True)
    assert seen["server_kills"] >= 50
    assert seen["most_prefetched"] >= 90
