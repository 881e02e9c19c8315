"""State bytes as entries of a ledger, and back: compression, chunks where they are too large, recovery.

A state up to a threshold is one entry as it is, a larger one is in parts (see `ackwell.saving.chunks`). In
our own stores whatever has no checksum of its own is in parts, too, because a footer has one;
`pip_381=True` writes and reads PIP-381 to the letter, for readers that refuse what they do not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell import engine as engines
from ackwell.errors import CorruptStateError, LimitError, NewerVersionError
from ackwell.saving import compression as compressions
from ackwell.saving.chunks import ENTRY_BYTES_MAX, STATE_BYTES_MAX, Footer, is_footer, join, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.engine import Engine
    from ackwell.saving.chunks import Read

#: The size before a compressed state, big-endian.
SIZE_BYTES = 4
COMPACT_MAGIC = b"\xac"


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
        compressions.check(self.compression)
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
            compression=properties.get(compressions.COMPRESSION_TYPE, "NONE"),
            pip_381=True,
        )


def encode_entries(
    data: bytes,
    settings: EntrySettings | None = None,
    *,
    generation: int = 0,
    engine: Engine | None = None,
) -> list[bytes]:
    """Return the entries that hold the bytes of a state: compressed, then cut where they are too large.

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
    """Return the bytes of a state as they were before compression."""
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
    Raises `CorruptStateError` when no entry completes a state, and `NewerVersionError` for the newest whole
    one of a version that this release does not read.

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
        except NewerVersionError:
            raise
        except CorruptStateError as error:
            skipped.append(Skipped(entry_id, str(error)))
        else:
            return Recovered(*found, skipped=tuple(skipped))
    reasons = "; ".join(f"entry {skip.entry_id}: {skip.reason}" for skip in skipped[:5])
    raise CorruptStateError(f"no whole state in entries {first_id} to {last_id}: {reasons}", 0)


def state_at(
    read: Read, entry_id: int, oldest_id: int, settings: EntrySettings, max_bytes: int, engine: Engine
) -> tuple[Any, bytes, int, int, int | None]:
    """Return the state that an entry completes; `CorruptStateError` if it completes none.

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
