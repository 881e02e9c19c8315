"""The witness file of an SQLite file. It has the last confirmed write of each ledger in the SQLite file.

SQLite reads a write-ahead log up to the first damaged frame, and treats a missing log as an empty one. So if
a bit of the log flips, or if the log is deleted after a crash, SQLite silently returns an older state of a
ledger. The number of the last confirmed write in the witness file is then higher than the number in the
ledger, which reveals the loss.

The witness file is written after each commit. It is not synced, because it has to survive the end of the
process, but not a power failure. Each commit is on the disk before its number is written. So without a loss,
the number in the witness file is never higher than the number in the ledger. Each ledger has a *slot*, a
record of fixed size. Damaged slots are ignored.

The witness file also has the identity of each ledger, which is a random number. Two stores can have ledgers
of the same name, but the identities differ. So the identity reveals that the SQLite file or its log was
replaced by that of another store.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.errors import StoreError
from ackwell.regular_files import read_regular

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

KEY: Final = struct.Struct(">q")
CONFIRMED: Final = struct.Struct(">QQ")
CHECKSUM: Final = struct.Struct(">I")
SLOT_BYTES: Final = KEY.size + CONFIRMED.size + CHECKSUM.size


class ConfirmedWrite(NamedTuple):
    """The last confirmed write of a ledger: the ledger's identity, and the number of the write."""

    identity: int = 0
    writes: int = 0
    """The number of the write. 0 if no write is confirmed."""


def witness_path(path: Path) -> Path:
    """Return the path of the witness file that belongs to an SQLite file."""
    return path.with_name(f"{path.name}-witness")


def confirmed_writes(path: Path) -> dict[int, ConfirmedWrite]:
    """Return the last confirmed write of each ledger in an SQLite file, by the key of the ledger."""
    data = _read(witness_path(path))
    found: dict[int, ConfirmedWrite] = {}
    for at in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        (key,) = KEY.unpack_from(data, at)
        confirmed = _confirmed(data[at : at + SLOT_BYTES], key)
        if confirmed.writes > found.get(key, _NOTHING).writes:
            found[key] = confirmed
    return found


class Witness:
    """Reads and writes the slot of one ledger in the witness file.

    The slot contains the key and the identity of the ledger, the number of the last confirmed write, and a
    CRC-32.
    """

    def __init__(self, path: Path, key: int) -> None:
        self._path = witness_path(path)
        self._key = key
        self._file: FileIO | None = None
        self._at = 0

    def confirmed(self) -> ConfirmedWrite:
        """Return the last confirmed write of the ledger. O(ledgers in the file)."""
        found = (confirmed for _, confirmed in self._slots())
        return max(found, key=lambda confirmed: confirmed.writes, default=_NOTHING)

    def confirm(self, confirmed: ConfirmedWrite) -> None:
        """Record that a write is durable.

        Do nothing if a newer owner of the ledger has already recorded a later write.
        """
        data = _slot(self._key, confirmed)
        try:
            if self._file is None:
                self._open(data)
            assert self._file is not None
            self._file.seek(self._at)
            if _confirmed(self._file.read(SLOT_BYTES), self._key).writes < confirmed.writes:
                self._file.seek(self._at)
                _write_whole(self._file, data)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. On a closed file, this does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, data: bytes) -> None:
        """Open the file and find the slot of the ledger. If there is none, append the slot `data`."""
        if not self._slots():
            with self._path.open("ab", buffering=0) as file:
                # Write the slot with one append, because another process may append its slot at the same
                # time.
                _write_whole(file, bytes(-file.tell() % SLOT_BYTES) + data)
        self._at = self._slots()[0][0]
        self._file = self._path.open("r+b", buffering=0)

    def _slots(self) -> list[tuple[int, ConfirmedWrite]]:
        """Return all undamaged slots of the ledger, each as its offset in bytes and its confirmed write."""
        data = _read(self._path)
        slots = []
        key = KEY.pack(self._key)
        at = data.find(key)
        while at >= 0:
            confirmed = _confirmed(data[at : at + SLOT_BYTES], self._key)
            if at % SLOT_BYTES == 0 and confirmed.writes:
                slots.append((at, confirmed))
            at = data.find(key, at + 1)
        return slots


_NOTHING: Final = ConfirmedWrite()


def _slot(key: int, confirmed: ConfirmedWrite) -> bytes:
    numbers = KEY.pack(key) + CONFIRMED.pack(*confirmed)
    return numbers + CHECKSUM.pack(zlib.crc32(numbers))


def _confirmed(slot: bytes, key: int) -> ConfirmedWrite:
    """Return the confirmed write in a slot.

    The number of the write is 0 if the slot is damaged or belongs to another ledger.
    """
    if len(slot) < SLOT_BYTES:
        return _NOTHING
    confirmed = ConfirmedWrite(*CONFIRMED.unpack_from(slot, KEY.size))
    return confirmed if slot == _slot(key, confirmed) else _NOTHING


def _write_whole(file: FileIO, data: bytes) -> None:
    """Write all bytes. Raise `OSError` if a full disk accepts only some of the bytes."""
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
