"""What `ackwell record` writes of sessions on Key_Shared before a real broker that is killed twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ackwell.replay.events import Kind
from ackwell.replay.history_check import check_history
from tests.devbroker.key_session import Session
from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.test_sequences import SEED, VERSIONS
from tests.recording.process import recording
from tests.recording.test_key_order import IN_FLIGHT_MS, at_rest, judged


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_session_with_crashes_breaks_nothing(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker").mkdir()
    crashes: list[int] = []
    with (
        kit.running_broker(tmp_path / "broker", version, **runs.settings(transactions=False)) as broker,
        recording(broker.service_url, tmp_path / "events") as url,
    ):
        session = Session(url, SEED)
        session.publish(300)
        for number in range(1, 3):
            session.run(500 * number, nack=0.9)
            broker.stop(crash=True)
            crashes.append(at_rest(tmp_path / "events"))
            broker.start()
        session.drain()
        session.client.close()
        at_rest(tmp_path / "events")
    events = judged(session, tmp_path / "events", crashes)
    kinds = Counter(event.kind for event in events)
    found = check_history(events, in_flight_ms=IN_FLIGHT_MS)
    with capsys.disabled():
        counted = f"{kinds[Kind.DISPATCH]:,} deliveries, {kinds[Kind.NACK]:,} given back"
        print(f"\n{version}: {counted}, {Counter(each.rule.value for each in found)} ", end="")
    assert kinds[Kind.NACK] > 500
    assert found == []
