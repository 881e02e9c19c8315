"""Batches of all sizes, in any order and on any number of threads, fold to the expected state."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ackwell.errors import AckwellError
from ackwell.replay.columns import cursor_batches
from ackwell.replay.cursor_rows import cursor_rows
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import fold_files
from ackwell.replay.fold import Fold
from ackwell.replay.states import replay_files
from tests.replay.layouts import json_lines, parquet, small_row_groups
from tests.replay.oracle import found_row, truths

SIZES = (1, 10, 64, 65, 130)
# `make check` needs one size within a word of an ack set, and one beyond it.
BY_SIZE = [size if size in (10, 65) else pytest.param(size, marks=pytest.mark.slow) for size in SIZES]


def events_of(seed: int, size: int, *, subscriptions: int = 3, entries: int = 20) -> list[Event]:
    """Return batches acknowledged by index, by ack set, wholly, cumulatively and in transactions."""
    draw = random.Random(seed)
    rows: list[tuple[str, str, Kind, dict[str, object]]] = []
    for number in range(subscriptions):
        name = f"topic-{number // 2}", f"sub-{number}"
        acks: list[tuple[str, str, Kind, dict[str, object]]] = []
        for entry in range(entries):
            at: dict[str, object] = {"ledger_id": 3 + entry // 16, "entry_id": entry % 16}
            rows.append((*name, Kind.PUBLISH, {**at, "batch_size": size}))
            for _ in range(draw.randint(0, 8)):
                what: dict[str, object] = draw.choice(
                    [
                        {"batch_index": draw.randrange(size)},
                        {"batch_index": draw.randrange(size), "batch_size": size},
                        {"ack_set": tuple(draw.getrandbits(64) - 2**63 for _ in range(-(-size // 64)))},
                        {"transaction": draw.choice("12"), "batch_index": draw.randrange(size)},
                        {},
                    ]
                )
                kind = Kind.ACK if draw.random() < 0.97 else Kind.ACK_CUMULATIVE
                acks.append((*name, kind, {**at, **what}))
        draw.shuffle(acks)
        rows += [*acks, (*name, Kind.COMMIT, {"transaction": "1"})]
    if seed % 2:
        draw.shuffle(rows)
    return [
        Event(topic, subscription, sequence, kind, **fields)  # type: ignore[arg-type]
        for sequence, (topic, subscription, kind, fields) in enumerate(rows)
    ]


def found_in(folder: Path, threads: int) -> dict[tuple[str, str], dict[str, object]]:
    rows = pa.Table.from_batches(cursor_batches(fold_files([folder], threads=threads))).to_pylist()
    return {(row["topic"], row["subscription"]): found_row(row) for row in rows}


@pytest.mark.parametrize("write", [small_row_groups, json_lines])
@pytest.mark.parametrize("size", BY_SIZE)
def test_batches_lead_to_the_truth_on_any_number_of_threads(tmp_path: Path, size: int, write: object) -> None:
    for seed in range(2):
        events = events_of(seed, size)
        folder = tmp_path / str(seed)
        folder.mkdir()
        write(events, folder)  # type: ignore[operator]
        expected = {name: truth.to_row() for name, truth in truths(events).items()}
        assert sum(bool(row.get("batch_deleted")) for row in expected.values()) or size == 1
        for threads in (1, 3):
            assert found_in(folder, threads) == expected, (seed, threads)


def runs_of(seed: int, size: int, *, seeks: int) -> list[Event]:
    """Return long runs of rows of one subscription, as in recordings, with seeks between them."""
    draw = random.Random(seed)
    events: list[Event] = []

    def add(topic: str, kind: Kind, at: int, **fields: object) -> None:
        where = {"ledger_id": 3 + at // 200, "entry_id": at % 200}
        events.append(Event(topic, "sub", len(events), kind, **where, **fields))  # type: ignore[arg-type]

    for topic in ("t", "u"):
        entries = 300
        sized = {"batch_size": size} if size else {}
        for at in range(entries):
            add(topic, Kind.PUBLISH, at, **sized)
        for number in range(seeks + 1):
            for at in range(entries):
                if draw.random() < 0.8:
                    indexes = (
                        draw.sample(range(size), min(size, 8)) if size and draw.random() < 0.5 else [None]
                    )
                    for index in indexes:
                        part = {} if index is None else {"batch_index": index, **sized}
                        add(topic, Kind.ACK, at, **part)
            if draw.random() < 0.5:
                add(topic, Kind.ACK_CUMULATIVE, draw.randrange(40))
            if number < seeks:
                add(topic, Kind.SEEK, draw.randrange(60))
    return events


@pytest.mark.parametrize("size", [0, 1, 7, 65])
@pytest.mark.parametrize("seeks", [0, 1, 2])
@pytest.mark.parametrize("form", ["Parquet", "JSON"])
def test_long_runs_of_rows_with_seeks_between_them_lead_to_the_truth(
    tmp_path: Path, size: int, seeks: int, form: str
) -> None:
    events = runs_of(seeks, size, seeks=seeks)
    if form == "JSON":
        json_lines(events, tmp_path)
    else:
        parquet(events, tmp_path, row_group_size=700)
    expected = {name: truth.to_row() for name, truth in truths(events).items()}
    assert all(not row["is_error"] for row in expected.values())
    assert found_in(tmp_path, 1) == expected


@pytest.mark.parametrize("size", BY_SIZE)
def test_what_a_restart_loses_of_ack_sets_is_what_the_rules_of_a_restart_say(
    tmp_path: Path, size: int
) -> None:
    small_row_groups(events_of(5, size, subscriptions=9), tmp_path)
    lost = {(row.topic, row.subscription): row.lost for row in cursor_rows(fold_files([tmp_path]))}
    states = replay_files([tmp_path])
    assert lost == {(each.topic, each.subscription): each.restart_loss().messages for each in states}
    assert size == 1 or any(each.cursor.batch_deleted for each in states)


@pytest.mark.proof
def test_many_subscriptions_of_batches_lead_to_the_truth(tmp_path: Path) -> None:
    for size in (*SIZES, 63, 1_000):
        events = events_of(size, size, subscriptions=100, entries=60)
        folder = tmp_path / str(size)
        folder.mkdir()
        small_row_groups(events, folder)
        expected = {name: truth.to_row() for name, truth in truths(events).items()}
        assert found_in(folder, 2) == expected, size


def test_rows_say_what_is_wrong_what_is_lost_and_nothing_of_what_is_deleted() -> None:
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    events = [
        Event("t", "", 0, Kind.PUBLISH, ledger_id=3, entry_id=1),
        Event("t", "gone", 1, Kind.ACK, **at),
        Event("t", "gone", 2, Kind.UNSUBSCRIBE),
        Event("t", "all unread", 3, Kind.ACK, **at, ack_set=(-1,)),
        Event("t", "one of many", 4, Kind.ACK, **at, ack_set=(-2,)),
        Event("t", "two of three", 5, Kind.ACK, **at, ack_set=(0b100,), batch_size=3),
        Event("t", "no settings", 6, Kind.META, detail="{"),
    ]
    fold, errors = Fold(whole=True), dict[Any, str]()
    fold.feed(columns_of(events))
    lost = {row.subscription: tuple(row.lost) for row in cursor_rows(fold, errors)}
    assert lost == {"all unread": (1, None), "one of many": (1, None), "two of three": (2, 2)}
    ((name, error),) = errors.items()
    assert name == ("t", "no settings")
    assert "not JSON" in error
    with pytest.raises(AckwellError, match="not JSON"):
        list(cursor_rows(fold))
