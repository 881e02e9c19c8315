"""Run many sequences on one broker. They share its restarts, which take longer than a sequence."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, NamedTuple

from tests.pulsar.live.play import DifferenceError, Played, Playing, Restart

if TYPE_CHECKING:
    from tests.pulsar import kit
    from tests.pulsar.live.operations import Sequence

CRASHES = 0.4
"""The share of restarts that are kills."""

RATE_LIMIT_S = 1.5
"""Seconds between writes of a cursor, flushes included (`managedLedgerDefaultMarkDeleteRateLimit`)."""


class Result(NamedTuple):
    """How a sequence ended."""

    sequence: Sequence
    compared: int
    difference: DifferenceError | None
    history: list[str]
    races: list[str]
    played: Counter[str]
    """The number of effective operations of each kind, and of restarts and unloads."""


def settings(*, transactions: bool) -> dict[str, str]:
    """Return the settings of the broker."""
    return {
        # Data in the page cache survives a kill of the process.
        "journalSyncData": "false",
        "activeConsumerFailoverDelayTimeMs": "0",
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
        "topicLevelPoliciesEnabled": "false",
        "transactionCoordinatorEnabled": str(transactions).lower(),
    }


def described(result: Result) -> str:
    """Return a difference and its history."""
    return "\n".join([result.sequence.to_json(), *result.history, str(result.difference)])


def shares(played: Counter[str]) -> str:
    """Return the number of operations by kind."""
    return ", ".join(f"{name} {count}" for name, count in sorted(played.items()))


def play(
    broker: kit.Broker,
    sequences: Many[Sequence],
    seed: int,
    player: Callable[[kit.Broker, Sequence], Playing] = Played,
) -> list[Result]:
    """Run sequences side by side up to the next restart of each, restart the broker, and go on."""
    chance = random.Random(seed)
    played = [player(broker, sequence) for sequence in sequences]
    running = [(each, each.run()) for each in played]
    results = []
    kind: Restart | None = None
    while running:
        waiting = []
        for each, steps in running:
            try:
                if kind is None:
                    next(steps)
                else:
                    steps.send(kind)
                waiting.append((each, steps))
            except StopIteration:
                results.append(_ended(each, None))
            except DifferenceError as difference:
                each.theirs.disconnect()
                results.append(_ended(each, difference))
            except Exception as error:
                failed = DifferenceError(-1, "a restart", [repr(error)])
                results.append(_ended(each, failed))
        running = waiting
        if running:
            kind = "crash" if chance.random() < CRASHES else "graceful"
            time.sleep(RATE_LIMIT_S)
            for each, _ in running:
                each.theirs.flush()
            time.sleep(RATE_LIMIT_S)
            broker.stop(crash=kind == "crash")
            broker.start()
    return results


def _ended(each: Playing, difference: DifferenceError | None) -> Result:
    return Result(each.sequence, each.compared, difference, each.history, each.races, each.played)


def shrunk(broker: kit.Broker, result: Result, seed: int) -> Result:
    """Remove operations, many at first, while the difference persists."""
    assert result.difference is not None
    best = result
    sequence = result.sequence
    operations = list(sequence.operations[: result.difference.step + 1])
    size = len(operations) // 2
    while size:
        start = len(operations) - 1 - size
        while start > -size:
            fewer = operations[: max(start, 0)] + operations[max(start + size, 0) :]
            (again,) = play(broker, [sequence._replace(operations=tuple(fewer))], seed)
            if again.difference is not None:
                best = again
                operations = fewer[: again.difference.step + 1]
            start -= size
        size //= 2
    return best._replace(sequence=sequence._replace(operations=tuple(operations)))
