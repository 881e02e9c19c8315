"""The cursor keeps Pulsar's rules; a naive model of sets says what they lead to."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import ackwell._native as native
from ackwell import Cursor, Ledgers, Position, PositionRangeSet, ProtocolError, reference
from ackwell.ack_sets import to_words

LEDGERS = {2: 4, 3: 0, 5: 3, 9: 5}
ENTRIES = [Position(ledger_id, entry_id) for ledger_id, n in LEDGERS.items() for entry_id in range(n)]
BATCH = 3
ENGINES = pytest.mark.parametrize("engine", [native, reference], ids=["native", "reference"])


def cursor_of(engine: ModuleType, *, batch_index_acks: bool = True) -> Cursor:
    return Cursor(engine.Ledgers(LEDGERS), engine=engine, batch_index_acks=batch_index_acks)


@ENGINES
def test_mark_delete_moves_over_connected_ranges_and_ledger_borders(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    for position in ENTRIES[1:]:
        assert cursor.ack(*position)
    assert cursor.mark_delete_position == (2, -1)
    assert str(cursor.individually_deleted) == "[(2:0..2:3],(5:-1..5:2],(9:-1..9:4]]"
    assert cursor.ack(2, 0)
    assert cursor.mark_delete_position == (9, 4)
    assert len(cursor.individually_deleted) == 0
    assert (cursor.backlog_entries, cursor.messages_consumed) == (0, len(ENTRIES))


@ENGINES
def test_an_ack_twice_or_before_mark_delete_changes_nothing(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    assert (cursor.ack(2, 0), cursor.ack(2, 0)) == (True, False)
    assert (cursor.ack(5, 1), cursor.ack(5, 1)) == (True, False)
    assert cursor.messages_consumed == 2


@ENGINES
def test_a_whole_ack_drops_the_ack_set(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    assert cursor.ack_batch(5, 1, [0b101])
    assert dict(cursor.batch_deleted) == {(5, 1): (0b101,)}
    assert cursor.ack(5, 1)
    assert not cursor.batch_deleted
    assert not cursor.ack_batch(5, 1, [0b111])


@ENGINES
def test_ack_sets_are_anded_until_nothing_is_owed(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    assert cursor.ack_batch(5, 1, [0b110])
    assert not cursor.ack_batch(5, 1, [0b111])
    assert cursor.ack_batch(5, 1, [0b001])
    assert not cursor.batch_deleted
    assert cursor.is_acked(5, 1)


@ENGINES
def test_an_empty_ack_set_means_the_whole_entry(engine: ModuleType) -> None:
    for ack_set in ([], [0], [0, 0]):
        cursor = cursor_of(engine)
        assert cursor.ack_batch(2, 1, ack_set)
        assert cursor.is_acked(2, 1)


@ENGINES
def test_a_cumulative_ack_in_mid_batch_owes_the_rest_of_it(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.ack_batch(2, 1, [0b010])
    assert cursor.ack_cumulative(5, 0, [0b100])
    assert cursor.mark_delete_position == (2, 3)
    assert dict(cursor.batch_deleted) == {(5, 0): (0b100,)}
    assert cursor.messages_consumed == 4


@ENGINES
def test_ack_sets_of_long_batches_keep_their_signed_words(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.ack_batch(2, 1, [-1, -(2**63), 0])
    assert dict(cursor.batch_deleted) == {(2, 1): (-1, -(2**63))}


@ENGINES
def test_without_batch_index_acks_parts_of_a_batch_change_nothing(engine: ModuleType) -> None:
    cursor = cursor_of(engine, batch_index_acks=False)
    assert not cursor.ack_batch(2, 1, [0b010])
    assert cursor.ack_cumulative(2, 2, [0b100])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((2, 1), {})


@ENGINES
def test_an_ack_of_what_was_never_published_is_refused(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    for position in ((9, 5), (4, 0), (3, 0), (100, 0)):
        for ack in (cursor.ack, cursor.ack_cumulative, lambda *p: cursor.ack_many([2, p[0]], [1, p[1]])):
            with pytest.raises(ProtocolError, match=f"{position[0]}:{position[1]}, which was never"):
                ack(*position)
    assert cursor.messages_consumed == 0
    assert cursor.mark_delete_position == (2, -1)


@ENGINES
def test_a_reset_makes_its_position_the_next_to_read(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.ack_cumulative(9, 2)
    cursor.reset(5, 1)
    assert cursor.mark_delete_position == (5, 0)
    assert cursor.backlog_entries == 7


@ENGINES
def test_a_cursor_survives_its_persisted_state(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.ack_many([2, 2, 5, 9], [0, 2, 1, 4])
    cursor.ack_batch(9, 0, [0b011])
    cursor.properties["stamp"] = -7
    again = Cursor.from_position_info(cursor.to_position_info(), cursor.ledgers, engine=engine)
    again.validate()
    assert again.mark_delete_position == cursor.mark_delete_position
    assert str(again.individually_deleted) == str(cursor.individually_deleted)
    assert again.batch_deleted == cursor.batch_deleted
    assert again.properties == {"stamp": -7}
    assert again.messages_consumed == 0


@ENGINES
def test_a_range_over_ledgers_is_split_by_what_they_hold(engine: ModuleType) -> None:
    info = engine.PositionInfo(2, -1, spanning_ranges=[((2, 1), (9, 2))])
    cursor = Cursor.from_position_info(info, engine.Ledgers(LEDGERS), engine=engine)
    assert str(cursor.individually_deleted) == "[(2:1..2:3],(5:-1..5:2],(9:-1..9:2]]"
    cursor.validate()


def test_growing_ledgers_let_mark_delete_follow() -> None:
    ledgers = Ledgers({2: 1})
    cursor = Cursor(ledgers)
    cursor.ack(2, 0)
    ledgers.grow(2, 3)
    assert cursor.backlog_entries == 2
    cursor.ack(2, 1)
    assert cursor.mark_delete_position == (2, 1)


class CursorAgainstSets(RuleBasedStateMachine):
    """Any operations, in both engines, against sets of acknowledged messages."""

    positions = st.sampled_from(ENTRIES)
    owed = st.integers(0, 2**BATCH - 1)

    def __init__(self) -> None:
        super().__init__()
        self.cursors = [cursor_of(native), cursor_of(reference)]
        self.acked: set[Position] = set()
        self.ack_sets: dict[Position, int] = {}

    @rule(position=positions)
    def ack(self, position: Position) -> None:
        for cursor in self.cursors:
            assert cursor.ack(*position) == (position not in self.acked)
        self.acked.add(position)

    @rule(positions=st.lists(positions))
    def ack_many(self, positions: list[Position]) -> None:
        new = set(positions) - self.acked
        for cursor in self.cursors:
            assert cursor.ack_many([p[0] for p in positions], [p[1] for p in positions]) == len(new)
        self.acked |= new

    @rule(position=positions, owed=owed)
    def ack_batch(self, position: Position, owed: int) -> None:
        for cursor in self.cursors:
            cursor.ack_batch(*position, to_words(owed))
        self.owe(position, owed)

    @rule(position=positions, owed=st.none() | owed)
    def ack_cumulative(self, position: Position, owed: int | None) -> None:
        for cursor in self.cursors:
            cursor.ack_cumulative(*position, None if owed is None else to_words(owed))
        self.acked |= {earlier for earlier in ENTRIES if earlier < position}
        self.owe(position, owed or 0)

    @precondition(lambda self: self.acked)
    @rule()
    def save_and_load(self) -> None:
        self.cursors = [
            Cursor.from_position_info(c.to_position_info(), c.ledgers, engine=engine)
            for c, engine in zip(self.cursors, (native, reference), strict=True)
        ]

    def owe(self, position: Position, owed: int) -> None:
        if position not in self.acked:
            self.ack_sets[position] = self.ack_sets.get(position, -1) & owed
            if not self.ack_sets[position]:
                self.acked.add(position)

    @invariant()
    def the_state_is_what_the_sets_say(self) -> None:
        first_owed = next((p for p in ENTRIES if p not in self.acked), None)
        marked = [p for p in ENTRIES if first_owed is None or p < first_owed]
        sets = {p: to_words(bits) for p, bits in self.ack_sets.items() if p not in self.acked}
        for cursor in self.cursors:
            cursor.validate()
            assert cursor.mark_delete_position == (marked[-1] if marked else (2, -1))
            assert set(cursor.individually_deleted.positions()) == self.acked - set(marked)
            assert dict(cursor.batch_deleted) == sets
            assert cursor.backlog_entries == len(ENTRIES) - len(self.acked)
            assert set(cursor.acknowledged().positions()) == self.acked


CursorAgainstSets.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_cursor_agrees_with_sets = CursorAgainstSets.TestCase


def test_reading_the_ranges_does_not_copy_them() -> None:
    cursor = Cursor(Ledgers({1: 10}))
    cursor.ack(1, 5)
    assert isinstance(cursor.individually_deleted, PositionRangeSet)
    assert cursor.individually_deleted is cursor.individually_deleted
