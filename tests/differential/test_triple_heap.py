"""`TripleLongHeap`: native against reference, and both against `heapq`."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

import ackwell
import tests.reference
from tests.differential.delayed_machine import DelayedMachine


class HeapMachine(DelayedMachine):
    def make(self, draw: Any) -> tuple[Any, Any]:
        return ackwell.TripleLongHeap(), tests.reference.TripleLongHeap()

    @rule(count=st.integers(1, 20))
    def pop(self, count: int) -> None:
        for _ in range(count):
            self.pair.call("peek")
            self.pair.call("pop")


TestHeap = HeapMachine.TestCase
TestHeap.settings = settings(stateful_step_count=30)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_interleaved_adds_and_pops_agree_with_heapq(engine: Any) -> None:
    heap, queue = engine.TripleLongHeap(), list[tuple[int, int, int]]()
    state, popped = 1, 0
    for _ in range(5_000):
        state = state * 6_364_136_223_846_793_005 % 2**64
        if state >> 62:
            message = (state >> 40) % 50, (state >> 30) % 5, (state >> 20) % 100
            heap.add(*message)
            heapq.heappush(queue, message)
        elif queue:
            assert heapq.heappop(queue) == heap.pop()
            popped += 1
        assert len(queue) == len(heap)
    assert popped > 500
    assert sorted(queue) == list(heap)


@pytest.mark.parametrize("engine", [ackwell, tests.reference])
def test_an_empty_heap_refuses_peek_and_pop(engine: Any) -> None:
    for take in (engine.TripleLongHeap().peek, engine.TripleLongHeap().pop):
        with pytest.raises(IndexError):
            take()
