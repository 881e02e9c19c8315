"""Encodes a save as entries of a store. Each entry contains one part of the save.

A save is a state, or a delta that builds on earlier saves. Every part contains the id of its entry and its
number among the parts of its save. A part of a delta also contains the ids of the saves on which the delta
builds. A CRC-32 covers the part. A reader therefore always detects an entry that was changed, moved, or
overwritten by another entry. If the last part of a save is missing, a reader recognizes the other parts as an
unfinished save. `docs/formats.md` documents the bytes.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from ackwell.errors import CorruptStateError, NewerVersionError
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.sources import STATE_MAGIC
from ackwell.wire import Reader, varint

VERSION: Final = 1
CHECKSUM: Final = struct.Struct(">I")

# Bits of the flags of a save. Bits 2 to 4 contain the compression type.
PROPERTIES: Final = 1
OTHERS: Final = 2
COMPRESSION_SHIFT: Final = 2
FLAGS_END: Final = 1 << 5


class Save(NamedTuple):
    """The content of a save: its bytes, and the earlier saves on which it builds."""

    body: bytes
    """The encoded state of a full save, or the encoded change of a delta. The bytes may be compressed."""
    bases: tuple[int, ...] = ()
    """The saves to which a delta can be applied, by the id of their last entry. The preferred save is the
    first one. Empty for a full save."""
    properties: bool = False
    """Whether the delta replaces the properties of the earlier state."""
    others: bool = False
    """Whether the delta replaces `idle_since` and the unknown fields of the earlier state."""
    compression: str = COMPRESSIONS[0]


class Part(NamedTuple):
    """One entry of a store, which contains one part of a save."""

    entry_id: int
    number: int
    """The number of this part in its save. The first part has the number 0."""
    parts: int
    """The number of parts that the save has."""
    checksum: int
    """The CRC-32 of the whole body of the save. Parts of two different saves have different values."""
    save: Save
    """The save that this part belongs to. Its body is only the piece in this part."""

    def encode(self) -> bytes:
        """Return the bytes of the entry."""
        save = self.save
        flags = save.properties * PROPERTIES | save.others * OTHERS
        flags |= COMPRESSIONS.index(save.compression) << COMPRESSION_SHIFT
        numbers = [self.entry_id, self.number, self.parts, len(save.bases)]
        numbers += [self.entry_id - base for base in save.bases]
        header = STATE_MAGIC + bytes((VERSION, flags)) + b"".join(map(varint, numbers))
        data = header + CHECKSUM.pack(self.checksum) * (self.parts > 1) + save.body
        return data + CHECKSUM.pack(zlib.crc32(data))

    @classmethod
    def decode(cls, data: bytes, entry_id: int | None = None) -> Part:
        """Decode an entry. Check that the entry contains the id `entry_id`; for None, accept any id.

        Raises `CorruptStateError` if the entry is damaged, is not a part of a save, or has another id. Raises
        `NewerVersionError` if a newer version of the format wrote the entry.
        """
        end = len(data) - CHECKSUM.size
        if data[:1] != STATE_MAGIC or end < 3:
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
        # Each base takes at least one byte. This bounds the number of reads, even if `bases` is wrong.
        distances = [reader.varint() for _ in range(min(bases, end))]
        if number >= parts or not all(0 < distance <= own_id for distance in distances):
            raise CorruptStateError("a part number outside its save, or a delta on a later save", 3)
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
    """Decode a save that consists of one entry. Return its bytes and their compression."""
    part = Part.decode(data)
    if part.parts > 1 or part.save.bases:
        what = "a delta" if part.save.bases else f"part {part.number + 1} of {part.parts}"
        raise CorruptStateError(f"{what} of a store's saves; give the store's file", 0)
    return part.save.body, part.save.compression


def cut(save: Save, first_id: int, part_bytes_max: int) -> list[bytes]:
    """Split a save into entries. Each entry contains at most `part_bytes_max` bytes of the save's body.

    The entries have consecutive ids; the first one is `first_id`.

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
