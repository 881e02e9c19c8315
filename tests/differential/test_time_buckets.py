"""`TimeBuckets`: native against reference, and its bitmaps against another roaring library."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from pyroaring import BitMap, BitMap64

import ackwell
import tests.reference
from ackwell import CorruptStateError, TimeBuckets
from tests.differential.delayed_machine import DelayedMachine, ids, times
from tests.differential.pair import outcome
from tests.reference.roaring import load

MODES = ("round_down", "round_up", "bucket_end")


class BucketsMachine(DelayedMachine):
    def make(self, draw: Any) -> tuple[Any, Any]:
        bits, mode = draw(st.integers(0, 62)), draw(st.sampled_from(MODES))
        if draw(st.booleans()):
            bits = draw(st.integers(0, 10))
        return ackwell.TimeBuckets(bits, mode), tests.reference.TimeBuckets(bits, mode)

    @rule()
    def count_buckets(self) -> None:
        native, reference = self.pair.native, self.pair.reference
        assert native.bucket_count == reference.bucket_count
        assert (native.bits, native.mode) == (reference.bits, reference.mode)

    @rule()
    def saved_bytes_restore_it_in_both_engines(self) -> None:
        self.each_reads_both()

    @rule(time=times, ledger=ids)
    def bitmaps_have_the_same_entries(self, time: int, ledger: int) -> None:
        found = [outcome(partial(index.to_roaring, time, ledger)) for index in self.pair]
        numbers = [
            kind if kind == "raised" or held is None else (held[1], load(held[0], wide=held[1]))  # type: ignore[index]
            for kind, held in found
        ]
        assert numbers[0] == numbers[1]

    @rule(time=times, ledger=ids, entries=st.sets(st.integers(0, 300) | ids, max_size=20), wide=st.booleans())
    def add_bitmap(self, time: int, ledger: int, entries: set[int], *, wide: bool) -> None:
        bitmap = BitMap64 if wide else BitMap
        entries = {entry for entry in entries if 0 <= entry < (2**64 if wide else 2**32)}
        self.pair.call("add_roaring", time, ledger, bitmap(entries).serialize(), wide=wide)


TestBuckets = BucketsMachine.TestCase
TestBuckets.settings = settings(stateful_step_count=30)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@pytest.mark.parametrize("arguments", [(-1,), (63,), (2**70,), (3, "early"), (3, ""), ("3",)], ids=str)
def test_arguments_outside_the_domain_are_refused(engine: Any, arguments: tuple[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        engine.TimeBuckets(*arguments)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@pytest.mark.parametrize(("tick", "bits"), [(1, 0), (999, 9), (1000, 9), (1024, 10)])
def test_the_brokers_tick_time_becomes_bits(engine: Any, tick: int, bits: int) -> None:
    assert bits == engine.TimeBuckets.from_tick(tick).bits
    with pytest.raises(ValueError, match="at least 1 ms"):
        engine.TimeBuckets.from_tick(0)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_rounding_up_saturates_at_the_end_of_time(engine: Any) -> None:
    buckets = engine.TimeBuckets(62, "round_up")
    assert buckets.add(2**62 + 1, 1, 1)
    assert buckets.next_due() == 2**63 - 1
    assert not buckets.has_due(2**63 - 2)
    assert buckets.has_due(2**63 - 1)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@pytest.mark.parametrize(("mode", "due"), [("round_down", 512), ("round_up", 1024), ("bucket_end", 1023)])
def test_a_mode_says_when_a_bucket_is_due(engine: Any, mode: str, due: int) -> None:
    buckets = engine.TimeBuckets(9, mode)
    for time in (513, 800, 1023):
        assert buckets.add(time, 1, time)
    assert (buckets.bucket_count, buckets.next_due()) == (1, due)
    assert not buckets.has_due(due - 1)
    assert buckets.pop_due(due, 10)[0].tolist() == [due] * 3


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1), st.integers(0, 2_000))
def test_bitmaps_go_to_and_come_from_pyroaring(entries: set[int], run: int) -> None:
    entries |= set(range(run))
    buckets = TimeBuckets(10)
    buckets.add_many([7] * len(entries), [1] * len(entries), np.array(sorted(entries)))
    data, wide = buckets.to_roaring(7, 1)  # type: ignore[misc]
    assert not wide
    assert BitMap(entries) == BitMap.deserialize(data)
    other = TimeBuckets(10)
    assert len(entries) == other.add_roaring(7, 1, BitMap(entries).serialize())
    assert buckets == other


def test_ids_past_32_bits_take_the_64_bit_form() -> None:
    entries = [0, 2**32, 2**40, 2**63 - 1]
    buckets = TimeBuckets(10)
    buckets.add_many([7] * 4, [1] * 4, entries)
    data, wide = buckets.to_roaring(7, 1)  # type: ignore[misc]
    assert wide
    assert BitMap64(entries) == BitMap64.deserialize(data)
    other = TimeBuckets(10)
    assert other.add_roaring(7, 1, BitMap64(entries).serialize(), wide=True) == 4
    assert buckets == other
    with pytest.raises(CorruptStateError):
        other.add_roaring(7, 1, BitMap64([2**63]).serialize(), wide=True)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_with_an_offset(engine: Any, data: bytes) -> None:
    for hostile in (data, b"AKTB\x01" + data):
        with pytest.raises(CorruptStateError) as refused:
            engine.TimeBuckets.from_bytes(hostile)
        assert 0 <= refused.value.offset <= len(hostile)
    with pytest.raises(CorruptStateError):
        engine.TimeBuckets(3).add_roaring(0, 0, data)


# Only numbers of one byte, because the reference stores every message that a number announces.
@given(st.lists(st.integers(0, 127) | st.integers(0, 3), max_size=60).map(bytes))
def test_both_engines_judge_a_framed_body_alike(body: bytes) -> None:
    data = b"AKTB\x01" + bytes([len(body) % 8, len(body) % 2]) + body
    data += zlib.crc32(data).to_bytes(4, "little")
    native, reference = (
        outcome(partial(engine.TimeBuckets.from_bytes, data)) for engine in (ackwell, tests.reference)
    )
    assert native == reference


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_a_newer_version_is_refused_by_name(engine: Any) -> None:
    data = bytearray(TimeBuckets(3).to_bytes())
    data[4] = 2
    with pytest.raises(CorruptStateError, match="TimeBuckets of version 2"):
        engine.TimeBuckets.from_bytes(bytes(data))


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_a_bitmap_is_narrow_where_its_entries_are(engine: Any) -> None:
    buckets = engine.TimeBuckets(0)
    buckets.add_roaring(5, 3, BitMap64([0]).serialize(), wide=True)
    buckets.add_roaring(5, 4, BitMap64([0, 2, 2**40]).serialize(), wide=True)
    assert [buckets.to_roaring(5, ledger_id)[1] for ledger_id in (3, 4)] == [False, True]
    assert buckets.to_bytes() == engine.TimeBuckets.from_bytes(buckets.to_bytes()).to_bytes()
    buckets.remove(5, 4, 2**40)
    assert buckets.to_roaring(5, 4)[1] is False
