"""The cursor follows Pulsar's rules; a model of plain sets gives the expected state."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import ackwell._native as native
from ackwell import Cursor, Ledgers, Position, PositionRangeSet, ProtocolError
from ackwell.cursor.ack_sets import to_words
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.store import MemoryStore
from tests import reference

LEDGERS = {2: 4, 3: 0, 5: 3, 9: 5}
ENTRIES = [Position(ledger_id, entry_id) for ledger_id, n in LEDGERS.items() for entry_id in range(n)]
BATCH = 3
ENGINES = pytest.mark.parametrize("engine", [native, reference], ids=["native", "reference"])


def cursor_of(engine: ModuleType, *, batch_index_acks: bool = True) -> Cursor:
    settings = CursorSettings(batch_index_acks=batch_index_acks)
    return Cursor(engine.Ledgers(LEDGERS), engine=engine, settings=settings)


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
def test_a_cursor_without_ledgers_is_before_the_first_entry_that_can_exist(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers({}), engine=engine)
    assert cursor.mark_delete_position == (0, -1)
    assert cursor.backlog_entries == 0


@ENGINES
def test_the_first_ledger_and_entry_have_id_0_and_a_negative_id_is_refused(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers({0: 3}), engine=engine)
    for ids in ([0, -1], [-1, 0]):
        with pytest.raises(ValueError, match="is negative"):
            cursor.ack_many(ids, ids)
    assert cursor.mark_delete_position == (0, -1)
    assert cursor.ack_many([0, 0], [0, 2]) == 2
    assert cursor.mark_delete_position == (0, 0)


@ENGINES
def test_a_whole_ack_drops_the_ack_set(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    assert cursor.ack_batch(5, 1, [0b101])
    assert dict(cursor.batch_deleted) == {(5, 1): (0b101,)}
    assert cursor.ack(5, 1)
    assert not cursor.batch_deleted
    assert not cursor.ack_batch(5, 1, [0b111])


@ENGINES
@pytest.mark.parametrize("entries", [[1], [1, 2, 3, 4]], ids=["fewer than ack sets", "more than ack sets"])
def test_many_acks_drop_the_ack_sets_of_their_entries_alone(engine: ModuleType, entries: list[int]) -> None:
    cursor = cursor_of(engine)
    for position in ((5, 1), (9, 0), (9, 1)):
        cursor.ack_batch(*position, [0b101])
    assert cursor.ack_many([9] * len(entries), entries) == len(entries)
    assert dict(cursor.batch_deleted) == {(5, 1): (0b101,), (9, 0): (0b101,)}
    cursor.validate()


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
def test_without_batch_index_acks_an_entry_still_has_to_exist(engine: ModuleType) -> None:
    cursor = cursor_of(engine, batch_index_acks=False)
    with pytest.raises(ProtocolError, match="never published"):
        cursor.ack_batch(9, 5, [0b10])


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
    assert again.messages_consumed == -again.backlog_entries


@ENGINES
def test_a_range_over_ledgers_is_split_by_what_they_hold(engine: ModuleType) -> None:
    info = engine.PositionInfo(2, -1, spanning_ranges=[((2, 1), (9, 2))])
    cursor = Cursor.from_position_info(info, engine.Ledgers(LEDGERS), engine=engine)
    assert str(cursor.individually_deleted) == "[(2:1..2:3],(5:-1..5:2],(9:-1..9:2]]"
    cursor.validate()


@ENGINES
def test_a_range_over_ledgers_ends_with_the_last_entry(engine: ModuleType) -> None:
    info = engine.PositionInfo(2, -1, spanning_ranges=[((2, 1), (9, 20))])
    cursor = Cursor.from_position_info(info, engine.Ledgers(LEDGERS), engine=engine)
    assert str(cursor.individually_deleted) == "[(2:1..2:3],(5:-1..5:2],(9:-1..9:4]]"
    assert cursor.backlog_entries == 2


@ENGINES
def test_a_recovered_ack_set_of_an_acknowledged_entry_is_dropped(engine: ModuleType) -> None:
    info = engine.PositionInfo(3, 2, [(3, 4, 6)], batch_deleted={(3, entry): [0b10] for entry in (1, 4, 5)})
    cursor = Cursor.from_position_info(info, engine.Ledgers({3: 10}), engine=engine)
    assert dict(cursor.batch_deleted) == {(3, 4): (0b10,)}
    cursor.validate()


def test_growing_ledgers_let_mark_delete_follow() -> None:
    ledgers = Ledgers({2: 1})
    cursor = Cursor(ledgers)
    cursor.ack(2, 0)
    ledgers.grow(2, 3)
    assert cursor.backlog_entries == 2
    cursor.ack(2, 1)
    assert cursor.mark_delete_position == (2, 1)


PULSAR = CursorSettings.pulsar("4.2")


@ENGINES
def test_pulsar_replaces_an_ack_set_only_by_one_that_begins_further_on(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers({3: 2}), engine=engine, settings=PULSAR)
    cursor.ack_batch(3, 0, [0b0000001111])
    assert cursor.ack_cumulative(3, 0, [0b1111110000])
    assert dict(cursor.batch_deleted) == {(3, 0): (0b1111110000,)}
    assert not cursor.ack_cumulative(3, 0, [0b1111111000 | 1])
    assert dict(cursor.batch_deleted) == {(3, 0): (0b1111110000,)}


@ENGINES
def test_pulsar_ignores_an_ack_set_that_begins_where_the_stored_one_does(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers(LEDGERS), engine=engine, settings=PULSAR)
    assert cursor.ack_cumulative(2, 0, [0b010])
    assert not cursor.ack_cumulative(2, 0, [0b110])
    assert dict(cursor.batch_deleted) == {(2, 0): (0b010,)}


@ENGINES
def test_ours_joins_a_cumulative_ack_set_to_what_is_stored(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers({3: 2}), engine=engine)
    cursor.ack_batch(3, 0, [0b0000001111])
    assert cursor.ack_cumulative(3, 0, [0b1111110000])
    assert cursor.is_acked(3, 0)


@ENGINES
def test_pulsar_keeps_an_entry_whose_cumulative_ack_set_is_empty(engine: ModuleType) -> None:
    cursor = Cursor(engine.Ledgers({3: 4}), engine=engine, settings=PULSAR)
    assert cursor.ack_cumulative(3, 1, [0])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((3, 0), {(3, 1): ()})
    cursor.validate()
    again = Cursor.from_position_info(
        cursor.to_position_info(), cursor.ledgers, settings=PULSAR, engine=engine
    )
    assert dict(again.batch_deleted) == {(3, 1): ()}
    assert cursor.ack_batch(3, 1, [0b1])
    assert cursor.mark_delete_position == (3, 1)


@ENGINES
def test_a_cumulative_ack_behind_mark_delete_is_refused_by_5_0_alone(engine: ModuleType) -> None:
    for version, refuses in (("4.0", False), ("4.2.4", False), ("5.0", True)):
        cursor = Cursor(engine.Ledgers({3: 9}), engine=engine, settings=CursorSettings.pulsar(version))
        cursor.ack_cumulative(3, 5)
        assert not cursor.ack_cumulative(3, 5)
        for ack_set in (None, [0b1]):
            if refuses:
                with pytest.raises(ProtocolError, match="behind the mark-delete position 3:5"):
                    cursor.ack_cumulative(3, 4, ack_set)
            else:
                assert not cursor.ack_cumulative(3, 4, ack_set)


@pytest.mark.parametrize(
    ("version", "kept"),
    [("4.2.4", 0b1111100000), ("5.0.0-M1", 0b1111100000), ("5.0.0", 0b1101100000), ("5.0.1", 0b1101100000)],
)
@ENGINES
def test_a_cumulative_ack_set_keeps_an_individual_index_from_5_0_0_on(
    engine: ModuleType, version: str, kept: int
) -> None:
    """Seen live with the official client: index 7 of a batch of 10 alone, then cumulatively up to index 4."""
    cursor = Cursor(engine.Ledgers({3: 2}), engine=engine, settings=CursorSettings.pulsar(version))
    cursor.ack_batch(3, 0, [0b1101111111])
    assert cursor.ack_cumulative(3, 0, [0b1111100000])
    assert dict(cursor.batch_deleted) == {(3, 0): (kept,)}
    cursor.ack_cumulative(3, 0, [0])
    assert cursor.is_acked(3, 0) is (version in ("5.0.0", "5.0.1"))


def test_an_unknown_broker_version_has_no_preset() -> None:
    with pytest.raises(ValueError, match=r"known are 4\.0, 4\.2, 5\.0"):
        CursorSettings.pulsar("3.3")


@ENGINES
def test_a_recovered_mark_delete_ahead_of_the_last_entry_moves_back_to_it(engine: ModuleType) -> None:
    ledgers = engine.Ledgers({3: 10})
    cursor = Cursor.from_position_info(engine.PositionInfo(9, 100), ledgers, engine=engine)
    assert cursor.mark_delete_position == (3, 9)
    ledgers.grow(5, 3)
    assert not cursor.is_acked(5, 2)
    assert cursor.backlog_entries == 3


@ENGINES
def test_a_recovered_mark_delete_in_a_ledger_that_is_gone_moves_to_the_next(engine: ModuleType) -> None:
    ledgers = engine.Ledgers({3: 10, 7: 2})
    cursor = Cursor.from_position_info(engine.PositionInfo(5, -1), ledgers, engine=engine)
    assert cursor.mark_delete_position == (7, -1)
    assert cursor.backlog_entries == 2


@ENGINES
def test_entries_written_after_a_lost_tail_are_not_acknowledged(engine: ModuleType) -> None:
    """A file log that lost its last entries reuses their positions."""
    ledgers = engine.Ledgers({1: 10})
    cursor = Cursor(ledgers, engine=engine)
    cursor.ack_many([1] * 9, [0, 1, 2, 4, 5, 6, 7, 8, 9])
    cursor.ack_batch(1, 3, [0b10])
    for entries, unacked in ((6, [3, 6, 7, 8]), (2, [2, 3, 4, 5, 6, 7, 8])):
        shorter = engine.Ledgers({1: entries})
        again = Cursor.from_position_info(cursor.to_position_info(), shorter, engine=engine)
        assert again.backlog_entries == sum(entry < entries for entry in unacked)
        shorter.grow(1, 9)
        assert [entry for entry in range(9) if not again.is_acked(1, entry)] == unacked
        assert again.backlog_entries == len(unacked)
        again.validate()


@ENGINES
@pytest.mark.parametrize("settings_", [CursorSettings(), PULSAR], ids=["ours", "pulsar"])
def test_ranges_past_the_end_do_not_count_in_the_backlog(
    engine: ModuleType, settings_: CursorSettings
) -> None:
    info = engine.PositionInfo(3, 2, engine.PositionRangeSet([(3, 4, 20), (4, 0, 2)]))
    cursor = Cursor.from_position_info(info, engine.Ledgers({3: 8}), settings=settings_, engine=engine)
    assert cursor.backlog_entries == 2
    assert cursor.messages_consumed == -2
    kept = "[(3:4..3:20],(4:0..4:2]]" if settings_.keep_missing_positions else "[(3:4..3:7]]"
    assert str(cursor.individually_deleted) == kept
    assert str(cursor.to_position_info().individually_deleted) == kept
    cursor.ack(3, 3)
    assert (cursor.backlog_entries, cursor.messages_consumed) == (1, -1)
    cursor.ack(3, 4)
    assert (cursor.backlog_entries, cursor.messages_consumed) == (0, 0)
    cursor.validate()


def with_missing(engine: ModuleType, **others: Any) -> Cursor:
    """A recovered cursor keeps ranges of a missing ledger."""
    info = engine.PositionInfo(3, 2, engine.PositionRangeSet([(4, 0, 2)]), **others)
    return Cursor.from_position_info(info, engine.Ledgers({3: 5, 6: 3}), settings=PULSAR, engine=engine)


@ENGINES
@pytest.mark.parametrize(
    "move",
    [
        lambda cursor: cursor.ack_cumulative(6, 0),
        lambda cursor: cursor.ack_many([3, 3, 6], [3, 4, 0]),
        lambda cursor: [cursor.ack(*position) for position in ((3, 3), (3, 4), (6, 0))],
        lambda cursor: cursor.reset(6, 1),
        lambda cursor: cursor.reset(3, 0),
    ],
    ids=["cumulative", "many", "one by one", "a seek on", "a seek back"],
)
def test_kept_positions_without_a_ledger_go_when_mark_delete_passes_or_a_seek_forgets_them(
    engine: ModuleType, move: Callable[[Cursor], object]
) -> None:
    cursor = with_missing(engine)
    assert cursor.is_acked(4, 1)
    move(cursor)
    assert not cursor.individually_deleted.cardinality
    assert not cursor.to_position_info().individually_deleted.cardinality


@ENGINES
def test_a_recovered_ack_set_without_an_entry_goes_when_mark_delete_passes_it(engine: ModuleType) -> None:
    cursor = with_missing(engine, batch_deleted={(3, 7): [0b10]})
    assert dict(cursor.batch_deleted) == {(3, 7): (0b10,)}
    cursor.ack_many([3, 3, 6], [3, 4, 0])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((6, 0), {})


@ENGINES
def test_a_seek_that_forgets_kept_positions_is_saved(engine: ModuleType) -> None:
    store = MemoryStore()
    cursor = with_missing(engine)
    cursor.save(store)
    cursor.ack(3, 3)
    cursor.save(store)
    cursor.reset(3, 4)
    cursor.save(store)
    again = Cursor.load(store, cursor.ledgers, settings=PULSAR, engine=engine)
    assert again == cursor
    assert not again.is_acked(4, 1)


@ENGINES
def test_a_trimmed_ledger_leaves_the_backlog_true(engine: ModuleType) -> None:
    ledgers = engine.Ledgers({3: 10, 5: 10})
    cursor = Cursor(ledgers, engine=engine)
    cursor.ack_many([3, 3, 5], [4, 5, 1])
    ledgers.trim_before(5)
    assert cursor.backlog_entries == 9


@ENGINES
def test_messages_consumed_is_what_was_added_less_the_backlog(engine: ModuleType) -> None:
    """Recorded from a live 4.2.4 broker: entries 0, 1, 2, 5, 6 of ten acknowledged, then a seek to 1."""
    cursor = Cursor(engine.Ledgers({3: 10}), engine=engine)
    cursor.ack_many([3] * 5, [0, 1, 2, 5, 6])
    assert cursor.messages_consumed == 5
    cursor.reset(3, 1)
    assert (cursor.mark_delete_position, cursor.messages_consumed) == ((3, 0), 1)
    again = Cursor.from_position_info(cursor.to_position_info(), cursor.ledgers, engine=engine)
    assert again.messages_consumed == -9


@ENGINES
def test_a_seek_names_the_first_position_the_end_or_a_message_of_a_batch(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.ack_cumulative(5, 1)
    cursor.reset(-1, -1)
    assert (cursor.mark_delete_position, cursor.backlog_entries) == ((2, -1), len(ENTRIES))
    cursor.reset(2**63 - 1, 2**63 - 1)
    assert (cursor.mark_delete_position, cursor.backlog_entries) == ((9, 4), 0)
    cursor.reset(5, 1, [0b110])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((5, 0), {(5, 1): (0b110,)})
    cursor.reset(5, 1, [0])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((5, 1), {})
    cursor.validate()


@ENGINES
def test_a_seek_into_a_batch_needs_the_entry_and_batch_index_acks(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    cursor.reset(9, 7, [0b110])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((9, 4), {})
    cursor = cursor_of(engine, batch_index_acks=False)
    cursor.reset(5, 1, [0b110])
    assert (cursor.mark_delete_position, dict(cursor.batch_deleted)) == ((5, 0), {})


@ENGINES
def test_properties_belong_to_the_mark_delete_position(engine: ModuleType) -> None:
    for settings_, merged in ((CursorSettings(), {"a": 1, "b": 2}), (PULSAR, {"a": 1})):
        cursor = Cursor(engine.Ledgers({3: 10}), engine=engine, settings=settings_)
        cursor.ack_cumulative(3, 1, properties={"a": 1})
        cursor.add_properties({"b": 2})
        assert cursor.properties == merged
        cursor.ack_cumulative(3, 0, properties={"behind": 1})
        assert cursor.properties == merged
        cursor.ack_cumulative(3, 1, properties={"again": 1})
        assert cursor.properties == {"again": 1}
        cursor.ack_cumulative(3, 2, properties={})
        assert cursor.properties == {}
        cursor.ack_cumulative(3, 3, properties={"c": np.int64(3)})  # type: ignore[dict-item]
        assert type(cursor.properties["c"]) is int
        cursor.reset(3, 1)
        assert cursor.properties == {}


REFUSED = [
    ("ack", (-1, 0)),
    ("ack", (2, -1)),
    ("ack", (2.0, 0)),
    ("ack", (2**63, 0)),
    ("ack", (9, 5)),
    ("ack_many", ([2, -1], [0, 0])),
    ("ack_many", ([2, 2], [0, -1])),
    ("ack_many", ([2, 2], [0])),
    ("ack_many", ([2, 9], [0, 5])),
    ("ack_many", ([2.0], [0.0])),
    ("ack_batch", (-1, 0, [1])),
    ("ack_batch", (5, 0, [2**64])),
    ("ack_batch", (5, 0, [1.0])),
    ("ack_batch", (9, 5, [1])),
    ("ack_cumulative", (-1, 0)),
    ("ack_cumulative", (5, -1)),
    ("ack_cumulative", (5, 0.5)),
    ("ack_cumulative", (9, 5)),
    ("ack_cumulative", (5, 0, [2**64])),
    ("reset", (-2, 0)),
    ("reset", (5, 0, [2**64])),
    ("reset", (5, 0.5)),
    ("add_properties", ({"a": 2**63},)),
    ("add_properties", ({5: 1},)),
    ("is_acked", (5, 0.5)),
]


@ENGINES
@pytest.mark.parametrize(("method", "arguments"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_refused_call_changes_nothing(engine: ModuleType, method: str, arguments: tuple[Any, ...]) -> None:
    cursor = cursor_of(engine)
    cursor.ack_cumulative(2, 1, properties={"p": 1})
    cursor.ack_batch(5, 0, [0b110])
    cursor.ack(5, 1)
    before = copy.copy(cursor)
    with pytest.raises((ValueError, TypeError, ProtocolError)):
        getattr(cursor, method)(*arguments)
    assert cursor == before
    assert cursor.messages_consumed == before.messages_consumed
    cursor.validate()


@ENGINES
def test_a_refused_cumulative_ack_leaves_the_properties(engine: ModuleType) -> None:
    cursor = cursor_of(engine)
    with pytest.raises(ValueError, match="expected an int64"):
        cursor.ack_cumulative(5, 1, properties={"a": 2**63})
    with pytest.raises(ProtocolError, match="never published"):
        cursor.ack_cumulative(9, 5, properties={"a": 1})
    assert cursor == cursor_of(engine)


@ENGINES
@pytest.mark.parametrize("mark_delete", [(-1, 0), (3, -2), (2**63, 0)])
def test_a_mark_delete_position_outside_its_domain_is_refused(
    engine: ModuleType, mark_delete: tuple[int, int]
) -> None:
    with pytest.raises(ValueError, match="mark-delete position"):
        Cursor(engine.Ledgers(LEDGERS), mark_delete=mark_delete, engine=engine)


@ENGINES
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda cursor: pickle.loads(pickle.dumps(cursor))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_equal_and_independent(engine: ModuleType, copied: Callable[[Cursor], Cursor]) -> None:
    cursor = Cursor(engine.Ledgers(LEDGERS), engine=engine, settings=PULSAR)
    cursor.ack_cumulative(2, 1, properties={"a": 1})
    cursor.ack_batch(5, 0, [0b110])
    cursor.ack(5, 1)
    cursor.save(MemoryStore())
    again = copied(cursor)
    assert again == cursor
    assert (again.settings, again.messages_consumed) == (cursor.settings, cursor.messages_consumed)
    assert type(again.individually_deleted) is type(cursor.individually_deleted)
    again.ack(5, 2)
    again.ack_batch(5, 0, [0b100])
    again.properties["b"] = 2
    again.ledgers.grow(9, 50)
    assert dict(cursor.batch_deleted) == {(5, 0): (0b110,)}
    assert (cursor.is_acked(5, 2), cursor.properties, cursor.ledgers.entries(9)) == (False, {"a": 1}, 5)
    for different in (again, Cursor(cursor.ledgers, engine=engine), object()):
        assert cursor != different


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

    @rule(positions=st.lists(positions), missing=st.sampled_from([(2, 4), (3, 0), (5, 3), (9, 5), (10, 0)]))
    def ack_what_does_not_exist(self, positions: list[Position], missing: tuple[int, int]) -> None:
        places = [missing, *positions]
        for cursor in self.cursors:
            if missing <= cursor.mark_delete_position:
                continue
            with pytest.raises(ProtocolError):
                cursor.ack_many([p[0] for p in places], [p[1] for p in places])

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


CursorAgainstSets.TestCase.settings = settings(stateful_step_count=30)
test_cursor_agrees_with_sets = CursorAgainstSets.TestCase


def test_reading_the_ranges_does_not_copy_them() -> None:
    cursor = Cursor(Ledgers({1: 10}))
    cursor.ack(1, 5)
    assert isinstance(cursor.individually_deleted, PositionRangeSet)
    assert cursor.individually_deleted is cursor.individually_deleted
