"""With the preset, a subscription has the deliveries and states of recorded brokers.

`tests/vectors/broker.jsonl.gz` holds what Pulsar 4.2.4, 4.0.7, 5.0.0-M1 and 5.0.1 did in the cases of
`tests/pulsar/live/directed.py`; `python -m tests.pulsar.live.wrong --keep` records them again.
"""

from __future__ import annotations

from types import ModuleType

import pytest

import ackwell._native as native
from ackwell import Ledgers, Position
from tests import reference
from tests.pulsar.live.compare import of_broker
from tests.pulsar.live.directed import CASES
from tests.pulsar.live.transcript import Transcript, judged, read
from tests.pulsar.live.wrong import KEPT, RULES

TRANSCRIPTS = read(KEPT)
VERSIONS = ("4.2.4", "4.0.7", "5.0.0-M1", "5.0.1")


def test_every_case_of_every_version_is_kept() -> None:
    assert [(each.version, each.name) for each in TRANSCRIPTS] == [
        (version, case.name) for version in VERSIONS for case in CASES
    ]


@pytest.mark.parametrize("engine", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: f"{each.version}: {each.name}")
def test_a_subscription_follows_the_recorded_transcript(transcript: Transcript, engine: ModuleType) -> None:
    assert judged(transcript, engine=engine) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_field_of_the_preset_is_found(rule: str, version: str) -> None:
    fields = {case.name: case.field for case in CASES}
    mine = [each for each in TRANSCRIPTS if (each.version, fields[each.name]) == (version, rule)]
    assert any(judged(each, rule) is not None for each in mine)


def test_a_range_at_the_mark_delete_position_is_part_of_what_it_says() -> None:
    # What 5.0.0-M1 held after a crash after a seek: live seed 86054.
    cursor = {"markDelete": [85, 0], "ranges": [[85, 0, 85, 1]], "batchDeletedIndexes": {}}
    cursor |= {"backlogEntries": 16, "properties": {}}
    ledgers = Ledgers()
    ledgers.add(85)
    ledgers.grow(85, 18)
    state = of_broker({"cursor": cursor, "dispatcher": {}, "consumers": []}, ledgers, individual=False)
    assert (state.next_unacknowledged, state.ranges) == (Position(85, 2), ())
