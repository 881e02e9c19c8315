"""A cursor's acknowledgments as a value."""

from __future__ import annotations

from ackwell import Cursor, Ledgers, Position, PositionInfo, PositionRangeSet
from ackwell.cursor.cursor_state import CursorState, backlog_beyond, existing, size_in


def test_a_state_is_a_copy_that_later_acknowledgments_do_not_change() -> None:
    cursor = Cursor(Ledgers({3: 16}))
    cursor.ack(3, 5)
    cursor.ack_batch(3, 7, [0b10])
    state = cursor.to_state()
    cursor.ack_many([3, 3], [7, 9])
    assert state == CursorState.of(
        PositionInfo(3, -1, [(3, 4, 5)], batch_deleted={Position(3, 7): [0b10]}), cursor.ledgers
    )


def test_a_state_whose_source_shows_no_ack_sets_is_written_without_any() -> None:
    state = CursorState(Position(3, 5), Cursor(Ledgers()).individually_deleted)
    assert state.to_position_info() == PositionInfo(3, 5)
    assert (state.to_json()["batchDeletedIndexes"], state.ledgers) == ({}, None)


def test_a_form_that_cannot_hold_all_of_a_state_has_no_size_of_it() -> None:
    info = PositionInfo(3, 5, redelivery_counts={(3, 7): 1})
    assert size_in(info, "pulsar-ranges") is None
    assert size_in(info, "compact") == len(info.encode("compact"))


def test_only_entries_that_exist_are_left() -> None:
    ranges = PositionRangeSet([(3, -1, 30), (4, -1, 2), (5, 3, 9)])
    assert str(existing(ranges, Ledgers({3: 20, 5: 5}))) == "[(3:-1..3:19],(5:3..5:4]]"
    assert str(existing(ranges, Ledgers({3: 31, 4: 3, 5: 10}))) == str(ranges)
    assert len(existing(ranges, Ledgers())) == 0
    assert ranges.cardinality == 31 + 3 + 6


def test_the_backlog_of_a_topic_without_later_entries_is_empty() -> None:
    ledgers, none = Ledgers({3: 6, 5: 0}), PositionRangeSet()
    assert backlog_beyond(ledgers, Position(3, 1), PositionRangeSet([(3, 2, 4)])) == 2
    assert backlog_beyond(ledgers, Position(3, 5), none) == 0
    assert backlog_beyond(ledgers, Position(5, -1), PositionRangeSet([(5, -1, 0)])) == 0
    assert backlog_beyond(Ledgers(), Position(-1, -1), none) == 0
