"""Fold events on several threads. Each thread folds jobs into its own fold, and then the folds are merged.

Merging is commutative, so the result does not depend on which thread folds which job. The native code
releases the interpreter lock while it reads and folds columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ackwell.object_paths import AnyPath
    from ackwell.replay.event_columns import Columns
    from ackwell.replay.fold import Fold


class Job(NamedTuple):
    """A part of the events, which one thread reads."""

    path: AnyPath
    columns: Callable[[], Iterable[Columns]]


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fold_jobs(
    jobs: list[Job],
    new_fold: Callable[[], Fold],
    threads: int,
    on_file: Callable[[AnyPath], None],
    begin: Callable[[Fold], None],
) -> tuple[Fold, bool]:
    """Fold all jobs into one fold. Return this fold, and whether any row was not an event.

    If several jobs fail, the error of the failed job that is first in `jobs` is raised.
    """
    fold = new_fold()
    begin(fold)
    queue = _Queue(jobs, on_file)
    folds = [fold, *(new_fold() for _ in range(min(threads, len(jobs)) - 1))]
    if len(folds) == 1:
        flawed = queue.fold_into(fold)
    else:
        with ThreadPoolExecutor(len(folds)) as pool:
            try:
                flawed = any(list(pool.map(queue.fold_into, folds)))
            except BaseException:
                # After an interrupt, only the running jobs are finished.
                queue.stop()
                raise
    queue.raise_first()
    for other in folds[1:]:
        fold.absorb(other)
    flawed |= fold.end()
    return fold, flawed


class _Queue:
    """A queue from which several threads take jobs in order."""

    def __init__(self, jobs: list[Job], on_file: Callable[[AnyPath], None]) -> None:
        self._jobs: Iterator[tuple[int, Job]] = iter(enumerate(jobs))
        self._on_file = on_file
        self._lock = Lock()
        self._last: AnyPath | None = None
        self._failed: dict[int, BaseException] = {}
        self._stopped = False

    def fold_into(self, fold: Fold) -> bool:
        """Take jobs and fold their events until the queue is empty.

        Return whether any row was not an event.
        """
        flawed = False
        while (taken := self._next()) is not None:
            number, job = taken
            try:
                for columns in job.columns():
                    flawed |= fold.feed(columns)
            except BaseException as error:
                self._failed[number] = error
        return flawed

    def stop(self) -> None:
        """Make the queue empty for all threads. Jobs that a thread has already taken are finished."""
        self._stopped = True

    def raise_first(self) -> None:
        """Raise the error of the first failed job."""
        if self._failed:
            raise self._failed[min(self._failed)]

    def _next(self) -> tuple[int, Job] | None:
        with self._lock:
            # Jobs are taken in order, so every job before the failed job is already taken.
            if self._failed or self._stopped:
                return None
            taken = next(self._jobs, None)
            if taken is not None and taken[1].path != self._last:
                self._last = taken[1].path
                self._on_file(self._last)
            return taken
