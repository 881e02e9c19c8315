"""The Python class of every structure: one call, and one batch. `benches/bars` compares them with peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ackwell import (
    AckSets,
    BitSet,
    Ledgers,
    LongMap,
    ManagedCursorInfo,
    PendingAcks,
    PositionInfo,
    PositionRangeSet,
    TimeBuckets,
    TimeWheel,
    TripleLongHeap,
)
from ackwell._native import Names, Partials, TraceReader, compress, crc32c, decode_command_ack, decompress

ROWS = 50_000
ENTRIES = np.arange(ROWS)
LEDGERS = ENTRIES // 10_000
TIMES = 1_700_000_000_000 + ENTRIES
HASHES = 31 * ENTRIES
PENDING = PendingAcks.from_arrays(LEDGERS, ENTRIES, (ENTRIES & 15) + 1, HASHES)
MAP = LongMap.from_arrays(ENTRIES, HASHES)
BITS = BitSet(range(0, ROWS, 2))
HOLES = PositionRangeSet((ledger, at - 1, at) for ledger in range(20) for at in range(1, 5_000, 2))
SETS = AckSets.from_arrays(LEDGERS, 2 * ENTRIES, np.arange(ROWS + 1), 1_000 + (ENTRIES & 15))
STATE = PositionInfo(0, -1, HOLES)
RECORD = ManagedCursorInfo(-1, STATE)
BYTES = STATE.encode("pulsar-ranges")
COMMAND = bytes([8, 1, 16, 0]) + b"".join(bytes([26, 5, 8, 200, 1, 16, entry]) for entry in range(100))
STORED = compress(BYTES, "ZSTD")
DIRECTORY = Ledgers(dict.fromkeys(range(100), 50_000))
HEAP, BUCKETS, WHEEL = TripleLongHeap(), TimeBuckets(10), TimeWheel(1)

CALLS: dict[str, Callable[[], object]] = {
    "Ledgers.entries_between": lambda: DIRECTORY.entries_between((3, 7), (90, 9)),
    "LongMap.get": lambda: MAP.get(25_000),
    "BitSet.next_set": lambda: BITS.next_set(25_001),
    "PendingAcks.add": lambda: PENDING.add(0, 25_000, 1, 7),
    "PendingAcks.contains": lambda: PENDING.contains(2, 25_000),
    "PendingAcks.get_remaining": lambda: PENDING.get_remaining(2, 25_000),
    "PendingAcks[…]": lambda: PENDING[2, 25_000],
    "PositionRangeSet.contains": lambda: HOLES.contains(7, 2_501),
    "AckSets.intersect": lambda: SETS.intersect(2, 50_000, [1_015]),
    "AckSets.unacked_bits": lambda: SETS.unacked_bits(2, 50_000),
    "TripleLongHeap.add + pop": lambda: HEAP.add(1, 2, 3) and HEAP.pop(),
    "TimeBuckets.add + remove": lambda: BUCKETS.add(1, 2, 3) and BUCKETS.remove(1, 2, 3),
    "TimeWheel.add + remove": lambda: WHEEL.add(1, 2, 3) and WHEEL.remove(1, 2, 3),
}

SETS_COLUMNS = SETS.to_arrays()
ONE_NAME = np.zeros(len(ENTRIES), np.int32), np.array([1], np.int32)
ACKS = np.zeros(len(ENTRIES), np.int32), np.array([3], np.int32)
OFFSETS = np.arange(0, 5 * (ROWS + 1), 5, dtype=np.int32)
TEXTS = np.frombuffer(b"".join(b"t%04d" % (row % 5_000) for row in range(ROWS)), np.uint8)
LINES = b"".join(b'{"ev":"ack","topic":"t","sub":"s","l":3,"e":%d}\n' % entry for entry in range(10_000))
BATCHES: dict[str, Callable[[], object]] = {
    "LongMap.put_many": lambda: LongMap().put_many(ENTRIES, HASHES),
    "BitSet.set_many": lambda: BitSet().set_many(ENTRIES),
    "PendingAcks.add_many": lambda: PendingAcks().add_many(LEDGERS, ENTRIES, ENTRIES & 15, HASHES),
    "PendingAcks.get_many": lambda: PENDING.get_many(LEDGERS, ENTRIES),
    "PendingAcks.take_all_up_to": lambda: PENDING.copy().take_all_up_to(9, ROWS),
    "list(PendingAcks)": lambda: list(PENDING),
    "PositionRangeSet.add_many": lambda: PositionRangeSet().add_many(LEDGERS, ENTRIES),
    "PositionRangeSet.contains_many": lambda: HOLES.contains_many(LEDGERS, ENTRIES),
    "AckSets.intersect_many": lambda: SETS.intersect_many(*SETS_COLUMNS),
    "AckSets.to_arrays": SETS.to_arrays,
    "TripleLongHeap.add_many": lambda: TripleLongHeap().add_many(TIMES, LEDGERS, ENTRIES),
    "TimeBuckets.add_many": lambda: TimeBuckets(10).add_many(TIMES, LEDGERS, ENTRIES),
    "TimeWheel.add_many": lambda: TimeWheel(1).add_many(TIMES, LEDGERS, ENTRIES),
    "Names.number_many": lambda: Names().number_many(OFFSETS, TEXTS),
    "Partials.feed": lambda: Partials().feed(ONE_NAME, ONE_NAME, ACKS, LEDGERS, ENTRIES),
    "TraceReader.read": lambda: TraceReader([("ack", False, False)]).read(LINES, 0, len(LINES), 1),
    "crc32c": lambda: crc32c(BYTES),
    "decode_command_ack": lambda: decode_command_ack(COMMAND),
    "compress": lambda: compress(BYTES, "ZSTD"),
    "decompress": lambda: decompress(STORED, "ZSTD", len(BYTES)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_one_call(benchmark: Any, call: Callable[[], object]) -> None:
    assert benchmark(call)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_a_batch(benchmark: Any, batch: Callable[[], object]) -> None:
    assert benchmark(batch) is not None


@pytest.mark.parametrize("form", ["pulsar-ranges", "pulsar-long-array", "compact"])
def test_encode_and_decode(benchmark: Any, form: str) -> None:
    assert benchmark(lambda: PositionInfo.decode(STATE.encode(form))) == STATE


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD"])
def test_encode_and_decode_a_record(benchmark: Any, compression: str) -> None:
    assert benchmark(lambda: ManagedCursorInfo.decode(RECORD.encode(compression))) == RECORD
