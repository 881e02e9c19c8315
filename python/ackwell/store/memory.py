"""A store in memory, for tests and replays. It is also the simplest implementation of `Store`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import Store, checked_entry, checked_id, checked_metadata, require_writable

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class MemoryLedger:
    """The entries and metadata of a ledger in memory. They remain after the `MemoryStore` is closed."""

    generation: int = 0
    metadata: dict[str, bytes] = field(default_factory=dict)
    entries: dict[int, bytes] = field(default_factory=dict)
    first_id: int = 0
    last_id: int = -1


class MemoryStore(Store):
    """A store whose ledger is a `MemoryLedger`. Without an argument, the ledger is new.

    The entries exist as long as the ledger object exists. A deletion is O(deleted entries). Every other
    operation is O(1). Only one thread may use a store at a time.

    >>> ledger = MemoryLedger()
    >>> old = MemoryStore(ledger)
    >>> old.append(b"first")
    0
    >>> new = MemoryStore(ledger)
    >>> new.read(0), old.append(b"second")
    (b'first', 1)
    >>> new.own()
    >>> old.generation, new.generation
    (1, 2)
    >>> old.append(b"late")
    Traceback (most recent call last):
    ...
    ackwell.errors.FencedError: generation 1 was fenced by generation 2
    """

    def __init__(self, ledger: MemoryLedger | None = None, *, read_only: bool = False) -> None:
        self._ledger = MemoryLedger() if ledger is None else ledger
        if read_only:
            self._ledger = deepcopy(self._ledger)
        self._generation = 0
        self._closed = False
        self.read_only = read_only

    @property
    def generation(self) -> int:
        return self._generation

    def own(self) -> None:
        require_writable(self)
        ledger = self._reading()
        if not self._generation:
            ledger.generation += 1
            self._generation = ledger.generation
        if ledger.generation != self._generation:
            raise FencedError(f"generation {self._generation} was fenced by generation {ledger.generation}")

    @property
    def metadata(self) -> Mapping[str, bytes]:
        return MappingProxyType(dict(self._reading().metadata))

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        replaced = checked_metadata(metadata)
        self._writing().metadata = replaced

    @property
    def first_id(self) -> int:
        return self._reading().first_id

    @property
    def last_id(self) -> int:
        ledger = self._reading()
        # A simulated disk can lose entries, but keep a deletion that followed them. Ids of deleted entries
        # are never reused, so continue after them.
        return max(ledger.last_id, ledger.first_id - 1)

    def append(self, data: bytes) -> int:
        entry = checked_entry(data)
        ledger = self._writing()
        ledger.last_id = self.last_id + 1
        ledger.entries[ledger.last_id] = entry
        return ledger.last_id

    def read(self, entry_id: int) -> bytes:
        return self._reading().entries[checked_id(entry_id)]

    def delete_up_to(self, entry_id: int) -> None:
        entry_id = checked_id(entry_id)
        ledger = self._writing()
        if entry_id > self.last_id:
            raise ValueError(f"entry {entry_id} is beyond the last, {self.last_id}")
        for deleted in range(ledger.first_id, entry_id + 1):
            ledger.entries.pop(deleted, None)
        ledger.first_id = max(ledger.first_id, entry_id + 1)

    def close(self) -> None:
        self._closed = True

    def _reading(self) -> MemoryLedger:
        if self._closed:
            raise StoreError("the store is closed")
        return self._ledger

    def _writing(self) -> MemoryLedger:
        self.own()
        return self._ledger
