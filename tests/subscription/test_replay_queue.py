"""The replay queue compared with a dictionary, and the checks of its invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import Position
from ackwell.engine import native_engine
from ackwell.subscription.positions_by_hash import PositionsByHash
from ackwell.subscription.replay_queue import ReplayQueue
from ackwell.subscription.structures import Structures

POSITIONS = [Position(ledger_id, entry_id) for ledger_id in (3, 5) for entry_id in range(2)]
HASHES = (0, 7, 8)

positions = st.sampled_from(POSITIONS)
hashes = st.sampled_from([None, *HASHES])
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), positions, hashes),
    st.tuples(st.just("add_unseen"), positions, hashes),
    st.tuples(st.just("add_many"), st.dictionaries(positions, st.sampled_from(HASHES), max_size=4)),
    st.tuples(st.just("discard"), positions),
    st.tuples(st.just("acknowledge"), positions),
    st.tuples(st.just("acknowledge_many"), st.lists(positions, max_size=4)),
    st.tuples(st.just("remove_up_to"), positions),
    st.tuples(st.just("clear")),
)


def queue_of(*, by_key: bool = True, keeps_places: bool = False) -> ReplayQueue:
    return ReplayQueue(Structures.of(native_engine()), by_key=by_key, keeps_places=keeps_places)


def columns_of(chosen: Any) -> tuple[Any, Any]:
    rows = np.array([*chosen], dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


class Model:
    """The queue as a dictionary: position → hash."""

    def __init__(self, *, by_key: bool, keeps_places: bool) -> None:
        self.by_key, self.keeps_places = by_key, keeps_places
        self.clear()

    def clear(self) -> None:
        self.hashes: dict[Position, int | None] = {}
        self.unseen: set[Position] = set()
        self.acknowledged: dict[Position, int] = {}

    def add(self, position: Position, sticky_key_hash: int | None) -> None:
        self.hashes[position] = sticky_key_hash if self.by_key else None
        self.unseen.discard(position)

    def add_unseen(self, position: Position, sticky_key_hash: int | None) -> None:
        self.add(position, sticky_key_hash)
        self.unseen.add(position)

    def add_many(self, chosen: dict[Position, int]) -> None:
        for position, sticky_key_hash in chosen.items():
            self.add(position, sticky_key_hash)

    def discard(self, position: Position) -> bool:
        self.unseen.discard(position)
        return self.hashes.pop(position, self) is not self

    def acknowledge(self, position: Position) -> None:
        sticky_key_hash = self.hashes.get(position)
        if self.discard(position) and self.keeps_places:
            self.acknowledged[position] = sticky_key_hash or 0

    def acknowledge_many(self, chosen: list[Position]) -> None:
        for position in chosen:
            self.acknowledge(position)

    def remove_up_to(self, last: Position) -> None:
        for position in [each for each in self.hashes if each <= last]:
            self.discard(position)
        self.acknowledged = {each: value for each, value in self.acknowledged.items() if each > last}

    def must_leave_first(self, position: Position) -> bool:
        """Return whether a subscription takes an entry out of the queue before it adds it again."""
        return position in self.acknowledged or (not self.by_key and position in self.unseen)


def apply(queue: Any, name: str, *values: Any) -> object:
    if name == "add_many":
        (chosen,) = values
        return queue.add_many(*columns_of(chosen), np.array([*chosen.values()], dtype=np.int64))
    if name == "acknowledge_many":
        return queue.acknowledge_many(*columns_of(values[0]))
    if name in ("remove_up_to", "add_unseen"):
        return getattr(queue, name)(*values)
    if values:
        position, *others = values
        return getattr(queue, name)(*position, *others)
    return getattr(queue, name)()


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("keeps_places", [True, False])
@given(operations=st.lists(OPERATIONS, min_size=5, max_size=20))
def test_a_queue_is_a_sorted_map(by_key: bool, keeps_places: bool, operations: list[tuple[Any, ...]]) -> None:
    queue = queue_of(by_key=by_key, keeps_places=keeps_places)
    model = Model(by_key=by_key, keeps_places=keeps_places)
    for name, *values in operations:
        added = values[:1] if name in ("add", "add_unseen") else values[0] if name == "add_many" else ()
        if any(map(model.must_leave_first, added)):
            continue
        assert apply(queue, name, *values) == getattr(model, name)(*values)
        compare(queue, model)


def compare(queue: ReplayQueue, model: Model) -> None:
    queue.validate()
    assert [*queue.positions()] == [*queue.as_set().positions()] == sorted(model.hashes)
    assert queue.first(2) == sorted(model.hashes)[:2]
    assert (len(queue), queue.active) == (len(model.hashes), bool(model.hashes))
    assert queue.acknowledged.positions() == model.acknowledged
    unknown = [each for each in model.unseen if model.hashes[each] is None]
    for position in POSITIONS:
        assert queue.contains(*position) == (position in model.hashes)
        assert queue.is_unseen(*position) == (position in model.unseen)
        assert queue.hash_of(position) == model.hashes.get(position)
        if model.by_key:
            assert queue.has_earlier_unknown(*position) == any(each < position for each in unknown)
        for key in HASHES:
            earlier = any(each < position and value == key for each, value in model.hashes.items())
            assert queue.has_earlier(*position, key) == earlier


def test_an_acknowledged_position_takes_its_place_with_its_hash() -> None:
    queue = queue_of(keeps_places=True)
    for entry_id, key in enumerate((7, None, 8)):
        queue.add(3, entry_id, key)
    queue.acknowledge(3, 0)
    queue.acknowledge_many(*columns_of([(3, 1), (3, 2), (3, 9)]))
    assert queue.acknowledged.positions() == {(3, 0): 7, (3, 1): 0, (3, 2): 8}
    assert not queue.active
    queue.remove_up_to(Position(3, 1))
    assert queue.acknowledged.positions() == {(3, 2): 8}


def test_a_queue_without_hashes_and_places_is_empty_after_its_last_position() -> None:
    queue = queue_of(by_key=False, keeps_places=False)
    for entry_id in range(3):
        queue.add(3, entry_id)
    for acknowledged, is_active in (([(3, 0), (3, 2)], True), ([(3, 1)], False)):
        queue.acknowledge_many(*columns_of([Position(*each) for each in acknowledged]))
        assert queue.active is is_active
    queue.validate()


def test_the_bytes_of_a_queue_are_the_sum_of_its_parts() -> None:
    queue = queue_of(keeps_places=True)
    empty = queue.nbytes
    for entry_id in range(300):
        queue.add(3, 2 * entry_id, 7)
    one_hash = queue.nbytes
    assert 300 * 40 < one_hash - empty < 300 * 200
    for entry_id in range(300):
        queue.acknowledge(3, 2 * entry_id)
    parts = (queue._positions, queue._by_hash, queue.acknowledged)
    unseen = queue._unseen.__sizeof__()
    assert queue.nbytes == sum(part.nbytes for part in parts if part is not None) + unseen
    assert queue.nbytes > empty + 300 * 40
    plain = queue_of(by_key=False)
    plain.add(3, 0)
    unseen = plain._unseen.__sizeof__()
    assert plain.nbytes == plain._positions.nbytes + plain.acknowledged.nbytes + unseen
    many = PositionsByHash(Structures.of(native_engine()))
    before = many.nbytes
    for entry_id in range(300):
        many.add(3, entry_id, entry_id)
    assert 300 * 100 < many.nbytes - before < 300 * 400


class Broken:
    """A part whose check fails; otherwise the part itself."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def validate(self) -> None:
        raise AssertionError("broken")


@pytest.mark.parametrize("part", ["_positions", "_by_hash", "acknowledged"])
def test_each_part_of_a_queue_is_checked(part: str) -> None:
    queue = queue_of()
    setattr(queue, part, Broken(getattr(queue, part)))
    with pytest.raises(AssertionError, match="broken"):
        queue.validate()


@pytest.mark.parametrize(
    "damage",
    [
        lambda queue: queue.acknowledged.add(3, 0, 7),
        lambda queue: setattr(queue, "active", False),
        lambda queue: queue._unseen.add(Position(3, 1)),
        lambda queue: queue._unknown.add(3, 0),
        lambda queue: queue._by_hash.add(3, 1, 7),
        lambda queue: queue._by_hash._sorted.clear(),
        lambda queue: setattr(queue._by_hash, "active", False),
        lambda queue: setattr(queue._by_hash, "_hashes", Broken(queue._by_hash._hashes)),
    ],
)
def test_a_damaged_queue_is_found(damage: Any) -> None:
    queue = queue_of()
    queue.add(3, 0, 7)
    queue.validate()
    damage(queue)
    with pytest.raises(AssertionError):
        queue.validate()
