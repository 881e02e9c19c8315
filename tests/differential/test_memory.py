"""An argument that needs more memory than available raises an error and never ends the interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="the test limits the memory of a process")

LIMIT_BYTES = 4 << 30

FULL_BUCKETS = (
    "bitmap = BitMap(range(2**32 - 1)); bitmap.run_optimize(); "
    "buckets = TimeBuckets(0); buckets.add_roaring(0, 0, bitmap.serialize())"
)

CALLS = {
    "BitSet.set": "BitSet(limit=2**63 - 1).set(2**62)",
    "BitSet.set, just past memory": "BitSet(limit=2**63 - 1).set(2**37)",
    "BitSet.set_many": "BitSet(limit=2**63 - 1).set_many([1, 2**62])",
    "BitSet.set_range": "BitSet(limit=2**63 - 1).set_range(0, 2**62)",
    "BitSet.clear_prefix": "bits = BitSet(); bits.set_range(0, 2**31); bits.clear_prefix(2**31)",
    "LongMap.reserve": "LongMap().reserve(2**39)",
    "LongMap.reserve, just past memory": "LongMap().reserve(2**29)",
    "TimeBuckets.pop_due": f"{FULL_BUCKETS}; buckets.pop_due(2**62, 2**62)",
    "TimeBuckets.to_arrays": f"{FULL_BUCKETS}; buckets.to_arrays()",
    "TimeBuckets ==": f"{FULL_BUCKETS}; buckets == buckets.copy()",
    "list(TimeBuckets)": f"{FULL_BUCKETS}; list(buckets)",
    "TimeWheel.pop_due": "wheel = TimeWheel.from_bytes(full_wheel()); wheel.pop_due(2**62, 2**62)",
    "TimeWheel.to_arrays": "wheel = TimeWheel.from_bytes(full_wheel()); wheel.to_arrays()",
    "decompress": "decompress(b'', 'ZSTD', 2**62, 2**62)",
    "PositionInfo.decode": "PositionInfo.decode(b'', max_bytes=2**62)",
}

PROGRAM = """
import resource
import zlib

import numpy as np
from pyroaring import BitMap

from ackwell import AckwellError, BitSet, LongMap, PositionInfo, TimeBuckets, TimeWheel
from ackwell._native import decompress


def full_wheel():
    '''One slot whose stream is one run of 2**32 - 1 entries on one tick.'''
    bits, length = 0, 0

    def put(value, count):
        nonlocal bits, length
        bits, length = bits | value << length, length + count

    def number(value):
        put(max(value.bit_length(), 1) - 1, 6)
        put(value, max(value.bit_length(), 1))

    count = 2**32 - 1
    put(0xFFF | 2 << 12, 14)  # a run
    put(0xFFF | 1 << 12, 14)  # of another ledger
    number(1)
    number(0)
    put(0, 1)  # the tick, as the slot has one bit
    for value in (count - 1, count, 1, 0):
        number(value)
    words = -(-length // 64)
    body = b"AKTW\\x01\\x01\\x01\\x00\\x01" + varint(count) + varint(length)
    body += bits.to_bytes(8 * words, "little") + b"\\x00"
    return body + zlib.crc32(body).to_bytes(4, "little")


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
try:
    {call}
except (MemoryError, AckwellError, ValueError) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_memory_cannot_hold_is_refused(call: str) -> None:
    program = PROGRAM.replace("{limit}", str(LIMIT_BYTES)).replace("{call}", call)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() in {"MemoryError", "LimitError", "ValueError", "CorruptStateError"}
