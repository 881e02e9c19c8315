"""`AckSets`: native against reference."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import ackwell
import tests.reference
from ackwell import LimitError, Position
from ackwell.cursor.ack_sets import WORDS_MAX
from tests.differential.pair import Pair, plain
from tests.samples import examples

ENGINES = pytest.mark.parametrize("engine", [ackwell, tests.reference])

LEDGER_IDS = st.integers(0, 2) | st.sampled_from([-1, 2**63])
ENTRY_IDS = st.integers(0, 40) | st.sampled_from([0, 300, 2**32, 2**40, 2**63 - 1, -1, 2**63])
WORDS = st.sampled_from([0, -1, 2**64 - 1, 1, 0b101_1010]) | st.integers(-(2**63), 2**64 - 1)
SETS = st.lists(WORDS, max_size=5) | st.tuples(WORDS) | st.sampled_from([[2**64], ["a"]])


class AckSetsMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        sets = {(0, 5): [0b1111], (1, 7): [5, 0, -1]}
        self.pair = Pair(ackwell.AckSets(sets), tests.reference.AckSets(sets))

    @rule(
        name=st.sampled_from(["set", "intersect", "replace_if_later"]),
        ledger_id=LEDGER_IDS,
        entry_id=ENTRY_IDS,
        words=SETS,
    )
    def call_with_words(self, name: str, ledger_id: int, entry_id: int, words: list[int]) -> None:
        self.pair.call(name, ledger_id, entry_id, words)

    @rule(
        name=st.sampled_from(["unacked_bits", "contains", "remove", "remove_up_to"]),
        ledger_id=LEDGER_IDS,
        entry_id=ENTRY_IDS,
    )
    def call_with_a_position(self, name: str, ledger_id: int, entry_id: int) -> None:
        self.pair.call(name, ledger_id, entry_id)

    @rule(name=st.sampled_from(["get", "__getitem__", "__contains__"]), at=st.tuples(LEDGER_IDS, ENTRY_IDS))
    def call_with_a_tuple(self, name: str, at: tuple[int, int]) -> None:
        self.pair.call(name, at)

    @rule(ledger_id=LEDGER_IDS, lower=ENTRY_IDS, upper=ENTRY_IDS)
    def remove_range(self, ledger_id: int, lower: int, upper: int) -> None:
        self.pair.call("remove_range", ledger_id, lower, upper)

    @rule(
        rows=st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 12), st.lists(WORDS, max_size=3)), max_size=9
        )
    )
    def intersect_many(self, rows: list[tuple[int, int, list[int]]]) -> None:
        self.pair.call("intersect_many", *columns(rows))

    @rule(rows=st.lists(st.tuples(LEDGER_IDS, ENTRY_IDS), max_size=9))
    def remove_many(self, rows: list[tuple[int, int]]) -> None:
        self.pair.call("remove_many", [row[0] for row in rows], [row[1] for row in rows])

    @rule(lower=st.integers(-1, 40), more=st.integers(0, 9))
    def remove_ranges(self, lower: int, more: int) -> None:
        removed = [
            side.remove_ranges(engine.PositionRangeSet([(1, lower, lower + more)]))
            for side, engine in zip(self.pair, (ackwell, tests.reference), strict=True)
        ]
        assert removed[0] == removed[1]
        self.pair.check()

    @rule(sets=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 40)), SETS, max_size=5))
    def update(self, sets: dict[tuple[int, int], list[int]]) -> None:
        self.pair.call("update", sets)

    @rule(sets=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 9)), st.lists(WORDS, max_size=2)))
    def changed_from(self, sets: dict[tuple[int, int], list[int]]) -> None:
        newer = [
            side.changed_from(engine.AckSets(sets))
            for side, engine in zip(self.pair, (ackwell, tests.reference), strict=True)
        ]
        assert dict(newer[0]) == dict(newer[1])

    @rule(
        name=st.sampled_from(
            [
                "begin_save",
                "end_save",
                "remove_empty",
                "clear",
                "ledger_ids",
                "longest",
                "to_arrays",
                "__len__",
            ]
        )
    )
    def call(self, name: str) -> None:
        self.pair.call(name)
        assert self.pair.native.moved == self.pair.reference.moved
        assert dict(self.pair.native) == dict(self.pair.reference)


TestAckSets = AckSetsMachine.TestCase
TestAckSets.settings = settings(stateful_step_count=40)


def columns(rows: list[tuple[int, int, list[int]]]) -> tuple[Any, Any, Any, Any]:
    signed = [[word - 2**64 if word >= 2**63 else word for word in words] for _, _, words in rows]
    starts = np.cumsum([0, *map(len, signed)])
    return [row[0] for row in rows], [row[1] for row in rows], starts, list(chain.from_iterable(signed))


def one_operation(sets: Any, engine: Any, chosen: random.Random) -> object:
    ledger_id, entry_id = at = chosen.randrange(3), chosen.randrange(1_000)
    mask = ~(1 << chosen.randrange(6))
    last = chosen.choice((0, 5, -1, 0b1111))
    ids = [ledger_id] * 3, [entry_id, entry_id + 1, entry_id]
    often: list[Callable[[], object]] = [
        lambda: sets.set(*at, [last]),
        lambda: sets.intersect(*at, [mask]),
        lambda: sets.intersect(*at, [-1, mask, last]),
        lambda: sets.intersect_many(*ids, [0, 1, 3, 4], [~1, -1, mask, ~2]).tolist(),
        lambda: sets.replace_if_later(*at, [-1 << entry_id % 6]),
        lambda: sets.unacked_bits(*at),
        lambda: sets.remove(*at),
    ]
    seldom: list[Callable[[], object]] = [
        lambda: sets.remove_ranges(engine.PositionRangeSet([(ledger_id, entry_id, entry_id + 40)])),
        lambda: sets.remove_up_to(ledger_id, entry_id // 9),
        lambda: plain(sets.begin_save()),
        sets.end_save,
    ]
    return chosen.choice(seldom if chosen.randrange(20) == 0 else often)()


def compare(count: int, seed: int) -> None:
    """Run the same operations in both engines, over enough entries to fill several chunks."""
    native, reference = ackwell.AckSets(), tests.reference.AckSets()
    for step in range(count):
        results = [
            one_operation(sets, engine, random.Random(f"{seed} {step}"))
            for sets, engine in ((native, ackwell), (reference, tests.reference))
        ]
        assert results[0] == results[1], (seed, step)
        if step % 1_000 == 0:
            native.validate()
            assert dict(native) == dict(reference)
    assert plain(native.to_arrays()) == plain(reference.to_arrays())


def test_random_operations() -> None:
    compare(examples(8_000), seed=20)


@pytest.mark.proof
def test_a_million_random_operations() -> None:
    for seed in range(10):
        compare(100_000, seed)


@ENGINES
def test_a_mapping_of_words(engine: Any) -> None:
    sets = engine.AckSets([((3, 5), [2**64 - 1, 1, 0]), ((2, 9), (6,))])
    assert list(sets) == [(2, 9), (3, 5)]
    assert sets == {(2, 9): (6,), (3, 5): (-1, 1)}
    assert sets == engine.AckSets({(3, 5): (-1, 1), (2, 9): (6,)})
    assert sets != engine.AckSets({(3, 5): (-1, 1)})
    assert isinstance(next(iter(sets)), Position)
    assert (sets.get((3, 6)), sets.get((3, 6), 7), sets[3, 5]) == (None, 7, (-1, 1))
    assert sets.unacked_bits(3, 5) == 2**65 - 1
    assert (sets.unacked_bits(2, 9), sets.unacked_bits(2, 8)) == (6, None)
    assert engine.AckSets([((2, 9), [0]), ((2, 9), [-1])]).unacked_bits(2, 9) == 2**64 - 1
    assert engine.AckSets({(2, 9): [0]}).unacked_bits(2, 9) == 0
    assert [array.tolist() for array in sets.to_arrays()] == [[2, 3], [9, 5], [0, 1, 3], [6, -1, 1]]
    assert engine.AckSets.from_arrays(*sets.to_arrays()) == sets
    assert pickle.loads(pickle.dumps(sets)) == sets
    assert [list(view) for view in (sets.keys(), sets.values())] == [list(sets), [(6,), (-1, 1)]]
    assert "3:5" not in sets
    assert repr(sets) == "<AckSets of 2 entries>"
    with pytest.raises(TypeError):
        sets.set(2, 9, ["a"])
    with pytest.raises(ValueError, match="64-bit word"):
        sets.set(2, 9, [2**64])
    with pytest.raises(KeyError, match=r"3.*6"):
        sets[3, 6]


@ENGINES
def test_sets_are_removed_and_changed_in_batches(engine: Any) -> None:
    sets = engine.AckSets({(1, entry_id): [0b1111] for entry_id in range(100)})
    sets.begin_save()
    sets.end_save()
    rows = [1] * 100, range(100), range(101), [0b0111] * 100
    assert sets.intersect_many(*rows).tolist() == [3] * 100
    assert sets == {(1, entry_id): (0b0111,) for entry_id in range(100)}
    assert sets.begin_save() == sets
    assert sets.remove_many([1, 1, 1], [0, 2, 100]) == 2
    assert sets.remove_range(1, 5, 95) == 90
    assert [entry_id for _, entry_id in sets] == [1, 3, 4, 5, 96, 97, 98, 99]
    assert sets.remove_up_to(1, 4) == 3
    sets.update({(0, 7): [0]})
    assert (sets.ledger_ids(), len(sets), sets.remove_empty(), sets.ledger_ids()) == ([0, 1], 6, 1, [1])
    assert [sets.replace_if_later(1, 5, [words]) for words in (0b0111, 0b0110, 0b0001)] == [
        False,
        True,
        False,
    ]
    assert (sets.intersect(1, 5, [0b0011]), sets[1, 5]) == (1, (0b0010,))
    assert (sets.contains(1, 5), sets.remove(1, 4), sets.remove(1, 5)) == (True, False, True)
    assert sets.remove_ranges(engine.PositionRangeSet([(1, 97, 99)])) == 2
    assert [entry_id for _, entry_id in sets] == [96, 97]
    sets.clear()
    assert (len(sets), sets.begin_save()) == (0, None)


@ENGINES
@pytest.mark.parametrize("position", [(-1, 5), (3, -1)])
def test_a_position_without_an_entry_is_refused(engine: Any, position: tuple[int, int]) -> None:
    sets = engine.AckSets()
    ids = [[each, number] for each, number in zip((3, 5), position, strict=True)]
    columns = *ids, [0, 1, 2], [1, 1]
    reverse = *(each[::-1] for each in ids), [0, 1, 2], [1, 1]
    calls: list[Callable[[], object]] = [
        lambda: engine.AckSets({position: [1]}),
        lambda: engine.AckSets.from_arrays(*columns),
        lambda: engine.AckSets.from_arrays(*reverse),
        lambda: sets.update({position: [1]}),
        lambda: sets.set(*position, [1]),
        lambda: sets.intersect(*position, [1]),
        lambda: sets.intersect_many(*columns),
        lambda: sets.replace_if_later(*position, [1]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="-1"):
            call()
    assert not sets


@ENGINES
def test_a_set_has_at_most_the_words_of_a_batch(engine: Any) -> None:
    sets = engine.AckSets()
    assert sets.set(3, 5, [1] * WORDS_MAX)
    words = [1] * (WORDS_MAX + 1)
    columns = [3, 3], [6, 5], [0, 1, WORDS_MAX + 2], [1, *words]
    with pytest.raises(LimitError):
        sets.set(3, 5, words)
    with pytest.raises(LimitError):
        engine.AckSets({(3, 5): words})
    with pytest.raises(LimitError):
        sets.intersect_many(*columns)
    assert sets.longest() == WORDS_MAX


@ENGINES
def test_a_longer_set_of_a_decoded_state_is_copied_and_pickled(engine: Any) -> None:
    words = tuple(range(1, WORDS_MAX + 2))
    info = engine.PositionInfo(3, -1, batch_deleted={(3, 5): words})
    sets = engine.PositionInfo.decode(info.encode("pulsar-ranges")).batch_deleted
    copies = [
        sets.copy(),
        engine.AckSets(sets),
        copy.copy(sets),
        copy.deepcopy(sets),
        pickle.loads(pickle.dumps(sets)),
        engine.AckSets.from_arrays(*sets.to_arrays()),
        sets.changed_from(engine.AckSets()),
    ]
    for copied in copies:
        assert copied == sets == {(3, 5): words}
        assert copied.longest() == WORDS_MAX + 1
        copied.validate()
    assert [copied.moved for copied in copies] == [False] * 4 + [True] * 3
    copies[0].clear()
    copies[0].update(sets)
    assert copies[0] == sets
    assert sets.intersect_many([3], [5], [0, 1], [2]).tolist() == [0]


@ENGINES
@pytest.mark.parametrize("starts", [[0], [0, 2], [1, 1], [0, 0], [0, 1, 1], [0, -1], [], [0, 2**62]])
def test_starts_that_do_not_fit_the_words_are_refused(engine: Any, starts: list[int]) -> None:
    for call in (engine.AckSets().intersect_many, engine.AckSets.from_arrays):
        with pytest.raises(ValueError, match=r"starts|lengths"):
            call([3], [5], starts, [1])
        with pytest.raises(ValueError, match=r"starts|lengths"):
            call([3, 3], [5, 6], [0, 2, 1], [1])


def test_one_set_takes_at_most_24_bytes() -> None:
    order = np.random.default_rng(7).permutation(50_000)
    for entry_ids in (np.arange(50_000), order, 1_000 * order):
        sets = ackwell.AckSets()
        sets.begin_save()
        sets.end_save()
        sets.intersect_many(np.full(50_000, 3), entry_ids, np.arange(50_001), np.full(50_000, 0b11_1110_1111))
        assert len(sets) == 50_000
        assert sets.nbytes <= 24 * len(sets)
