"""kill -9 for a process with a subscription, in the middle of its saves: `make lab-test-faults`."""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ackwell import Ledgers
from ackwell.store import SqliteStore
from ackwell.subscription import Subscription
from tests.faults.subscriber import ENTRIES, digest, live

KILLS = 300
SAVE_S = 0.01


@pytest.mark.faults
def test_a_killed_subscription_has_every_acknowledgment_whose_receipt_it_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, chance = tmp_path / "acks.db", Random(3)
    # Each process is forked from one that has imported everything, so that starting takes no time.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.faults.subscriber"])
    possible = {digest(None)}
    confirmed: set[int] = set()
    saves = in_a_save = written_by_it = 0
    saving = ""
    for number in range(KILLS):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=live, args=(str(path), number, theirs))
        process.start()
        theirs.close()
        told = [ours.recv() for _ in range(chance.randint(1, 20))]
        time.sleep(chance.random() * 2 * SAVE_S)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        # The messages before the kill; the last one may be cut.
        with suppress(EOFError, ConnectionResetError):
            while True:
                told.append(ours.recv())
        (word, what), *rest = told
        assert word == "found"
        assert what in possible, f"kill {number}: the next one found another state"
        possible = {what}
        for word, what in rest:
            if word == "saving":
                possible.add(what)
                saving = what
            else:
                possible = {saving}
                confirmed.update(what)
                saves += 1
        in_a_save += word == "saving"
        with SqliteStore(path, read_only=True) as store:
            subscription = Subscription.load("Shared", store, Ledgers({3: ENTRIES}))
        assert subscription.recovery is not None
        state = digest(subscription.recovery.position_info)
        assert state in possible, f"kill {number}: neither the last state confirmed nor the one in flight"
        written_by_it += word == "saving" and state == saving
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
