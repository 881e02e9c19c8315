"""Random sequences on a live broker and on `ackwell.Subscription` leave both in one state, at every step.

`make lab-test-pulsar SEQUENCES=200 SEED=1 VERSIONS="4.2.4 4.0.7 5.0.0-M1 5.0.1"`;
a difference prints its seed and a small sequence that still shows it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.operations import Sequence, drawn

SEQUENCES = int(os.environ.get("SEQUENCES", "20"))
SEED = int(os.environ.get("SEED", "1"))
VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
CASES = Path(__file__).parent / "cases"
GROUP = 50
"""Sequences that share a broker's restarts."""


@pytest.mark.parametrize("transactions", [False, True], ids=["plain", "transactions"])
@pytest.mark.parametrize("version", VERSIONS)
def test_ours_is_in_the_brokers_state_after_every_operation(
    version: str, transactions: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = (SEQUENCES // 2, SEQUENCES) if transactions else (0, SEQUENCES // 2)
    sequences = [drawn(SEED + number, transactions=transactions) for number in range(first, last)]
    compared, races, different = 0, 0, []
    with kit.running_broker(tmp_path, version, **runs.settings(transactions=transactions)) as broker:
        for start in range(0, len(sequences), GROUP):
            for result in runs.play(broker, sequences[start : start + GROUP], SEED + start):
                compared += result.compared
                races += len(result.races)
                if result.difference is not None:
                    different.append(result)
        if different:
            different[0] = runs.shrunk(broker, different[0], SEED)
    with capsys.disabled():
        counted = f"{len(sequences)} sequences, {compared} comparisons, {len(different)} different"
        print(f"\n{version}: {counted}, {races} races")
    assert compared > 10 * len(sequences)
    assert races < compared / 50
    assert not different, "\n\n".join(runs.described(each) for each in different)


@pytest.mark.parametrize("version", VERSIONS)
def test_sequences_that_once_differed_do_not_any_more(version: str, tmp_path: Path) -> None:
    sequences = [Sequence.from_json(case.read_text()) for case in sorted(CASES.glob("*.json"))]
    assert sequences
    for transactions in {each.transactions for each in sequences}:
        ours = [each for each in sequences if each.transactions == transactions]
        with kit.running_broker(tmp_path, version, **runs.settings(transactions=transactions)) as broker:
            different = [each for each in runs.play(broker, ours, SEED) if each.difference is not None]
        assert not different, "\n\n".join(runs.described(each) for each in different)
