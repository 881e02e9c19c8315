"""Whole lives of a subscription, each from one number, the seed.

`life` runs a subscription with its consumers, transactions and delays on a disk that fails in every way,
`disk`, beside a model, `model`::

    python -m tests.simulation 4711            # replays one seed, every step in words
    python -m tests.simulation 0 10000         # lives many, and counts what they saw
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
