"""Simulated lives of a subscription, each generated from one seed.

`life` runs a subscription with consumers, transactions and delays on a failing disk (`disk`), and compares it
with a model::

    python -m tests.simulation 4711            # replays one seed and prints every step
    python -m tests.simulation 0 10000         # runs many seeds and counts the events
"""

from tests.simulation.disk import FAULTS, CrashError, Disk, DiskStore
from tests.simulation.life import OUTCOMES, Life

__all__ = [
    "FAULTS",
    "OUTCOMES",
    "CrashError",
    "Disk",
    "DiskStore",
    "Life",
]
