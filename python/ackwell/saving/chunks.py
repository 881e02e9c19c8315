"""The entries of PIP-381: a large state is cut into chunks, with one chunk in each entry.

A state below a threshold takes one entry. After the chunks of a larger state, a last entry follows, the
*footer*. It is the JSON object `{"numParts":N,"length":L}` with the number of chunks and the size of the
state in bytes. An encoded `PositionInfo` never begins with `{`, so the first byte of an entry shows whether
the entry is a footer.

The format has no checksum. A reader cannot distinguish the chunks of two saves, and the last chunk of an
unfinished save can look like a complete state. ackwell's stores therefore use another format (see
`ackwell.saving.parts`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell.engine import native_engine
from ackwell.errors import CorruptStateError, LimitError
from ackwell.integers import is_int64
from ackwell.protocol.constants import COMPRESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.engine import Engine

    Read = Callable[[int], bytes]

#: PIP-381's default for the maximum size of an entry: 1 MiB.
ENTRY_BYTES_MAX = 1 << 20
#: The default memory limit for joining the chunks of a state, and for decompressing it.
STATE_BYTES_MAX = 64 << 20
#: The first byte of every footer. No other uncompressed entry starts with it.
FOOTER_MAGIC = b"{"
#: The maximum size of a footer in bytes. A footer contains only two small numbers. The limit also bounds the
#: nesting of its JSON.
FOOTER_BYTES_MAX = 256
#: The number of bytes of the integer before a compressed state: the uncompressed size, big-endian.
SIZE_BYTES = 4


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """The broker settings of PIP-381. They specify when a state is divided into several entries.

    >>> EntrySettings.from_properties({"cursorInfoCompressionType": "ZSTD"}).compression
    'ZSTD'
    """

    #: `persistentUnackedRangesWithMultipleEntriesEnabled`: whether a large state is divided into several
    #: entries. If false, a state of any size takes one entry.
    multiple_entries: bool = False
    #: `persistentUnackedRangesMaxEntrySize`: the size of a chunk in bytes. A state of at least this size is
    #: divided into chunks.
    max_entry_bytes: int = ENTRY_BYTES_MAX
    #: `cursorInfoCompressionType`: NONE, LZ4, ZLIB, ZSTD or SNAPPY. The ledger's metadata contains this name,
    #: so that a reader can decompress the state.
    compression: str = "NONE"

    def __post_init__(self) -> None:
        check_compression(self.compression)
        if self.max_entry_bytes < 1:
            raise ValueError(f"max_entry_bytes {self.max_entry_bytes}: expected at least 1")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> EntrySettings:
        """Return the settings from the properties of a `broker.conf`, which have the names of PIP-381."""
        enabled = properties.get("persistentUnackedRangesWithMultipleEntriesEnabled", "false")
        size = properties.get("persistentUnackedRangesMaxEntrySize", str(ENTRY_BYTES_MAX))
        return cls(
            multiple_entries=enabled.strip().lower() == "true",
            max_entry_bytes=int(size),
            compression=properties.get("cursorInfoCompressionType", "NONE"),
        )


class Footer(NamedTuple):
    """The footer: the entry after the chunks of a state."""

    parts: int
    length: int

    def encode(self) -> bytes:
        """Return the footer as JSON without white space, like the example in PIP-381."""
        return json.dumps({"numParts": self.parts, "length": self.length}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Footer:
        """Decode a footer; `CorruptStateError` if the entry is not a footer. Unknown keys are ignored."""
        if len(data) > FOOTER_BYTES_MAX:
            raise CorruptStateError(f"{len(data)} bytes are too many for a footer", FOOTER_BYTES_MAX)
        try:
            keys = json.loads(data)
        except (ValueError, RecursionError):
            raise CorruptStateError("the footer is not JSON", 0) from None
        if not isinstance(keys, dict):
            raise CorruptStateError("the footer is not a JSON object", 0)
        values: list[Any] = [keys.get(key) for key in ("numParts", "length")]
        for value in values:
            # In Python, a boolean is an `int`, and NaN, Infinity and 1e9 are floats. Accept only real
            # integers.
            if not is_int64(value) or value < 0:
                raise CorruptStateError(f"footer {keys}: expected numbers of at least 0", 0)
        footer = cls(*values)
        if not footer.parts:
            raise CorruptStateError("a footer with 0 parts", 0)
        return footer


def check_compression(compression: str) -> None:
    """Check that `compression` is the name of a compression type; `ValueError` otherwise."""
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression {compression!r}: expected one of {', '.join(COMPRESSIONS)}")


def is_footer(data: bytes) -> bool:
    """Return whether an entry is the footer of chunks.

    A footer starts with the bytes `{"`. A compressed state starts with its size as an int32. If these bytes
    were a size, the state would have 2 GB. A compressed entry is therefore never mistaken for a footer.
    """
    return data[:1] == FOOTER_MAGIC


def chunk_count(length: int, entry_bytes_max: int = ENTRY_BYTES_MAX) -> int:
    """Return the number of chunks into which `split` cuts a state of `length` bytes.

    >>> chunk_count(5, 2), chunk_count(0)
    (3, 1)
    """
    return max(1, -(-length // entry_bytes_max))


def split(data: bytes, entry_bytes_max: int = ENTRY_BYTES_MAX) -> list[bytes]:
    """Cut a state into chunks. Return the chunks, and the footer as the last element.

    >>> split(b"abcde", 2)
    [b'ab', b'cd', b'e', b'{"numParts":3,"length":5}']
    """
    chunks = [data[at : at + entry_bytes_max] for at in range(0, len(data), entry_bytes_max)] or [b""]
    return [*chunks, Footer(len(chunks), len(data)).encode()]


def join(read: Read, footer_id: int, max_bytes: int = STATE_BYTES_MAX) -> tuple[bytes, int]:
    """Join the chunks of the state whose footer is the entry `footer_id`.

    Return the bytes of the state, and the id of its first chunk.

    `read` returns the entry with an id, or raises `KeyError` or `CorruptStateError`. The length in the footer
    bounds the number of chunks that are read. Raises `LimitError` if the state has more than `max_bytes`
    bytes.
    """
    footer = Footer.decode(read(footer_id))
    if footer.length > max_bytes:
        raise LimitError(f"a state of {footer.length} bytes; raise max_bytes to read it")
    first_id = footer_id - footer.parts
    if first_id < 0:
        raise CorruptStateError(f"{footer.parts} parts before entry {footer_id}", 0)
    # PIP-381's first implementation writes 1 + length / chunk size chunks. If the length is a multiple of the
    # chunk size, the last chunk is empty. No other chunk may be empty, so the number of reads is at most the
    # number of bytes plus one.
    parts: list[bytes] = []
    left = footer.length
    for entry_id in range(first_id, footer_id):
        try:
            part = read(entry_id)
        except KeyError:
            raise CorruptStateError(f"part {entry_id} of the state is missing", 0) from None
        if len(part) > left or (not part and entry_id < footer_id - 1):
            raise CorruptStateError(f"part {entry_id} has {len(part)} bytes, {left} are left", 0)
        left -= len(part)
        parts.append(part)
    if left:
        raise CorruptStateError(f"the parts are {left} bytes short of {footer.length}", 0)
    return b"".join(parts), first_id


def compress(data: bytes, compression: str, engine: Engine | None = None) -> bytes:
    """Return the bytes to store: the size of `data` as an int32, then the compressed `data`.

    For the compression NONE, return `data` unchanged.
    """
    if compression == COMPRESSIONS[0]:
        return data
    engine = engine or native_engine()
    return len(data).to_bytes(SIZE_BYTES, "big") + engine.compress(data, compression)


def decompress(
    stored: bytes,
    compression: str = "NONE",
    *,
    max_bytes: int = STATE_BYTES_MAX,
    engine: Engine | None = None,
) -> bytes:
    """Return the data from which `compress` made `stored`.

    Raises `LimitError` if the data has more than `max_bytes` bytes.
    """
    if compression == COMPRESSIONS[0]:
        return stored
    if len(stored) < SIZE_BYTES:
        raise CorruptStateError("no size before the compressed state", len(stored))
    size = int.from_bytes(stored[:SIZE_BYTES], "big")
    engine = engine or native_engine()
    return engine.decompress(stored[SIZE_BYTES:], compression, size, max_bytes)


def encode_entries(
    data: bytes, settings: EntrySettings | None = None, *, engine: Engine | None = None
) -> list[bytes]:
    """Return the entries for a state.

    The bytes of the state are compressed. If the compressed bytes are too large for one entry, they are cut
    into chunks.

    >>> from ackwell import PositionInfo
    >>> data = PositionInfo(3, 5, [(3, 6, 8)]).encode("pulsar-ranges")
    >>> encode_entries(data) == [data]
    True
    """
    settings = settings or EntrySettings()
    stored = compress(data, settings.compression, engine)
    if not settings.multiple_entries or len(stored) < settings.max_entry_bytes:
        return [stored]
    return split(stored, settings.max_entry_bytes)
