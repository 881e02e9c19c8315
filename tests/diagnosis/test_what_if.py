"""Predictions of moves of a cursor, and the check that the move happened."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ackwell import Ledgers, Position, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes, Bounds
from ackwell.diagnosis.what_if import EARLIEST, LATEST, Move, MoveKind, MoveResult, check_prediction, what_if
from ackwell.errors import StatsError
from tests.broker.answers import answer, subscription
from tests.cluster.fake_admin import broker, served
from tests.commands import ackwell, command

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell.broker.stats import SubscriptionStats


def told() -> SubscriptionStats:
    """Two ledgers of 100,000 entries; of ledger 4 entries 0 to 9 and 20 to 29 are acknowledged."""
    found = subscription("[(4:19..4:29]]")
    return replace(found, mark_delete_position=Position(4, 9))


def test_a_reset_brings_back_what_was_acknowledged_behind_it() -> None:
    found = what_if(told(), Move(MoveKind.RESET_CURSOR, Position(4, 5)))
    assert (found.returned, found.vanished.exact) == (Bounds(15, 15), 0)
    assert str(found.returned_entries) == "[(4:4..4:9],(4:19..4:29]]"
    assert found.mark_delete_position == (4, 4)


def test_a_seek_to_the_end_lets_what_is_not_acknowledged_vanish() -> None:
    found = what_if(told(), Move(MoveKind.SEEK, LATEST))
    assert found.returned == Bounds(0, 0)
    assert found.vanished_entries.cardinality == told().backlog_entries


def test_a_seek_to_the_beginning_returns_every_acknowledged_entry() -> None:
    assert EARLIEST == (-1, -1)
    found = what_if(told(), Move(MoveKind.SEEK, EARLIEST))
    assert found.returned_entries == found.before
    assert found.mark_delete_position < (3, 0)


def two_ledgers() -> SubscriptionStats:
    """A subscription without acknowledgments on the ledgers 3 and 4 of five entries each."""
    return replace(
        told(),
        ledgers=Ledgers({3: 5, 4: 5}),
        mark_delete_position=Position(3, -1),
        individually_deleted=PositionRangeSet(),
    )


def test_a_skip_passes_unacknowledged_entries_only() -> None:
    found = what_if(told(), Move(MoveKind.SKIP, entries=12))
    assert str(found.vanished_entries) == "[(4:9..4:19],(4:29..4:31]]"
    assert found.mark_delete_position == (4, 31)


REFUSED = "is after the last entry, 4:4; the broker refuses the expiry and changes nothing"


@pytest.mark.parametrize(
    ("to", "vanished", "note"),
    [
        (Position(3, 0), "[(3:-1..3:0]]", ""),
        (
            Position(3, 9),
            "[(3:-1..3:4]]",
            "the topic has no entry 3:9; the broker expires the entries up to 3:4",
        ),
        (
            Position(4, -1),
            "[(3:-1..3:4]]",
            "the topic has no entry 4:-1; the broker expires the entries up to 3:4",
        ),
        (Position(4, 4), "[(3:-1..3:4],(4:-1..4:4]]", ""),
        (Position(4, 5), "[]", f"4:5 {REFUSED}"),
        (Position(5, 0), "[]", f"5:0 {REFUSED}"),
        (LATEST, "[]", f"latest {REFUSED}"),
        (EARLIEST, "[]", "the topic has no entry at or before earliest; the broker expires nothing"),
        (Position(2, 9), "[]", "the topic has no entry at or before 2:9; the broker expires nothing"),
    ],
)
def test_an_expiry_ends_at_the_last_entry_before_the_position(to: Position, vanished: str, note: str) -> None:
    """The results are those of Pulsar 4.2.4."""
    found = what_if(two_ledgers(), Move(MoveKind.EXPIRE, to))
    assert (str(found.vanished_entries), found.returned, found.note) == (vanished, Bounds(0, 0), note)
    # The broker's search for an entry of the open ledger ends early if the newest entry is acknowledged.
    newest = replace(two_ledgers(), individually_deleted=PositionRangeSet([(4, 3, 4)]))
    early = what_if(newest, Move(MoveKind.EXPIRE, to))
    if to == (4, 4):
        assert str(early.vanished_entries) == "[(3:-1..3:0]]"
        assert early.note == (
            "of the entries up to 4:4, 8 do not expire: the newest entries of the topic are acknowledged, so "
            "the broker's search ends early (`expires_by_search`)"
        )
    else:
        assert (early.vanished_entries, early.note) == (found.vanished_entries, note)
    # An empty topic has no entry to expire.
    empty = replace(two_ledgers(), ledgers=Ledgers({3: 0}))
    assert str(what_if(empty, Move(MoveKind.EXPIRE, to)).vanished_entries) == "[]"


@pytest.mark.parametrize(
    ("to", "mark_delete", "returned", "place"),
    [
        (Position(2, 9), (3, -1), Bounds(2, 8), "the next entry, 3:0"),
        (Position(3, 7), (3, 4), Bounds(0, 3), "the next entry, 4:0"),
        (Position(4, 5), (4, 4), Bounds(0, 0), "the end of the topic"),
        (Position(9, 0), (4, 4), Bounds(0, 0), "the end of the topic"),
        (Position(3, 2), (3, 1), Bounds(0, 3), None),
        (EARLIEST, (3, -1), Bounds(2, 8), None),
        (LATEST, (4, 4), Bounds(0, 0), None),
    ],
)
def test_a_seek_to_a_position_without_an_entry_moves_to_the_next_entry(
    to: Position, mark_delete: tuple[int, int], returned: Bounds, place: str | None
) -> None:
    """The positions are those of Pulsar 4.2.4. A seek to the end redelivers no part of a batch."""
    stats = replace(
        two_ledgers(),
        mark_delete_position=Position(3, 1),
        batch_sizes=BatchSizes(each=None, total_messages=13, total_entries=10),
    )
    found = what_if(stats, Move(MoveKind.RESET_CURSOR, to))
    note = f"the topic has no entry {to}; the broker moves the subscription to {place}" if place else ""
    assert (found.mark_delete_position, found.returned, found.note) == (mark_delete, returned, note)


def test_messages_are_an_interval_if_the_source_does_not_show_batches() -> None:
    unknown = replace(
        told(), batch_sizes=BatchSizes(each=None, total_messages=200_100, total_entries=200_000)
    )
    found = what_if(unknown, Move(MoveKind.SKIP, entries=12))
    assert found.vanished == Bounds(12, 112)


def test_what_vanishes_is_bounded_by_the_backlog_and_not_by_what_is_acknowledged() -> None:
    """A clear-backlog on 4.2.4 took 2,987 messages in 81 entries; acknowledged were 104 entries of few."""
    sizes = BatchSizes(
        each=None, total_messages=5_842, total_entries=185, backlog_messages=2_987, backlog_entries=81
    )
    stats = replace(told(), ledgers=Ledgers({3: 100_000, 4: 185}), batch_sizes=sizes)
    stats = replace(stats, mark_delete_position=Position(4, 103), individually_deleted=PositionRangeSet())
    assert what_if(stats, Move(MoveKind.CLEAR_BACKLOG)).vanished == Bounds(81, 2_987)
    assert what_if(stats, Move(MoveKind.SKIP, entries=80)).vanished == Bounds(80, 2_986)


def test_a_prediction_as_json_has_the_move_and_its_whole_effect() -> None:
    to = Position(4, 5)
    sizes = BatchSizes(each=None, total_messages=200_100, total_entries=200_000)
    before = replace(told(), batch_sizes=sizes)
    ledgers = {str(ledger_id): entries for ledger_id, entries in before.ledgers}
    assert what_if(before, Move(MoveKind.SEEK, to)).to_json() == {
        "topic": before.topic,
        "subscription": before.subscription,
        "move": "seek",
        "to": "4:5",
        "entries": 0,
        "markDeletePosition": "4:4",
        "returned": {"entries": 15, "min": 15, "max": 215, "exact": False},
        "vanished": {"entries": 0, "min": 0, "max": 0, "exact": True},
        "returnedEntries": "[(4:4..4:9],(4:19..4:29]]",
        "vanishedEntries": "[]",
        "ledgers": ledgers,
        "note": "",
    }
    skip = what_if(before, Move(MoveKind.SKIP, entries=3)).to_json()
    assert (skip["to"], skip["entries"], skip["vanishedEntries"]) == (None, 3, "[(4:9..4:12]]")


@pytest.mark.parametrize(
    ("changes", "result", "details"),
    [
        (
            {"mark_delete_position": Position(4, 4), "individually_deleted": "[]"},
            MoveResult.YES,
            ["15 of 15"],
        ),
        ({"mark_delete_position": Position(4, 8)}, MoveResult.YES, ["1 of 15"]),
        ({}, MoveResult.NO, ["0 of 15"]),
    ],
)
def test_the_returned_entries_are_counted_afterwards(
    changes: dict[str, Any], result: MoveResult, details: list[str]
) -> None:
    before = told()
    predicted = what_if(before, Move(MoveKind.SEEK, Position(4, 5))).to_json()
    if "individually_deleted" in changes:
        changes = changes | {"individually_deleted": PositionRangeSet()}
    found = check_prediction(predicted, replace(before, **changes))
    of = "entries are redelivered and not acknowledged"
    assert found == (result, [f"{each} {of}" for each in details])


def test_a_move_without_an_effect_and_a_malformed_prediction_are_named() -> None:
    before = told()
    predicted = what_if(before, Move(MoveKind.SEEK, Position(4, 10))).to_json()
    nothing = {**predicted, "returnedEntries": "[]", "vanishedEntries": "[]"}
    assert check_prediction(nothing, before) == (MoveResult.NOTHING_TO_SEE, [])
    both = {**predicted, "returnedEntries": "[(4:8..4:9]]", "vanishedEntries": "[(4:9..4:11]]"}
    _, details = check_prediction(both, replace(before, mark_delete_position=Position(4, 10)))
    assert details == [
        "0 of 1 entries are redelivered and not acknowledged",
        "1 of 2 entries are acknowledged now",
    ]
    for key in ("topic", "subscription", "returnedEntries", "vanishedEntries", "ledgers"):
        with pytest.raises(StatsError, match="damaged or incomplete: not the JSON of `ackwell what-if`"):
            check_prediction({name: each for name, each in predicted.items() if name != key}, before)
    for wrong in ({"ledgers": [4]}, {"ledgers": {"x": 1}}, {"returnedEntries": 5}, {"vanishedEntries": "x"}):
        with pytest.raises(StatsError, match="damaged or incomplete: not the JSON of `ackwell what-if`"):
            check_prediction({**predicted, **wrong}, before)
    other = replace(before, subscription="other")
    with pytest.raises(StatsError, match=r"it is of subscription 'sub' of .*, not of 'other' of "):
        check_prediction(predicted, other)
    named = {**predicted, "topic": "persistent://shop/eu/orders"}
    check_prediction(named, before)
    with pytest.raises(StatsError, match="it is of subscription"):
        check_prediction(named, replace(before, topic="persistent://shop/eu/others"))


def test_empty_ledgers_do_not_make_another_topic() -> None:
    before = replace(told(), ledgers=Ledgers({3: 100_000, 4: 100_000, 6: 0}))
    predicted = what_if(before, Move(MoveKind.CLEAR_BACKLOG)).to_json()
    for ledgers in ({3: 100_000, 4: 100_000, 9: 0}, {4: 100_000, 5: 0, 6: 7}, {4: 100_001}):
        check_prediction(predicted, replace(before, ledgers=Ledgers(ledgers)))
    for ledgers in ({3: 100_000, 4: 100_000, 5: 1}, {4: 99_999}, {3: 100_000, 6: 5}):
        with pytest.raises(StatsError, match="those of another topic"):
            check_prediction(predicted, replace(before, ledgers=Ledgers(ledgers)))
    with pytest.raises(ValueError, match="seek needs a position"):
        what_if(before, Move(MoveKind.SEEK))


def test_it_says_afterwards_whether_it_happened() -> None:
    before = told()
    predicted = what_if(before, Move(MoveKind.RESET_CURSOR, Position(4, 5))).to_json()
    assert check_prediction(predicted, before)[0] is MoveResult.NO
    moved = replace(
        before, mark_delete_position=Position(4, 4), individually_deleted=PositionRangeSet.parse("[]")
    )
    assert check_prediction(predicted, moved)[0] is MoveResult.YES
    skipped = what_if(before, Move(MoveKind.SKIP, entries=12)).to_json()
    assert check_prediction(skipped, before)[0] is MoveResult.NO
    assert (
        check_prediction(skipped, replace(before, mark_delete_position=Position(4, 15)))[0]
        is MoveResult.PARTLY
    )
    assert (
        check_prediction(skipped, replace(before, mark_delete_position=Position(4, 50)))[0] is MoveResult.YES
    )


def test_what_was_deleted_since_counts_as_acknowledged() -> None:
    before = told()
    predicted = what_if(before, Move(MoveKind.CLEAR_BACKLOG)).to_json()
    trimmed = replace(
        before,
        ledgers=Ledgers([(5, 1)]),
        mark_delete_position=Position(5, -1),
        individually_deleted=PositionRangeSet(),
    )
    assert check_prediction(predicted, trimmed)[0] is MoveResult.YES


def test_a_move_back_may_bring_back_what_is_acknowledged_inside_of_batches() -> None:
    unknown = BatchSizes(each=None, total_messages=400_000, total_entries=200_000)
    hidden = replace(told(), batch_deleted=None, batch_sizes=unknown)
    for kind in (MoveKind.SEEK, MoveKind.RESET_CURSOR):
        returned = what_if(hidden, Move(kind, Position(4, 100))).returned
        assert returned.at_least == 0
        assert returned.at_most is None or returned.at_most > 0
    for move in (
        Move(MoveKind.EXPIRE, Position(4, 15)),
        Move(MoveKind.SKIP, entries=3),
        Move(MoveKind.CLEAR_BACKLOG),
    ):
        assert what_if(hidden, move).returned == Bounds(0, 0)


def test_what_was_to_come_back_and_was_deleted_did_not_come() -> None:
    before = told()
    predicted = what_if(before, Move(MoveKind.SEEK, Position(4, 5))).to_json()
    trimmed = replace(before, ledgers=Ledgers([(5, 1)]), individually_deleted=PositionRangeSet())
    assert (
        check_prediction(predicted, replace(trimmed, mark_delete_position=Position(3, -1)))[0]
        is MoveResult.NO
    )


@pytest.mark.parametrize(
    "ledgers", [{7: 100}, {3: 99_999, 4: 100_000}, {3: 100_000}, {2: 1, 3: 100_000, 4: 200_000}]
)
def test_the_prediction_of_another_topic_is_refused_by_its_ledgers(ledgers: dict[int, int]) -> None:
    """The name of a file is not the name of a topic, so two files are not distinguished by it."""
    before = told()
    predicted = what_if(before, Move(MoveKind.CLEAR_BACKLOG)).to_json()
    grown = replace(before, topic="later.json", ledgers=Ledgers({3: 100_000, 4: 100_001, 9: 5}))
    assert check_prediction(predicted, grown)[0] is MoveResult.NO
    if ledgers != {7: 100}:
        with pytest.raises(StatsError, match="those of another topic"):
            check_prediction(predicted, replace(before, topic="other.json", ledgers=Ledgers(ledgers)))
    else:
        # All ledgers of the prediction may be deleted.
        check_prediction(predicted, replace(before, ledgers=Ledgers(ledgers)))


def test_the_command_predicts_and_verifies(tmp_path: Path) -> None:
    source, before = tmp_path / "answer.json", tmp_path / "before.json"
    source.write_text(json.dumps(answer("[]")))
    code, output = command("what-if", "skip", "--entries", "5", "--format", "json", str(source), "sub")
    assert code == 0
    before.write_text(output)
    code, output = command("what-if", "skip", "--verify", str(before), str(source), "sub")
    assert (code, output.splitlines()[0]) == (3, "it did not happen")


@pytest.mark.parametrize(
    "arguments", [["seek"], ["seek", "--to", "tomorrow"], ["seek", "--to", "2026-01-01T00:00:00"]]
)
def test_a_move_without_a_place_is_refused(arguments: list[str], tmp_path: Path) -> None:
    source = tmp_path / "answer.json"
    source.write_text(json.dumps(answer("[]")))
    assert command("what-if", *arguments, str(source), "sub")[0] == 2


@pytest.mark.parametrize(("ranges", "code"), [("[(3:-1..3:9]]", 0), ("[(3:-1..3:4]]", 3), ("[]", 3)])
def test_a_move_that_happened_in_part_did_not_happen_for_a_script(
    ranges: str, code: int, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(answer("[]", entries=20)))
    predicted = tmp_path / "predicted.json"
    predicted.write_text(command("what-if", "skip", "--entries", "10", "--format", "json", before, "sub")[1])
    after.write_text(json.dumps(answer(ranges, entries=20)))
    assert command("what-if", "skip", "--verify", predicted, after, "sub")[0] == code


def test_a_time_is_asked_for_in_milliseconds() -> None:
    told = served()
    told["/admin/v2/persistent/shop/eu/orders/messageid/1700000000250"] = {"ledgerId": 3, "entryId": 4}
    with broker(told) as (url, asked):
        at = ("--to", "2023-11-14T22:13:20.250Z", "--admin", url)
        assert ackwell("what-if", "seek", *at, "shop/eu/orders", "sub").code == 0
    assert any("messageid" in path for _, path, _ in asked)
