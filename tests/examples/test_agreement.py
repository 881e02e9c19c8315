"""A recorded answer agrees with the replay, has forgotten a part of it after a restart, or differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackwell.errors import EventError
from ackwell.replay.events import Event, Kind
from examples.agreement import Verdict, replayed_agreements

PUBLISHED = [
    Event(
        "t",
        "s",
        entry_id,
        Kind.PUBLISH,
        ledger_id=3,
        entry_id=entry_id,
        batch_size=2 if entry_id == 4 else None,
    )
    for entry_id in range(6)
]
ACKED = [
    Event("t", "s", 6, Kind.ACK, ledger_id=3, entry_id=1),
    Event("t", "s", 7, Kind.ACK, ledger_id=3, entry_id=4),
    Event("t", "s", 8, Kind.ACK, ledger_id=3, entry_id=5, ack_set=(2,), batch_size=2),
]
RANGES, BATCHES = "[(3:0..3:1],(3:3..3:4]]", {"3:5": [2]}


def answer(ranges: str, batches: dict[str, list[int]]) -> dict[str, Any]:
    """Return an answer of the admin API, with the batch indexes of the broker's memory."""
    cursor = {"markDeletePosition": "3:-1", "readPosition": "3:6", "individuallyDeletedMessages": ranges}
    internal = {"ledgers": [{"ledgerId": 3, "entries": 6}], "cursors": {"s": cursor}}
    return {"internalStats": internal, "cursor": {"name": "s", "batchDeletedIndexes": batches}, "t": 5}


def verdict(folder: Path, ranges: str, batches: dict[str, list[int]], *before: Kind) -> tuple[Verdict, int]:
    """Compare an answer that comes after the acknowledgments and these events."""
    (folder / "answer.json").write_text(json.dumps(answer(ranges, batches)), encoding="utf-8")
    file = str(folder / "events.jsonl")
    snapshot = Event("t", "s", 20, Kind.SNAPSHOT, detail="answer.json", file=file)
    others = [Event("t", "s", 10 + number, kind) for number, kind in enumerate(before)]
    (found,) = replayed_agreements([*PUBLISHED, *ACKED, *others, snapshot])
    return found.verdict, found.forgotten_messages


def test_the_same_state_agrees(tmp_path: Path) -> None:
    assert verdict(tmp_path, RANGES, BATCHES) == (Verdict.AGREES, 0)
    assert verdict(tmp_path, RANGES, BATCHES, Kind.UNLOAD) == (Verdict.AGREES, 0)


@pytest.mark.parametrize("restart", [Kind.UNLOAD, Kind.BROKER_RESTART])
def test_less_after_a_restart_was_forgotten_and_less_without_one_differs(
    restart: Kind, tmp_path: Path
) -> None:
    # An entry counts for the messages of its batch.
    for ranges, batches, messages in (
        ("[(3:0..3:1]]", BATCHES, 2),
        ("[(3:3..3:4]]", BATCHES, 1),
        (RANGES, {}, 1),
        ("[]", {}, 4),
    ):
        assert verdict(tmp_path, ranges, batches, restart) == (Verdict.FORGOT, messages)
        assert verdict(tmp_path, ranges, batches, Kind.CONSUMER_OPEN) == (Verdict.DIFFERS, messages)


@pytest.mark.parametrize(
    ("ranges", "batches"),
    [
        ("[(3:1..3:2]]", BATCHES),
        ("[(3:0..3:1],(3:2..3:4]]", BATCHES),
        (RANGES, {"3:5": [1]}),
        (RANGES, {"3:5": [0]}),
        (RANGES, {"3:2": [2], **BATCHES}),
    ],
)
def test_more_than_was_acknowledged_differs_after_a_restart_too(
    ranges: str, batches: dict[str, list[int]], tmp_path: Path
) -> None:
    assert verdict(tmp_path, ranges, batches, Kind.UNLOAD)[0] is Verdict.DIFFERS


def test_the_ack_set_ends_when_the_entry_is_acknowledged_as_a_whole(tmp_path: Path) -> None:
    assert verdict(tmp_path, "[(3:0..3:1]]", {"3:4": [1]}, Kind.UNLOAD) == (Verdict.FORGOT, 2)


def test_each_topic_is_remembered_to_have_restarted(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps(answer("[]", {})), encoding="utf-8")
    file = str(tmp_path / "events.jsonl")
    topics = "t", "u"
    events = [event._replace(topic=topic) for topic in topics for event in [*PUBLISHED, *ACKED]]
    events += [Event(topic, "s", 10, Kind.UNLOAD) for topic in topics]
    events += [Event(topic, "s", 11, Kind.SNAPSHOT, detail="answer.json", file=file) for topic in topics]
    assert [each.verdict for each in replayed_agreements(events)] == [Verdict.FORGOT] * 2


def test_a_restart_of_another_topic_and_a_missing_answer(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps(answer("[]", {})), encoding="utf-8")
    file = str(tmp_path / "events.jsonl")
    events = [
        *PUBLISHED,
        *ACKED,
        Event("other", "s", 10, Kind.UNLOAD),
        Event("t", "s", 11, Kind.SNAPSHOT, detail="answer.json", file=file),
        Event("t", "s", 12, Kind.SNAPSHOT, detail="none.json", file=file),
    ]
    found = [(each.snapshot, each.verdict) for each in replayed_agreements(events)]
    assert found == [("answer.json", Verdict.DIFFERS), ("none.json", Verdict.ABSENT)]
    with pytest.raises(EventError, match="names no file"):
        list(replayed_agreements([*PUBLISHED, Event("t", "s", 11, Kind.SNAPSHOT, file=file)]))
