"""State bytes as entries of a ledger, and back: PIP-381's chunks and footer, compression, recovery.

A state up to a threshold is one entry as it is. A larger one is cut into chunks, one entry each, and a
*footer* entry behind them, the JSON object `{"numParts":N,"length":L}`. A `PositionInfo` never begins with
`{`, nor does our form, so the last entry tells by its first byte which of the two it is.

PIP-381 has no checksum, so chunks of two saves can mix unseen, and what a crash left of a save may look
like a state. Our own stores therefore write two more keys into the footer, the owner's `generation` and the
CRC-32 of the stored bytes; `pip_381=True` leaves them out for readers that refuse what they do not know.
Released brokers read neither: a footer as the last entry makes them refuse the topic.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell import engine as engines
from ackwell.errors import CorruptStateError, LimitError
from ackwell.loss import LossReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackwell.engine import Engine

    Read = Callable[[int], bytes]

__all__ = [
    "ENTRY_BYTES_MAX",
    "FOOTER_MAGIC",
    "STATE_BYTES_MAX",
    "EntrySettings",
    "Footer",
    "LossReport",
    "Recovered",
    "Skipped",
    "decode_entry",
    "detect_form",
    "encode_entries",
    "join",
    "recover",
    "split",
    "state_at",
]

#: PIP-381's default for an entry: 1 MiB.
ENTRY_BYTES_MAX = 1 << 20
#: The most that a state may take while it is joined and decompressed.
STATE_BYTES_MAX = 64 << 20
#: How a footer begins, and nothing else among uncompressed entries.
FOOTER_MAGIC = b"{"
#: A footer has four small numbers; what is longer is none, however deeply it nests.
FOOTER_BYTES_MAX = 256
#: The size before a compressed state, big-endian.
SIZE_BYTES = 4
COMPACT_MAGIC, COMPRESSED_CURSOR_MAGIC = b"\xac", b"\x47\x78"


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """PIP-381's settings with its defaults, and whether to add what it lacks.

    >>> EntrySettings.from_properties({"cursorInfoCompressionType": "ZSTD"}).compression
    'ZSTD'
    """

    #: `persistentUnackedRangesWithMultipleEntriesEnabled`: without it a state is one entry, however large.
    multiple_entries: bool = False
    #: `persistentUnackedRangesMaxEntrySize`: the threshold, and the size of a chunk.
    max_entry_bytes: int = ENTRY_BYTES_MAX
    #: `cursorInfoCompressionType`: NONE, LZ4, ZLIB, ZSTD or SNAPPY. The ledger's metadata must tell it.
    compression: str = "NONE"
    #: Footers as the PIP has them, without checksum and generation.
    pip_381: bool = False

    def __post_init__(self) -> None:
        if self.max_entry_bytes < 1:
            raise ValueError(f"max_entry_bytes {self.max_entry_bytes}: expected at least 1")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> EntrySettings:
        """Take the settings under the PIP's names, as in a broker's configuration."""
        enabled = properties.get("persistentUnackedRangesWithMultipleEntriesEnabled", "false")
        size = properties.get("persistentUnackedRangesMaxEntrySize", str(ENTRY_BYTES_MAX))
        return cls(
            multiple_entries=enabled.strip().lower() == "true",
            max_entry_bytes=int(size),
            compression=properties.get("cursorInfoCompressionType", "NONE"),
            pip_381=True,
        )


class Footer(NamedTuple):
    """The entry behind the chunks of a state."""

    parts: int
    length: int
    generation: int | None = None
    checksum: int | None = None

    def encode(self) -> bytes:
        """Write it, without white space, as the PIP shows it."""
        keys: dict[str, int] = {"numParts": self.parts, "length": self.length}
        if self.generation is not None:
            keys["generation"] = self.generation
        if self.checksum is not None:
            keys["checksum"] = self.checksum
        return json.dumps(keys, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Footer:
        """Read it; `CorruptStateError` for anything that is no footer. Other keys are ignored."""
        if len(data) > FOOTER_BYTES_MAX:
            raise CorruptStateError(f"{len(data)} bytes are no footer", FOOTER_BYTES_MAX)
        try:
            keys = json.loads(data)
        except (ValueError, RecursionError):
            raise CorruptStateError("the footer is not JSON", 0) from None
        if not isinstance(keys, dict):
            raise CorruptStateError("the footer is not a JSON object", 0)
        values: list[Any] = [keys.get(key) for key in ("numParts", "length", "generation", "checksum")]
        footer = cls(*values)
        for value in (footer.parts, footer.length, footer.generation or 0, footer.checksum or 0):
            # A boolean is an int to Python, and NaN, Infinity and 1e9 are floats.
            if type(value) is not int or not 0 <= value < 1 << 63:
                raise CorruptStateError(f"footer {keys}: expected numbers of at least 0", 0)
        if not footer.parts:
            raise CorruptStateError("a footer of no parts", 0)
        return footer


def split(
    data: bytes, entry_bytes_max: int = ENTRY_BYTES_MAX, *, generation: int | None = None
) -> list[bytes]:
    """Cut the bytes of a state into chunks and put a footer behind them.

    With a generation the footer also holds it and a checksum, without one it is strictly PIP-381's.

    >>> split(b"abcde", 2)
    [b'ab', b'cd', b'e', b'{"numParts":3,"length":5}']
    """
    chunks = [data[at : at + entry_bytes_max] for at in range(0, len(data), entry_bytes_max)] or [b""]
    checksum = None if generation is None else zlib.crc32(data)
    return [*chunks, Footer(len(chunks), len(data), generation, checksum).encode()]


def join(read: Read, footer_id: int, max_bytes: int = STATE_BYTES_MAX) -> tuple[bytes, int]:
    """Give the bytes of the state whose footer is entry `footer_id`, and the id of its first chunk.

    `read` gives an entry or raises `KeyError` or `CorruptStateError`. The number of parts is believed only as
    far as entries are there, and the length as far as `max_bytes`.
    """
    footer = Footer.decode(read(footer_id))
    if footer.length > max_bytes:
        raise LimitError(f"a state of {footer.length} bytes; raise max_bytes to read it")
    first_id = footer_id - footer.parts
    if first_id < 0:
        raise CorruptStateError(f"{footer.parts} parts before entry {footer_id}", 0)
    # PIP-381's first writer counts 1 + length / chunk parts, so an exact multiple leaves an empty last chunk.
    # No other part is empty: a footer's word for a billion of them costs no more reads than bytes.
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
    data = b"".join(parts)
    if footer.checksum is not None and footer.checksum != zlib.crc32(data):
        raise CorruptStateError("the parts are not of one save: the checksum is wrong", 0)
    return data, first_id


def encode_entries(
    data: bytes,
    settings: EntrySettings | None = None,
    *,
    generation: int = 0,
    engine: Engine | None = None,
) -> list[bytes]:
    """Give the entries that hold the bytes of a state: compressed, then cut where they are too large.

    The threshold counts the bytes as stored. In our own stores (`pip_381=False`) only the compact form, which
    has a checksum of its own, is ever one entry: every other state gets a footer with one.

    >>> from ackwell import PositionInfo
    >>> data = PositionInfo(3, 5, [(3, 6, 8)]).encode("pulsar-ranges")
    >>> encode_entries(data, EntrySettings(pip_381=True)) == [data]
    True
    """
    settings = settings or EntrySettings(multiple_entries=True)
    stored = data
    if settings.compression != "NONE":
        engine = engine or engines.native()
        stored = len(data).to_bytes(SIZE_BYTES, "big") + engine.compress(data, settings.compression)
    if settings.pip_381:
        fits = not settings.multiple_entries or len(stored) < settings.max_entry_bytes
        return [stored] if fits else split(stored, settings.max_entry_bytes)
    fits = not settings.multiple_entries or len(stored) <= settings.max_entry_bytes
    if fits and stored[:1] == COMPACT_MAGIC:
        return [stored]
    size = settings.max_entry_bytes if settings.multiple_entries else max(len(stored), 1)
    return split(stored, size, generation=generation)


def decode_entry(
    stored: bytes,
    compression: str = "NONE",
    *,
    max_bytes: int = STATE_BYTES_MAX,
    engine: Engine | None = None,
) -> bytes:
    """Give the bytes of a state as they were before compression."""
    if compression == "NONE":
        return stored
    if len(stored) < SIZE_BYTES:
        raise CorruptStateError("no size before the compressed state", len(stored))
    size = int.from_bytes(stored[:SIZE_BYTES], "big")
    engine = engine or engines.native()
    return engine.decompress(stored[SIZE_BYTES:], compression, size, max_bytes)


class Skipped(NamedTuple):
    """An entry that was passed over, and why."""

    entry_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The newest whole state of a ledger, and what it took to find it."""

    #: The state, a `PositionInfo` of the engine.
    position_info: Any
    #: The bytes before compression.
    data: bytes
    #: The entries that hold it.
    first_id: int
    last_id: int
    #: The generation in its footer, or None.
    generation: int | None
    #: What was passed over, newest first.
    skipped: tuple[Skipped, ...]

    @property
    def form(self) -> str:
        """The form of the state."""
        form: str = self.position_info.form
        return form


def recover(
    read: Read,
    last_id: int,
    first_id: int = 0,
    *,
    settings: EntrySettings | None = None,
    max_bytes: int = STATE_BYTES_MAX,
    engine: Engine | None = None,
) -> Recovered:
    """Find the newest whole state: at the last entry, else the nearest before it.

    `settings` must be those of the writer, as the ledger's metadata tells them: PIP-381's single entries have
    no checksum, and a compressed one begins with its size. In such a ledger an entry of the full chunk
    size, or one that is a state together with those before it, is a chunk without its footer and no state.
    Raises `CorruptStateError` when no entry completes a state.

    >>> from ackwell import PositionInfo

    >>> state = PositionInfo(3, 5, [(3, 6, 8)])
    >>> entries = [*encode_entries(state.encode("compact")), b"torn"]
    >>> found = recover(entries.__getitem__, 1)
    >>> found.position_info == state, found.skipped
    (True, (Skipped(entry_id=1, reason='at byte 0: a part of a state, or one without a checksum'),))
    """
    settings = settings or EntrySettings(multiple_entries=True)
    engine = engine or engines.native()
    skipped: list[Skipped] = []
    for entry_id in range(last_id, first_id - 1, -1):
        try:
            found = state_at(read, entry_id, first_id, settings, max_bytes, engine)
        except KeyError:
            skipped.append(Skipped(entry_id, "missing"))
        except CorruptStateError as error:
            skipped.append(Skipped(entry_id, str(error)))
        else:
            return Recovered(*found, skipped=tuple(skipped))
    reasons = "; ".join(f"entry {skip.entry_id}: {skip.reason}" for skip in skipped[:5])
    raise CorruptStateError(f"no whole state in entries {first_id} to {last_id}: {reasons}", 0)


def state_at(
    read: Read, entry_id: int, oldest_id: int, settings: EntrySettings, max_bytes: int, engine: Engine
) -> tuple[Any, bytes, int, int, int | None]:
    """Give the state that an entry completes; `CorruptStateError` if it completes none.

    Beside the state its bytes, its first and last entry, and the generation in its footer.
    """
    stored, first_id, generation = read(entry_id), entry_id, None
    if is_footer(stored):
        footer = Footer.decode(stored)
        if not settings.pip_381 and footer.checksum is None:
            raise CorruptStateError("a footer without a checksum", 0)
        if footer.parts > entry_id - oldest_id:
            raise CorruptStateError(f"{footer.parts} parts, {entry_id - oldest_id} are there", 0)
        generation = footer.generation
        stored, first_id = join(read, entry_id, max_bytes)
    elif not settings.pip_381 and (stored[:1] != COMPACT_MAGIC or settings.compression != "NONE"):
        raise CorruptStateError("a part of a state, or one without a checksum", 0)
    elif (
        settings.pip_381
        and settings.multiple_entries
        and (
            len(stored) >= settings.max_entry_bytes
            or _is_last_chunk(read, entry_id, oldest_id, settings, max_bytes, engine)
        )
    ):
        raise CorruptStateError("a part of a state whose footer is missing", 0)
    elif settings.compression != "NONE" and int.from_bytes(stored[:SIZE_BYTES], "big") > max_bytes:
        # Without footer and checksum, so great a size is rather the middle of a torn save.
        raise CorruptStateError("no state, or one that takes more than max_bytes", 0)
    data = decode_entry(stored, settings.compression, max_bytes=max_bytes, engine=engine)
    state = engine.PositionInfo.decode(data, max_bytes=max_bytes)
    return state, data, first_id, entry_id, generation


def _is_last_chunk(
    read: Read, entry_id: int, oldest_id: int, settings: EntrySettings, max_bytes: int, engine: Engine
) -> bool:
    """Whether an entry ends a state whose footer is missing, by joining it with the full chunks before it.

    Alone it may well read as a state: bytes from inside a range look like a mark-delete position.
    """
    parts = [read(entry_id)]
    while entry_id - len(parts) >= oldest_id and sum(map(len, parts)) <= max_bytes:
        try:
            part = read(entry_id - len(parts))
        except (KeyError, CorruptStateError):
            break
        if len(part) != settings.max_entry_bytes:
            break
        parts.append(part)
    if len(parts) == 1:
        return False
    try:
        whole = b"".join(reversed(parts))
        data = decode_entry(whole, settings.compression, max_bytes=max_bytes, engine=engine)
        engine.PositionInfo.decode(data, max_bytes=max_bytes)
    except (CorruptStateError, LimitError):
        return False
    return True


def is_footer(data: bytes) -> bool:
    """Whether an entry is the footer of chunks and not a state.

    Also in a ledger of compressed entries: those begin with a size, and `{"` as one would be 2 GB.
    """
    return data[:1] == FOOTER_MAGIC


def detect_form(data: bytes, *, max_bytes: int = STATE_BYTES_MAX) -> str:
    """Tell persisted cursor bytes by their content.

    Gives `compact`, `pulsar-ranges`, `pulsar-long-array`, `managed-cursor-info` or `chunk-footer`; raises
    `CorruptStateError` for anything else. `PositionInfo` and `ManagedCursorInfo` share their first fields,
    but not the kind of field 3, a range here and the mark-delete entry there: only one of them ever reads.

    >>> from ackwell import PositionInfo
    >>> detect_form(PositionInfo(3, 5).encode("compact")), detect_form(b'{"numParts":1,"length":4}')
    ('compact', 'chunk-footer')
    """
    engine = engines.native()
    if is_footer(data):
        Footer.decode(data)
        return "chunk-footer"
    if data[:2] == COMPRESSED_CURSOR_MAGIC:
        engine.ManagedCursorInfo.decode(data, max_bytes=max_bytes)
        return "managed-cursor-info"
    try:
        record = engine.ManagedCursorInfo.decode(data, max_bytes=max_bytes)
    except CorruptStateError:
        record = None
    if record is not None and record.position_info is not None:
        return "managed-cursor-info"
    try:
        form: str = engine.PositionInfo.decode(data, max_bytes=max_bytes).form
    except CorruptStateError:
        if record is None:
            raise
        return "managed-cursor-info"
    return form
