"""One subscription's partial with what a merge must know of it, and its bytes, ledger by ledger.

Acknowledgments merge in any order but for seeks: those before the last seek are void. So a `Folded`
keeps that seek and the order of its first and last acknowledgment, and a merge with a later seek either
keeps all of them, or drops all, or refuses: it never guesses.

Bytes, one string a ledger (what belongs to no ledger has one of its own):

    magic "AKPT" · version u8 · CRC-32 of the rest, begun from the version, u32 · length of the header u32 ·
    header, JSON · acked positions, a `PositionInfo` in the form compact · batch sizes · ack sets

The last two are DEFLATE'd int64 arrays: entry ids then sizes, entry ids then 64-bit words.
All integers are little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ackwell import PositionInfo, PositionRangeSet
from ackwell.ack_sets import from_signed_words, to_signed_words
from ackwell.errors import CorruptStateError, NewerVersionError, ProtocolError
from ackwell.position import Position
from ackwell.replay.events import Event, Kind
from ackwell.replay.partial import Partial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

MAGIC: Final = b"AKPT"
VERSION: Final = 1
_HEAD: Final = struct.Struct("<4sBII")

_ACKNOWLEDGING: Final = {Kind.ACK, Kind.ACK_CUMULATIVE, Kind.CLEAR_BACKLOG, Kind.SKIP, Kind.EXPIRE}

Order = tuple[str, int]
"""File and sequence of an event; events are ordered by them."""


class Seek(NamedTuple):
    """A seek: when it happened, and the position that it made the next to be read."""

    order: Order
    position: Position


class Turns(NamedTuple):
    """Where order matters, by (topic, subscription): `ackwell.spark.seeks.find_turns`."""

    seeks: dict[tuple[str, str], Seek]
    """The last seek."""
    clears: dict[tuple[str, str], tuple[Order, Position]]
    """The last cleared backlog after that seek, and the last position published before it."""


class Folded:
    """A `Partial`, the seek that it comes after, and the order of its acknowledgments."""

    def __init__(self, seek: Seek | None = None) -> None:
        self.partial = Partial()
        self.seek = seek
        self.first: Order | None = None
        self.last: Order | None = None
        self.settings: tuple[Order, str] | None = None
        """The latest settings of the subscription, as JSON."""

    def cover(self, first: Order, last: Order) -> None:
        """Widen the bounds over acknowledgments from `first` to `last`."""
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def feed(self, event: Event) -> None:
        """Take in one event."""
        order = event.file or "", event.sequence
        match event.kind:
            case Kind.META:
                if event.detail is not None:
                    self.settle((order, event.detail))
            case Kind.SEEK:
                if self.seek is None or self.seek.order < order:
                    assert event.ledger_id is not None
                    assert event.entry_id is not None
                    self._come_after(Seek(order, Position(event.ledger_id, event.entry_id)))
            case _:
                if self.seek is None or self.seek.order < order:
                    if event.kind in _ACKNOWLEDGING:
                        self.cover(order, order)
                    self.partial.feed(event)

    def merge(self, other: Folded) -> None:
        """Join `other` into this one; `other` is used up.

        Raises `ProtocolError` where a seek falls between the acknowledgments of one of the two: their
        events must be folded again, together.
        """
        if other.settings is not None:
            self.settle(other.settings)
        if other.seek is not None and (self.seek is None or self.seek.order < other.seek.order):
            self._come_after(other.seek)
        elif self.seek is not None:
            other._come_after(self.seek)
        if other.first is not None and other.last is not None:
            self.cover(other.first, other.last)
        self.partial.merge(other.partial)

    def encode(self) -> Iterator[tuple[int | None, bytes]]:
        """Return the bytes of each ledger, and those of what belongs to none where there is something."""
        partial = self.partial
        acked = partial.acked.to_arrays()
        sizes, owed = _by_ledger(partial.batch_sizes), _by_ledger(partial.owed_bits)
        up_to = partial.cumulative
        known = {*partial.ledger_entries, *sizes, *owed, *partial.acked.ledger_ids()}
        if up_to is not None:
            known.add(up_to.ledger_id)
        common = self._common_header()
        if self.settings is not None or not known:
            yield None, _encode({**common, "settings": self.settings}, b"", b"", b"")
        for ledger_id in sorted(known):
            header = dict(common)
            if ledger_id in partial.ledger_entries:
                header["entries"] = partial.ledger_entries[ledger_id]
            if up_to is not None and up_to.ledger_id == ledger_id:
                header["up_to"] = up_to.entry_id
            parts = (
                _pack_ranges(ledger_id, acked),
                _pack(sizes.get(ledger_id, [])),
                _pack_sets(owed.get(ledger_id, [])),
            )
            yield ledger_id, _encode(header, *parts)

    def _common_header(self) -> dict[str, Any]:
        header: dict[str, Any] = {}
        if self.seek is not None:
            header["seek"] = [*self.seek.order, *self.seek.position]
        if self.first is not None:
            header |= {"first": self.first, "last": self.last}
        return header

    @classmethod
    def decode(cls, ledger_id: int | None, state: bytes) -> Folded:
        """Read what `encode` gave for one ledger; `CorruptStateError` for anything else."""
        header, acked, sizes, owed = _decode(state)
        folded = cls()
        if "seek" in header:
            file, sequence, *position = header["seek"]
            folded.seek = Seek((file, sequence), Position(*position))
        if "first" in header:
            folded.cover(tuple(header["first"]), tuple(header["last"]))
        if header.get("settings") is not None:
            order, detail = header["settings"]
            folded.settings = tuple(order), detail
        partial = folded.partial
        if ledger_id is None:
            return folded
        if "entries" in header:
            partial.ledger_entries[ledger_id] = header["entries"]
        if "up_to" in header:
            partial.cumulative = Position(ledger_id, header["up_to"])
        if acked:
            partial.acknowledge_ranges(PositionInfo.decode(acked).individually_deleted)
        for entry_id, size in _unpack(sizes):
            partial.batch_sizes[ledger_id, entry_id] = size
        for entry_id, bits in _unpack_sets(owed):
            partial.owed_bits[Position(ledger_id, entry_id)] = bits
        return folded

    def settle(self, settings: tuple[Order, str]) -> None:
        """Take the settings if they are later than those known."""
        if self.settings is None or self.settings[0] < settings[0]:
            self.settings = settings

    def _come_after(self, seek: Seek) -> None:
        """Keep what was acknowledged after `seek`, which is not earlier than the one known."""
        if self.seek == seek:
            return
        self.seek = seek
        if self.first is None or self.last is None or self.first > seek.order:
            return
        if self.last > seek.order:
            raise ProtocolError(
                f"acknowledgments from {self.first} to {self.last} in one partial, and a seek "
                f"between them at {seek.order}: fold these events again, together with the seek"
            )
        self.partial.forget_acknowledgments()
        self.first = self.last = None


def _encode(header: dict[str, Any], *parts: bytes) -> bytes:
    header["parts"] = [len(part) for part in parts]
    text = json.dumps(header, separators=(",", ":")).encode()
    body = struct.pack("<I", len(text)) + text + b"".join(parts)
    return struct.pack("<4sBI", MAGIC, VERSION, zlib.crc32(body, VERSION)) + body


def _decode(state: bytes) -> tuple[dict[str, Any], bytes, bytes, bytes]:
    if len(state) < _HEAD.size or state[:4] != MAGIC:
        raise CorruptStateError("not a partial: no magic number AKPT", 0)
    _, version, checksum, length = _HEAD.unpack_from(state)
    if zlib.crc32(state[9:], version) != checksum:
        raise CorruptStateError("the partial's checksum does not match", 5)
    if version > VERSION:
        raise NewerVersionError(f"a partial of version {version}, newer than {VERSION}; update ackwell", 4)
    offset = _HEAD.size + length
    header = json.loads(state[_HEAD.size : offset])
    parts = []
    for size in header["parts"]:
        parts.append(state[offset : offset + size])
        offset += size
    acked, sizes, owed = parts or (b"", b"", b"")
    return header, acked, sizes, owed


def _by_ledger(values: Mapping[Any, int]) -> dict[int, list[tuple[int, int]]]:
    """Split by ledger: entry ids, in order, and values."""
    split: dict[int, list[tuple[int, int]]] = {}
    for (ledger_id, entry_id), value in sorted(values.items()):
        split.setdefault(ledger_id, []).append((entry_id, value))
    return split


def _pack_ranges(ledger_id: int, columns: Columns) -> bytes:
    """Encode the acknowledged positions of one ledger."""
    ledger_ids, lowers, uppers = columns
    start, end = np.searchsorted(ledger_ids, ledger_id), np.searchsorted(ledger_ids, ledger_id, "right")
    if start == end:
        return b""
    ranges = PositionRangeSet()
    ranges.add_ranges(ledger_ids[start:end], lowers[start:end], uppers[start:end])
    return PositionInfo(ledger_id, -1, individually_deleted=ranges).encode("compact")


def _pack(pairs: list[tuple[int, int]]) -> bytes:
    return zlib.compress(np.array(pairs, dtype="<i8").T.tobytes(), 1) if pairs else b""


def _unpack(packed: bytes) -> list[tuple[int, int]]:
    if not packed:
        return []
    keys, values = np.frombuffer(zlib.decompress(packed), dtype="<i8").reshape(2, -1).tolist()
    return list(zip(keys, values, strict=True))


def _pack_sets(sets: list[tuple[int, int]]) -> bytes:
    """Rows of (entry id, number of words, words); a negative set ends in words of ones."""
    values: list[int] = []
    for entry_id, bits in sets:
        words = to_signed_words(bits)
        values += [entry_id, len(words), *words]
    return zlib.compress(np.array(values, dtype="<i8").tobytes(), 1) if values else b""


def _unpack_sets(packed: bytes) -> Iterator[tuple[int, int]]:
    if not packed:
        return
    values = np.frombuffer(zlib.decompress(packed), "<i8").tolist()
    start = 0
    while start < len(values):
        entry_id, count = values[start : start + 2]
        start += 2
        yield entry_id, from_signed_words(values[start : start + count])
        start += count
