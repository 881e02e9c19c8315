"""A save as entries of our stores: its bytes in parts, one entry each.

A save is a state, or a delta on earlier saves. Every part names its own entry, its place among the parts of
its save, and the saves that a delta builds on; a CRC-32 covers all of it. So an entry that was changed,
moved, or overwritten by another entry is always detected, and a whole part of a save without its last
part is known to be an unfinished save. `docs/formats.md` has the bytes.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from ackwell.errors import CorruptStateError, NewerVersionError
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.wire import Reader, varint

# The wire type of this byte would be 7, so no Protocol Buffers message begins with it.
MAGIC: Final = b"\xd7"
VERSION: Final = 1
CHECKSUM: Final = struct.Struct(">I")

# Flags of a save. The three bits of the compression type are 2 to 4.
PROPERTIES: Final = 1
OTHERS: Final = 2
COMPRESSION_SHIFT: Final = 2
FLAGS_END: Final = 1 << 5


class Save(NamedTuple):
    """What a save consists of."""

    body: bytes
    """A state in one of the forms, or the changes of a delta, as stored (compressed)."""
    bases: tuple[int, ...] = ()
    """The saves that a delta can build on, by the entries that complete them, the preferred one first."""
    properties: bool = False
    """Whether the properties of a delta replace those of its base."""
    others: bool = False
    """Whether `idle_since` and the unknown fields of a delta replace those of its base."""
    compression: str = COMPRESSIONS[0]


class Part(NamedTuple):
    """One entry: a part of a save."""

    entry_id: int
    number: int
    """Its place among the parts of its save, from 0."""
    parts: int
    """How many parts the save has."""
    checksum: int
    """CRC-32 of the whole body; parts of two saves differ in it."""
    save: Save
    """The save, with the piece of the body that this part holds."""

    def encode(self) -> bytes:
        """Return the bytes of the entry."""
        save = self.save
        flags = save.properties * PROPERTIES | save.others * OTHERS
        flags |= COMPRESSIONS.index(save.compression) << COMPRESSION_SHIFT
        numbers = [self.entry_id, self.number, self.parts, len(save.bases)]
        numbers += [self.entry_id - base for base in save.bases]
        header = MAGIC + bytes((VERSION, flags)) + b"".join(map(varint, numbers))
        data = header + CHECKSUM.pack(self.checksum) * (self.parts > 1) + save.body
        return data + CHECKSUM.pack(zlib.crc32(data))

    @classmethod
    def decode(cls, data: bytes, entry_id: int | None = None) -> Part:
        """Read the bytes of entry `entry_id`, or of any entry.

        Raises `CorruptStateError` for anything that is not that entry, whole. A whole part of a greater
        version is a `NewerVersionError`.
        """
        end = len(data) - CHECKSUM.size
        if data[:1] != MAGIC or end < 3:
            raise CorruptStateError("not an entry of a save", 0)
        if CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
            raise CorruptStateError("the checksum does not match", end)
        version, flags = data[1], data[2]
        if version != VERSION:
            error = NewerVersionError if version > VERSION else CorruptStateError
            raise error(f"an entry of version {version}; this release reads version {VERSION}", 1)
        code = flags >> COMPRESSION_SHIFT
        if code >= len(COMPRESSIONS):
            raise CorruptStateError(f"unknown flags {flags}", 2)
        reader = Reader(data, 3, end)
        own_id, number, parts, bases = (reader.varint() for _ in range(4))
        if entry_id is not None and own_id != entry_id:
            raise CorruptStateError(f"these are the bytes of entry {own_id}", 3)
        # Each base takes a byte at least, so this number bounds no more reads than there are bytes.
        distances = [reader.varint() for _ in range(min(bases, end))]
        if number >= parts or not all(0 < distance <= own_id for distance in distances):
            raise CorruptStateError("a part that no save has, or a delta on a later save", 3)
        rest = reader.rest()
        checksum = zlib.crc32(rest)
        if parts > 1:
            if len(rest) < CHECKSUM.size:
                raise CorruptStateError("a part without the checksum of its save", reader.at)
            (checksum,) = CHECKSUM.unpack_from(rest)
            rest = rest[CHECKSUM.size :]
        save = Save(
            rest,
            tuple(own_id - distance for distance in distances),
            bool(flags & PROPERTIES),
            bool(flags & OTHERS),
            COMPRESSIONS[code],
        )
        return cls(own_id, number, parts, checksum, save)


def whole_save(data: bytes) -> tuple[bytes, str]:
    """Return the state in an entry of our stores, and its compression."""
    part = Part.decode(data)
    if part.parts > 1 or part.save.bases:
        what = "a delta" if part.save.bases else f"part {part.number + 1} of {part.parts}"
        raise CorruptStateError(f"{what} of a store's saves; give the store's file", 0)
    return part.save.body, part.save.compression


def cut(save: Save, first_id: int, part_bytes_max: int) -> list[bytes]:
    """Return the entries of a save, of which `first_id` is the first, with so many bytes of the body each.

    >>> [len(entry) for entry in cut(Save(b"abcde"), 0, 2)]
    [17, 17, 16]
    """
    body = save.body
    pieces = [body[at : at + part_bytes_max] for at in range(0, len(body), part_bytes_max)] or [b""]
    checksum = zlib.crc32(body)
    return [
        Part(first_id + number, number, len(pieces), checksum, save._replace(body=piece)).encode()
        for number, piece in enumerate(pieces)
    ]
