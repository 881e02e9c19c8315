"""Crashes and faults of a store: simulated, from a seed or one by one.

`crashes` has a store that remembers each write, and says every state that a crash in it could leave. It is
for proofs of one save. `life` runs a whole subscription with its consumers, transactions and delays on a disk
that fails in every way, `disk`, beside a model, `model`. One number, the seed, decides all
of it::

    python -m ackwell.testing.simulation 4711            # replays one seed, every step in words
    python -m ackwell.testing.simulation 0 10000         # lives many, and counts what they saw
"""

from ackwell.testing.simulation.crashes import Crash, SimulatedStore, Write, copy_of, reordered
from ackwell.testing.simulation.disk import FAULTS, CrashError, Disk, DiskStore
from ackwell.testing.simulation.life import OUTCOMES, Life

__all__ = [
    "FAULTS",
    "OUTCOMES",
    "Crash",
    "CrashError",
    "Disk",
    "DiskStore",
    "Life",
    "SimulatedStore",
    "Write",
    "copy_of",
    "reordered",
]
