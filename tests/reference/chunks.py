"""PIP-381's entries, by the text of the PIP. See `ackwell.saving.chunks`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ackwell.errors import CorruptStateError, LimitError
from tests.reference.position_info import compress, decompress

if TYPE_CHECKING:
    from collections.abc import Sequence

STATE_BYTES_MAX = 64 << 20


def encode_entries(data: bytes, entry_bytes_max: int, compression: str = "NONE") -> list[bytes]:
    """Return the entries that hold the bytes of a state."""
    if compression != "NONE":
        data = len(data).to_bytes(4, "big") + compress(data, compression)
    if len(data) < entry_bytes_max:
        return [data]
    parts = []
    rest = data
    while rest:
        parts.append(rest[:entry_bytes_max])
        rest = rest[entry_bytes_max:]
    return [*parts, json.dumps({"numParts": len(parts), "length": len(data)}, separators=(",", ":")).encode()]


def decode_entries(entries: Sequence[bytes], compression: str = "NONE") -> bytes:
    """Return the bytes of the state that the last entry completes. Entries before it are ignored."""
    data = entries[-1]
    if data.startswith(b"{"):
        parts, length = read_footer(data)
        if length > STATE_BYTES_MAX:
            raise LimitError(f"a state of {length} bytes")
        first = len(entries) - 1 - parts
        chunks = entries[max(first, 0) : -1]
        data = b"".join(chunks)
        if first < 0 or len(data) != length or not all(chunks[:-1]):
            raise CorruptStateError("the parts are not those of the footer", 0)
    if compression == "NONE":
        return data
    return decompress(data[4:], compression, int.from_bytes(data[:4], "big"))


def read_footer(data: bytes) -> tuple[int, int]:
    """Return the number of parts and the length."""
    try:
        keys = json.loads(data)
        parts, length = keys["numParts"], keys["length"]
    except (ValueError, KeyError, TypeError):
        raise CorruptStateError("the footer is not JSON with two numbers", 0) from None
    if type(parts) is not int or type(length) is not int or parts < 1 or length < 0:
        raise CorruptStateError("the footer has no numbers, or numbers below their least", 0)
    return parts, length
