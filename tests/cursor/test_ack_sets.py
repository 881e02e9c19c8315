"""Ack sets as words and as bits: the conversions agree with plain sets and reject sizes above the limit."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackwell import Cursor, EventError, Ledgers, LimitError
from ackwell.cursor import ack_sets
from ackwell.replay.events import Event, Kind
from ackwell.replay.states import Replay

indexes = st.frozensets(st.integers(0, 200))
sizes = st.integers(1, 200)


def bits_of(members: frozenset[int]) -> int:
    return sum(1 << index for index in members)


@given(indexes)
def test_words_have_the_bits_of_their_indexes_and_no_trailing_zero_word(members: frozenset[int]) -> None:
    words = ack_sets.to_words(bits_of(members))
    read = {
        64 * number + bit
        for number, word in enumerate(words)
        for bit in range(64)
        if (word % 2**64) >> bit & 1
    }
    assert read == members
    assert not words or words[-1] != 0
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert ack_sets.from_words(words) == bits_of(members)
    assert ack_sets.from_words([word % 2**64 for word in words] + [0, 0]) == bits_of(members)


@given(st.integers(-(2**200), 2**200))
@example(-1)
def test_signed_words_keep_ones_without_end(bits: int) -> None:
    assert ack_sets.from_signed_words(ack_sets.to_signed_words(bits)) == bits


@given(sizes, st.data())
def test_the_bits_of_a_batch_are_those_of_a_set_of_indexes(size: int, data: st.DataObject) -> None:
    everything = frozenset(range(size))
    members = data.draw(st.frozensets(st.sampled_from(sorted(everything))))
    index = data.draw(st.sampled_from(sorted(everything)))
    bits = bits_of(members)
    assert ack_sets.all_messages(size) == bits_of(everything)
    assert ack_sets.complement(bits, size) == bits_of(everything - members)
    assert ack_sets.mask_to_size(ack_sets.mask_without(index), size) == bits_of(everything - {index})
    later = bits_of(frozenset(range(index + 1, size)))
    assert ack_sets.mask_to_size(ack_sets.mask_after(index), size) == later
    assert ack_sets.first_unacked(bits) == min(members, default=-1)
    assert ack_sets.last_unacked(bits) == max(members, default=-1)


@pytest.mark.parametrize("word", [2**64, -(2**63) - 1])
def test_a_word_outside_64_bits_is_refused(word: int) -> None:
    with pytest.raises(ValueError, match="expected a 64-bit word"):
        ack_sets.from_words([word])


@pytest.mark.parametrize("word", [1.0, "1", None])
def test_a_word_that_is_no_integer_is_refused(word: object) -> None:
    with pytest.raises(TypeError):
        ack_sets.from_words([word])  # type: ignore[list-item]


def test_bits_of_a_batch_of_unknown_size_have_no_ack_set() -> None:
    with pytest.raises(ValueError, match="batch size is not known"):
        ack_sets.to_words(-2)


@pytest.mark.parametrize("mask", [ack_sets.mask_without, ack_sets.mask_after])
def test_a_negative_batch_index_is_refused(mask: Callable[[int], int]) -> None:
    with pytest.raises(ValueError, match="batch index -1; expected at least 0"):
        mask(-1)


def test_the_largest_batch_is_converted() -> None:
    bits = ack_sets.all_messages(ack_sets.BATCH_SIZE_MAX)
    words = ack_sets.to_words(bits)
    assert words == (-1,) * ack_sets.WORDS_MAX
    assert ack_sets.from_words(words) == bits


def test_a_larger_batch_is_refused_before_memory_is_allocated_for_it() -> None:
    refusals: list[Callable[[], int]] = [
        lambda: ack_sets.all_messages(10**9),
        lambda: ack_sets.complement(0, 2**40),
        lambda: ack_sets.mask_without(2**34),
        lambda: ack_sets.mask_after(2**34),
        lambda: ack_sets.all_messages(ack_sets.BATCH_SIZE_MAX + 1),
        lambda: ack_sets.mask_without(ack_sets.BATCH_SIZE_MAX),
        lambda: ack_sets.from_words(itertools.repeat(-1)),
    ]
    tracemalloc.start()
    try:
        for refuse in refusals:
            with pytest.raises(LimitError, match="1,048,576 messages"):
                refuse()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20 * 4


def test_a_cursor_refuses_an_ack_set_of_a_batch_that_cannot_exist() -> None:
    cursor = Cursor(Ledgers({3: 5}))
    with pytest.raises(LimitError):
        cursor.ack_batch(3, 0, [-1] * (ack_sets.WORDS_MAX + 1))
    with pytest.raises(LimitError):
        cursor.ack_cumulative(3, 0, [-1] * (ack_sets.WORDS_MAX + 1))
    assert cursor.partly_acked == 0


def test_a_partial_refuses_a_batch_index_that_cannot_exist() -> None:
    event = Event("t", "s", 1, Kind.ACK, ledger_id=3, entry_id=0, batch_index=2**34)
    replay = Replay()
    replay.feed(event)
    with pytest.raises(EventError, match="beyond the largest batch"):
        replay.states()
