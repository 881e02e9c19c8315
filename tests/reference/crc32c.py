"""CRC-32C (Castagnoli), the checksum of a message in Pulsar's binary protocol: bit by bit."""

from __future__ import annotations

from typing import Final

POLYNOMIAL: Final = 0x82F6_3B78
"""0x1EDC6F41 with its bits reversed, because the checksum takes the lowest bit first."""


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the checksum of `data`, going on from `crc`, the checksum of the bytes before it.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc ^= 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF
