"""Many lives over many broker processes: the doctor's verdict before each restart, the truth after it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ackwell.broker.settings import BrokerSettings
from ackwell.broker.stats import from_answer
from ackwell.diagnosis.doctor import Diagnosis, Verdict, diagnose
from tests.pulsar.lives.life import Life

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackwell.broker.restart import Count, Restart
    from tests.pulsar import kit

WRITTEN_S = 1.5
"""How long a cursor that may be written once a second takes at most."""


class Case(NamedTuple):
    """What the admin API said, how the broker was restarted, and how many acknowledged messages came back."""

    version: str
    settings: dict[str, Any]
    restart: Restart
    answer: dict[str, Any]
    lost: int

    def diagnosis(self) -> Diagnosis:
        """Return what the doctor says."""
        values = [f"{name}={value}" for name, value in self.settings.items()]
        (stats,) = from_answer(self.answer, "life", "life")
        return diagnose(stats, BrokerSettings.of(self.version).with_values(values), restarts=[self.restart])

    @property
    def predicted(self) -> Count:
        """How many messages the doctor says may come back."""
        return self.diagnosis().messages_lost

    def wrong(self) -> str | None:
        """Say in what the doctor was wrong."""
        diagnosis = self.diagnosis()
        count, verdict = diagnosis.messages_lost, diagnosis.verdict
        said = f"{verdict}, {count}; {self.lost} came back after a {self.restart} restart"
        if verdict is Verdict.FINE and self.lost:
            return f"false fine: {said}"
        if count.exact is not None and count.exact != self.lost:
            return f"false exactness: {said}"
        if self.lost < count.at_least or (count.at_most is not None and self.lost > count.at_most):
            return f"outside the interval: {said}"
        return None

    def to_json(self) -> str:
        return json.dumps(self._asdict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


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


def summary(cases: Iterable[Case]) -> str:
    """Return how often the doctor was exact, gave an interval, or did not know an upper bound."""
    kinds: Counter[str] = Counter()
    for case in cases:
        count = case.predicted
        kind = "exact" if count.exact is not None else "unknown" if count.at_most is None else "interval"
        kinds[kind] += 1
        kinds[case.diagnosis().verdict] += 1
        kinds["lost something"] += case.lost > 0
    total = sum(kinds[each] for each in ("exact", "interval", "unknown"))
    return f"{total} restarts: " + ", ".join(
        f"{count} {name} ({count / total:.0%})" for name, count in sorted(kinds.items())
    )
