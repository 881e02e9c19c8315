"""Random sessions with transactions on a broker with a file, which is killed: nothing confirmed is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("google.protobuf")

from tests.devbroker.killed_session import play


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(130, 133))
def test_a_session_with_transactions_and_kills_loses_nothing(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path)["comparisons"]


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(130))
def test_many_sessions_with_transactions_and_kills_lose_nothing(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path)["comparisons"]
