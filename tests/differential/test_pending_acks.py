"""`PendingAcks`: native against reference, and the rules of handlers and callbacks."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import ackwell
import tests.reference
from ackwell import PendingAck, Position
from tests.differential.pair import Pair, outcome

ENGINES = pytest.mark.parametrize("engine", [ackwell, tests.reference])

LEDGERS = st.integers(0, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**63])
# A dense start, a sparse end and extreme ids, to reach every form of a ledger and each transition.
ENTRIES = (
    st.integers(0, 300)
    | st.integers(0, 5_000)
    | st.integers(-200, -1)
    | st.integers(0, 2**40)
    | st.sampled_from([-(2**63), 2**63 - 1, -(2**63) - 1])
)
REMAINING = st.integers(0, 3) | st.integers(0, 1_000) | st.sampled_from([2**31 - 1, 2**31, -1])
HASHES = st.integers(-1, 1) | st.integers(0, 65_535) | st.sampled_from([-(2**31), 2**31 - 1, 2**31])


class RefusedError(ValueError):
    """The exception of the handlers here."""


class Handlers:
    """Records its calls; refuses or raises at every `trouble`-th call."""

    def __init__(self, trouble: int) -> None:
        self.told: list[object] = []
        self.trouble = trouble
        self.calls = 0

    def _is_trouble(self) -> bool:
        self.calls += 1
        return self.trouble > 0 and self.calls % self.trouble == 0

    def may_add(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        self.told.append(("add", ledger_id, entry_id, sticky_key_hash))
        return not self._is_trouble()

    def handle_removing(self, *entry: object) -> None:
        self.told.append(("remove", *entry))
        if self._is_trouble():
            raise RefusedError

    def start_batch(self) -> None:
        self.told.append("start")

    def end_batch(self) -> None:
        self.told.append("end")

    def visit(self, *entry: object) -> None:
        self.told.append(("visit", *entry))
        if self._is_trouble():
            raise RefusedError


class PendingAcksMachine(RuleBasedStateMachine):
    @initialize(handled=st.booleans(), trouble=st.sampled_from([0, 0, 3, 7]))
    def start(self, handled: bool, trouble: int) -> None:
        self.handlers = [Handlers(trouble), Handlers(trouble)]
        sides = []
        for engine, handlers in zip((ackwell, tests.reference), self.handlers, strict=True):
            use = {"add_handler": handlers.may_add, "remove_handler": handlers} if handled else {}
            sides.append(engine.PendingAcks(**use))
        self.pair = Pair(*sides)

    def both(self, name: str, *args: object) -> None:
        """Call a method with a separate callback for each engine."""
        results = [
            outcome(lambda side=side, told=told: getattr(side, name)(*args, told.visit))  # type: ignore[misc]
            for side, told in zip((self.pair.native, self.pair.reference), self.handlers, strict=True)
        ]
        assert results[0] == results[1]
        self.settled()

    def settled(self) -> None:
        self.pair.check()
        assert self.handlers[0].told == self.handlers[1].told
        assert self.pair.native.closed == self.pair.reference.closed

    @rule(ledger=LEDGERS, entry=ENTRIES, remaining=REMAINING, sticky_key_hash=HASHES)
    def add(self, ledger: int, entry: int, remaining: int, sticky_key_hash: int) -> None:
        self.pair.call("add", ledger, entry, remaining, sticky_key_hash)
        self.settled()

    @rule(
        ledger=st.integers(0, 2),
        entry=ENTRIES,
        count=st.integers(0, 400),
        step=st.integers(1, 70),
        remaining=REMAINING,
        sticky_key_hash=HASHES,
        spread=st.sampled_from([0, 1, 31, 70_001]),
    )
    def add_run(
        self,
        ledger: int,
        entry: int,
        count: int,
        step: int,
        remaining: int,
        sticky_key_hash: int,
        spread: int,
    ) -> None:
        self.pair.call(
            "add_many",
            [ledger] * count,
            [entry + step * i for i in range(count)],
            [remaining + (i & 15) * (spread > 0) for i in range(count)],
            [sticky_key_hash + spread * i for i in range(count)],
        )
        self.settled()

    @rule(ledger=LEDGERS, entry=ENTRIES, acked=st.integers(-2, 3) | st.sampled_from([2**31, -(2**63)]))
    def update_remaining(self, ledger: int, entry: int, acked: int) -> None:
        self.pair.call("update_remaining", ledger, entry, acked)

    @rule(
        ledger=LEDGERS,
        entry=ENTRIES,
        counts=st.lists(st.integers(0, 9) | st.sampled_from([-1, 2**31]), max_size=3),
    )
    def lower_many(self, ledger: int, entry: int, counts: list[int]) -> None:
        entries = [entry + at % 2 for at in range(len(counts))]
        self.pair.call("lower_many", [ledger] * len(counts), entries, counts)

    @rule(
        name=st.sampled_from(["contains", "get_remaining", "remove", "remove_and_get"]),
        ledger=LEDGERS,
        entry=ENTRIES,
    )
    def call_with_a_position(self, name: str, ledger: int, entry: int) -> None:
        self.pair.call(name, ledger, entry)
        self.settled()

    @rule(name=st.sampled_from(["__getitem__", "__contains__", "get"]), ledger=LEDGERS, entry=ENTRIES)
    def call_as_a_mapping(self, name: str, ledger: int, entry: int) -> None:
        self.pair.call(name, (ledger, entry))

    @rule(ledger=LEDGERS, entry=ENTRIES, remaining=REMAINING, sticky_key_hash=HASHES)
    def remove_if_value(self, ledger: int, entry: int, remaining: int, sticky_key_hash: int) -> None:
        self.pair.call("remove_if_value", ledger, entry, remaining, sticky_key_hash)
        self.settled()

    @rule(
        name=st.sampled_from(["contains_many", "get_many", "remove_many"]),
        ledger=st.integers(0, 2),
        entry=ENTRIES,
        count=st.integers(0, 400),
        step=st.sampled_from([0, 1, 1, 7]),
    )
    def call_with_a_run(self, name: str, ledger: int, entry: int, count: int, step: int) -> None:
        self.pair.call(name, [ledger] * count, [entry + step * i for i in range(count)])
        self.settled()

    @rule(name=st.sampled_from(["remove_all_up_to", "take_all_up_to"]), ledger=LEDGERS, entry=ENTRIES)
    def remove_a_prefix(self, name: str, ledger: int, entry: int) -> None:
        self.pair.call(name, ledger, entry)
        self.settled()

    @rule(ledger=LEDGERS, entry=ENTRIES)
    def remove_a_prefix_with_a_callback(self, ledger: int, entry: int) -> None:
        self.both("remove_all_up_to", ledger, entry)

    @rule()
    def for_each(self) -> None:
        self.both("for_each")

    @rule(chance=st.integers(0, 5))
    def remove_everything(self, chance: int) -> None:
        match chance:
            case 0:
                self.both("for_each_and_clear")
            case 1:
                self.both("for_each_and_close")
            case 2:
                self.pair.call("clear")
        self.settled()

    @rule()
    def to_arrays(self) -> None:
        self.pair.call("to_arrays")


TestPendingAcks = PendingAcksMachine.TestCase
TestPendingAcks.settings = settings(stateful_step_count=30)


def filled(engine: Any, entries: int = 4, **handlers: object) -> Any:
    return engine.PendingAcks({(7, entry): (entry, -entry) for entry in range(entries)}, **handlers)


@ENGINES
def test_remaining_zero_is_a_value_and_negative_hashes_come_back(engine: Any) -> None:
    pending = engine.PendingAcks()
    assert pending.add(1, 2, 0, -(2**31))
    assert pending[1, 2] == PendingAck(0, -(2**31))
    assert pending.get_remaining(1, 2) == 0
    assert pending.get_remaining(1, 3) is None
    assert [a.tolist() for a in pending.get_many([1, 1], [2, 3])] == [[0, -1], [-(2**31), 0]]


@ENGINES
def test_a_callback_that_raises_leaves_its_entry_and_those_after_it(engine: Any) -> None:
    pending = filled(engine)

    def stop_at_2(ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int) -> None:
        if entry_id == 2:
            raise RefusedError

    for name, arguments in (
        ("remove_all_up_to", (7, 3)),
        ("for_each_and_clear", ()),
        ("for_each_and_close", ()),
    ):
        with pytest.raises(RefusedError):
            getattr(pending, name)(*arguments, stop_at_2)
        pending.validate()
        assert list(pending) == [(7, 2), (7, 3)]
    assert pending.closed
    assert not pending.add(7, 9)


@ENGINES
def test_a_callback_may_use_and_change_the_map(engine: Any) -> None:
    pending = filled(engine)
    seen = []

    def again(ledger_id: int, entry_id: int, remaining: int, sticky_key_hash: int) -> None:
        seen.append(len(pending))
        assert not pending.contains(ledger_id, entry_id)
        pending.add(ledger_id + 1, entry_id, 5, 5)
        pending.remove_all_up_to(7, 0)

    assert pending.remove_all_up_to(7, 3, again) == 4
    assert seen == [0, 1, 2, 3]
    assert list(pending) == [(8, 0), (8, 1), (8, 2), (8, 3)]


@ENGINES
def test_what_a_callback_added_anew_is_not_overwritten_by_what_is_put_back(engine: Any) -> None:
    pending = filled(engine)

    def add_then_raise(*entry: int) -> None:
        pending.add(7, 3, 100, 100)
        raise RefusedError

    with pytest.raises(RefusedError):
        pending.for_each_and_clear(add_then_raise)
    assert PendingAck(100, 100) == pending[7, 3]
    assert len(pending) == 4


@ENGINES
def test_an_add_handler_may_close_the_map_it_is_asked_for(engine: Any) -> None:
    def close(*entry: int) -> bool:
        pending.for_each_and_close(lambda *entry: None)
        return True

    pending = engine.PendingAcks(add_handler=close)
    assert not pending.add(1, 1)
    assert pending.add_many([1], [2], [1], [0]) == 0
    assert len(pending) == 0


@ENGINES
def test_the_remove_handler_is_told_between_start_and_end(engine: Any) -> None:
    handlers = Handlers(trouble=0)
    pending = filled(engine, remove_handler=handlers)
    pending.remove(7, 0)
    pending.remove_many([7, 7], [1, 99])
    pending.for_each_and_close(lambda *entry: None)
    assert handlers.told == [
        ("remove", 7, 0, 0, False),
        "start", ("remove", 7, 1, -1, False), "end",
        "start", ("remove", 7, 2, -2, True), ("remove", 7, 3, -3, True), "end",
    ]  # fmt: skip


@ENGINES
def test_a_batch_with_one_bad_value_changes_nothing(engine: Any) -> None:
    pending = filled(engine)
    for remaining, hashes in ([1, 2**31], [0, 0]), ([1, -1], [0, 0]), ([1, 1], [0, 2**31]):
        with pytest.raises(ValueError, match="expected"):
            pending.add_many([8, 8], [0, 1], remaining, hashes)
    with pytest.raises(ValueError, match="length"):
        pending.add_many([8], [0, 1], [1, 1], [0, 0])
    assert filled(engine) == pending


@ENGINES
def test_a_copy_and_a_pickle_have_the_entries_and_are_apart(engine: Any) -> None:
    pending = filled(engine, add_handler=lambda *entry: False)
    pending.for_each_and_close(lambda *entry: None)
    assert pickle.loads(pickle.dumps(pending.copy())).closed
    pending = filled(engine)
    for twin in (pending.copy(), pickle.loads(pickle.dumps(pending))):
        assert twin == pending
        twin.add(9, 9)
        assert twin != pending


@ENGINES
def test_it_is_a_sorted_mapping(engine: Any) -> None:
    pending = engine.PendingAcks([((9, 1), (1, 1)), ((2, 5), (2, 2)), ((2, -1), (3, 3))])
    assert [Position(2, -1), Position(2, 5), Position(9, 1)] == list(pending)
    assert [PendingAck(3, 3), PendingAck(2, 2), PendingAck(1, 1)] == list(pending.values())
    assert dict(pending.items()) == pending
    assert pending.items() == dict(pending).items()
    assert (len(pending.values()), len(pending.items())) == (3, 3)
    assert pending == MappingProxyType(dict(pending))
    assert PendingAck(3, 3) in pending.values()
    assert (2, 5) in pending.keys()  # noqa: SIM118 - this tests the view
    with pytest.raises(TypeError):
        hash(pending)
    with pytest.raises(KeyError):
        pending[2, 6]


@pytest.mark.parametrize("step", [1, 10, 1_000, 2**40])
def test_whole_ledger_and_boundary_cleanup_in_every_form(step: int) -> None:
    native, reference = ackwell.PendingAcks(), tests.reference.PendingAcks()
    for ledger in range(5):
        entries = [step * i for i in range(300)]
        remaining = [i & 15 for i in range(300)]
        for side in (native, reference):
            side.add_many([ledger] * 300, entries, remaining, [31 * i for i in range(300)])
    for ledger, entry in [(0, -1), (0, 0), (0, 64 * step), (2, 127 * step), (3, 299 * step), (9, 0)]:
        assert native.remove_all_up_to(ledger, entry) == reference.remove_all_up_to(ledger, entry)
        native.validate()
        assert list(reference.items()) == list(native.items())


def test_bytes_are_of_the_order_promised_and_fall_with_the_content() -> None:
    pending = ackwell.PendingAcks()
    empty = sys.getsizeof(pending)
    count = 50_000
    pending.add_many([1] * count, range(count), [i % 16 + 1 for i in range(count)],
                     [31 * i for i in range(count)])  # fmt: skip
    assert pending.nbytes < 4.5 * count
    assert sys.getsizeof(pending) == empty + pending.nbytes
    pending.remove_all_up_to(1, count)
    assert len(pending) == 0
    assert pending.nbytes < 1_000


@ENGINES
@pytest.mark.parametrize(
    "stranger", ["a", None, 1, (1,), (1, 2, 3), (1, "a"), (1, 2**63), [1, 2], (1.0, 2)], ids=str
)
def test_what_cannot_be_a_position_is_not_in_it(engine: Any, stranger: object) -> None:
    assert stranger not in engine.PendingAcks({(1, 2): (3, 4)})


@ENGINES
def test_it_has_every_method_of_a_mapping(engine: Any) -> None:
    pending = engine.PendingAcks({(1, 2): (3, 4)})
    assert isinstance(pending, Mapping)
    assert {name for name in dir(Mapping) if not name.startswith("_")} <= set(dir(pending))
    assert pending.get((1, 2)) == (3, 4)
    assert pending.get((1, 3)) is None
    assert pending.get((1, 3), 7) == 7
    with pytest.raises(KeyError):
        pending[1, 3]
