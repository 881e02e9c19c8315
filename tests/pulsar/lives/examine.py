"""Many lives over many broker processes: the doctor's verdict before each restart, the truth after it."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from tests.pulsar.lives.case import Case
from tests.pulsar.lives.life import Life

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackwell.broker.restart import Restart
    from tests.pulsar import kit

SETTINGS = {"journalSyncData": "false", "topicLevelPoliciesEnabled": "false"}
"""What a broker is started with: what the operating system has survives a kill of the process."""

WRITTEN_S = 1.5
"""How long a cursor that may be written once a second takes at most."""


def examined(broker: kit.Broker, lives: int, processes: int, seed: int) -> Iterator[Case]:
    """Let lives go on over broker processes; yield a case for each life and restart."""
    chance = random.Random(seed)
    going = [Life(broker, seed * 10_000 + number) for number in range(lives)]
    for each in going:
        each.load()
    for process in range(processes):
        restart: Restart = ("graceful", "crash")[process % 2]
        for each in going:
            each.act()
        if chance.random() < 0.5:
            time.sleep(WRITTEN_S)
        before = [(each.acked(), each.answer()) for each in going]
        broker.stop(crash=restart == "crash")
        for each in going:
            each.leave()
        broker.start()
        for each, (acked, answer) in zip(going, before, strict=True):
            each.load()
            yield Case(broker.version, each.settings, restart, answer, each.lost(acked))
        if process % 2:
            # New lives beside old ones: some never saw a restart, some several.
            for number in range(0, lives, 2):
                going[number].leave()
                going[number] = Life(broker, seed * 10_000 + process * 1_000 + number)
                going[number].load()
