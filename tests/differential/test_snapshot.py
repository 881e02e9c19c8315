"""State bytes as entries: the plain-Python chunker and ours give the same entries, and read each other's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackwell import CorruptStateError, PositionInfo
from ackwell.reference import snapshot as reference
from ackwell.saving.compression import COMPRESSIONS
from ackwell.saving.snapshot import EntrySettings, encode_entries, recover

FORMS = ("pulsar-ranges", "pulsar-long-array", "compact")


def state(acks: int, seed: int = 1) -> PositionInfo:
    rolls = random.Random(seed)
    return PositionInfo(3, 5, [(3, at - 1, at) for at in rolls.sample(range(10, 9000), acks)])


@given(
    st.integers(0, 300),
    st.integers(1, 700),
    st.sampled_from(COMPRESSIONS),
    st.sampled_from(FORMS),
    st.none() | st.integers(0, 9),
)
@settings(deadline=None, max_examples=100)
def test_both_write_the_same_entries_and_read_each_others(
    acks: int, size: int, compression: str, form: str, generation: int | None
) -> None:
    data = state(acks).encode(form)
    own = EntrySettings(True, size, compression, pip_381=generation is None)
    ours = encode_entries(data, own, generation=generation or 0)
    theirs = reference.encode_entries(data, size, compression, generation)
    if compression == "NONE":
        assert theirs == ours
    assert data == reference.decode_entries(ours, compression)
    for entries in (ours, theirs):
        found = recover(entries.__getitem__, len(entries) - 1, settings=own)
        assert found.data == data
        assert not found.skipped
        assert found.form == form or not acks


@given(
    st.lists(st.tuples(st.sampled_from(FORMS), st.integers(0, 120)), min_size=1, max_size=3),
    st.sampled_from(COMPRESSIONS),
    st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=3),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=100)
def test_both_find_the_same_newest_state_among_damaged_entries(
    saves: list[tuple[str, int]], compression: str, flips: list[tuple[int, int]], missing: int
) -> None:
    own = EntrySettings(True, 100, compression)
    entries: list[bytes] = []
    for seed, (form, acks) in enumerate(saves):
        entries += encode_entries(state(acks, seed).encode(form), own, generation=seed)
    entries = entries[: max(1, len(entries) - missing)]
    for number, bit in flips:
        damaged = bytearray(entries[number % len(entries)])
        if damaged:
            damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8
        entries[number % len(entries)] = bytes(damaged)
    try:
        expected = reference.recover(entries, compression)
    except CorruptStateError:
        with pytest.raises(CorruptStateError):
            recover(entries.__getitem__, len(entries) - 1, settings=own)
        return
    found = recover(entries.__getitem__, len(entries) - 1, settings=own)
    assert expected[0].encode("compact") == found.position_info.encode("compact")
    assert expected[1] == found.last_id
