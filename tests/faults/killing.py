"""Kill a process that saves, and check the ledger that it leaves."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ackwell.saving.journal import Journal
from tests.saving.saves import states

if TYPE_CHECKING:
    from ackwell.store import Store

ROOT = Path(__file__).parents[2]
SEED = 11
FORMS = ("compact", "pulsar-ranges", "compact", "pulsar-long-array")


def kill_often(where: list[str], open_store: Callable[[], Store], *, kills: int, save_s: float) -> int:
    """Kill a writer `kills` times at random within saves of about `save_s`; return how many saves returned.

    After each kill the ledger holds exactly the last save that returned, or the one that was in flight.
    """
    chance = random.Random(SEED)
    found = -1
    for number in range(kills):
        command = [sys.executable, "-m", "tests.faults.writer", *where, FORMS[number % len(FORMS)], str(SEED)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            printed = [int(writer.stdout.readline()) for _ in range(chance.randint(1, 12))]
            time.sleep(chance.random() * 2 * save_s)
            writer.kill()
            printed += map(int, writer.stdout)
        assert printed[0] == found, f"kill {number}: the next owner began from another state"
        with open_store() as store:
            state = Journal(store).load().position_info
        found = -1 if state is None else state.properties["save"]
        assert found - printed[-1] in (0, 1), f"kill {number}: {found} found, {printed[-1]} returned"
        expected = next(itertools.islice(states(SEED, found + 1), found, None)) if state else None
        assert state == expected, f"kill {number}: not the state of save {found}"
    return found + 1
