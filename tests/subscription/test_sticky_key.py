"""Hash ranges and selectors, compared with the reports of Pulsar 4.2.4."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import ProtocolError
from ackwell.subscription.selectors import (
    AutoSplit,
    ConsistentHashing,
    FailoverRing,
    Selector,
    StickyRanges,
    hash_ranges,
    owners_of_slots,
)
from ackwell.subscription.sticky_key import FROM_ZERO, SLOTS, murmur3_32, positive_hash, sticky_key_hash

TRACES = Path(__file__).parents[2] / "examples" / "traces"


def _broker_ranges(phase: str) -> dict[str, list[tuple[int, int]]]:
    with gzip.open(TRACES / f"key_shared_3c.{phase}.stats.json.gz") as file:
        stats: Any = json.load(file)
    (subscription,) = stats["stats"]["subscriptions"].values()
    return {
        consumer["consumerName"]: [tuple(each) for each in consumer["keyHashRangeArrays"]]
        for consumer in subscription["consumers"]
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"a", 0x3C2569B2),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"!Ce\x87", 0xF55B516B),
        (b"\0\0\0\0", 0x2362F9DE),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3_gives_the_published_values(data: bytes, expected: int) -> None:
    assert murmur3_32(data) == expected


def test_the_ring_of_three_consumers_equals_the_brokers_also_after_one_leaves() -> None:
    ring = ConsistentHashing()
    for consumer in ("c0", "c1", "c2"):
        ring.add(consumer)
    broker = _broker_ranges("before_close_c1")
    assert sum(map(len, broker.values())) > 200
    assert hash_ranges(ring) == broker
    ring.remove("c1")
    assert hash_ranges(ring) == _broker_ranges("live")


def test_every_key_went_to_the_consumer_that_owns_its_slot() -> None:
    ring = ConsistentHashing()
    for consumer in ("c0", "c1", "c2"):
        ring.add(consumer)
    seen = 0
    with gzip.open(TRACES / "key_shared_3c.jsonl.gz", "rt") as lines:
        for event in map(json.loads, lines):
            if event["ev"] == "consumer_close":
                ring.remove(event["c"])
            if event["ev"] == "receive":
                assert ring.select(sticky_key_hash(event["key"])) == event["c"]
                seen += 1
    assert seen == 9547


def test_the_broker_reserves_slot_zero() -> None:
    # Over the slots from 0 the key's remainder is 0, which means "not set" to a dispatcher.
    key = next(str(i) for i in range(10**6) if positive_hash(str(i).encode()) % SLOTS == 0)
    assert sticky_key_hash(key, FROM_ZERO) == 1


@given(
    st.sampled_from([ConsistentHashing, AutoSplit]),
    st.lists(st.sampled_from("abcdef"), max_size=20),
    st.lists(st.integers(1, SLOTS - 1), min_size=1),
)
def test_a_slot_moves_only_from_or_to_the_consumer_that_came_or_went(
    kind: type[ConsistentHashing | AutoSplit], toggled: list[str], slots: list[int]
) -> None:
    selector: Selector = kind()
    present: set[str] = set()
    for name in toggled:
        before = [selector.select(slot) for slot in slots]
        if name in present:
            present.remove(name)
            selector.remove(name)
        else:
            present.add(name)
            selector.add(name)
        after = [selector.select(slot) for slot in slots]
        assert all(
            was == now or name in (was, now) or was is None for was, now in zip(before, after, strict=True)
        )
        names = sorted(present)
        many = owners_of_slots(selector, names)[slots].tolist()
        assert [None if index < 0 else names[index] for index in many] == after
        assert {owner for owner in after if owner} <= present
        assert bool(present) == all(owner is not None for owner in after)


def test_two_consumers_at_one_point_take_turns() -> None:
    crowded = ConsistentHashing(points=1000)
    names = [f"c{i}" for i in range(12)]  # 12,000 points on 65,535 slots: a thousand fall together
    for name in names:
        crowded.add(name)
    ranges = hash_ranges(crowded)
    for name in names[:-1]:
        crowded.remove(name)
    assert len(ranges) == 12
    assert hash_ranges(crowded) == {"c11": [(1, SLOTS - 1)]}
    crowded.remove("c11")
    assert crowded.select(5) is None


def test_auto_split_halves_the_widest_range_and_runs_out() -> None:
    split = AutoSplit(slots=4)
    for name in "abcd":
        split.add(name)
    assert split.boundaries() == [(1, "c"), (2, "b"), (3, "d"), (4, "a")]
    with pytest.raises(ProtocolError, match="no hash range is left"):
        split.add("e")
    split.remove("a")
    assert split.boundaries() == [(1, "c"), (2, "b"), (4, "d")]


def test_sticky_ranges_refuse_an_overlap_and_keep_gaps_unowned() -> None:
    sticky = StickyRanges()
    sticky.add("a", [(0, 9), (20, 29)])
    for taken in [(9, 12), (15, 20), (29, 30), (0, SLOTS - 1), (22, 23)]:
        with pytest.raises(ProtocolError, match="taken by consumer 'a'"):
            sticky.add("b", [taken])
    with pytest.raises(ProtocolError, match="no hash ranges"):
        sticky.add("b")
    with pytest.raises(ValueError, match="expected 0 <= first"):
        sticky.add("b", [(5, 4)])
    sticky.add("b", [(10, 19)])
    assert [sticky.select(slot) for slot in (0, 9, 10, 19, 20, 29, 30)] == [*"aabbaa", None]
    assert hash_ranges(sticky) == {"a": [(1, 9), (20, 29)], "b": [(10, 19)]}
    sticky.remove("a")
    assert sticky.select(5) is None


def test_the_failover_ring_names_one_of_the_consumers_and_keeps_it_while_others_leave() -> None:
    consumers = [f"c{i}" for i in range(6)]
    for topic in (f"persistent://public/default/t{i}" for i in range(50)):
        active = consumers[FailoverRing(topic).active(consumers)]
        for name in consumers:
            if name != active:
                others = [c for c in consumers if c != name]
                assert others[FailoverRing(topic).active(others)] == active


def test_boundaries_increase_and_end_with_the_range_also_if_a_point_is_its_end() -> None:
    ring, ends = ConsistentHashing(), set()
    for number in range(1_000):
        ring.add(f"c{number}")
        boundaries = [slot for slot, _ in ring.boundaries()]
        ends.add(ring._slots[-1] == SLOTS - 1)
        if number % 50 == 0 or len(ends) == 2:
            assert boundaries == sorted(set(boundaries))
            assert boundaries[-1] == SLOTS - 1
            assert ring.boundaries()[-1][1] == ring.select(SLOTS - 1)
        if len(ends) == 2:
            return
    raise AssertionError("no consumer has a point at the end of the range")
