"""One run of the doctor: every diagnosis, the unreadable sources, and the assumptions about the broker.

The table, the JSON, the Prometheus text and the HTML page all show the same `Checkup`, so their numbers
agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import ackwell
from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import BrokerSettings, assigned
from ackwell.broker.dates import date_of
from ackwell.broker.stats import SubscriptionStats, UnreadableSource
from ackwell.broker.writes import RESTARTS, Restart
from ackwell.diagnosis.assumptions import DECISIVE, VERSION
from ackwell.diagnosis.delivery import DeliveryVerdict
from ackwell.diagnosis.doctor import Diagnosis, Verdict, count_to_json, diagnose
from ackwell.releases import RELEASES, full_release

if TYPE_CHECKING:
    from ackwell.cluster.admin import BrokerFacts

SCHEMA_VERSION: Final = 1
"""The version of the JSON format. A change that could mislead readers of the old format increases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBroker:
    """The version and settings of a broker, reported or assumed. The predictions of a checkup use them."""

    version: str
    settings: BrokerSettings
    source: str
    """The source of the version and the settings as text, such as `the broker`."""
    assumed: tuple[str, ...] = ()
    """Sentences about the values that the broker did not report. Defaults replace these values."""
    assumed_settings: frozenset[str] = frozenset()
    """The names of the assumed settings that affect the loss of a restart."""

    def with_node_bytes(self, limit: int) -> JudgedBroker:
        """Return a copy in which the metadata store accepts records of up to `limit` bytes."""
        return replace(self, settings=replace(self.settings, metadata_node_bytes=limit))

    def to_json(self) -> dict[str, Any]:
        """Return the broker as JSON values."""
        return {
            "version": self.version,
            "settingsFrom": self.source,
            "settings": self.settings.named(),
            "assumed": list(self.assumed),
            "assumedSettings": sorted(self.assumed_settings),
        }

    @property
    def changed_settings(self) -> dict[str, int | bool]:
        """The settings that differ from the defaults of the version."""
        defaults = BrokerSettings.nearest(self.version).named()
        return {name: value for name, value in self.settings.named().items() if value != defaults[name]}

    @classmethod
    def of(
        cls, version: str | None, assignments: Iterable[str] = (), *, others_are_defaults: bool = False
    ) -> JudgedBroker:
        """Return a broker that did not report its values. `assignments` has known settings as `name=value`.

        By default, all other settings are unknown, and their default values are assumed. If
        `others_are_defaults` is true, all other settings are known: they have their default values. If
        `version` is None, the version is assumed, too.
        """
        named = version or BrokerSettings.DEFAULT_VERSION
        assignments = list(assignments)
        names = frozenset() if others_are_defaults else _assumed_names(version, assignments)
        assumed = [*_unjudged(named)]
        if names - {VERSION}:
            assumed.append("the broker's settings: the files do not show them, so the defaults are used")
        return cls(
            version=named,
            settings=BrokerSettings.of(named).with_values(assignments),
            source="the command line" if assignments else f"the defaults of {named}",
            assumed=tuple(assumed),
            assumed_settings=names,
        )

    @classmethod
    def from_facts(
        cls,
        facts: BrokerFacts | None,
        version: str | None,
        assignments: Iterable[str] = (),
        *,
        others_are_defaults: bool = False,
    ) -> JudgedBroker:
        """Return the broker that reported `facts`. `version` and `assignments` override the reported values.

        If `facts` is None, the broker has no reported values (see `of`).
        """
        if facts is None:
            return cls.of(version, assignments, others_are_defaults=others_are_defaults)
        named = version or facts.version or BrokerSettings.DEFAULT_VERSION
        assumed = [*facts.assumed, *_unjudged(named)]
        settings = BrokerSettings.nearest(named)
        assignments = list(assignments)
        names: frozenset[str] = frozenset()
        if facts.settings is not None:
            settings = settings.with_known(facts.settings)
        elif not others_are_defaults:
            names = _assumed_names(version or facts.version, assignments)
        return cls(
            version=named,
            settings=settings.with_values(assignments),
            source="the broker" if facts.settings is not None else f"the defaults of {named}",
            assumed=tuple(assumed),
            assumed_settings=names,
        )


def _assumed_names(version: str | None, assignments: Iterable[str]) -> frozenset[str]:
    """Return the names in `DECISIVE` without those in `assignments`. If `version` is None, add `VERSION`."""
    return DECISIVE - assigned(assignments).keys() | ({VERSION} if version is None else set())


def _unjudged(version: str) -> Iterator[str]:
    if full_release(version) not in RELEASES:
        yield (
            f"version {version} was never compared with a real restart; the rules of the nearest one "
            f"that was are taken ({', '.join(RELEASES)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The findings of one run of the doctor.

    Several dumps of one subscription form its history; the newest dump decides the verdict.
    """

    diagnoses: Sequence[Diagnosis]
    """The newest diagnosis of each subscription. Stuck subscriptions are first; then the order is by verdict,
    the worst first."""
    histories: Mapping[tuple[str, str], Sequence[Diagnosis]]
    """Maps each topic and subscription to all its diagnoses, in order of time."""
    unread: Sequence[UnreadableSource]
    broker: JudgedBroker
    restarts: tuple[Restart, ...] = RESTARTS
    sources: tuple[str, ...] = ()
    time_ms: int = field(default=0)
    """The time at which the doctor ran."""
    owners: Mapping[str, JudgedBroker] = field(default_factory=dict)
    """Maps admin addresses to the brokers that own topics. For a topic without an owner, `broker` applies."""

    @classmethod
    def of(
        cls,
        found: Iterable[SubscriptionStats | UnreadableSource],
        broker: JudgedBroker,
        *,
        owner: Callable[[str], JudgedBroker] | None = None,
        restarts: Sequence[Restart] = RESTARTS,
        sources: Sequence[str] = (),
        time_ms: int = 0,
    ) -> Checkup:
        """Diagnose every subscription. Add each source that cannot be read to the list `unread`.

        `owner` returns the broker at an admin address. The version and settings of this broker apply to the
        topics that it owns. `broker` applies to topics without an owner.
        """
        owners: dict[str, JudgedBroker] = {}
        dumps: dict[tuple[str, str], list[SubscriptionStats]] = {}
        unread: list[UnreadableSource] = []
        for each in found:
            if isinstance(each, UnreadableSource):
                unread.append(each)
            else:
                if owner is not None and each.owner is not None and each.owner not in owners:
                    owners[each.owner] = owner(each.owner)
                dumps.setdefault((each.topic, each.subscription), []).append(each)
        histories: dict[tuple[str, str], list[Diagnosis]] = {}
        for name, of_one in dumps.items():
            of_one.sort(key=lambda stats: stats.time_ms or 0)
            histories[name] = [
                diagnose(
                    now,
                    judged.settings,
                    restarts=restarts,
                    before=before,
                    version=judged.version,
                    assumed=judged.assumed_settings,
                )
                for before, now in zip([None, *of_one], of_one, strict=False)
                for judged in [owners.get(now.owner or "", broker)]
            ]
            if trend := tuple(_trend(histories[name])):
                newest = histories[name][-1]
                histories[name][-1] = replace(newest, notes=(*newest.notes, *trend))
        return cls(
            diagnoses=sorted((history[-1] for history in histories.values()), key=_worst_first),
            histories=histories,
            unread=unread,
            broker=broker,
            restarts=tuple(restarts),
            sources=tuple(sources),
            time_ms=time_ms,
            owners=owners,
        )

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """Maps each verdict to its number of subscriptions; the worst verdict is first."""
        counts = Counter(diagnosis.verdict for diagnosis in self.diagnoses)
        return {verdict: counts[verdict] for verdict in sorted(Verdict, key=lambda v: -v.severity)}

    @property
    def worst(self) -> Verdict:
        """The worst verdict of all subscriptions; `FINE` if there are none."""
        return Verdict.worst(each.verdict for each in self.diagnoses)

    @property
    def deliveries(self) -> dict[DeliveryVerdict, int]:
        """Maps each delivery verdict to its number of subscriptions; the worst verdict is first."""
        counts = Counter(diagnosis.delivery.verdict for diagnosis in self.diagnoses)
        return {verdict: counts[verdict] for verdict in sorted(DeliveryVerdict, key=lambda v: -v.severity)}

    def messages_lost(self, restart: Restart) -> Bounds:
        """Return bounds of the total number of messages that a restart redelivers to all subscriptions."""
        least, most = 0, 0
        unbounded = False
        for diagnosis in self.diagnoses:
            # If the acknowledgments are unknown, their loss has no upper bound.
            unbounded = unbounded or (diagnosis.messages_lost.at_most is None and not diagnosis.restarts)
            for loss in diagnosis.restarts:
                if loss.restart == restart:
                    least += loss.messages_before_flush.at_least
                    at_most = loss.messages_before_flush.at_most
                    unbounded = unbounded or at_most is None
                    most += at_most or 0
        return Bounds(least, None if unbounded else most)

    @property
    def date(self) -> str:
        """The date of the run in ISO 8601, UTC."""
        return date_of(self.time_ms).isoformat(timespec="seconds")

    def header(self) -> dict[str, Any]:
        """Return the facts about the whole run as JSON values: versions, brokers, totals, unreadable sources.

        `doctor.schema.json` in this folder is the JSON schema of the whole document: this header and the
        `subscriptions`.
        """
        return {
            "schemaVersion": SCHEMA_VERSION,
            "ackwellVersion": ackwell.__version__,
            "date": self.date,
            "sources": list(self.sources),
            "broker": self.broker.to_json(),
            "owners": {owner: broker.to_json() for owner, broker in self.owners.items()},
            "totals": {
                "subscriptions": len(self.diagnoses),
                "verdicts": {str(verdict): count for verdict, count in self.verdicts.items()},
                "delivery": {str(verdict): count for verdict, count in self.deliveries.items()},
                "unread": len(self.unread),
                "ackedMessagesLost": {
                    restart: count_to_json(self.messages_lost(restart)) for restart in self.restarts
                },
            },
            "unread": [each._asdict() for each in self.unread],
        }

    def subscription(self, diagnosis: Diagnosis) -> dict[str, Any]:
        """Return one subscription as JSON values, with its history if there are several dumps of it."""
        history = self.histories[diagnosis.stats.topic, diagnosis.stats.subscription]
        return {
            **diagnosis.to_json(),
            "history": [
                {
                    "timeMs": each.stats.time_ms,
                    "verdict": str(each.verdict),
                    "delivery": str(each.delivery.verdict),
                    "ackedMessagesLostOnRestart": count_to_json(each.messages_lost),
                    "backlogEntries": each.stats.backlog_entries,
                    "ranges": each.stats.range_count,
                }
                for each in (history if len(history) > 1 else ())
            ],
        }


TREND_MS: Final = 600_000
"""The minimum time between the first and the last dump of a history that is extrapolated."""

YEAR_MS: Final = 365 * 86_400_000


def _trend(history: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield sentences about changes between the first and the last dump of a subscription.

    They describe the growth of the backlog and of the number of ranges, the date on which a limit is reached
    at this rate, and a mark-delete position that has not moved.
    """
    first, last = history[0], history[-1]
    begin_ms, end_ms = first.stats.time_ms, last.stats.time_ms
    if begin_ms is None or end_ms is None or end_ms - begin_ms < TREND_MS:
        return
    since = _day(begin_ms)
    used = {(usage.setting, usage.what): usage.used for usage in first.usage}
    for usage in last.usage:
        grown = usage.used - used.get((usage.setting, usage.what), usage.used)
        if grown > 0 and usage.used < usage.limit:
            full_ms = end_ms + (usage.limit - usage.used) * (end_ms - begin_ms) // grown
            # A forecast for more than a year is not useful.
            if full_ms - end_ms < YEAR_MS:
                yield f"{usage.setting}: at the rate since {since} its limit is reached on {_day(full_ms)}"
    for what, then, now in (
        ("backlog", first.stats.backlog_entries, last.stats.backlog_entries),
        ("number of ranges", first.stats.range_count, last.stats.range_count),
    ):
        if now is not None and then is not None and now > then:
            yield f"the {what} grew by {now - then:,} since {since}"
    positions = {each.stats.mark_delete_position for each in history}
    if last.stats.backlog_entries and len(positions) == 1:
        yield f"the mark-delete position has not moved since {since}"


def _day(time_ms: int) -> str:
    return date_of(time_ms).strftime("%A, %Y-%m-%d %H:%M UTC")


def _worst_first(diagnosis: Diagnosis) -> tuple[bool, int, int, int, float, int, str, str]:
    stats = diagnosis.stats
    return (
        not diagnosis.delivery.is_stuck,
        -diagnosis.verdict.severity,
        -diagnosis.messages_lost.at_least,
        -diagnosis.delivery.verdict.severity,
        -max((usage.share for usage in diagnosis.usage), default=0.0),
        -(stats.backlog_entries or 0),
        stats.topic,
        stats.subscription,
    )
