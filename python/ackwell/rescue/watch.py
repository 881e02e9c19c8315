"""The rounds of `ackwell rescue watch`. A round observes topics and restores lost acknowledgments.

Each round requests the overview of every broker. Then it requests each topic that has ranges or that an
earlier round stored. `ackwell.rescue.watching` decides which acknowledgments were lost and may be restored.
The restores run after all observations of the round, several at once. Without `restores`, a round sends only
GET requests, and writes its plans to the folder.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.broker.dates import clock_ms
from ackwell.broker.stats import UnreadableSource
from ackwell.cluster.scalable import is_scalable
from ackwell.errors import AckwellError, StatsError
from ackwell.rescue.planning import Plan, is_internal, remaining
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.restoring import Report, apply
from ackwell.rescue.snapshot import Snapshot, settings_of, snapshots_of
from ackwell.rescue.watching import (
    Decision,
    Transition,
    both_losses,
    decide,
    is_at_risk,
    unchanged_remaining,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.cluster.admin import Admin, TopicAnswer
    from ackwell.rescue.connection import Connection
    from ackwell.rescue.watch_folder import Name, WatchFolder

_RESTORES_AT_ONCE: Final = 8


class WatchEvent(NamedTuple):
    """An event of a round, which the command prints as one line."""

    name: Name
    text: str
    is_error: bool = False


@dataclass(slots=True, kw_only=True)
class WatchCounts:
    """The counters of a watch since its start, and the values of its last round."""

    rounds: int = 0
    round_seconds: float = 0.0
    round_cpu_seconds: float = 0.0
    round_ended_s: float = -inf
    """The time at which the last round ended, by the monotonic clock, in seconds."""
    complete_round_ms: int = 0
    """The time at which the last complete round ended, in ms since the epoch. In a complete round, every
    requested topic was read."""
    topics: int = 0
    """The number of topics that the last round requested."""
    at_risk: int = 0
    unread: int = 0
    pending: int = 0
    """The number of subscriptions that have a plan which is not carried out yet."""
    pending_entries: int = 0
    losses: int = 0
    """The number of losses that can be restored. If a load of a topic loses acknowledgments of several
    subscriptions, there is one loss for each subscription."""
    moves: int = 0
    """The number of observed seeks."""
    restored: int = 0
    """The number of successful restores. A restore concerns one subscription."""
    restored_entries: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Counts the refusals by their code."""


class Watch:
    """A watch over subscriptions. It finds acknowledgments that a load of a topic lost, and restores them.

    `wanted` has the tenants, namespaces and topics to watch.
    """

    def __init__(
        self, connection: Connection, wanted: Sequence[str], folder: WatchFolder, *, restores: bool
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._folder = folder
        self._restores = restores
        self._before = folder.observations()
        self._written = dict(self._before)
        """The observations in the folder. They may be older than the observations in `_before`, but have the
        same states."""
        self._plans = folder.plans()
        self._at_risk: dict[str, int] = {}
        """Maps each topic to the number of its subscriptions that may lose ranges in the next load."""
        self.counts = WatchCounts()

    def round(self) -> Iterator[WatchEvent]:
        """Observe every watched topic once and restore lost acknowledgments; yield the events."""
        began, began_cpu = time.monotonic(), time.process_time()
        # Each round requests the versions and settings of brokers again, because a restart may change them.
        one = _Round(self._connection.renewed())
        counts = self.counts
        counts.unread = counts.topics = 0
        for answer in one.answers(self._wanted, self._before.keys() | {topic for topic, _ in self._plans}):
            if isinstance(answer, UnreadableSource):
                if not is_scalable(answer.topic):
                    counts.unread += 1
                elif counts.rounds:
                    # A scalable topic can never be judged. Only the first round reports it.
                    continue
                yield WatchEvent(
                    (answer.topic or answer.source, ""), f"not read: {answer.reason}", is_error=True
                )
            else:
                counts.topics += 1
                try:
                    yield from self._observe(one, answer)
                except AckwellError as error:
                    counts.unread += 1
                    yield WatchEvent((answer.topic, ""), f"not judged: {error}", is_error=True)
        if not counts.unread:
            for topic in self._before.keys() - one.listed:
                self._forget(topic)
            for topic, subscription in self._plans.keys() - one.checked:
                refusal = RefusedError("not-watched", subscription=subscription, topic=topic)
                yield self._refused_plan(self._plans[topic, subscription], refusal)
            counts.complete_round_ms = clock_ms()
        if self._restores:
            yield from self._restore(one)
        counts.at_risk = sum(self._at_risk.values())
        counts.pending = len(self._plans)
        counts.pending_entries = sum(each.missing.cardinality for each in self._plans.values())
        counts.rounds += 1
        counts.round_ended_s = time.monotonic()
        counts.round_seconds = counts.round_ended_s - began
        counts.round_cpu_seconds = time.process_time() - began_cpu

    def _observe(self, one: _Round, answer: TopicAnswer) -> Iterator[WatchEvent]:
        topic, now = answer.topic, {}
        for found in one.snapshots(answer):
            if isinstance(found, UnreadableSource):
                self.counts.unread += 1
                yield WatchEvent((topic, ""), f"not read: {found.reason}", is_error=True)
            elif found.stats.durable and not is_internal(found.stats.subscription):
                now[found.stats.subscription] = found
        before = self._before.get(topic, {})
        for subscription, live in now.items():
            name = topic, subscription
            decision = Decision(change=Transition.NONE)
            if subscription in before:
                brokers = one.brokers if _has_new_ledger(before[subscription], live) else ()
                decision = decide(before[subscription], live, brokers)
            yield from self._decided(one, name, decision, live)
        self._at_risk[topic] = sum(map(is_at_risk, now.values()))
        if self._at_risk[topic] or any(name[0] == topic for name in self._plans):
            self._keep(one, answer, now)
        else:
            self._forget(topic)

    def _keep(self, one: _Round, answer: TopicAnswer, now: dict[str, Snapshot]) -> None:
        """Store the observation of a topic for the next round.

        Write it to the folder if the topic has changed, or if the file of the topic is old.
        """
        written = self._written.get(answer.topic, {})
        if _states(written) != _states(now) or _is_old(written, now):
            facts = one.admin.facts(answer.owner)
            self._folder.write_observation(answer, facts, one.admin.cluster)
            self._written[answer.topic] = now
        self._before[answer.topic] = now

    def _forget(self, topic: str) -> None:
        self._at_risk.pop(topic, None)
        if self._before.pop(topic, None) is not None:
            del self._written[topic]
            self._folder.remove_observation(topic)

    def _decided(self, one: _Round, name: Name, decision: Decision, live: Snapshot) -> Iterator[WatchEvent]:
        earlier, made = self._plans.get(name), decision.plan
        if earlier is not None:
            if made is None or not len(made.missing - earlier.missing):
                yield from self._check_plan(one, earlier, live)
                if made is not None:
                    # The loss is already in the earlier plan, because the watch was killed after it wrote
                    # this plan, and before it wrote the observation.
                    return
            else:
                try:
                    made = both_losses(earlier, made, live)
                except RefusedError as refusal:
                    yield self._refused_plan(earlier, refusal)
        if decision.change is Transition.MOVED:
            self.counts.moves += 1
            yield WatchEvent(name, f"moved back: {decision.missing:,} entries are no longer acknowledged")
        elif decision.change is Transition.LOST:
            assert made is not None
            self.counts.losses += 1
            self._folder.write_plan(made, clock_ms())
            self._plans[name] = made
            one.checked.add(name)
            what = "" if self._restores else "; --yes restores them"
            yield WatchEvent(name, f"loaded anew: {decision.missing:,} acknowledgments are lost{what}")
        elif decision.change is Transition.REFUSED:
            assert decision.refusal is not None
            self.counts.refused[decision.refusal.code] += 1
            file = self._folder.keep_refused(name, clock_ms())
            yield self._refused(name, decision.refusal, file)

    def _check_plan(self, one: _Round, plan: Plan, live: Snapshot) -> Iterator[WatchEvent]:
        """Compare an earlier plan with the live state; yield the events.

        If the plan is carried out, remove it. If the plan does not match the live state, refuse it. In all
        other cases, note that the plan was checked in this round.
        """
        try:
            left, parts = remaining(plan, live)
            if not len(left) and not parts:
                self._remove(plan)
                yield WatchEvent(plan.name, "nothing is missing any longer")
                return
            unchanged_remaining(plan, live)
            one.checked.add(plan.name)
        except RefusedError as refusal:
            yield self._refused_plan(plan, refusal)

    def _restore(self, one: _Round) -> Iterator[WatchEvent]:
        plans = [plan for name, plan in self._plans.items() if name in one.checked]
        with ThreadPoolExecutor(min(len(plans), _RESTORES_AT_ONCE) or 1) as pool:
            results = pool.map(lambda plan: _restored(one.connection, plan), plans)
            for plan, result in zip(plans, results, strict=True):
                if isinstance(result, RefusedError):
                    yield self._refused_plan(plan, result)
                elif isinstance(result, AckwellError):
                    yield WatchEvent(plan.name, f"not restored yet: {result}", is_error=True)
                elif result.missing:
                    text = f"not restored yet: {result.missing:,} of {result.sent:,} are still missing"
                    yield WatchEvent(plan.name, text, is_error=True)
                else:
                    self.counts.restored += 1
                    self.counts.restored_entries += result.sent
                    self._remove(plan)
                    yield WatchEvent(plan.name, f"restored {result.sent:,} acknowledgments")
        # Observe the restored topics again. If the next load loses the restored acknowledgments, the
        # difference to this observation shows it.
        for topic in sorted({plan.topic for plan in plans if plan.name not in self._plans}):
            for answer in one.admin.answers([topic]):
                if not isinstance(answer, UnreadableSource):
                    yield from self._observe(one, answer)

    def _remove(self, plan: Plan) -> None:
        del self._plans[plan.name]
        self._folder.remove_plan(plan.name)

    def _refused_plan(self, plan: Plan, refusal: RefusedError) -> WatchEvent:
        self.counts.refused[refusal.code] += 1
        del self._plans[plan.name]
        return self._refused(plan.name, refusal, self._folder.refuse_plan(plan.name, clock_ms()))

    def _refused(self, name: Name, refusal: RefusedError, file: Path | None) -> WatchEvent:
        kept = "" if file is None else f" ({file})"
        return WatchEvent(name, f"not restored ({refusal.code}): {refusal}{kept}", is_error=True)


class _Round:
    """The requests of one round to the brokers, and the results that the round collects."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.admin: Admin = connection.admin
        self.listed: set[str] = set()
        """The existing topics among the wanted ones. Topics that the round does not request are included."""
        self.checked: set[Name] = set()
        """The subscriptions whose plans were found to match the live state in this round."""

    def answers(self, wanted: Sequence[str], watched: set[str]) -> Iterator[TopicAnswer | UnreadableSource]:
        """Request the wanted topics that are in `watched` or have ranges; yield their answers.

        The overviews of the brokers show which topics have ranges. If no broker has an overview, every
        wanted topic is requested.
        """
        overviews = self.admin.overviews()

        def wants(topic: str) -> bool:
            self.listed.add(topic)
            if topic in watched or not overviews:
                return True
            return topic in overviews and overviews[topic].has_ranges

        yield from self.admin.answers(wanted, wants=wants, owners=overviews)

    def snapshots(self, answer: TopicAnswer) -> Iterator[Snapshot | UnreadableSource]:
        """Yield a snapshot of each subscription in an answer."""
        facts, cluster = self.admin.facts(answer.owner), self.admin.cluster
        yield from snapshots_of(answer.to_json(), answer.topic, answer.source, facts, cluster)

    @cached_property
    def brokers(self) -> list[BrokerSettings | None]:
        """The settings of every broker of the cluster; None for a broker whose settings are unknown.

        Any of the brokers may have owned a topic between two rounds.
        """
        try:
            return [settings_of(self.admin.facts(each)) for each in sorted(self.admin.brokers())]
        except ValueError as error:
            raise StatsError(f"the settings of a broker: {error}", self.admin.endpoint.shown_url) from None


def _restored(connection: Connection, plan: Plan) -> Report | AckwellError:
    try:
        with connection.renewed() as own:
            return apply(plan, own, check=unchanged_remaining)
    except AckwellError as error:
        return error


def _has_new_ledger(before: Snapshot, now: Snapshot) -> bool:
    """Return whether the topic has a ledger that the snapshot `before` does not have.

    If not, the topic was not loaded in between, because each load opens a ledger.
    """
    return bool(dict(now.stats.ledgers).keys() - dict(before.stats.ledgers).keys())


def _states(snapshots: dict[str, Snapshot]) -> dict[str, tuple[object, ...]]:
    """Return for each snapshot the values on which a plan depends. The time of the snapshot is left out."""
    return {
        name: (
            each.stats.mark_delete_position,
            each.stats.individually_deleted,
            each.stats.ledger_sizes,
            each.type,
            each.broker,
        )
        for name, each in snapshots.items()
    }


_REWRITE_MS: Final = 300_000
"""The age at which the file of an unchanged topic is written again, in ms. Decisions refuse old observations,
so a restarted watch needs a recent file."""


def _is_old(before: dict[str, Snapshot], now: dict[str, Snapshot]) -> bool:
    """Return whether the times of two observations differ by more than `_REWRITE_MS`.

    The second observation may be the older one, if a clock was set back.
    """
    times = [each.stats.time_ms or 0 for each in (*before.values(), *now.values())]
    return max(times, default=0) - min(times, default=0) > _REWRITE_MS
