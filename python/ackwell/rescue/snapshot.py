"""A snapshot: the state of one subscription at one moment, with all values that a rescue needs.

A snapshot is read from a live broker, or from a dump that `ackwell collect` or `ackwell rescue snapshot`
wrote. The output of `stats-internal` alone is not a snapshot, because it does not show the type of the
subscription.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.broker_settings import BrokerSettings, assigned
from ackwell.broker.documents import documents_of
from ackwell.broker.names import decoded_name, same_subscription
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, from_answer, stats_files
from ackwell.cluster.admin import CHANGED_TOPIC_REQUESTS, BrokerFacts, TopicAnswer
from ackwell.cluster.collect import MANIFEST, manifest_facts
from ackwell.cursor.cursor_state import existing
from ackwell.cursor.rules import acknowledged
from ackwell.diagnosis.limits import RANGE_LIMIT
from ackwell.errors import StatsError
from ackwell.object_paths import require_paths
from ackwell.protocol.constants import SubscriptionType
from ackwell.regular_files import read_regular
from ackwell.rescue.checksums import check_sha256, with_sha256
from ackwell.sources import SourceKind, source_kind, wrong_kind

if TYPE_CHECKING:
    from ackwell import PositionRangeSet
    from ackwell.cluster.admin import Admin
    from ackwell.object_paths import AnyPath


@dataclass(frozen=True)
class Snapshot:
    """The state of a subscription in the answers of its broker."""

    stats: SubscriptionStats
    shown: Mapping[str, Any]
    """The JSON object of the subscription in the broker's answer to `stats`."""
    topic_shown: Mapping[str, Any]
    """The JSON object of the topic in the broker's answer to `stats`."""
    broker: BrokerFacts | None = None
    """The version and settings of the broker; None if the source of the snapshot does not have them."""
    cluster: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """The topic and the subscription."""
        return self.stats.topic, self.stats.subscription

    @property
    def type(self) -> SubscriptionType | None:
        """The type of the subscription; None if no consumer has connected since the topic was loaded."""
        found = self.stats.subscription_type
        return None if found in (None, "None") else SubscriptionType(found)

    @property
    def consumers(self) -> list[Mapping[str, Any]]:
        """The JSON objects of the consumers in the broker's answer to `stats`."""
        return self.shown.get("consumers") or []

    @cached_property
    def acked(self) -> PositionRangeSet:
        """The existing entries of the topic that are wholly acknowledged. O(ranges)."""
        stats = self.stats
        found = acknowledged(stats.ledgers, stats.mark_delete_position, stats.individually_deleted)
        return existing(found, stats.ledgers)

    @cached_property
    def settings(self) -> BrokerSettings | None:
        """The settings of the broker; None if they are unknown."""
        try:
            return settings_of(self.broker)
        except ValueError as error:
            raise StatsError(f"the broker's settings: {error}", self.stats.source) from None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the subscription's name and acknowledgments, in hexadecimal."""
        stats = self.stats
        parts: list[object] = [*self.name, stats.time_ms, stats.mark_delete_position]
        parts += [stats.individually_deleted, *stats.ledger_sizes]
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def settings_of(facts: BrokerFacts | None) -> BrokerSettings | None:
    """Return the settings of a broker; None if they are unknown. Raises `ValueError` for invalid settings."""
    if facts is None or facts.version is None or facts.settings is None:
        return None
    return BrokerSettings.nearest(facts.version).with_known(facts.settings)


def stated_settings(
    before: Snapshot, now: Snapshot, assignments: Sequence[str], *, others_are_defaults: bool = False
) -> BrokerSettings | None:
    """Return the settings of the broker, changed by a user's `assignments` (`name=value`).

    The changes apply to the settings that the broker reported. If the broker reported none, the changes apply
    to the defaults of its version.

    Return None if the limit of ranges stays unknown: if the broker reported no settings, the limit is not in
    `assignments`, and `others_are_defaults` is false.
    """
    reported = before.settings or now.settings
    if reported is None and not (others_are_defaults or RANGE_LIMIT in assigned(assignments)):
        return None
    versions = [each.broker.version for each in (before, now) if each.broker is not None]
    version = next(filter(None, versions), BrokerSettings.DEFAULT_VERSION)
    return (reported or BrokerSettings.nearest(version)).with_values(assignments)


def snapshots_of(
    answer: Mapping[str, Any], topic: str, source: str, facts: BrokerFacts | None, cluster: str | None
) -> Iterator[Snapshot | UnreadableSource]:
    """Yield a snapshot of each subscription in `answer`, a JSON object with `internalStats` and `stats`."""
    shown = answer.get("stats")
    if not isinstance(shown, dict) or not isinstance(shown.get("subscriptions"), dict):
        reason = (
            "`internalStats` without `stats`, so the type of a subscription is unknown; "
            "take the snapshot with `ackwell rescue snapshot` or `ackwell collect`"
        )
        yield UnreadableSource(source, topic, reason)
        return
    for found in from_answer(answer, topic, source):
        if isinstance(found, UnreadableSource):
            yield found
            continue
        of = shown["subscriptions"].get(found.subscription) or {}
        try:
            yield Snapshot(found.required(), of, shown, facts, cluster)
        except StatsError as error:
            yield UnreadableSource(error.source, topic, error.reason)


def read_snapshots(sources: Iterable[str | Path]) -> Iterator[Snapshot | UnreadableSource]:
    """Yield a snapshot of each subscription in files and folders.

    For a source that cannot be used, yield an `UnreadableSource`.
    """
    require_paths(sources)
    for source in sources:
        try:
            for file in stats_files(source):
                data = read_regular(file)
                if (kind := source_kind(data)) in _OTHER_KINDS:
                    raise StatsError(wrong_kind(kind, SourceKind.DUMP), str(file))
                for _, document in documents_of(data, str(file)):
                    yield from _of_document(document, file)
        except StatsError as error:
            yield UnreadableSource(error.source, None, error.reason)
        except OSError as error:
            yield UnreadableSource(str(source), None, f"cannot be read: {error.strerror}")


_OTHER_KINDS: Final = frozenset(SourceKind) - {SourceKind.DUMP, SourceKind.JSON, SourceKind.TEXT}


def _of_document(document: Any, file: AnyPath) -> Iterator[Snapshot | UnreadableSource]:
    source = str(file)
    if not isinstance(document, dict) or not isinstance(document.get("internalStats"), dict):
        kind = source_kind(json.dumps(document).encode())
        yield UnreadableSource(source, None, wrong_kind(kind, SourceKind.DUMP))
        return
    if "subscription" in document or "sha256" in document:
        check_sha256(document, source)
    # The manifest of `ackwell collect` has the version and settings of each owner.
    facts = manifest_facts(file.parent / MANIFEST, document.get("owner"))
    broker = document.get("broker")
    if isinstance(broker, dict):
        try:
            facts = BrokerFacts.of_json({"version": None, "settings": None, "assumed": (), **broker})
        except TypeError as error:
            yield UnreadableSource(source, None, f"the broker: {error}")
            return
    wanted, topic = document.get("subscription"), str(document.get("topic", source))
    is_there = wanted is None
    for found in snapshots_of(document, topic, source, facts, document.get("cluster")):
        if (
            wanted is None
            or isinstance(found, UnreadableSource)
            or same_subscription(found.stats.subscription, str(wanted))
        ):
            is_there = True
            yield found
    if not is_there:
        yield UnreadableSource(source, topic, f"there is no subscription {wanted!r} in it")


def dump(answer: TopicAnswer, subscription: str, facts: BrokerFacts, cluster: str | None) -> dict[str, Any]:
    """Return the JSON values of a snapshot file.

    The file has the values of a dump of `ackwell collect`. In addition, it has the subscription, the cluster
    and the broker.
    """
    return {
        **answer.to_json(),
        "schemaVersion": 1,
        "subscription": subscription,
        "cluster": cluster,
        "broker": {"version": facts.version, "settings": facts.settings},
    }


def snapshot_texts(admin: Admin, topic: str, subscription: str) -> list[str]:
    """Request a subscription of a topic, and return a snapshot of each partition as a JSON text.

    Raises `StatsError` if a partition does not have the subscription.
    """
    texts = []
    for answer in admin.answers([topic]):
        if isinstance(answer, UnreadableSource):
            raise StatsError(answer.reason, answer.topic or answer.source)
        cursors = map(decoded_name, answer.internal.get("cursors") or {})
        if not any(same_subscription(name, subscription) for name in cursors):
            raise StatsError(f"there is no subscription {subscription!r}", answer.topic)
        facts = admin.facts(answer.owner)
        texts.append(json.dumps(with_sha256(dump(answer, subscription, facts, admin.cluster))))
    return texts


def take(admin: Admin, topic: str, subscription: str) -> tuple[TopicAnswer, Snapshot]:
    """Request the state of one subscription. Return the answer about the topic, and the snapshot.

    Acknowledgments during the request can make parts of the answer contradict each other. The answer is then
    requested again. Raises `StatsError` if the subscription does not exist.
    """
    for _ in range(CHANGED_TOPIC_REQUESTS):
        answer = next(admin.answers([topic]))
        if isinstance(answer, UnreadableSource):
            raise StatsError(answer.reason, answer.topic or answer.source)
        facts = admin.facts(answer.owner)
        unreadable: UnreadableSource | None = None
        for found in snapshots_of(answer.to_json(), answer.topic, answer.source, facts, admin.cluster):
            if isinstance(found, UnreadableSource):
                unreadable = found
            elif same_subscription(found.stats.subscription, subscription):
                return answer, found
        if unreadable is None:
            raise StatsError(f"there is no subscription {subscription!r}", answer.topic)
    assert unreadable is not None
    raise StatsError(unreadable.reason, unreadable.source)
