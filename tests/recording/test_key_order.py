"""Recordings of Key_Shared sessions with broker crashes keep the order of keys."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from ackwell.devbroker import Broker, DevBrokerSettings
from ackwell.replay.events import Event, Kind
from ackwell.replay.files import event_files, read_events
from ackwell.replay.history_check import check_history
from tests.devbroker.key_session import Session
from tests.recording.process import recording

REST_S = 0.5
IN_FLIGHT_MS = 2_000
"""The maximum time of a delivery through the proxy on a loaded machine."""


@pytest.mark.slow
def test_a_recorded_session_with_crashes_breaks_nothing(tmp_path: Path) -> None:
    found: list[int] = []
    with (
        Broker(settings=DevBrokerSettings(limits={"waiting_holds_key": True})) as broker,
        recording(broker.url, tmp_path) as url,
    ):
        session = Session(url, 7)
        session.publish(200)
        for number in range(1, 3):
            session.run(200 * number, nack=0.8)
            broker.crash()
            found.append(at_rest(tmp_path))
            broker.restart("ackwell")
        session.drain()
        session.client.close()
        at_rest(tmp_path)
    events = judged(session, tmp_path, found)
    kinds = Counter(event.kind for event in events)
    assert kinds[Kind.BROKER_RESTART] == 2
    assert kinds[Kind.NACK] > 50
    assert check_history(events, in_flight_ms=IN_FLIGHT_MS) == []
    # The check fails for the same history with one early delivery.
    back = next(index for index, event in enumerate(events) if event.kind is Kind.NACK)
    key, ms = events[back].key, events[back].time_ms
    assert ms is not None
    later = max(position for position, each in session.keys.items() if each == key)
    early = events[back]._replace(kind=Kind.DISPATCH, ledger_id=later[0], entry_id=later[1])
    early = early._replace(time_ms=ms + IN_FLIGHT_MS)
    assert check_history([*events[: back + 1], early], in_flight_ms=IN_FLIGHT_MS)


def at_rest(folder: Path) -> int:
    """Wait until the number of written events no longer changes; return it."""
    before = -1
    while True:
        now = sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
        if now == before:
            return now
        before = now
        time.sleep(REST_S)


def judged(session: Session, folder: Path, crashes: list[int]) -> list[Event]:
    """Return the recorded events with keys, and with a crash event at each given index."""
    events = session.keyed(read_events(event_files([folder])))
    for seen in reversed(crashes):
        events.insert(seen, events[0]._replace(kind=Kind.BROKER_RESTART, subscription="", detail="crash"))
    return events
