"""Pulsar's compression types through other libraries; this module specifies only the limits.

NONE and ZLIB come from the standard library; LZ4, ZSTD and SNAPPY come from cramjam.
"""

from __future__ import annotations

import zlib

import cramjam

from ackwell.errors import CorruptStateError, LimitError
from tests.reference.integers import int64

NAMES = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def compress(data: bytes, compression: str) -> bytes:
    """Compress `data`; `compression` is Pulsar's name of the type."""
    match compression:
        case "NONE":
            return data
        case "LZ4":
            return bytes(cramjam.lz4.compress_block(data, store_size=False))
        case "ZLIB":
            return zlib.compress(data)
        case "ZSTD":
            return bytes(cramjam.zstd.compress(data, level=1))
        case "SNAPPY":
            return bytes(cramjam.snappy.compress_raw(data))
        case _:
            raise ValueError(f"compression {compression!r}: expected one of {', '.join(NAMES)}")


def decompress(data: bytes, compression: str, size: int, max_bytes: int = 64 << 20) -> bytes:
    """Decompress to exactly `size` bytes."""
    for name, number in (("size", size), ("max_bytes", max_bytes)):
        if int64(number) < 0:
            raise ValueError(f"{name} {number}: expected at least 0")
    if compression not in NAMES:
        raise ValueError(f"compression {compression!r}: expected one of {', '.join(NAMES)}")
    if size > max_bytes:
        raise LimitError(f"{size} bytes after decompression are more than {max_bytes}")
    plain = _plain(data, compression, size)
    if len(plain) != size:
        raise CorruptStateError(f"{compression}: {len(plain)} bytes, not {size}", 0)
    return plain


def _plain(data: bytes, compression: str, size: int) -> bytes:
    """Return the decompressed bytes, at most `size + 1`."""
    if compression == "NONE":
        return data[: size + 1]
    if compression == "ZLIB":
        return _plain_zlib(data, size)
    # A block that does not fit is an error.
    out = bytearray(size + 1)
    try:
        if compression == "LZ4":
            written = cramjam.lz4.decompress_block_into(data, out, output_len=size + 1)
        elif compression == "ZSTD":
            written = cramjam.zstd.decompress_into(data, out)
        else:
            written = cramjam.snappy.decompress_raw_into(data, out)
        return bytes(out[:written])
    except (cramjam.DecompressionError, OverflowError) as error:
        raise CorruptStateError(f"{compression}: {error}", 0) from None


def _plain_zlib(data: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptStateError(f"ZLIB: {error}", 0) from None
    # Pulsar flushes its streams and does not end them.
    if stream.unused_data or stream.unconsumed_tail:
        raise CorruptStateError("bytes behind the end of the zlib stream", 0)
    return plain
