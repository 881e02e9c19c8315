"""The witness file: the number of the last confirmed write of each ledger of an SQLite file.

SQLite reads a write-ahead log up to the first damaged frame, and treats a missing log as an empty one.
Without a second file, a flipped bit in the log, or its deletion after a crash, would silently give an older
ledger. The witness file is written after each commit and is not synced, because it must survive the process,
not a power failure. It is written after the commit is on the disk, so it is never ahead of the ledger.
Damaged slots are ignored.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from typing import TYPE_CHECKING, Final

from ackwell.errors import StoreError
from ackwell.regular_files import read_regular

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

NUMBERS: Final = struct.Struct(">qQ")
CHECKSUM: Final = struct.Struct(">I")
SLOT_BYTES: Final = NUMBERS.size + CHECKSUM.size


def witness_path(path: Path) -> Path:
    """Return the path of the witness file of an SQLite file."""
    return path.with_name(f"{path.name}-witness")


def confirmed_writes(path: Path) -> dict[int, int]:
    """Return the number of the last confirmed write of each ledger, by the ledger's key."""
    data = _read(witness_path(path))
    confirmed: dict[int, int] = {}
    for at in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        key, writes = NUMBERS.unpack_from(data, at)
        if data[at : at + SLOT_BYTES] == _slot(key, writes):
            confirmed[key] = max(confirmed.get(key, 0), writes)
    return confirmed


class Witness:
    """The slot of one ledger: its key, the number of its last confirmed write, and their CRC-32."""

    def __init__(self, path: Path, key: int) -> None:
        self._path = witness_path(path)
        self._key = key
        self._file: FileIO | None = None
        self._at = 0

    def writes(self) -> int:
        """Return the number of the last confirmed write, or 0. O(ledgers of the file)."""
        return max((writes for _, writes in self._slots()), default=0)

    def confirm(self, writes: int) -> None:
        """Record a durable write, unless a newer owner recorded a later one."""
        data = _slot(self._key, writes)
        try:
            if self._file is None:
                self._open(data)
            assert self._file is not None
            self._file.seek(self._at)
            if _recorded(self._file.read(SLOT_BYTES), self._key) < writes:
                self._file.seek(self._at)
                _write_whole(self._file, data)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Release the file; closing again changes nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, data: bytes) -> None:
        """Open the file and find the slot of the ledger; append a slot if there is none."""
        if not self._slots():
            with self._path.open("ab", buffering=0) as file:
                # A single append, because another process may append a slot at the same time.
                _write_whole(file, bytes(-file.tell() % SLOT_BYTES) + data)
        self._at = self._slots()[0][0]
        self._file = self._path.open("r+b", buffering=0)

    def _slots(self) -> list[tuple[int, int]]:
        """Return the offset and the number of each undamaged slot of the ledger."""
        data = _read(self._path)
        slots = []
        key = NUMBERS.pack(self._key, 0)[: NUMBERS.size // 2]
        at = data.find(key)
        while at >= 0:
            writes = _recorded(data[at : at + SLOT_BYTES], self._key)
            if at % SLOT_BYTES == 0 and writes:
                slots.append((at, writes))
            at = data.find(key, at + 1)
        return slots


def _slot(key: int, writes: int) -> bytes:
    numbers = NUMBERS.pack(key, writes)
    return numbers + CHECKSUM.pack(zlib.crc32(numbers))


def _recorded(slot: bytes, key: int) -> int:
    """Return the number in a ledger's slot; 0 if the slot is damaged or belongs to another ledger."""
    if len(slot) < SLOT_BYTES:
        return 0
    _, writes = NUMBERS.unpack_from(slot)
    return writes if slot == _slot(key, writes) else 0


def _write_whole(file: FileIO, data: bytes) -> None:
    """Write all bytes; raise `OSError` if a full disk accepts only some of them."""
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
