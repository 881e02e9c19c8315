"""A simulated disk with the faults of real disks, and a store on it. Faults are random or requested.

`Disk` contains one ledger. A write is visible at once, and durable after its sync; a store syncs each write.
An armed *fault* happens in a later write: an error without effect or after the write, a process killed before
or after it, or a power loss. After a power loss the write is complete, absent or torn. A torn append is an
entry that is cut short or has sectors that were not written, if the appends of the store can tear. A torn
deletion ends at any entry, in any store.

While the disk *lies*, syncs do nothing. A power loss then drops any of the unsynced writes: the newest ones,
or earlier ones while later ones remain. No store can guarantee anything on such a disk. The tests require
that loading returns a saved state, and that a loss is reported if it can be detected.

`written` has the right bytes of every entry, so that tests can find the damaged ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackwell.errors import StoreError
from ackwell.store import Store
from ackwell.store.memory import MemoryLedger, MemoryStore
from tests.saving.crashes import copy_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

#: The faults of a write.
NOT_DONE, DONE = "error, write not done", "error, write done"
KILLED_BEFORE, KILLED_AFTER = "killed before a write", "killed after a write"
POWER = "power lost in a write"
WRITE_FAULTS = (NOT_DONE, DONE, KILLED_BEFORE, KILLED_AFTER, POWER)

#: All faults that a disk counts, including the write faults.
FAULTS = (
    *WRITE_FAULTS,
    "disk full",
    "read error",
    "entry unreadable",
    "bit flipped",
    "entry written twice",
    "entry written over by another",
    "power lost",
    "write torn: cut short",
    "write torn: sectors missing",
    "write lost before its sync",
    "deletion done in part",
    "sync lied: newest writes lost",
    "sync lied: writes lost before kept ones",
)

SECTOR_BYTES = 16


class CrashError(BaseException):
    """The process has died, or with `power` every process. Only the simulation catches it."""

    def __init__(self, *, power: bool) -> None:
        super().__init__("the power was lost" if power else "the process was killed")
        self.power = power


@dataclass
class Write:
    """A write that was not synced."""

    entry_id: int = -1
    data: bytes = b""
    deleted_up_to: int = -1
    generation: int = 0


@dataclass
class Disk:
    """One ledger on a disk, with its intended content."""

    random: random.Random
    atomic_appends: bool = True
    entry_bytes_max: int = Store.entry_bytes_max
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    written: dict[int, bytes] = field(default_factory=dict)
    """Entry → the bytes passed to `append`."""
    author: dict[int, object] = field(default_factory=dict)
    """Entry → the `DiskStore.author` at the time of the write."""
    full: bool = False
    unreadable: set[int] = field(default_factory=set)
    """Entries in bad sectors."""
    faults: Counter[str] = field(default_factory=Counter)
    """Fault → number of times."""
    single_path: bool = False
    """Whether a deletion was kept and an earlier entry lost, so that all saves may depend on one entry."""
    _armed: tuple[int, str] | None = None
    _read_errors: int = 0
    _durable: MemoryLedger | None = None
    """While the disk lies: the ledger before the first unsynced write."""
    _unsynced: list[Write] = field(default_factory=list)

    # Requested faults

    def arm(self, fault: str, after_writes: int) -> None:
        """Arm a fault for one write, after `after_writes` other writes."""
        self._armed = after_writes, fault

    def disarm(self) -> None:
        """Clear the armed faults."""
        self._armed, self._read_errors = None, 0

    def fail_a_read(self, after_reads: int) -> None:
        """Make one read fail, after `after_reads` other reads."""
        self._read_errors = after_reads + 1

    def lie(self) -> None:
        """Start to ignore syncs."""
        if self._durable is None:
            self._durable = copy_of(self.ledger)

    def tell_the_truth(self) -> None:
        """Sync all writes, and stop ignoring syncs."""
        self._durable = None
        self._unsynced.clear()

    @property
    def lies(self) -> bool:
        """Whether syncs are ignored."""
        return self._durable is not None

    def flip_a_bit(self, entry_id: int) -> None:
        """Flip one bit of a stored entry, unless it is empty."""
        data = bytearray(self.ledger.entries[entry_id])
        if not data:
            return
        bit = self.random.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        self.ledger.entries[entry_id] = bytes(data)
        self.faults["bit flipped"] += 1

    def write_twice(self) -> None:
        """Append the last entry again, as a repeated request does."""
        ledger = self.ledger
        ledger.last_id += 1
        ledger.entries[ledger.last_id] = ledger.entries[ledger.last_id - 1]
        self.written[ledger.last_id] = b""
        self.author[ledger.last_id] = None
        self.faults["entry written twice"] += 1

    def write_over(self, entry_id: int) -> None:
        """Overwrite an entry with another one, as a misdirected write does."""
        other = self.random.choice([each for each in self.ledger.entries if each != entry_id])
        self.ledger.entries[entry_id] = self.ledger.entries[other]
        self.faults["entry written over by another"] += 1

    def lose_power(self) -> None:
        """Drop unsynced writes: the newest ones, or any of them."""
        self.faults["power lost"] += 1
        if self._durable is None:
            return
        writes = self._unsynced
        kept = self.random.randrange(len(writes) + 1)
        if self.random.random() < 0.5:
            done = writes[:kept]
            self.faults["sync lied: newest writes lost"] += kept < len(writes)
        else:
            keeps = [self.random.random() < 0.7 for _ in writes]
            done = [write for write, keep in zip(writes, keeps, strict=True) if keep]
            gap = done != writes[: len(done)]
            lost = False
            for write, keep in zip(writes, keeps, strict=True):
                lost |= write.entry_id >= 0 and not keep
                self.single_path |= write.deleted_up_to >= 0 and keep and lost
            self.faults["sync lied: writes lost before kept ones"] += gap
        ledger = self._durable
        for write in done:
            self._apply(ledger, write)
        self.ledger.__dict__.update(ledger.__dict__)
        for entry_id in [each for each in self.written if each > ledger.last_id]:
            del self.written[entry_id], self.author[entry_id]
        self.tell_the_truth()

    @property
    def damaged(self) -> set[int]:
        """The entries whose bytes differ from those that were written."""
        ledger = self.ledger
        return {
            entry_id
            for entry_id in range(ledger.first_id, ledger.last_id + 1)
            if ledger.entries.get(entry_id) != self.written.get(entry_id)
        }

    # Operations of a store

    def reads(self, entry_id: int | None = None) -> None:
        """Raise an error if this read must fail."""
        if self._read_errors:
            self._read_errors -= 1
            if not self._read_errors:
                self.faults["read error"] += 1
                raise StoreError("input/output error while reading")
        if entry_id in self.unreadable:
            self.faults["entry unreadable"] += 1
            raise StoreError(f"input/output error while reading entry {entry_id}")

    def begins(self, *, takes_space: bool) -> str | None:
        """Raise an error if a write must fail before its effect; return the fault that follows it."""
        if self.full and takes_space:
            self.faults["disk full"] += 1
            raise StoreError("no space left on the disk")
        if self._armed is None:
            return None
        left, fault = self._armed
        if left:
            self._armed = left - 1, fault
            return None
        self._armed = None
        self.faults[fault] += 1
        if fault == NOT_DONE:
            raise StoreError("input/output error while writing")
        if fault == KILLED_BEFORE:
            raise CrashError(power=False)
        return fault

    def done(self, fault: str | None, write: Write, before: MemoryLedger | None) -> None:
        """Record a completed write, and apply the armed fault."""
        if write.entry_id >= 0:
            self.written[write.entry_id] = write.data
        if self._durable is not None:
            self._unsynced.append(write)
        if fault == DONE:
            raise StoreError("input/output error after writing")
        if fault == KILLED_AFTER:
            raise CrashError(power=False)
        if fault == POWER:
            if before is not None and self._durable is None:
                self._tear(write, before)
            self.lose_power()
            raise CrashError(power=True)

    def _tear(self, write: Write, before: MemoryLedger) -> None:
        """Apply the partial effect that a crash can leave of a write."""
        ledger, chance = self.ledger, self.random
        if chance.random() < 0.3:
            return
        if write.entry_id >= 0 and not self.atomic_appends and chance.random() < 0.7:
            data = write.data
            if chance.random() < 0.5:
                ledger.entries[write.entry_id] = data[: chance.randrange(len(data))]
                self.faults["write torn: cut short"] += 1
            else:
                starts = range(0, len(data), SECTOR_BYTES)
                sectors = [data[start : start + SECTOR_BYTES] for start in starts]
                lost = chance.randrange(len(sectors))
                sectors[lost] = bytes(len(sectors[lost]))
                ledger.entries[write.entry_id] = b"".join(sectors)
                self.faults["write torn: sectors missing"] += 1
            return
        there = before.entries.keys() - ledger.entries.keys()
        ledger.__dict__.update(before.__dict__)
        if write.deleted_up_to >= 0 and there:
            for entry_id in sorted(there)[: chance.randrange(len(there) + 1)]:
                del ledger.entries[entry_id]
            ledger.first_id = min(ledger.entries, default=ledger.last_id + 1)
            self.faults["deletion done in part"] += 1
            return
        if write.entry_id >= 0:
            del self.written[write.entry_id], self.author[write.entry_id]
        self.faults["write lost before its sync"] += 1

    @staticmethod
    def _apply(ledger: MemoryLedger, write: Write) -> None:
        if write.entry_id >= 0:
            ledger.entries[write.entry_id] = write.data
            ledger.last_id = max(ledger.last_id, write.entry_id)
        for entry_id in range(ledger.first_id, write.deleted_up_to + 1):
            ledger.entries.pop(entry_id, None)
        ledger.first_id = max(ledger.first_id, write.deleted_up_to + 1)
        ledger.generation = max(ledger.generation, write.generation)


class DiskStore(MemoryStore):
    """A store on a simulated disk."""

    def __init__(self, disk: Disk, *, read_only: bool = False) -> None:
        super().__init__(disk.ledger, read_only=read_only)
        self._disk = disk
        self.atomic_appends = disk.atomic_appends
        self.entry_bytes_max = disk.entry_bytes_max
        self.author: object = None
        """The current writer; `Disk.author` records it for each entry."""
        self.appended = 0
        """The number of entries appended through this store."""
        self.interrupt: tuple[int, Callable[[], object]] | None = None
        """Number of calls, and a function to call after them: another process that interrupts this one."""

    def own(self) -> None:
        if self._generation:
            super().own()
            return
        self._interrupted()
        fault = self._disk.begins(takes_space=True)
        super().own()
        generation, self._generation = self._generation, 0
        self._disk.done(fault, Write(generation=generation), None)
        self._generation = generation

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        raise NotImplementedError("no save has metadata")

    def append(self, data: bytes) -> int:
        self._interrupted()
        self.own()
        fault = self._disk.begins(takes_space=True)
        before = copy_of(self._ledger) if fault == POWER else None
        entry_id = super().append(data)
        self.appended += 1
        self._disk.author[entry_id] = self.author
        self._disk.done(fault, Write(entry_id, data), before)
        return entry_id

    def delete_up_to(self, entry_id: int) -> None:
        self._interrupted()
        self.own()
        fault = self._disk.begins(takes_space=False)
        before = copy_of(self._ledger) if fault == POWER else None
        super().delete_up_to(entry_id)
        self._disk.done(fault, Write(deleted_up_to=entry_id), before)

    def read(self, entry_id: int) -> bytes:
        self._interrupted()
        self._disk.reads(entry_id)
        return super().read(entry_id)

    def _reading(self) -> MemoryLedger:
        self._disk.reads()
        return super()._reading()

    def _interrupted(self) -> None:
        if self.interrupt is not None:
            left, call = self.interrupt
            self.interrupt = (left - 1, call) if left else None
            if not left:
                call()
