"""The verdict from the admin API alone, compared with the broker's memory at the same moment."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, parse_stats
from ackwell.broker.writes import RESTARTS
from ackwell.diagnosis.doctor import Verdict, diagnose
from tests.shared import shared_folder

TRACES = shared_folder("data/traces") or Path(__file__).parents[2] / "examples" / "traces"


def recordings() -> list[Path]:
    return sorted(TRACES.glob("*.stats.json*"))


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    answer: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return answer


def one(answer: dict[str, Any]) -> SubscriptionStats:
    (found,) = parse_stats(json.dumps(answer).encode(), "answer.json")
    return found


@pytest.mark.parametrize("version", ["4.0", "4.2", "5.0"])
def test_what_the_admin_api_leaves_out_is_never_called_fine_nor_exact(version: str) -> None:
    # The recordings come from brokers that take acks inside batches; a 4.0 does so when it is set to.
    settings = BrokerSettings.of(version).with_values(["acknowledgmentAtBatchIndexLevelEnabled=true"])
    judged = hidden = 0
    for path in recordings():
        answer = read(path)
        if "cursor" not in answer:
            continue
        known, public = one(answer), one({**answer, "cursor": {}})
        for restart in RESTARTS:
            truth = diagnose(known, settings, restarts=(restart,))
            told = diagnose(public, settings, restarts=(restart,))
            judged += 1
            hidden += bool(known.batch_deleted)
            assert told.messages_lost.at_least <= truth.messages_lost.at_least, path
            if told.verdict is Verdict.FINE:
                assert truth.verdict is Verdict.FINE, path
            if told.messages_lost.at_most is not None:
                assert truth.messages_lost.at_most is not None, path
                assert truth.messages_lost.at_most <= told.messages_lost.at_most, path
    assert judged >= 20
    assert hidden
