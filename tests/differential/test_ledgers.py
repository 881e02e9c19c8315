"""`Ledgers` in both engines, and the rules of the ledger directory by example."""

import copy
import pickle

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import ackwell
from ackwell import Ledgers, LongMap, Position, ProtocolError
from tests import reference
from tests.differential.pair import Pair

IDS = st.one_of(st.integers(-1, 30), st.sampled_from([2**40, 2**63 - 1, 2**63, -(2**63)]))
COUNTS = st.one_of(st.integers(-1, 5), st.sampled_from([2**40, 2**63 - 1, 2**63]))
PLACES = st.tuples(IDS, st.one_of(st.integers(-2, 6), st.sampled_from([2**63 - 1, 2**63])))
POSITIONS = st.tuples(
    st.one_of(st.integers(-1, 30), st.just(2**63 - 1)), st.one_of(st.integers(-1, 6), st.just(2**63 - 1))
)
ENGINES = pytest.mark.parametrize("engine", [ackwell, reference])


class LedgersMachine(RuleBasedStateMachine):
    @initialize(entries=st.dictionaries(st.integers(0, 30), st.integers(0, 5)), open_=st.booleans())
    def begin(self, entries: dict[int, int], open_: bool) -> None:
        self.pair = Pair(Ledgers(entries, open=open_), reference.Ledgers(entries.items(), open=open_))

    @rule(ledger_id=IDS, entries=COUNTS)
    def add(self, ledger_id: int, entries: int) -> None:
        self.pair.call("add", ledger_id, entries)

    @rule(ledger_id=IDS, entries=COUNTS)
    def grow(self, ledger_id: int, entries: int) -> None:
        self.pair.call("grow", ledger_id, entries)

    @rule(ledger_id=IDS)
    def close(self, ledger_id: int) -> None:
        self.pair.call("close", ledger_id)

    @rule(ledger_id=IDS)
    def trim_before(self, ledger_id: int) -> None:
        self.pair.call("trim_before", ledger_id)

    @rule(ledger_id=IDS)
    def ask_a_ledger(self, ledger_id: int) -> None:
        self.pair.call("entries", ledger_id)
        self.pair.call("state", ledger_id)

    @rule(place=PLACES)
    def ask_a_place(self, place: tuple[int, int]) -> None:
        self.pair.call("next_valid", *place)
        self.pair.call("previous_valid", *place)
        self.pair.call("contains", *place)
        self.pair.call("__contains__", place)

    @rule(positions=st.lists(POSITIONS, max_size=4), passed=PLACES)
    def ask_many(self, positions: list[tuple[int, int]], passed: tuple[int, int]) -> None:
        columns = [ledger_id for ledger_id, _ in positions], [entry_id for _, entry_id in positions]
        self.pair.call("contains_all", *columns, passed)

    @rule(lower=PLACES, upper=PLACES)
    def count(self, lower: tuple[int, int], upper: tuple[int, int]) -> None:
        self.pair.call("entries_between", lower, upper)

    @invariant()
    def properties_agree(self) -> None:
        native, twin = self.pair.native, self.pair.reference
        for name in ("first_position", "last_position", "trimmed_before", "total_entries"):
            assert getattr(native, name) == getattr(twin, name)
        assert repr(native) == repr(twin) or len(native) > 8
        for same in (copy.copy(native), pickle.loads(pickle.dumps(native))):
            same.validate()
            assert native == same


TestLedgersMachine = LedgersMachine.TestCase


@ENGINES
def test_empty_ledgers_are_stepped_over(engine: object) -> None:
    ledgers = engine.Ledgers({2: 16, 3: 0, 4: 0, 5: 10, 9: 0})  # type: ignore[attr-defined]
    assert ledgers.next_valid(2, 15) == (5, 0)
    assert ledgers.previous_valid(5, 0) == (2, 15)
    assert ledgers.next_valid(3, 7) == (5, 0), "a place in an empty ledger stands between"
    assert ledgers.next_valid(5, 9) == (9, 0), "the next entry will be the open ledger's first"
    assert ledgers.previous_valid(2, 0) == (2, -1), "Pulsar's place before everything"
    assert ledgers.previous_valid(1, 3) == (1, -1), "an unknown ledger before all others"


@ENGINES
def test_past_the_end_is_one_past_the_last_entry(engine: object) -> None:
    ledgers = engine.Ledgers({2: 16, 5: 10})  # type: ignore[attr-defined]
    assert (5, 10) == ledgers.next_valid(5, 9) == ledgers.next_valid(7, 0)
    assert (5, 9) == ledgers.previous_valid(7, 0) == ledgers.last_position
    ledgers.add(7)
    assert ledgers.next_valid(5, 9) == (7, 0)
    ledgers.close(7)
    assert ledgers.next_valid(5, 9) == (5, 10)


@ENGINES
def test_trimmed_entries_count_for_nothing(engine: object) -> None:
    ledgers = engine.Ledgers({2: 16, 5: 10, 7: 3})  # type: ignore[attr-defined]
    assert ledgers.entries_between((0, -1), (5, 9)) == 26
    assert ledgers.trim_before(5) == 1
    assert 10 == ledgers.entries_between((2, 3), (5, 9)) == ledgers.entries_between((0, -1), (6, 4))
    assert tuple(ledgers.state(id_) for id_ in (2, 5, 7)) == ("trimmed", "closed", "open")
    with pytest.raises(KeyError):
        ledgers.entries(2)
    with pytest.raises(ProtocolError):
        ledgers.grow(2, 16)
    with pytest.raises(ProtocolError):
        ledgers.trim_before(8)
    assert list(ledgers) == [(5, 10), (7, 3)]


@ENGINES
def test_a_ledger_does_not_shrink(engine: object) -> None:
    ledgers = engine.Ledgers({2: 16, 5: 10})  # type: ignore[attr-defined]
    for ledger_id, entries in ((2, 15), (5, 0)):
        with pytest.raises(ProtocolError, match=f"ledger {ledger_id}.* cannot shrink"):
            ledgers.grow(ledger_id, entries)
    ledgers.grow(2, 16)
    assert list(ledgers) == [(2, 16), (5, 10)]


def test_what_is_not_a_pair_is_named() -> None:
    with pytest.raises(TypeError, match="1 is not a pair: expected a ledger id and a number of entries"):
        Ledgers([1, 3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="'ab' is not a pair: expected a key and a value"):
        LongMap(["ab"])  # type: ignore[list-item]


@ENGINES
def test_without_a_ledger_there_is_no_next_position(engine: object) -> None:
    ledgers = engine.Ledgers()  # type: ignore[attr-defined]
    with pytest.raises(ProtocolError):
        ledgers.next_valid(3, 0)
    assert ledgers.previous_valid(3, 5) == (3, -1)
    assert (ledgers.first_position, ledgers.last_position, len(ledgers)) == (None, None, 0)


@ENGINES
def test_many_positions_exist_or_are_passed(engine: object) -> None:
    ledgers = engine.Ledgers({2: 16, 5: 10})  # type: ignore[attr-defined]
    assert ledgers.contains_all([2, 5, 5], [15, 0, 9], (0, -1))
    assert not ledgers.contains_all([2, 5, 2], [0, 10, 1], (0, -1)), "one entry too far"
    assert not ledgers.contains_all([2, 3], [0, 0], (2, 15)), "a ledger that nobody knows"
    assert ledgers.contains_all([2, 3, 4], [99, 0, 7], (4, 7)), "they are passed"
    assert not ledgers.contains_all([4], [8], (4, 7))
    assert not ledgers.contains_all([2, -1], [0, 0], (4, 7)), "no ledger is negative"
    assert not ledgers.contains_all([2, 2], [0, -1], (4, 7)), "no entry is negative"
    assert ledgers.contains_all([], [], (0, -1))
    with pytest.raises(ValueError, match="lengths"):
        ledgers.contains_all([2], [0, 1], (0, -1))


@ENGINES
def test_a_ledger_named_twice_is_refused(engine: object) -> None:
    with pytest.raises(ValueError, match="twice"):
        engine.Ledgers([(3, 1), (3, 2)])  # type: ignore[attr-defined]


def test_positions_are_ackwell_positions() -> None:
    assert isinstance(Ledgers({2: 16}).next_valid(2, -1), Position)
