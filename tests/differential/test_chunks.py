"""State bytes as entries: the reference and ackwell write the same entries and read each other's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import CorruptStateError, PositionInfo
from ackwell.protocol.constants import COMPRESSIONS
from ackwell.saving.chunks import EntrySettings, decompress, encode_entries, join
from tests.reference import chunks as reference

FORMS = ("pulsar-ranges", "pulsar-long-array", "compact")


def state(acks: int, seed: int = 1) -> PositionInfo:
    rolls = random.Random(seed)
    return PositionInfo(3, 5, [(3, at - 1, at) for at in rolls.sample(range(10, 9000), acks)])


@given(st.integers(0, 300), st.integers(1, 700), st.sampled_from(COMPRESSIONS), st.sampled_from(FORMS))
def test_both_write_the_same_entries_and_read_each_others(
    acks: int, size: int, compression: str, form: str
) -> None:
    data = state(acks).encode(form)
    ours = encode_entries(data, EntrySettings(True, size, compression))
    theirs = reference.encode_entries(data, size, compression)
    if compression == "NONE":
        assert theirs == ours
    assert data == reference.decode_entries(ours, compression)
    for entries in (ours, theirs):
        stored = entries[0] if len(entries) == 1 else join(entries.__getitem__, len(entries) - 1)[0]
        assert decompress(stored, compression) == data


@given(
    st.integers(100, 300),
    st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=3),
    st.integers(0, 3),
)
def test_both_refuse_the_same_damaged_entries_or_read_the_same(
    acks: int, flips: list[tuple[int, int]], missing: int
) -> None:
    entries = encode_entries(state(acks).encode("pulsar-ranges"), EntrySettings(True, 100))[missing:]
    for number, bit in flips:
        damaged = bytearray(entries[number % len(entries)])
        damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8
        entries[number % len(entries)] = bytes(damaged)
    last = len(entries) - 1
    if not entries[last].startswith(b"{"):
        return
    try:
        expected = reference.decode_entries(entries)
    except CorruptStateError:
        with pytest.raises(CorruptStateError):
            join(entries.__getitem__, last)
        return
    assert join(entries.__getitem__, last)[0] == expected
