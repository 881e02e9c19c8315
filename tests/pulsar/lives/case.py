"""The doctor's prediction for one restart of a subscription, with the real loss."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.stats import SubscriptionStats, from_answer
from ackwell.diagnosis.delivery import DeliveryDiagnosis, DeliveryVerdict, delivery_of
from ackwell.diagnosis.doctor import Diagnosis, Verdict, diagnose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ackwell.broker.batch_sizes import Bounds
    from ackwell.broker.writes import Restart


class Case(NamedTuple):
    """Answers of the admin API, the kind of restart, and the acknowledged messages that were redelivered."""

    version: str
    settings: dict[str, Any]
    restart: Restart
    answer: dict[str, Any]
    lost: int
    before: dict[str, Any] | None = None
    """An earlier answer."""

    @property
    def _settings(self) -> BrokerSettings:
        values = [f"{name}={value}" for name, value in self.settings.items()]
        return BrokerSettings.of(self.version).with_values(values)

    def diagnosis(self, assumed: Collection[str] = ()) -> Diagnosis:
        """Return the doctor's diagnosis, without the values of the assumed settings."""
        before = None if self.before is None else _subscription(self.before)
        now = _subscription(self.answer)
        return diagnose(
            now,
            self._settings,
            restarts=[self.restart],
            before=before,
            version=self.version,
            assumed=assumed,
        )

    def deliveries(self) -> list[DeliveryDiagnosis]:
        """Return the delivery verdict on each dump, compared with an equal dump before it.

        The verdict on a healthy subscription must not depend on the earlier dump.
        """
        dumps = [_subscription(each) for each in (self.before, self.answer) if each is not None]
        return [delivery_of(each, self._settings, each, version=self.version) for each in dumps]

    @property
    def is_decided(self) -> bool:
        """Whether the verdict predicts one outcome."""
        return self.diagnosis().verdict in (Verdict.FINE, Verdict.LOSING)

    @property
    def predicted(self) -> Bounds:
        """The messages that may be redelivered by the doctor's prediction."""
        return self.diagnosis().messages_lost

    def wrong(self) -> str | None:
        """Return the errors of the doctor about a healthy broker."""
        stalled = [each.code.code for each in self.deliveries() if each.verdict is DeliveryVerdict.STALLED]
        if stalled:
            return f"called stalled, and healthy: {stalled}"
        return self.wrong_loss()

    def wrong_loss(self) -> str | None:
        """Return the error of the prediction."""
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


def _subscription(answer: dict[str, Any]) -> SubscriptionStats:
    (found,) = from_answer(answer, "life", "life")
    assert isinstance(found, SubscriptionStats), found
    return found


def summary(cases: Iterable[Case]) -> str:
    """Return how often the doctor's prediction was exact, an interval, or without an upper bound."""
    kinds: Counter[str] = Counter()
    snapshots: list[DeliveryVerdict] = []
    for case in cases:
        count = case.predicted
        kind = "exact" if count.exact is not None else "unknown" if count.at_most is None else "interval"
        kinds[kind] += 1
        kinds[case.diagnosis().verdict] += 1
        kinds[f"delivery {case.diagnosis().delivery.verdict}"] += 1
        kinds["decided"] += case.is_decided
        kinds["decided or exact"] += case.is_decided or kind == "exact"
        kinds["lost something"] += case.lost > 0
        snapshots += [each.verdict for each in case.deliveries()]
    total = sum(kinds[each] for each in ("exact", "interval", "unknown"))
    shares = (f"{count} {name} ({count / total:.0%})" for name, count in sorted(kinds.items()))
    stalled = snapshots.count(DeliveryVerdict.STALLED)
    return f"{total} restarts: {', '.join(shares)}; {len(snapshots)} snapshots, {stalled} called stalled"
