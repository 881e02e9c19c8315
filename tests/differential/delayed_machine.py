"""One state machine for the three indexes of delayed messages; each structure's test provides the pair."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.differential.pair import Pair, outcome

INT64_MAX = 2**63 - 1

times = st.one_of(
    st.integers(0, 200),
    st.integers(0, 100_000),
    st.sampled_from([-(2**63), -1, INT64_MAX, INT64_MAX - 1]),
    st.integers(-(2**64), 2**64),
)
ids = st.one_of(
    st.integers(0, 6),
    st.integers(0, 2_000),
    st.sampled_from([-1, 2**32 - 1, 2**32, INT64_MAX, 2**63]),
)
# A producer with a fixed delay: entries in order, a later time every few messages.
runs = st.tuples(
    st.integers(0, 5_000),
    st.integers(0, 2),
    st.integers(0, 500),
    st.integers(1, 5),
    st.integers(0, 200),
    st.integers(0, 2),
)


class DelayedMachine(RuleBasedStateMachine):
    """Calls the common protocol on both engines; `pairs` draws the structure under test."""

    def make(self, draw: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.pair = Pair(*self.make(data.draw))
        self.added: list[tuple[int, int, int]] = []

    def probe(self, message: tuple[int, int, int], pick: int) -> tuple[int, int, int]:
        """Draw an added message half of the time, so that lookups succeed."""
        return self.added[pick % len(self.added)] if self.added and pick % 2 else message

    @rule(message=st.tuples(times, ids, ids))
    def add(self, message: tuple[int, int, int]) -> None:
        self.pair.call("add", *message)
        self.added.append(message)

    @rule(messages=st.lists(st.tuples(times, ids, ids), max_size=20))
    def add_many(self, messages: list[tuple[int, int, int]]) -> None:
        columns = [[message[column] for message in messages] for column in range(3)]
        self.pair.call("add_many", *columns)
        self.added += messages

    @rule(run=runs)
    def add_run(self, run: tuple[int, int, int, int, int, int]) -> None:
        time, ledger, entry, per_time, length, step = run
        index = np.arange(length)
        columns = time + index // per_time * step, np.full(length, ledger), entry + index
        self.pair.call("add_many", *columns)
        self.added += list(zip(*(column.tolist() for column in columns), strict=True))[::7]

    @rule()
    def add_arrays_of_different_lengths(self) -> None:
        assert self.pair.call("add_many", [1], [2], [3, 4]) is ValueError

    @rule(now_ms=times, count=st.sampled_from([0, 1, 3, 50, 10**6, -1]))
    def pop_due(self, now_ms: int, count: int) -> None:
        self.pair.call("pop_due", now_ms, count)

    @rule(message=st.tuples(times, ids, ids), pick=st.integers(0, 1000))
    def remove(self, message: tuple[int, int, int], pick: int) -> None:
        self.pair.call("remove", *self.probe(message, pick))

    @rule(message=st.tuples(times, ids, ids), pick=st.integers(0, 1000))
    def contains(self, message: tuple[int, int, int], pick: int) -> None:
        probe = self.probe(message, pick)
        self.pair.call("contains", *probe)
        self.pair.call("__contains__", probe)

    @rule(now_ms=times)
    def ask_what_is_due(self, now_ms: int) -> None:
        self.pair.call("has_due", now_ms)
        self.pair.call("next_due")
        self.pair.call("__repr__")

    @rule()
    def clear(self) -> None:
        self.pair.call("clear")
        assert self.pair.native.nbytes == 0

    @rule()
    def shrink(self) -> None:
        self.pair.call("shrink_to_fit")

    @rule()
    def copies_and_pickles_are_equal_and_apart(self) -> None:
        native = self.pair.native
        for twin in (copy.copy(native), native.copy(), pickle.loads(pickle.dumps(native))):
            assert native == twin
            twin.add(5, 5, 999_999)
            assert native != twin

    def each_reads_both(self) -> None:
        """Both engines restore the bytes of either engine."""
        for saved in self.pair:
            data = saved.to_bytes()
            assert len(data) == saved.serialized_size
            for index in self.pair:
                assert type(index).from_bytes(data) == index

    @invariant()
    def both_hold_the_same(self) -> None:
        if hasattr(self, "pair"):
            self.pair.check()
            assert len(self.pair.native) == len(self.pair.reference)
            assert outcome(self.pair.native.to_arrays) == outcome(self.pair.reference.to_arrays)
