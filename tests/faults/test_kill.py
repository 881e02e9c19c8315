"""SQLite under kill -9: `make lab-test-faults`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackwell.store import SqliteStore
from tests.faults.killing import kill_often

KILLS = 120
SAVE_S = 0.004


@pytest.mark.faults
def test_sqlite_keeps_every_save_that_returned(tmp_path: Path) -> None:
    path = tmp_path / "acks.db"
    saves = kill_often(["sqlite", str(path)], lambda: SqliteStore(path), kills=KILLS, save_s=SAVE_S)
    assert saves > KILLS
