"""Time callables of this process in turn, by the CPU time of the thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import thread_time_ns
from typing import TypeVar

WINDOW_NS = 20_000_000
WINDOWS = 9
AFRESH = 50

Subject = TypeVar("Subject")


def alternate(sides: Mapping[str, Callable[[], object]], *, per: int = 1) -> dict[str, list[float]]:
    """Return the nanoseconds per unit of work of each side, one sample per window of time.

    The sides take turns. A call of a side's callable does `per` units of work, and is repeated until the
    window is full. Before the first window, each callable runs for one window that is not counted.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    repeats = {name: _repeats(call) for name, call in sides.items()}
    for _ in range(WINDOWS):
        for name, call in sides.items():
            before = thread_time_ns()
            for _ in range(repeats[name]):
                call()
            samples[name].append((thread_time_ns() - before) / repeats[name] / per)
    return samples


def afresh(prepare: Callable[[], Subject], work: Callable[[Subject], object], *, per: int = 1) -> list[float]:
    """Return the nanoseconds per unit of `work` on a value that `prepare` creates for each sample.

    One call of `work` does `per` units. The time of `prepare` is not counted.
    """
    samples = []
    for _ in range(AFRESH):
        subject = prepare()
        before = thread_time_ns()
        work(subject)
        samples.append((thread_time_ns() - before) / per)
    return samples[AFRESH // 10 :]


def _repeats(call: Callable[[], object]) -> int:
    """Return the number of calls that fill a window."""
    calls, before = 0, thread_time_ns()
    while (spent := thread_time_ns() - before) < WINDOW_NS:
        call()
        calls += 1
    return max(1, calls * WINDOW_NS // spent)
