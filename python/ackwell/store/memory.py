"""A ledger in memory: for tests, for replays, and as the simplest reading of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import Store

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class MemoryLedger:
    """What outlives an owner of a `MemoryStore`, as a file outlives the process that wrote it."""

    generation: int = 0
    metadata: dict[str, bytes] = field(default_factory=dict)
    entries: dict[int, bytes] = field(default_factory=dict)
    first_id: int = 0
    last_id: int = -1


class MemoryStore(Store):
    """An owner of a `MemoryLedger`; without an argument, of a new one.

    Durable as long as the ledger is. Every operation is O(1), deletion O(entries deleted).

    >>> ledger = MemoryLedger()
    >>> old = MemoryStore(ledger)
    >>> old.append(b"first")
    0
    >>> new = MemoryStore(ledger)
    >>> new.generation, new.read(0)
    (2, b'first')
    >>> old.append(b"late")
    Traceback (most recent call last):
    ...
    ackwell.errors.FencedError: generation 1 was fenced by generation 2
    """

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self._ledger = MemoryLedger() if ledger is None else ledger
        self._ledger.generation += 1
        self._generation = self._ledger.generation
        self._closed = False

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def metadata(self) -> Mapping[str, bytes]:
        return MappingProxyType(dict(self._reading().metadata))

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        self._writing().metadata = dict(metadata)

    @property
    def first_id(self) -> int:
        return self._reading().first_id

    @property
    def last_id(self) -> int:
        return self._reading().last_id

    def append(self, data: bytes) -> int:
        ledger = self._writing()
        ledger.last_id += 1
        ledger.entries[ledger.last_id] = bytes(data)
        return ledger.last_id

    def read(self, entry_id: int) -> bytes:
        return self._reading().entries[entry_id]

    def delete_up_to(self, entry_id: int) -> None:
        ledger = self._writing()
        if entry_id > ledger.last_id:
            raise ValueError(f"entry {entry_id} is beyond the last, {ledger.last_id}")
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
        ledger = self._reading()
        if ledger.generation != self._generation:
            raise FencedError(f"generation {self._generation} was fenced by generation {ledger.generation}")
        return ledger
