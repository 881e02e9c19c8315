"""State bytes as entries of a ledger, and back: PIP-381 as its text says it, and what our stores add.

`entries` are those of a ledger, oldest first; a `generation` stands in the footers of our own stores, which
then also have a checksum. See `ackwell.saving.snapshot`.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from ackwell.errors import CorruptStateError
from ackwell.reference.position_info import PositionInfo, compress, decompress

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPACT = b"\xac"


def encode_entries(
    data: bytes, entry_bytes_max: int, compression: str = "NONE", generation: int | None = None
) -> list[bytes]:
    """The entries that hold the bytes of a state."""
    if compression != "NONE":
        data = len(data).to_bytes(4, "big") + compress(data, compression)
    if generation is None and len(data) < entry_bytes_max:
        return [data]
    if generation is not None and len(data) <= entry_bytes_max and data[:1] == COMPACT:
        return [data]
    parts = []
    rest = data
    while rest:
        parts.append(rest[:entry_bytes_max])
        rest = rest[entry_bytes_max:]
    footer = {"numParts": len(parts), "length": len(data)}
    if generation is not None:
        footer |= {"generation": generation, "checksum": zlib.crc32(data)}
    return [*parts, json.dumps(footer, separators=(",", ":")).encode()]


def decode_entries(entries: Sequence[bytes], compression: str = "NONE") -> bytes:
    """The bytes of the state that the last entry completes; whatever else is there is older."""
    data = entries[-1]
    if data.startswith(b"{"):
        footer = read_footer(data)
        first = len(entries) - 1 - footer["numParts"]
        data = b"".join(entries[max(first, 0) : -1])
        checksum = footer.get("checksum", zlib.crc32(data))
        if first < 0 or (len(data), zlib.crc32(data)) != (footer["length"], checksum):
            raise CorruptStateError("the parts are not those of the footer", 0)
    if compression == "NONE":
        return data
    return decompress(data[4:], compression, int.from_bytes(data[:4], "big"))


def read_footer(data: bytes) -> dict[str, int]:
    """The numbers of a footer, of which generation and checksum may be missing."""
    try:
        keys = json.loads(data)
    except ValueError:
        raise CorruptStateError("the footer is not JSON", 0) from None
    names = ("numParts", "length", "generation", "checksum")
    footer = {name: keys[name] for name in names if name in keys}
    if not {"numParts", "length"} <= footer.keys() or any(
        type(value) is not int for value in footer.values()
    ):
        raise CorruptStateError("the footer has other values than numbers", 0)
    if footer["numParts"] < 1 or min(footer.values()) < 0:
        raise CorruptStateError("the footer has numbers below its least", 0)
    return footer


def recover(entries: Sequence[bytes], compression: str = "NONE") -> tuple[PositionInfo, int]:
    """The newest whole state in a store of our own, and the index of the entry that completes it.

    There, only a compact state or a footer with a checksum completes one.
    """
    for last in range(len(entries) - 1, -1, -1):
        try:
            if entries[last].startswith(b"{"):
                whole = "checksum" in read_footer(entries[last])
            else:
                whole = compression == "NONE" and entries[last].startswith(COMPACT)
            if whole:
                return PositionInfo.decode(decode_entries(entries[: last + 1], compression)), last
        except CorruptStateError:
            continue
    raise CorruptStateError("no whole state", 0)
