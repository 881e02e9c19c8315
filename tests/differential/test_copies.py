"""Copies of the native structures: equal, and independent of the original."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ackwell import AckSets, BitSet, Ledgers, LongMap, PendingAcks, PositionRangeSet

CASES: list[tuple[Any, Callable[[Any], object]]] = [
    (AckSets({(3, 5): [6]}), lambda sets: sets.set(3, 6, [1])),
    (BitSet([1, 5]), lambda bits: bits.set(7)),
    (Ledgers({3: 5}), lambda ledgers: ledgers.add(4)),
    (LongMap({1: 2}), lambda numbers: numbers.put(3, 4)),
    (PendingAcks({(3, 0): (1, 7)}), lambda pending: pending.remove(3, 0)),
    (PositionRangeSet([(3, -1, 5)]), lambda acked: acked.add(3, 9)),
]


@pytest.mark.parametrize(
    "copied",
    [lambda each: each.copy(), copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],
    ids=["copy()", "copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize(("original", "change"), CASES, ids=lambda each: type(each).__name__)
def test_a_copy_is_equal_and_does_not_change_with_the_original(
    original: Any, change: Callable[[Any], object], copied: Callable[[Any], Any]
) -> None:
    changed = original.copy()
    found = copied(changed)
    assert type(found) is type(original)
    assert found == original
    change(changed)
    assert found == original
    assert found != changed
    found.validate()
