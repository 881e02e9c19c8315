"""Pulsar's compression types through other people's libraries; what is specified here are the limits.

`cramjam` is a development dependency: the reference is an oracle, not a way to run ackwell.
"""

from __future__ import annotations

import zlib

from ackwell.errors import CorruptStateError, LimitError

NAMES = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def compress(data: bytes, compression: str) -> bytes:
    """Compress `data`; `compression` is Pulsar's name of the type."""
    import cramjam

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
    import cramjam

    if size > max_bytes:
        raise LimitError(f"{size} bytes after decompression are more than {max_bytes}")
    # One byte more than announced shows what is longer; a block that does not fit is refused.
    out = bytearray(size + 1)
    try:
        match compression:
            case "NONE":
                written = min(len(data), size + 1)
                out[:written] = data[:written]
            case "LZ4":
                written = cramjam.lz4.decompress_block_into(data, out, output_len=size + 1)
            case "ZLIB":
                stream = zlib.decompressobj()
                plain = stream.decompress(data, size + 1)
                # Pulsar flushes its streams and does not end them.
                if stream.unused_data or stream.unconsumed_tail:
                    raise CorruptStateError("bytes behind the end of the zlib stream", 0)
                written = len(plain)
                out[:written] = plain
            case "ZSTD":
                written = cramjam.zstd.decompress_into(data, out)
            case "SNAPPY":
                written = cramjam.snappy.decompress_raw_into(data, out)
            case _:
                raise ValueError(f"compression {compression!r}: expected one of {', '.join(NAMES)}")
    except (zlib.error, cramjam.DecompressionError, OverflowError) as error:
        raise CorruptStateError(f"{compression}: {error}", 0) from None
    if written != size:
        raise CorruptStateError(f"{compression}: {written} bytes, not {size}", 0)
    return bytes(out[:size])
