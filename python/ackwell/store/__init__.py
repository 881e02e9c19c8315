"""Stores for the entries of saved states.

`Store` is the interface of all stores. `MemoryStore` keeps the entries in memory, `SqliteStore` keeps them in
a file, and `ackwell.store.pulsar` keeps them in a topic of a Pulsar cluster (extra `[pulsar]`).
"""

from ackwell.store.base import Store
from ackwell.store.memory import MemoryLedger, MemoryStore
from ackwell.store.sqlite import SqliteStore

__all__ = ["MemoryLedger", "MemoryStore", "SqliteStore", "Store"]

__dir__ = __all__.copy
