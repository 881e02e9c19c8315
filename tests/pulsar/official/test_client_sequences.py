"""After each step of the official Python client, our model is in the same state as the broker.

`make lab-test-pulsar CLIENTS=60 SEED=7 VERSIONS="4.2.4 5.0.0-M1"`;
`python -m tests.pulsar.live --client` plays one version.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pulsar import kit
from tests.pulsar.live import runs
from tests.pulsar.live.operations import drawn
from tests.pulsar.official.play import PlayedByClient

CLIENTS = int(os.environ.get("CLIENTS", "8"))
SEED = int(os.environ.get("SEED", "1"))
VERSIONS = os.environ.get("VERSIONS", kit.VERSIONS[0]).split()
GROUP = 30
"""Sequences that share a broker's restarts."""


@pytest.mark.parametrize("version", VERSIONS)
def test_ours_follows_the_official_client(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sequences = [drawn(SEED + number, transactions=False) for number in range(CLIENTS)]
    results: list[runs.Result] = []
    with kit.running_broker(tmp_path, version, **runs.settings(transactions=False)) as broker:
        for start in range(0, len(sequences), GROUP):
            results += runs.play(broker, sequences[start : start + GROUP], SEED + start, PlayedByClient)
    different = [each for each in results if each.difference is not None]
    compared = sum(each.compared for each in results)
    with capsys.disabled():
        counted = f"{len(sequences)} sequences, {compared} comparisons, {len(different)} different"
        print(f"\n{version}, official client: {counted}")
    assert compared > 10 * len(sequences)
    assert not different, "\n\n".join(runs.described(each) for each in different)
