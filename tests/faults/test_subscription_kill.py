"""kill -9 for a process with a subscription, in the middle of its saves: `make test-faults`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from ackwell import Ledgers
from ackwell.store import SqliteStore
from ackwell.subscription import Subscription
from tests.faults.subscriber import ENTRIES, digest

ROOT = Path(__file__).parents[2]
KILLS = 300
SAVE_S = 0.01


@pytest.mark.faults
def test_a_killed_subscription_has_every_acknowledgment_whose_receipt_it_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, chance = tmp_path / "acks.db", Random(3)
    possible = {"none"}
    confirmed: set[int] = set()
    saves = in_a_save = written_by_it = 0
    saving = ""
    for number in range(KILLS):
        command = [sys.executable, "-m", "tests.faults.subscriber", str(path), str(number)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = [process.stdout.readline() for _ in range(chance.randint(1, 20))]
            time.sleep(chance.random() * 2 * SAVE_S)
            process.kill()
            printed += process.stdout
        # The last line may be cut.
        lines = [line.split() for line in printed if line.endswith("\n")]
        assert lines[0][0] == "found", f"kill {number}: {lines}"
        assert lines[0][1] in possible, f"kill {number}: the next one found another state"
        possible = {lines[0][1]}
        for word, *rest in lines[1:]:
            if word == "saving":
                possible.add(rest[0])
                saving = rest[0]
            else:
                possible = {saving}
                confirmed.update(map(int, rest))
                saves += 1
        in_a_save += lines[-1][0] == "saving"
        with SqliteStore(path, read_only=True) as store:
            subscription = Subscription.load("Shared", store, Ledgers({3: ENTRIES}))
        assert subscription.recovery is not None
        state = digest(subscription.recovery.position_info)
        assert state in possible, f"kill {number}: neither the last state confirmed nor the one in flight"
        written_by_it += lines[-1][0] == "saving" and state == saving
        lost = [entry_id for entry_id in confirmed if not subscription.cursor.is_acked(3, entry_id)]
        assert lost == [], f"kill {number}: receipts were given for {lost}"
        subscription.validate()
    with capsys.disabled():
        print(
            f"\n{KILLS} kills, {in_a_save} in the middle of a save ({written_by_it} of them whole); "
            f"{saves} saves and {len(confirmed)} acknowledgments confirmed, none lost",
            end=" ",
        )
    assert in_a_save > KILLS // 10
    assert 0 < written_by_it < in_a_save
    assert saves > KILLS
