"""Many lives over many broker processes: the doctor's verdict before each restart, the truth after it."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from tests.pulsar.lives.case import Case
from tests.pulsar.lives.life import Life

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackwell.broker.writes import Restart
    from tests.pulsar import kit

SETTINGS = {
    "journalSyncData": "false",
    "topicLevelPoliciesEnabled": "false",
    "managedLedgerCursorPositionFlushSeconds": "2",
    "activeConsumerFailoverDelayTimeMillis": "0",
    # The client answers pings only when it waits for an answer.
    "keepAliveIntervalSeconds": "600",
}
"""The broker's settings: data in the operating system's cache survives a kill of the process."""

RESTARTS: tuple[Restart, ...] = ("graceful", "crash", "crash", "graceful")
"""A life sees two consecutive restarts; each kind is the first one in some lives."""

PAUSES_S = (0.0, 1.5, 5.0)
"""The time between the two dumps that the doctor gets; a cursor is flushed after 2 s."""

IDLE_S = 66.0
"""An idle time after which the doctor takes every acknowledgment as written: 2 s, 1 s and two timeouts of the
bookies, 30 s each (`ackwell.diagnosis.unwritten`).
"""


def examined(
    broker: kit.Broker, lives: int, processes: int, seed: int, pauses_s: Sequence[float] = PAUSES_S
) -> Iterator[Case]:
    """Run several lives at once over restarts of the broker; yield a case for each life and restart.

    Each life sees two restarts, one of each kind. Then new lives start.
    """
    chance = random.Random(seed)
    going: list[Life] = []
    for process in range(processes):
        if process % 2 == 0:
            for each in going:
                each.leave()
            going = [Life(broker, 1_000_000 * seed + 1_000 * process + number) for number in range(lives)]
            for each in going:
                each.load()
        restart: Restart = RESTARTS[process % len(RESTARTS)]
        for each in going:
            # A broker closes connections that answer no pings, and the others take their time.
            each.leave()
            each.load()
            each.act()
        earlier = [each.answer() for each in going]
        time.sleep(chance.choice(pauses_s))
        before = [(each.acked(), each.answer()) for each in going]
        broker.stop(crash=restart == "crash")
        for each in going:
            each.leave()
        broker.start()
        flush = "managedLedgerCursorPositionFlushSeconds"
        for each, first, (acked, answer) in zip(going, earlier, before, strict=True):
            each.load()
            settings = {**each.settings, flush: SETTINGS[flush]}
            yield Case(broker.version, settings, restart, answer, each.lost(acked), first)
