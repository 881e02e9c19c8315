"""A state in parts: PIP-381's chunks, one entry each, and the footer entry behind them.

The footer is the JSON object `{"numParts":N,"length":L}`. A `PositionInfo` never begins with `{`, nor
does our form, so the last entry of a ledger tells by its first byte whether it is a state or a footer.

PIP-381 has no checksum, so chunks of two saves can mix unseen, and what a crash left of a save may look
like a state. Our own stores therefore write two more keys into the footer, the owner's `generation` and the
CRC-32 of the stored bytes. Released brokers read neither: a footer as the last entry makes them refuse
the topic.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell.errors import CorruptStateError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int], bytes]

#: PIP-381's default for an entry: 1 MiB.
ENTRY_BYTES_MAX = 1 << 20
#: The most that a state may take while it is joined and decompressed.
STATE_BYTES_MAX = 64 << 20
#: How a footer begins, and nothing else among uncompressed entries.
FOOTER_MAGIC = b"{"
#: A footer has four small numbers; what is longer is none, however deeply it nests.
FOOTER_BYTES_MAX = 256


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


def is_footer(data: bytes) -> bool:
    """Whether an entry is the footer of chunks and not a state.

    Also in a ledger of compressed entries: those begin with a size, and `{"` as one would be 2 GB.
    """
    return data[:1] == FOOTER_MAGIC


def chunk_count(length: int, entry_bytes_max: int = ENTRY_BYTES_MAX) -> int:
    """Count the chunks that `split` cuts a state of so many bytes into.

    >>> chunk_count(5, 2), chunk_count(0)
    (3, 1)
    """
    return max(1, -(-length // entry_bytes_max))


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
    """Return the bytes of the state whose footer is entry `footer_id`, and the id of its first chunk.

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
