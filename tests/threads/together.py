"""Running functions in several threads at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def eager_switching() -> Iterator[None]:
    """Switch threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def run(*works: Callable[[], None]) -> None:
    """Start all at once; an error in any of them fails the test."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    with eager_switching():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for error in errors:
        raise error
