"""`DelayedDeliveryTracker.pulsar` repeats the recorded answers of Pulsar 4.2.4's tracker.

`benches/peers/src/v424/ackwell/peers/RecordTracker.java` recorded them from the released class with a
simulated clock: an add is `[now_ms, deliver_at_ms, entry_id, tracked, paused]`, a pop `[now_ms, entry ids]`.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ackwell._native as native
from ackwell.delayed import DelayedDeliveryTracker
from tests import reference

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "delayed.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("engine", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_the_tracker_answers_as_the_brokers_did(number: int, engine: ModuleType) -> None:
    recorded: dict[str, Any] = RECORDED[number]
    tracker = DelayedDeliveryTracker.pulsar(
        tick_time_ms=recorded["tick_time_ms"],
        strict=recorded["strict"],
        fixed_delay_lookahead=recorded["look_ahead"],
    )
    # The same buckets, in this engine.
    tracker.index = engine.TimeBuckets(tracker.index.bits, tracker.index.mode)  # type: ignore[attr-defined]
    popped = 0
    for call in recorded["calls"]:
        if len(call) == 5:
            now_ms, deliver_at_ms, entry_id, tracked, paused = call
            assert tracker.add(deliver_at_ms, 7, entry_id, now_ms) == tracked, call
            assert tracker.should_pause_dispatch(now_ms) == paused, call
        else:
            now_ms, entry_ids = call
            assert sorted(tracker.pop_due(now_ms, 1_000)[2].tolist()) == entry_ids, call
            popped += len(entry_ids)
        tracker.validate()
    assert popped > 10


def test_the_recording_has_both_cut_offs_and_a_pause() -> None:
    assert {recorded["strict"] for recorded in RECORDED} == {True, False}
    assert any(call[-1] is True for recorded in RECORDED for call in recorded["calls"])
