"""A log of segment files. A segment is a ledger: its number is the ledger id, its records are the entries.

A record contains its length and CRC-32, the delivery time, the length of the key, the key and the payload. An
owner starts a new segment and never appends to a segment of an earlier owner. So a record that a crash tore
is always the last of its file. It was never confirmed and is not read.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("<II")
BODY = struct.Struct("<qH")


class Record(NamedTuple):
    """One job; `deliver_at_ms` 0 means at once."""

    payload: bytes
    key: str
    deliver_at_ms: int


class DamagedSegmentError(Exception):
    """A segment has whole records after a damaged one, which a crash cannot cause."""


class Segments:
    """The segments of one folder; `entries` has the number of records of each."""

    def __init__(self, folder: Path, segment_bytes: int = 16 << 20) -> None:
        self.folder, self.segment_bytes = folder, segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self.offsets = {int(path.stem): _scan(path) for path in sorted(folder.glob("*.segment"))}
        self.number = max(self.offsets, default=0)
        self._roll()

    @property
    def entries(self) -> dict[int, int]:
        """Segment number → number of records."""
        return {number: len(offsets) for number, offsets in self.offsets.items()}

    def append(self, record: Record) -> tuple[int, int]:
        """Add a record, which is durable after `sync`; return its position."""
        if self.file.tell() >= self.segment_bytes:
            self.sync()
            self.file.close()
            self._roll()
        key = record.key.encode()
        body = BODY.pack(record.deliver_at_ms, len(key)) + key + record.payload
        offsets = self.offsets[self.number]
        offsets.append(self.file.tell())
        self.file.write(HEAD.pack(len(body), zlib.crc32(body)) + body)
        return self.number, len(offsets) - 1

    def sync(self) -> None:
        """Make the appended records durable."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def read(self, ledger_id: int, entry_id: int) -> Record:
        """Return a record."""
        if ledger_id == self.number:
            self.file.flush()
        with self._path(ledger_id).open("rb") as file:
            file.seek(self.offsets[ledger_id][entry_id])
            length, checksum = HEAD.unpack(file.read(HEAD.size))
            body = file.read(length)
        if zlib.crc32(body) != checksum:
            raise DamagedSegmentError(f"{self._path(ledger_id)}: record {entry_id} is damaged")
        deliver_at_ms, key_bytes = BODY.unpack_from(body)
        key_end = BODY.size + key_bytes
        return Record(body[key_end:], body[BODY.size : key_end].decode(), deliver_at_ms)

    def trim_before(self, number: int) -> None:
        """Delete the segments before one, never the one that is written."""
        for old in [each for each in self.offsets if each < min(number, self.number)]:
            self._path(old).unlink(missing_ok=True)
            del self.offsets[old]

    def close(self) -> None:
        """Close the file that is written."""
        self.file.close()

    def _roll(self) -> None:
        self.number += 1
        self.offsets[self.number] = array("Q")
        # A name that exists is another process at work: "x" refuses it.
        self.file = self._path(self.number).open("xb")

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012}.segment"


def _scan(path: Path) -> array[int]:
    data, offsets, offset = path.read_bytes(), array("Q"), 0
    while offset + HEAD.size <= len(data):
        length, checksum = HEAD.unpack_from(data, offset)
        end = offset + HEAD.size + length
        if end > len(data):
            break
        if length < BODY.size or zlib.crc32(data[offset + HEAD.size : end]) != checksum:
            if end < len(data):
                raise DamagedSegmentError(f"{path}: the record at byte {offset} is damaged")
            break
        offsets.append(offset)
        offset = end
    return offsets
