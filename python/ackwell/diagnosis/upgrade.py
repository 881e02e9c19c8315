"""Predict the effect of a rolling upgrade, or downgrade, on each subscription.

A rolling restart closes each topic on its old broker and loads it on another one. The old broker writes the
cursor by its own rules and settings, and the broker that loads the topic reads the cursor back. A topic moves
twice if it first moves to a broker that is itself restarted afterwards. Without an acknowledgment between the
two moves, the second close writes to the metadata store, because the cursor ledger was only read since the
load.

The doctor (`ackwell.diagnosis.doctor`) makes all predictions, with the settings of both brokers. To decide
whether a change of a rule or a default matters, the prediction is repeated without this change. The change
matters if the two predictions differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.broker.batch_sizes import Bounds
from ackwell.broker.broker_settings import MACHINE, BrokerSettings, assigned, defaults
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, newest
from ackwell.broker.writes import RESTARTS
from ackwell.diagnosis.assumptions import VERSION
from ackwell.diagnosis.checkup import JudgedBroker
from ackwell.diagnosis.delivery import delivery_of
from ackwell.diagnosis.doctor import Diagnosis, Verdict, count_to_json, diagnose
from ackwell.diagnosis.limits import ledger_list_usage, limit_usage
from ackwell.diagnosis.prediction import predicted_losses, weight
from ackwell.diagnosis.upgrade_rules import CONSUMER_RULES, RULES
from ackwell.releases import full_release, known_release
from ackwell.subscription import SubscriptionSettings

if TYPE_CHECKING:
    from ackwell.broker.restart import RestartLoss
    from ackwell.broker.writes import Restart

SCHEMA_VERSION: Final = 1
"""The version of the JSON format. A change that could mislead readers of the old format increases it."""

_EMPTY: Final = {"(empty)": "", "null": ""}
"""Maps special values in `settings.tsv` to the text that a broker reports for these values."""


class UpgradeChange(NamedTuple):
    """A rule or a default that the upgrade changes."""

    attribute: str
    """The field of `BrokerSettings`."""
    name: str
    """For a setting, the broker's name of the setting; for a rule, the name of the field."""
    before: str
    after: str
    text: str
    """For a rule, the sentence that describes it after the upgrade; empty for a setting."""

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        kind = "rule" if self.text else "default"
        return {
            "name": self.name,
            "kind": kind,
            "before": self.before,
            "after": self.after,
            "text": self.text or None,
        }


@dataclass(frozen=True)
class BrokerUpgrade:
    """One broker before and after its upgrade.

    A setting that differs from the default of the old release keeps its value. All other settings get the
    default of the new release.
    """

    source: JudgedBroker
    target: JudgedBroker
    removed: Mapping[str, str]
    """Maps each setting that the new release does not have to its value. Default values are omitted."""

    @classmethod
    def of(
        cls,
        source: JudgedBroker,
        to: str,
        *,
        configured: Mapping[str, str] | None = None,
        assignments: Iterable[str] = (),
        others_are_defaults: bool = False,
    ) -> BrokerUpgrade:
        """Return the upgrade of a broker to a release.

        `configured` contains the known settings of the old broker. `assignments` contains settings of the new
        broker, as `name=value`. If the value of a setting is unknown for the old broker, it is also unknown
        for the new one, unless `assignments` contains it or `others_are_defaults` is true. Raises
        `ValueError` for an unknown release or setting.
        """
        target_settings = BrokerSettings.of(to)
        changed = _changed(configured or {}, source.version)
        known = known_release(to)
        assert known is not None
        has = defaults(known)
        assignments = list(assignments)
        target = JudgedBroker(
            version=full_release(to),
            settings=target_settings.with_known(changed).with_values(assignments),
            source="the command line" if assignments else "the present ones and the new defaults",
            assumed=JudgedBroker.of(to, others_are_defaults=True).assumed,
            assumed_settings=frozenset()
            if others_are_defaults
            else source.assumed_settings - {VERSION, *assigned(assignments)},
        ).with_node_bytes(source.settings.metadata_node_bytes)
        removed = {name: value for name, value in changed.items() if name not in has}
        return cls(source, target, removed)

    @property
    def is_done(self) -> bool:
        """Whether the broker already has the new release."""
        return full_release(self.source.version) == self.target.version

    @cached_property
    def changes(self) -> tuple[UpgradeChange, ...]:
        """The rules and settings in `BrokerSettings` whose value the upgrade changes."""
        names = {each.name: each.metadata.get("name") for each in fields(BrokerSettings)}
        names["cursor_info_compression"] = "managedCursorInfoCompressionType"
        names["ledger_info_compression"] = "managedLedgerInfoCompressionType"
        found = []
        for attribute, name in names.items():
            before, after = (getattr(each.settings, attribute) for each in (self.source, self.target))
            if before != after:
                text = "" if name else RULES[attribute][after]
                found.append(UpgradeChange(attribute, name or attribute, _shown(before), _shown(after), text))
        return tuple(found)

    @cached_property
    def consumer_rules(self) -> tuple[str, ...]:
        """Sentences about the rules of delivery and acknowledgment that the upgrade changes."""
        before, after = (_model(each.version) for each in (self.source, self.target))
        if before is None or after is None:
            return ()
        return tuple(
            sentences[getattr(new, attribute)]
            for old, new in ((before, after), (before.cursor, after.cursor))
            for attribute, sentences in CONSUMER_RULES.items()
            if hasattr(new, attribute) and getattr(old, attribute) != getattr(new, attribute)
        )

    def without(self, change: UpgradeChange) -> BrokerSettings:
        """Return the settings after the upgrade, except that one change is undone."""
        before = getattr(self.source.settings, change.attribute)
        return replace(self.target.settings, **{change.attribute: before})


def _model(version: str) -> SubscriptionSettings | None:
    return None if known_release(version) is None else SubscriptionSettings.pulsar(version)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _changed(configured: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the settings in `configured` whose value differs from the default of a release."""
    known = known_release(version)
    ours = {} if known is None else defaults(known)
    return {
        name: value
        for name, value in configured.items()
        if name in ours and ours[name] not in (value, MACHINE) and _EMPTY.get(ours[name], ours[name]) != value
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionUpgrade:
    """The effect of an upgrade on one subscription."""

    upgrade: BrokerUpgrade
    now: Diagnosis
    """The prediction for restarts of the old broker."""
    moves: tuple[Diagnosis, ...]
    """Up to two predictions for the rolling restart: one if the topic moves once, and one if it moves twice
    without an acknowledgment between the moves. Empty if the broker already has the new release."""
    after: tuple[Diagnosis, Diagnosis]
    """Two predictions for a later restart of the new broker: one with an acknowledgment since the new broker
    loaded the topic, and one without. Both assume that the rolling restart lost nothing."""
    changes: tuple[UpgradeChange, ...]
    """The changes of rules and settings that affect a prediction."""
    improvements: frozenset[UpgradeChange]
    """Those of `changes` that only improve the restarts of the new broker: they make no loss greater and no
    limit nearer."""

    @property
    def stats(self) -> SubscriptionStats:
        """The present state of the subscription."""
        return self.now.stats

    @property
    def lost(self) -> Bounds:
        """The bounds of the number of acknowledged messages that the rolling restart redelivers."""
        bounds = [_lost([each], "graceful") for each in self.moves]
        return bounds[0].or_else(bounds[-1]) if bounds else Bounds(0, 0)

    def lost_now(self, restart: Restart) -> Bounds:
        """Return bounds of the number of messages that a restart of the old broker redelivers."""
        return _lost([self.now], restart)

    def lost_after(self, restart: Restart) -> Bounds:
        """Return bounds of the number of messages that a restart of the new broker redelivers."""
        return _lost(self.after, restart)

    @property
    def is_worse(self) -> bool:
        """Whether a restart after the upgrade has a worse verdict, or loses more, than a restart now."""
        return _worst(self.after).severity > self.now.verdict.severity or any(
            self.lost_after(restart).at_least > self.lost_now(restart).at_least for restart in RESTARTS
        )

    @property
    def verdict(self) -> Verdict:
        """The worst verdict on the rolling restart, and on later restarts if the upgrade makes them worse."""
        return _worst([*self.moves, *(self.after if self.is_worse else ())])

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of the new broker, as `name=value`, that reduce the predicted loss of later restarts."""
        found = [remedy.settings for each in self.after for remedy in each.remedies]
        return tuple(dict.fromkeys(setting for each in found for setting in each))

    def to_json(self) -> dict[str, Any]:
        """Return the effect as JSON values."""
        stats = self.stats
        return {
            "topic": stats.topic,
            "subscription": stats.subscription,
            "verdict": str(self.verdict),
            "ackedMessagesRedelivered": count_to_json(self.lost),
            "moves": [_to_json([each], ("graceful",)) for each in self.moves],
            "restartNow": _to_json([self.now], RESTARTS),
            "restartAfter": _to_json(self.after, RESTARTS),
            "changes": [each.name for each in self.changes],
            "improvements": [each.name for each in self.changes if each in self.improvements],
            "settings": list(self.settings),
            "markDeletePosition": str(stats.mark_delete_position) if stats.shows_acknowledgments else None,
            "ranges": stats.range_count,
            "backlogEntries": stats.backlog_entries,
            "owner": stats.owner,
            "source": stats.source,
            "notes": list(self.now.notes),
        }


def _worst(found: Iterable[Diagnosis]) -> Verdict:
    return Verdict.worst(each.verdict for each in found)


def _lost(found: Sequence[Diagnosis], restart: Restart) -> Bounds:
    """Return the narrowest bounds that contain the number of lost messages in every diagnosis.

    The bounds include the worst case: a crash before the latest acknowledgments are written.
    """
    if any(not each.is_known for each in found):
        return Bounds(0, None)
    losses = [
        loss.messages_before_flush for each in found for loss in each.restarts if loss.restart == restart
    ]
    return reduce(Bounds.or_else, losses) if losses else Bounds(0, 0)


def _to_json(found: Sequence[Diagnosis], restarts: Sequence[Restart]) -> dict[str, Any]:
    reasons = {reason.code: reason for each in found for reason in each.reasons}
    near_limits = dict.fromkeys(usage for each in found for usage in each.usage if usage.is_near)
    return {
        "verdict": str(_worst(found)),
        "ackedMessagesLost": {restart: count_to_json(_lost(found, restart)) for restart in restarts},
        "reasons": [{"code": each.code, "text": each.text} for each in reasons.values()],
        "limits": [each.to_json() for each in near_limits],
    }


def upgrade_of(stats: SubscriptionStats, upgrade: BrokerUpgrade, *, moves: int = 2) -> SubscriptionUpgrade:
    """Return the effect of an upgrade on a subscription; O((ranges + ack sets) * changes).

    `moves` is the maximum number of times that the rolling restart moves a topic.
    """
    source, target = upgrade.source, upgrade.target
    last_close = source.settings.read_by(target.settings)
    closes: list[tuple[BrokerSettings, Sequence[BrokerSettings]]] = [(last_close, ())]
    if moves > 1:
        closes.append((source.settings, (last_close,)))
    rolling = [
        diagnose(
            stats,
            first,
            restarts=("graceful",),
            version=source.version,
            assumed=source.assumed_settings,
            later=later,
        )
        for first, later in closes
    ]
    places = [loss.place for each in rolling[:1] for loss in each.restarts]
    loaded = replace(
        stats, cursor_ledger="read-only" if places == ["cursor ledger"] else "none", untouched=True
    )
    changes, improvements = _changes_that_matter(stats, loaded, upgrade)
    return SubscriptionUpgrade(
        upgrade=upgrade,
        now=diagnose(stats, source.settings, version=source.version, assumed=source.assumed_settings),
        moves=() if upgrade.is_done else tuple(rolling),
        after=_after(stats, loaded, target),
        changes=changes,
        improvements=improvements,
    )


class _Prediction(NamedTuple):
    """The restarts and the delivery of a subscription under the settings of one broker."""

    losses: tuple[Bounds, ...]
    limits: frozenset[tuple[str, bool]]
    """Each limit that is near, and whether it is exceeded."""
    delivery: str

    @classmethod
    def of(
        cls, stats: SubscriptionStats, loaded: SubscriptionStats, settings: BrokerSettings, version: str
    ) -> _Prediction:
        """Predict for two states: `stats`, and the state `loaded` after a load without an acknowledgment."""
        usage = list(ledger_list_usage(stats, settings))
        losses: list[RestartLoss] = []
        if stats.durable and stats.shows_acknowledgments:
            usage += (each for state in (stats, loaded) for each in limit_usage(state, settings))
            losses += predicted_losses(stats, settings, RESTARTS)
            losses += predicted_losses(loaded, settings, ("graceful",))
        return cls(
            tuple(bounds for each in losses for bounds in each.bounds),
            frozenset(
                (each.setting, exceeded)
                for each in usage
                if each.is_near
                for exceeded in {False, each.is_exceeded}
            ),
            delivery_of(stats, settings, version=version).code.code,
        )

    def improves(self, other: _Prediction) -> bool:
        """Return whether at least one loss or limit is better than in `other`, and none is worse.

        The delivery must be the same in both predictions.
        """
        return (
            self.delivery == other.delivery
            and (self.losses, self.limits) != (other.losses, other.limits)
            and self.limits <= other.limits
            and all(
                weight(ours) <= weight(theirs) for ours, theirs in zip(self.losses, other.losses, strict=True)
            )
        )


def _changes_that_matter(
    stats: SubscriptionStats, loaded: SubscriptionStats, upgrade: BrokerUpgrade
) -> tuple[tuple[UpgradeChange, ...], frozenset[UpgradeChange]]:
    """Return the changes that affect restarts or the delivery, and those that only improve restarts.

    Restarts and the delivery are those after the upgrade.
    """
    if stats.overview is not None:
        return (), frozenset()
    version = upgrade.target.version
    after = _Prediction.of(stats, loaded, upgrade.target.settings, version)
    undone = {each: _Prediction.of(stats, loaded, upgrade.without(each), version) for each in upgrade.changes}
    return (
        tuple(change for change, outcome in undone.items() if outcome != after),
        frozenset(change for change, outcome in undone.items() if after.improves(outcome)),
    )


def _after(
    stats: SubscriptionStats, loaded: SubscriptionStats, target: JudgedBroker
) -> tuple[Diagnosis, Diagnosis]:
    """Diagnose the subscription on the new broker in two states.

    `stats` is the state if a message was acknowledged after the load of the topic. `loaded` is the state if
    no message was acknowledged after the load.
    """
    settings, version, assumed = target.settings, target.version, target.assumed_settings
    return (
        diagnose(stats, settings, version=version, assumed=assumed),
        diagnose(loaded, settings, restarts=("graceful",), version=version, assumed=assumed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeCheck:
    """The effect of an upgrade on every subscription."""

    subscriptions: Sequence[SubscriptionUpgrade]
    """Every subscription, the worst first."""
    unread: Sequence[UnreadableSource]
    upgrades: Sequence[BrokerUpgrade]
    """The upgrades of the brokers that own the topics, without duplicates; at least one."""

    @classmethod
    def of(
        cls,
        found: Iterable[SubscriptionStats | UnreadableSource],
        upgrade: Callable[[str | None], BrokerUpgrade],
        *,
        moves: int = 2,
    ) -> UpgradeCheck:
        """Check every subscription. `upgrade` returns the upgrade of the broker at an admin address.

        For topics without an owner, `upgrade` is called with None. If there are several dumps of a
        subscription, the newest dump is used.
        """
        unread: list[UnreadableSource] = []
        owners: dict[str | None, BrokerUpgrade] = {}
        subscriptions = []
        for stats in newest(found, unread).values():
            if stats.owner not in owners:
                owners[stats.owner] = upgrade(stats.owner)
            subscriptions.append(upgrade_of(stats, owners[stats.owner], moves=moves))
        upgrades = list(owners.values()) or [upgrade(None)]
        return cls(
            subscriptions=sorted(subscriptions, key=_worst_first),
            unread=unread,
            upgrades=[each for number, each in enumerate(upgrades) if each not in upgrades[:number]],
        )

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all subscriptions; `FINE` if there are none."""
        return Verdict.worst(each.verdict for each in self.subscriptions)

    @property
    def changes(self) -> Mapping[UpgradeChange, int]:
        """Maps each change of a rule or a default to the number of subscriptions for which it matters."""
        found = {change: 0 for upgrade in self.upgrades for change in upgrade.changes}
        for each in self.subscriptions:
            for change in each.changes:
                found[change] += 1
        return found

    @property
    def removed(self) -> Mapping[str, str]:
        """Maps each setting that the new release does not have to its value. Default values are omitted."""
        return {name: value for upgrade in self.upgrades for name, value in upgrade.removed.items()}

    @property
    def consumer_rules(self) -> tuple[str, ...]:
        """Sentences about the rules of delivery and acknowledgment that the upgrades change."""
        return tuple(dict.fromkeys(rule for upgrade in self.upgrades for rule in upgrade.consumer_rules))

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of the new brokers, as `name=value`, that are suggested for at least one subscription."""
        largest: dict[str, str] = {}
        for assignment in dict.fromkeys(s for each in self.subscriptions for s in each.settings):
            name, _, value = assignment.partition("=")
            before = largest.get(name)
            if before is None or not value.isdecimal():
                largest[name] = value
            elif name.endswith("InMetadataStore"):
                largest[name] = min(before, value, key=int)
            else:
                largest[name] = max(before, value, key=int)
        return tuple(f"{name}={value}" for name, value in largest.items())

    @property
    def losing(self) -> list[SubscriptionUpgrade]:
        """The subscriptions for which the rolling restart may redeliver acknowledged messages."""
        return [each for each in self.subscriptions if each.lost.at_most != 0]

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON values, but without the findings about single subscriptions."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "verdict": str(self.verdict),
            "brokers": [
                {"before": each.source.to_json(), "after": each.target.to_json()} for each in self.upgrades
            ],
            "changes": [
                {**change.to_json(), "subscriptions": count} for change, count in self.changes.items()
            ],
            "removedSettings": dict(self.removed),
            "consumerRules": list(self.consumer_rules),
            "settings": list(self.settings),
            "unread": [each._asdict() for each in self.unread],
        }


def _worst_first(each: SubscriptionUpgrade) -> tuple[int, int, int, str, str]:
    return (
        -each.verdict.severity,
        -max((move.messages_lost.at_least for move in each.moves), default=0),
        -each.lost_after("graceful").at_least,
        each.stats.topic,
        each.stats.subscription,
    )
