"""Roaring bitmaps in their portable format, 32-bit and 64-bit, as sorted lists of numbers.

See https://github.com/RoaringBitmap/RoaringFormatSpec. The reader accepts all kinds of containers; the writer
uses arrays and bitsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from struct import Struct, error, unpack_from

WITHOUT_RUNS, WITH_RUNS = 12346, 12347
ARRAY_MAX = 4096
"""The maximum size of an array container; above it a bitset is smaller."""
OFFSETS_MIN = 4
"""The number of containers from which a bitmap with runs has offsets."""
CONTAINER = 1 << 16
U16_PAIR = Struct("<HH")


class NotRoaringError(ValueError):
    """Bytes that are not a portable bitmap."""


def dump(numbers: list[int]) -> tuple[bytes, bool]:
    """Return sorted numbers as a bitmap, and whether it is 64-bit because a number exceeds 32 bits."""
    if not numbers or numbers[-1] < 1 << 32:
        return _dump_32(numbers), False
    halves = [(high, [n & 0xFFFF_FFFF for n in low]) for high, low in groupby(numbers, lambda n: n >> 32)]
    bitmaps = (high.to_bytes(4, "little") + _dump_32(low) for high, low in halves)
    return len(halves).to_bytes(8, "little") + b"".join(bitmaps), True


def load(data: bytes, *, wide: bool) -> list[int]:
    """Return the numbers of a bitmap of 32 or 64 bits; `NotRoaringError` for anything else."""
    try:
        numbers, at = _load_64(data) if wide else _load_32(data, 0)
    except (error, IndexError) as cut:
        raise NotRoaringError("cut short") from cut
    if at != len(data) or any(a >= b for a, b in pairwise(numbers)):
        raise NotRoaringError("not a portable bitmap")
    return numbers


def _dump_32(numbers: list[int]) -> bytes:
    containers = [
        (key, [n % CONTAINER for n in low]) for key, low in groupby(numbers, lambda n: n // CONTAINER)
    ]
    head = WITHOUT_RUNS.to_bytes(4, "little") + len(containers).to_bytes(4, "little")
    head += b"".join(U16_PAIR.pack(key, len(values) - 1) for key, values in containers)
    bodies = [_container(values) for _, values in containers]
    at, offsets = len(head) + 4 * len(bodies), b""
    for body in bodies:
        offsets += at.to_bytes(4, "little")
        at += len(body)
    return head + offsets + b"".join(bodies)


def _container(values: list[int]) -> bytes:
    if len(values) <= ARRAY_MAX:
        return b"".join(value.to_bytes(2, "little") for value in values)
    return sum(1 << value for value in values).to_bytes(CONTAINER // 8, "little")


def _load_64(data: bytes) -> tuple[list[int], int]:
    (count,), at = unpack_from("<Q", data), 8
    numbers: list[int] = []
    for _ in range(count):
        (high,) = unpack_from("<I", data, at)
        low, at = _load_32(data, at + 4)
        numbers += [high << 32 | number for number in low]
    return numbers, at


def _load_32(data: bytes, at: int) -> tuple[list[int], int]:
    (cookie,) = unpack_from("<I", data, at)
    has_runs = cookie & 0xFFFF == WITH_RUNS
    if has_runs:
        count, at = (cookie >> 16) + 1, at + 4
        flags, at = int.from_bytes(data[at : at + (count + 7) // 8], "little"), at + (count + 7) // 8
    elif cookie == WITHOUT_RUNS:
        (count,), flags, at = unpack_from("<I", data, at + 4), 0, at + 8
    else:
        raise NotRoaringError(f"cookie {cookie}")
    if count > CONTAINER:
        raise NotRoaringError(f"{count} containers")
    heads = [U16_PAIR.unpack_from(data, at + 4 * index) for index in range(count)]
    at += 4 * count
    if not has_runs or count >= OFFSETS_MIN:
        at += 4 * count
    numbers: list[int] = []
    for index, (key, length) in enumerate(heads):
        values, at = _values(data, at, length + 1, is_run=bool(flags >> index & 1))
        numbers += [key * CONTAINER + value for value in values]
    return numbers, at


def _values(data: bytes, at: int, length: int, *, is_run: bool) -> tuple[list[int], int]:
    """Return the values of one container, and the offset of the next."""
    if is_run:
        (runs,) = unpack_from("<H", data, at)
        pairs = unpack_from(f"<{2 * runs}H", data, at + 2)
        return list(_runs(pairs)), at + 2 + 4 * runs
    if length <= ARRAY_MAX:
        return list(unpack_from(f"<{length}H", data, at)), at + 2 * length
    if len(data) < at + CONTAINER // 8:
        raise NotRoaringError("cut short")
    bits = int.from_bytes(data[at : at + CONTAINER // 8], "little")
    values = [value for value in range(CONTAINER) if bits >> value & 1]
    if len(values) != length:
        raise NotRoaringError(f"{len(values)} bits, {length} announced")
    return values, at + CONTAINER // 8


def _runs(pairs: tuple[int, ...]) -> Iterator[int]:
    for start, more in zip(pairs[::2], pairs[1::2], strict=True):
        if start + more >= CONTAINER:
            raise NotRoaringError("a run past its container")
        yield from range(start, start + more + 1)
