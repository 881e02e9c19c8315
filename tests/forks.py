"""A fork of a test process."""

from __future__ import annotations

import gc
import os


def fork() -> int:
    """Fork as `os.fork`. The garbage collector of the child ignores the objects of the parent.

    A test before may have left garbage whose destructor waits for a thread, such as the consumers of Pulsar's
    client. The child does not have this thread, so the destructor would wait without end.
    """
    child = os.fork()
    if child == 0:
        gc.freeze()
    return child
