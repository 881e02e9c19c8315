"""`PositionRangeSet` in both engines, and its rules by example."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import ackwell
from ackwell import CorruptStateError, LimitError, Position, PositionRangeSet
from tests import reference
from tests.differential.pair import Pair, outcome, plain

FAR = [2**31 - 1, 2**31, 2**40, 2**63 - 2, 2**63 - 1, 2**63]
LEDGERS = st.one_of(st.integers(0, 3), st.sampled_from([-1, 2**63 - 1, 2**63]))
ENTRIES = st.one_of(st.integers(0, 200), st.integers(-2, 20_000), st.sampled_from(FAR))
BOUNDS = st.tuples(ENTRIES, st.one_of(st.integers(-1, 300), st.sampled_from(FAR)))
ENGINES = pytest.mark.parametrize("engine", [ackwell, reference])


class RangeSetMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.pair = Pair(PositionRangeSet(), reference.PositionRangeSet())

    @rule(ledger_id=LEDGERS, entry_id=ENTRIES)
    def add(self, ledger_id: int, entry_id: int) -> None:
        self.pair.call("add", ledger_id, entry_id)

    @rule(ledger_id=LEDGERS, bounds=BOUNDS)
    def add_range(self, ledger_id: int, bounds: tuple[int, int]) -> None:
        lower, length = bounds
        self.pair.call("add_range", ledger_id, lower, lower + length)

    @rule(ledger_id=LEDGERS, bounds=BOUNDS)
    def remove_range(self, ledger_id: int, bounds: tuple[int, int]) -> None:
        lower, length = bounds
        self.pair.call("remove_range", ledger_id, lower, lower + length)

    @rule(pairs=st.lists(st.tuples(LEDGERS, ENTRIES)), shorter=st.booleans())
    def add_many(self, pairs: list[tuple[int, int]], shorter: bool) -> None:
        ledger_ids, entry_ids = [ledger for ledger, _ in pairs], [entry for _, entry in pairs]
        self.pair.call("add_many", ledger_ids, entry_ids[shorter:])

    @rule(
        ledger_id=st.integers(0, 3), first=st.integers(0, 500), step=st.integers(1, 70),
        count=st.integers(1, 150),
    )  # fmt: skip
    def add_every(self, ledger_id: int, first: int, step: int, count: int) -> None:
        entry_ids = np.arange(first, first + step * count, step)
        self.pair.call("add_many", np.full(count, ledger_id), entry_ids)

    @rule(ranges=st.lists(st.tuples(LEDGERS, ENTRIES, ENTRIES)))
    def add_ranges(self, ranges: list[tuple[int, int, int]]) -> None:
        self.pair.call("add_ranges", *([row[column] for row in ranges] for column in range(3)))

    @rule(ledger_id=LEDGERS, words=st.lists(st.integers(-(2**63), 2**63), max_size=4))
    def add_words(self, ledger_id: int, words: list[int]) -> None:
        self.pair.call("add_words", ledger_id, words)

    @rule(ledger_id=LEDGERS, entry_id=ENTRIES)
    def remove(self, ledger_id: int, entry_id: int) -> None:
        self.pair.call("remove", ledger_id, entry_id)

    @rule(positions=st.lists(st.tuples(LEDGERS, ENTRIES), max_size=9))
    def remove_many(self, positions: list[tuple[int, int]]) -> None:
        columns = [ledger for ledger, _ in positions], [entry for _, entry in positions]
        self.pair.call("remove_many", *columns)

    @rule(ledger_id=LEDGERS, entry_id=ENTRIES)
    def remove_up_to(self, ledger_id: int, entry_id: int) -> None:
        self.pair.call("remove_up_to", ledger_id, entry_id)

    @rule(ledger_id=LEDGERS, entry_id=ENTRIES)
    def ask(self, ledger_id: int, entry_id: int) -> None:
        self.pair.call("contains", ledger_id, entry_id)
        self.pair.call("__contains__", (ledger_id, entry_id))
        self.pair.call("range_containing", ledger_id, entry_id)
        self.pair.call("cardinality_of", ledger_id)
        self.pair.call("contains_many", [ledger_id], [entry_id])

    @rule(ledger_id=st.integers(0, 3))
    def ask_words(self, ledger_id: int) -> None:
        if all(upper < 2**20 or upper >= 2**31 for _, _, upper in self.pair.reference):
            self.pair.call("words_of", ledger_id)

    @rule(
        ranges=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 9000), st.integers(1, 300))),
        method=st.sampled_from(["__or__", "__ior__", "__sub__", "union", "difference"]),
        swap=st.booleans(),
    )
    def combine(self, ranges: list[tuple[int, int, int]], method: str, swap: bool) -> None:
        rows = [(ledger_id, lower, lower + length) for ledger_id, lower, length in ranges]
        sides = []
        for own, engine in ((self.pair.native, ackwell), (self.pair.reference, reference)):
            other = engine.PositionRangeSet(rows)
            left, right = (other, own) if swap else (own, other)
            sides.append(getattr(left, method)(right) or left)
        Pair(*sides).check()

    @rule()
    def clear(self) -> None:
        self.pair.call("clear")

    @invariant()
    def views_agree(self) -> None:
        native, twin = self.pair.native, self.pair.reference
        assert (native.cardinality, len(native)) == (twin.cardinality, len(twin))
        assert (str(native), repr(native)) == (str(twin), repr(twin))
        for view in ("first_range", "ledger_ids", "to_arrays"):
            assert plain(getattr(native, view)()) == plain(getattr(twin, view)()), view
        same = [PositionRangeSet.parse(str(native)), pickle.loads(pickle.dumps(native))]
        for equal in (*same, copy.copy(native), copy.deepcopy(native), PositionRangeSet(native)):
            equal.validate()
            assert native == equal


TestRangeSetMachine = RangeSetMachine.TestCase

TEXTS = [
    "", "[", "]", "[]]", "[] ", " [ ] ", "[,]", "[(3:-1..3:5]]", "[(3:-1..3:5],]", "[(3:-1..3:5] ]",
    "[(3:-1..3:5], (3:7..3:9]]", "[(3:-1‥3:5]]", "[(3:-1...3:5]]", "[(3:-1..4:5]]", "[(3:5..3:5]]",
    "[(3:6..3:5]]", "[(3:-2..3:5]]", "[(-3:-1..-3:5]]", "[(3:-1..3:9223372036854775807]]",
    "[(3:-1..3:9223372036854775808]]", "[(3:9..3:12],(3:-1..3:9],(1:0..1:1]]", "[(3:..3:5]]",
    "[(3:-1..3:5](3:7..3:9]]", "[(3:-1..3:5],(3:7..3:9]", "x", "[(3: -1..3:5]]", "[(3:-1..3:5)]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_both_engines_read_and_refuse_the_same_texts(text: str) -> None:
    ours, theirs = (
        outcome(lambda engine=engine: str(engine.PositionRangeSet.parse(text)))  # type: ignore[misc]
        for engine in (ackwell, reference)
    )
    assert ours == theirs


@ENGINES
def test_parse_says_where_the_text_is_wrong(engine: object) -> None:
    with pytest.raises(CorruptStateError) as caught:
        engine.PositionRangeSet.parse("[(3:-1..3:5],(3:7..4:9]]")  # type: ignore[attr-defined]
    assert caught.value.offset == 13


@ENGINES
def test_a_set_prints_as_stats_internal_does(engine: object) -> None:
    acked = engine.PositionRangeSet()  # type: ignore[attr-defined]
    assert str(acked) == "[]"
    assert acked.add_range(3, -1, 5) == 6
    assert acked.add(3, 9)
    assert not acked.add(3, 9)
    assert acked.add_range(4, -1, 1) == 2
    assert str(acked) == "[(3:-1..3:5],(3:8..3:9],(4:-1..4:1]]"
    assert list(acked) == [(3, -1, 5), (3, 8, 9), (4, -1, 1)]


@ENGINES
def test_a_refused_batch_changes_nothing(engine: object) -> None:
    acked = engine.PositionRangeSet()  # type: ignore[attr-defined]
    calls: list[Callable[[], object]] = [
        lambda: acked.add_many([3, 3, -1], [0, 1, 2]),
        lambda: acked.add_many([3, 3], [0]),
        lambda: acked.add_ranges([3, 3], [-1, 5], [2, 4]),
        lambda: acked.add_ranges([3, 3], [-1, 5], [2]),
        lambda: acked.add_words(-1, [1]),
    ]
    for call in calls:
        with pytest.raises(ValueError):  # noqa: PT011  # each of them has its own message
            call()
    assert 0 == acked.cardinality == len(acked)


@ENGINES
def test_a_whole_ledger_of_the_greatest_length_can_be_acknowledged(engine: object) -> None:
    acked = engine.PositionRangeSet()  # type: ignore[attr-defined]
    for ledger_id in (0, 1, 2**63 - 1):
        assert acked.add_range(ledger_id, -1, 2**63 - 1) == 2**63
    assert acked.cardinality == 3 * 2**63
    assert acked.remove_up_to(2**63 - 1, 2**63 - 2) == 3 * 2**63 - 1
    assert list(acked) == [(2**63 - 1, 2**63 - 2, 2**63 - 1)]


@ENGINES
def test_words_past_a_java_bit_set_are_refused(engine: object) -> None:
    acked = engine.PositionRangeSet([(3, 2**40, 2**40 + 1)])  # type: ignore[attr-defined]
    with pytest.raises(LimitError):
        acked.words_of(3)
    assert acked.words_of(4).tolist() == []


def test_far_entries_of_one_ledger_cost_little() -> None:
    acked = PositionRangeSet()
    for entry_id in (0, 2**40, 2**62, *range(2**20, 2**20 + 2000, 2)):
        acked.add(3, entry_id)
        acked.validate()
    assert acked.nbytes < 100_000
    assert acked.add_range(4, -1, 2**62) == 2**62 + 1
    assert acked.nbytes < 100_000


def test_an_iterator_shows_the_set_as_it_was() -> None:
    acked = PositionRangeSet()
    acked.add_many(np.zeros(5000, dtype=np.int64), np.arange(0, 10_000, 2))
    ranges, positions = iter(acked), acked.positions()
    first = next(ranges)
    acked.clear()
    assert [(0, entry - 1, entry) for entry in range(0, 10_000, 2)] == [first, *ranges]
    assert [Position(0, entry) for entry in range(0, 10_000, 2)] == list(positions)


def test_sets_of_two_engines_do_not_mix() -> None:
    with pytest.raises(TypeError):
        PositionRangeSet() | reference.PositionRangeSet()  # type: ignore[operator]
    with pytest.raises(TypeError):
        reference.PositionRangeSet().union(PositionRangeSet())  # type: ignore[arg-type]
    assert PositionRangeSet() != reference.PositionRangeSet()


@pytest.mark.parametrize("bits", range(8))
def test_a_damaged_pickle_is_refused_or_another_set(bits: int) -> None:
    acked = PositionRangeSet([(3, -1, 5), (3, 7, 9), (2**40, 5, 2**62)])
    acked.add_many(np.full(300, 5), np.arange(0, 600, 2))
    state = acked.__getstate__()
    seen = set()
    for index in range(len(state)):
        damaged = bytearray(state)
        damaged[index] ^= 1 << bits
        for data in (bytes(damaged), state[:index]):
            other = PositionRangeSet()
            try:
                other.__setstate__(data)
                seen.add("set")
            except CorruptStateError:
                seen.add("refused")
            other.validate()
    assert {"refused"} <= seen
