"""Sticky-key hashes: the slot of a message's key, one of 65,536 slots.

Pulsar hashes the key's bytes with MurmurHash3 (x86, 32 bits, seed 0), clears the sign bit, and maps the
result to a slot of the selector. The slots are 1 to 65,535 with consistent hashing (4.2's default), and 0 to
65,535 with the other selectors. With the other selectors, slot 0 is replaced by 1, because the dispatchers
use 0 for "not set".

ackwell has its own implementation, because the algorithm is fixed and takes 20 lines, and a library would be
a further compiled dependency. A test compares it with a ring of 300 points recorded from a broker, which
covers every path.
"""

from __future__ import annotations

from typing import Final

SLOTS: Final = 65_536
"""The number of slots: `2 << 15` in Pulsar's selectors."""

HashRange = tuple[int, int]
"""The first and the last slot of a range. Both belong to the range, as in the broker's statistics."""

FROM_ONE: Final[HashRange] = (1, SLOTS - 1)
"""The slots of consistent hashing, which do not include 0."""

FROM_ZERO: Final[HashRange] = (0, SLOTS - 1)
"""The slots of the other selectors."""

NO_KEY: Final = b"NONE_KEY"
"""The key that the broker hashes for a message without a key if its producer name or sequence id is
missing."""

_WORD: Final = 0xFFFF_FFFF
_C1: Final = 0xCC9E_2D51
_C2: Final = 0x1B87_3593


def sticky_key_hash(
    key: str | bytes | None,
    slots: HashRange = FROM_ONE,
    *,
    producer_name: str | None = None,
    sequence_id: int | None = None,
) -> int:
    """Return the slot of a key; it is never 0. A key that is text is encoded as UTF-8.

    For a message without a key, the broker hashes the `keyless_key` of its producer name and sequence id. So
    such messages are distributed over the consumers. If the producer name or the sequence id is None, the
    broker hashes the fixed key `NO_KEY`.

    >>> sticky_key_hash("k20"), sticky_key_hash("k20", FROM_ZERO)
    (27157, 12379)
    >>> sticky_key_hash(None, producer_name="p", sequence_id=7) == sticky_key_hash("p-7")
    True
    """
    if not (key is None or isinstance(key, (str, bytes))):
        raise TypeError(f"key is {key!r}; expected text or bytes")
    if key is None and producer_name is not None and sequence_id is not None:
        key = keyless_key(producer_name, sequence_id)
    data = NO_KEY if key is None else key.encode() if isinstance(key, str) else key
    first, last = slots
    return positive_hash(data) % (last - first + 1) + first or 1


def keyless_key(producer_name: str, sequence_id: int) -> bytes:
    """Return the key that a broker hashes for a message without a key (`Commands.resolveStickyKey`).

    >>> keyless_key("p", 7)
    b'p-7'
    """
    return f"{producer_name}-{sequence_id}".encode()


def positive_hash(data: bytes) -> int:
    """Return the 31-bit hash of `data` that Pulsar uses: `murmur3_32` without the sign bit."""
    return murmur3_32(data) & 0x7FFF_FFFF


def murmur3_32(data: bytes) -> int:
    """Return the 32-bit MurmurHash3 (x86 variant, seed 0) of `data`, unsigned.

    >>> hex(murmur3_32(b"hello"))
    '0x248bfa47'
    """
    state = 0
    whole = len(data) & ~3
    for offset in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(data[offset : offset + 4], "little"))
        state = _rotated(state, 13) * 5 + 0xE654_6B64 & _WORD
    state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    # The final mix spreads every bit of the input over all bits of the hash.
    state = (state ^ state >> 16) * 0x85EB_CA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2_AE35 & _WORD
    return state ^ state >> 16


def _scrambled(word: int) -> int:
    return _rotated(word * _C1 & _WORD, 15) * _C2 & _WORD


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
