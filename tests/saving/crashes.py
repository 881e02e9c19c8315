r"""A store that records the ledger before and after each write, and the ledgers that a crash can leave.

`Write.crashes()` returns the ledgers that a crash inside one write may leave on a disk with weaker guarantees
than `Store` has: an entry cut after any byte or with any of its sectors missing, because a device may reorder
writes until a sync; a deletion that stopped after any entry or lost any of them. A `SimulatedStore` with
`atomic_appends=False` declares such torn entries. `reordered()` treats a run of writes, such as a save, as
not synced: any of them may be lost although a later one is present. A test that recovers from every one of
these ledgers covers each crash.

>>> store = SimulatedStore()
>>> store.append(b"abc")
0
>>> [crash.ledger.entries.get(0) for crash in store.writes[0].crashes(sector_bytes=2)]
[None, b'', b'a', b'ab', b'abc', b'\x00\x00c']
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ackwell.store.memory import MemoryLedger, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Up to this number of sectors or writes, every subset is tried. Above it, each one alone is lost or written.
ALL_SETS_MAX = 4


class Crash(NamedTuple):
    """A ledger after a crash, and a description of the moment of the crash."""

    ledger: MemoryLedger
    where: str


@dataclass(frozen=True)
class Write:
    """One write of a store: the ledger before it and after it."""

    before: MemoryLedger
    after: MemoryLedger

    @property
    def appended(self) -> frozenset[int]:
        """The entry it appended, if any."""
        return frozenset(self.after.entries.keys() - self.before.entries.keys())

    @property
    def deleted(self) -> frozenset[int]:
        """The entries it deleted."""
        return frozenset(self.before.entries.keys() - self.after.entries.keys())

    def crashes(self, *, sector_bytes: int = 64) -> Iterator[Crash]:
        """Return every ledger that a crash inside this write may leave, each a new copy.

        The first ledger is the one before the write.
        """
        yield Crash(copy_of(self.before), "before the write")
        for entry_id in self.appended:
            for data, where in torn(self.after.entries[entry_id], sector_bytes):
                crashed = copy_of(self.before)
                crashed.entries[entry_id] = data
                crashed.last_id = entry_id
                yield Crash(crashed, f"entry {entry_id}: {where}")
        for lost, where in partly(sorted(self.deleted)):
            crashed = copy_of(self.before)
            for entry_id in lost:
                del crashed.entries[entry_id]
            crashed.first_id = min(crashed.entries, default=crashed.last_id + 1)
            yield Crash(crashed, where)
        if self.before.metadata != self.after.metadata:
            yield Crash(copy_of(self.after), "after the metadata")


def reordered(writes: Sequence[Write]) -> Iterator[Crash]:
    """Return every ledger that a crash may leave of a run of unsynced writes.

    Each subset of up to four writes is lost; then each entry is cut in half or zeroed and all others are
    whole.
    """
    every = range(len(writes))
    for lost in _lost(every):
        done = [write for index, write in enumerate(writes) if index not in lost]
        yield Crash(_after(writes[0].before, done), f"without writes {sorted(lost)} of {len(writes)}")
    for write in writes:
        for entry_id in write.appended & _after(writes[0].before, writes).entries.keys():
            whole = write.after.entries[entry_id]
            for data, where in ((whole[: len(whole) // 2], "cut in half"), (bytes(len(whole)), "zeros")):
                crashed = _after(writes[0].before, writes)
                crashed.entries[entry_id] = data
                yield Crash(crashed, f"entry {entry_id} {where}, all others whole")


def _after(before: MemoryLedger, writes: Iterable[Write]) -> MemoryLedger:
    """Return the ledger after these writes, without the writes between them."""
    ledger = copy_of(before)
    for write in writes:
        for entry_id in write.appended:
            ledger.entries[entry_id] = write.after.entries[entry_id]
            ledger.last_id = max(ledger.last_id, entry_id)
        for entry_id in write.deleted:
            ledger.entries.pop(entry_id, None)
            ledger.first_id = max(ledger.first_id, entry_id + 1)
        if write.after.metadata != write.before.metadata:
            ledger.metadata = dict(write.after.metadata)
    return ledger


class SimulatedStore(MemoryStore):
    """A `MemoryStore` that records its writes."""

    def __init__(
        self, ledger: MemoryLedger | None = None, *, read_only: bool = False, atomic_appends: bool = True
    ) -> None:
        super().__init__(ledger, read_only=read_only)
        self.atomic_appends = atomic_appends
        self.writes: list[Write] = []
        """Every write since it was opened, in order."""

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        before = copy_of(self._ledger)
        super().set_metadata(metadata)
        self._remember(before)

    def append(self, data: bytes) -> int:
        before = copy_of(self._ledger)
        entry_id = super().append(data)
        self._remember(before)
        return entry_id

    def delete_up_to(self, entry_id: int) -> None:
        before = copy_of(self._ledger)
        super().delete_up_to(entry_id)
        self._remember(before)

    def _remember(self, before: MemoryLedger) -> None:
        self.writes.append(Write(before, copy_of(self._ledger)))


def torn(data: bytes, sector_bytes: int) -> Iterator[tuple[bytes, str]]:
    """Return every prefix of an entry, and the entry with missing sectors."""
    for length in range(len(data) + 1):
        yield data[:length], f"{length} of {len(data)} bytes"
    sectors = [data[start : start + sector_bytes] for start in range(0, len(data), sector_bytes)]
    for lost in _lost(range(len(sectors))):
        # Missing sectors at the end alone give a prefix, which is already included.
        if lost and max(lost) < len(sectors) - 1:
            kept = (bytes(len(part)) if index in lost else part for index, part in enumerate(sectors))
            yield b"".join(kept), f"without sectors {sorted(lost)} of {len(sectors)}"


def partly(deleted: list[int]) -> Iterator[tuple[frozenset[int], str]]:
    """Return the subsets of a deletion that a crash may leave: every prefix, and each entry alone."""
    for count in range(1, len(deleted) + 1):
        yield frozenset(deleted[:count]), f"{count} of {len(deleted)} deletions"
    for entry_id in deleted[1:]:
        yield frozenset({entry_id}), f"entry {entry_id} deleted alone"


def copy_of(ledger: MemoryLedger) -> MemoryLedger:
    """Copy a ledger. The entries are shared, because bytes are immutable."""
    return replace(ledger, metadata=dict(ledger.metadata), entries=dict(ledger.entries))


def _lost(things: Iterable[int]) -> Iterator[frozenset[int]]:
    every = list(things)
    if len(every) <= ALL_SETS_MAX:
        for count in range(len(every)):
            yield from map(frozenset, itertools.combinations(every, count))
        return
    for thing in every:
        yield frozenset({thing})
        yield frozenset(every) - {thing}
