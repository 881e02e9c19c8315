"""`BitSet`: native against reference."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import ackwell
import tests.reference
from tests.differential.pair import Pair, plain

ENGINES = pytest.mark.parametrize("engine", [ackwell, tests.reference])

LIMIT = 300
BITS = st.integers(0, LIMIT + 10) | st.sampled_from([0, 63, 64, 127, 128, LIMIT, -1, 2**63, 2**40])


class BitSetMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.pair = Pair(ackwell.BitSet([1, 64], limit=LIMIT), tests.reference.BitSet([1, 64], limit=LIMIT))

    @rule(
        name=st.sampled_from(
            [
                "set",
                "clear",
                "get",
                "__contains__",
                "next_set",
                "next_clear",
                "previous_set",
                "previous_clear",
                "clear_prefix",
            ]
        ),
        bit=BITS,
    )
    def call_with_a_bit(self, name: str, bit: int) -> None:
        # For an index far past the limit the answer is the index; the reference would count up to it.
        self.pair.call(name, bit)

    @rule(name=st.sampled_from(["set_range", "clear_range"]), start=BITS, end=BITS)
    def call_with_a_range(self, name: str, start: int, end: int) -> None:
        self.pair.call(name, start, end)

    @rule(name=st.sampled_from(["set_many", "get_many"]), bits=st.lists(BITS, max_size=8))
    def call_with_bits(self, name: str, bits: list[int]) -> None:
        self.pair.call(name, bits)

    @rule(
        name=st.sampled_from(["__and__", "__or__", "__sub__", "__iand__", "__ior__", "__isub__"]),
        bits=st.sets(st.integers(0, LIMIT + 5), max_size=20),
    )
    def combine(self, name: str, bits: set[int]) -> None:
        results = []
        for side in (self.pair.native, self.pair.reference):
            other = type(side)(bits)
            try:
                results.append(plain(list(getattr(side, name)(other) or side)))
            except ackwell.LimitError:
                results.append("refused")
        assert results[0] == results[1]
        self.pair.check()

    @rule(name=st.sampled_from(["first", "last", "to_words", "__len__", "clear_all"]))
    def call(self, name: str) -> None:
        self.pair.call(name)


TestBitSet = BitSetMachine.TestCase
TestBitSet.settings = settings(stateful_step_count=40)


@ENGINES
def test_words_are_those_of_java(engine: Any) -> None:
    """`BitSet.valueOf(new long[] {-1, 5, 0}).toLongArray()` is `{-1, 5}`."""
    bits = engine.BitSet.from_words([-1, 5, 0])
    assert [*range(64), 64, 66] == list(bits)
    assert bits.to_words().tolist() == [-1, 5]
    assert engine.BitSet().to_words().tolist() == []
    assert engine.BitSet([63]).to_words().tolist() == [-(2**63)]


@ENGINES
def test_a_copy_and_a_pickle_are_equal_and_apart(engine: Any) -> None:
    original = engine.BitSet([3, 200], limit=201)
    for twin in (original.copy(), pickle.loads(pickle.dumps(original))):
        assert twin == original
        assert twin.limit == 201
        twin.clear(3)
        assert twin != original


@ENGINES
def test_a_set_and_itself(engine: Any) -> None:
    bits = engine.BitSet([1, 2])
    bits |= bits
    bits &= bits
    assert list(bits) == [1, 2]
    bits -= bits
    assert not bits
