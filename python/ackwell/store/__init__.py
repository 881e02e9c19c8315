"""Where the entries of a saved state live.

`Store` is the protocol, `MemoryStore` and `SqliteStore` keep it in one process and in one file;
`ackwell.store.pulsar` keeps it in a topic of a Pulsar cluster (extra `[pulsar]`).
"""

from ackwell.store.base import Store
from ackwell.store.memory import MemoryLedger, MemoryStore
from ackwell.store.sqlite import SqliteStore

__all__ = ["MemoryLedger", "MemoryStore", "SqliteStore", "Store"]
