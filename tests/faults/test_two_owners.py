"""Two processes that take one cursor from each other lose nothing that either confirmed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ackwell import Cursor
from ackwell.store import SqliteStore
from tests.faults.owner import LEDGERS

ROOT = Path(__file__).parents[2]
COUNT = 400


@pytest.mark.faults
def test_two_owners_lose_nothing_that_either_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    owners = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.owner", str(path), str(first), str(COUNT)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (1, 2)
    ]
    outputs = [owner.communicate(timeout=300)[0].split("\n") for owner in owners]
    assert [owner.returncode for owner in owners] == [0, 0]
    with SqliteStore(path, read_only=True) as store:
        cursor = Cursor.load(store, LEDGERS)
    confirmed = [int(line) for lines in outputs for line in lines if line.isdigit()]
    assert len(confirmed) == 2 * COUNT
    assert [entry_id for entry_id in confirmed if not cursor.is_acked(3, entry_id)] == []
    # The two processes competed.
    assert any(int(line.split()[1]) for lines in outputs for line in lines if line.startswith("fenced"))
