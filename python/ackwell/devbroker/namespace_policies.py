"""The policies of namespaces and topics in one table, and the rules of the dev broker for them.

`policies.json` has one line per policy. The broker stores the value of a policy in Pulsar's JSON form. It
applies the policies that are `enforced`. All other policies are only stored, returned and deleted. The policy
of a topic has priority over the policy of its namespace.
"""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise
from json import loads
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ackwell.integers import is_int64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackwell.devbroker.devbroker_settings import DevBrokerSettings
    from ackwell.subscription import SubscriptionSettings

MB: Final = 1 << 20

QUOTA_OF_SIZE: Final = "destination_storage"
QUOTA_OF_AGE: Final = "message_age"
QUOTA_TYPES: Final = (QUOTA_OF_SIZE, QUOTA_OF_AGE)

HOLD: Final = "producer_request_hold"
EXCEPTION: Final = "producer_exception"
EVICTION: Final = "consumer_backlog_eviction"
QUOTA_ACTIONS: Final = (HOLD, EXCEPTION, EVICTION)
"""The actions of a backlog quota. The first two refuse producers. The third acknowledges entries."""

NO_PERMISSIONS: Final[dict[str, dict[str, Any]]] = {
    "namespace_auth": {},
    "destination_auth": {},
    "subscription_auth_roles": {},
}

AGES_CHECKED_MS: Final = 300_000
"""The time between two checks for expired messages: five minutes (`messageExpiryCheckIntervalInMinutes`)."""


class NamespacePolicy(NamedTuple):
    """One policy: its paths in the admin API, its field in Pulsar's JSON, its effect and its JSON type."""

    name: str
    """The part of the admin path after the namespace. It is empty for a policy that only topics have."""
    topic: str
    """The part of the admin path after the topic. It is empty for a policy that only namespaces have."""
    field: str
    """The name of the field for this policy in Pulsar's JSON of all policies of a namespace."""
    enforced: bool
    per_cluster: bool
    """Whether the field in Pulsar's JSON is a map from cluster to value."""
    unset: Any
    """The answer for a namespace that does not have the policy."""
    applied: Any
    """The value that a standalone Pulsar broker applies to a topic, if neither the topic nor its namespace
    has the policy."""
    example: Any
    """A value that shows the JSON type, with the default of each field. None permits any type."""
    least: int | None
    """The minimum, if the value is a number."""
    choices: Sequence[str]
    """The permitted values, if the value is one of several texts."""


_TABLE: Final = (files("ackwell.devbroker") / "policies.json").read_text(encoding="ascii")

POLICIES: Final = tuple(NamespacePolicy(*row) for row in loads(_TABLE))
OF_NAMESPACES: Final = {each.name: each for each in POLICIES if each.name}
OF_TOPICS: Final = {each.topic: each for each in POLICIES if each.topic}

RETENTION: Final = OF_NAMESPACES["retention"]
TTL: Final = OF_NAMESPACES["messageTTL"]
"""The seconds after which a message expires, that is, counts as acknowledged. 0 means never."""
DEDUPLICATION: Final = OF_NAMESPACES["deduplication"]
COMPATIBILITY: Final = OF_NAMESPACES["schemaCompatibilityStrategy"]
PER_CONSUMER: Final = OF_NAMESPACES["maxUnackedMessagesPerConsumer"]
PER_SUBSCRIPTION: Final = OF_NAMESPACES["maxUnackedMessagesPerSubscription"]
MAX_PRODUCERS: Final = OF_NAMESPACES["maxProducersPerTopic"]
MAX_CONSUMERS: Final = OF_NAMESPACES["maxConsumersPerTopic"]
MAX_CONSUMERS_OF_SUBSCRIPTION: Final = OF_NAMESPACES["maxConsumersPerSubscription"]
MAX_SUBSCRIPTIONS: Final = OF_NAMESPACES["maxSubscriptionsPerTopic"]
AUTO_TOPICS: Final = OF_NAMESPACES["autoTopicCreation"]
TYPES: Final = OF_NAMESPACES["subscriptionTypesEnabled"]
BACKLOG_QUOTA: Final = OF_NAMESPACES["backlogQuota"]
"""The backlog quotas by quota type. A request sets the quota of one type."""
COMPACTION: Final = OF_NAMESPACES["compactionThreshold"]
DELAYED: Final = OF_NAMESPACES["delayedDelivery"]
DISPATCH_RATE: Final = OF_NAMESPACES["dispatchRate"]
SUBSCRIPTION_RATE: Final = OF_NAMESPACES["subscriptionDispatchRate"]
PUBLISH_RATE: Final = OF_NAMESPACES["publishRate"]
PERSISTENCE: Final = OF_NAMESPACES["persistence"]
ANTI_AFFINITY: Final = OF_NAMESPACES["antiAffinity"]
RESOURCE_GROUP: Final = OF_NAMESPACES["resourcegroup"]

CLUSTER: Final = "standalone"
BUNDLES: Final = ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")
"""The bounds of the hash ranges of a namespace's four bundles."""
BUNDLE_NAMES: Final = tuple(f"{low}_{high}" for low, high in pairwise(BUNDLES))


class RefusedPolicyError(ValueError):
    """The error for a value that a Pulsar broker refuses. `is_shape` is true if the JSON type is wrong."""

    def __init__(self, message: str, *, is_shape: bool = False) -> None:
        super().__init__(message)
        self.is_shape = is_shape


def checked(policy: NamespacePolicy, value: Any) -> Any:
    """Return the value of a policy in Pulsar's JSON form. The result None removes the policy.

    Raises `RefusedPolicyError` for a value that a Pulsar broker refuses.
    """
    name = policy.name or policy.topic
    if value is None:
        return None
    if policy is BACKLOG_QUOTA:
        return _checked_quotas(value)
    value = _shaped(name, policy.example, value)
    if policy.least is not None and value < policy.least:
        raise RefusedPolicyError(_REFUSALS.get(name, f"{name} must be {policy.least} or more"))
    if policy.choices and isinstance(value, str):
        # A Pulsar broker reads a text that is not one of the choices as null.
        return value if value in policy.choices else None
    if policy.choices and not set(value) <= set(policy.choices):
        raise RefusedPolicyError(f"{name} is a list of {', '.join(policy.choices)}", is_shape=True)
    if (check := _CHECKS.get(name)) is not None:
        check(value)
    return value


_REFUSALS: Final = {"subscriptionExpirationTime": "Invalid value for subscription expiration time"}
"""Error messages that must equal those of a Pulsar broker, because clients compare them."""


def applied_default(policy: NamespacePolicy, settings: DevBrokerSettings) -> Any:
    """Return the value that applies to a topic if neither the topic nor its namespace has the policy."""
    match policy.topic:
        case "delayedDelivery":
            return {
                "tickTime": settings.delayed_delivery_tick_ms,
                "active": True,
                "maxDeliveryDelayInMillis": 0,
            }
        case "deduplicationEnabled":
            return settings.deduplication
        case "maxUnackedMessagesOnConsumer":
            return settings.subscription.max_unacked_per_consumer
        case "maxUnackedMessagesOnSubscription":
            return settings.subscription.max_unacked_per_subscription
    return policy.applied


def _shaped(name: str, example: Any, value: Any) -> Any:
    """Convert a JSON value to the JSON type that `example` shows.

    A missing field gets its value from `example`. A text of digits is accepted as a number.
    """
    match example, value:
        case None, _:
            return value
        case bool(), "true" | "false":
            return value == "true"
        case bool(), bool():
            return value
        case float(), int() | float() if not isinstance(value, bool):
            return float(value)
        case int(), int() if not isinstance(example, bool) and is_int64(value):
            return value
        case int(), str() if not isinstance(example, bool) and value.removeprefix("-").isdecimal():
            return _shaped(name, example, int(value[:20]))
        case str(), str():
            return value
        case list(), list():
            return [_shaped(name, "", each) for each in value]
        case dict(), dict():
            return {
                field: default if value.get(field) is None else _shaped(name, default, value[field])
                for field, default in example.items()
                if default is not None or value.get(field) is not None
            }
    raise RefusedPolicyError(f"{name}: {value!r} does not have the form of {example!r}", is_shape=True)


def _checked_quotas(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not set(value) <= set(QUOTA_TYPES):
        raise RefusedPolicyError(f"the type of a quota is one of {', '.join(QUOTA_TYPES)}", is_shape=True)
    return {kind: _checked_quota(quota) for kind, quota in value.items()}


def _checked_quota(value: Any) -> dict[str, Any]:
    quota: dict[str, Any] = _shaped(
        "backlogQuota", {"limit": 0, "limitSize": 0, "limitTime": 0, "policy": ""}, value
    )
    if quota["policy"] not in QUOTA_ACTIONS:
        raise RefusedPolicyError(f"the attribute policy is one of {', '.join(QUOTA_ACTIONS)}", is_shape=True)
    # Older clients call the size `limit`. The Go client sends both names.
    size = quota["limit"] if value.get("limitSize") is None else quota["limitSize"]
    return quota | {"limit": size, "limitSize": size}


def _check_retention(value: dict[str, int]) -> None:
    limits = list(value.values())
    if min(limits) < -1 or max(limits) >= 2**31:
        raise RefusedPolicyError(f"Invalid retention policy: {value!r}; {' and '.join(value)} are from -1 on")
    if limits.count(0) == 1:
        raise RefusedPolicyError(
            "Invalid retention policy: one limit is 0 and the other is not; -1 means unlimited", is_shape=True
        )


def _check_auto_topics(value: dict[str, Any]) -> None:
    prefix = "Invalid configuration for autoTopicCreationOverride. the detail is "
    kind, partitions = value["topicType"], value.get("defaultNumPartitions")
    if not value["allowAutoTopicCreation"] and not kind:
        return
    if kind not in ("partitioned", "non-partitioned"):
        raise RefusedPolicyError(f"{prefix}Unknown topic type [{kind}]")
    if kind == "partitioned" and (not isinstance(partitions, int) or partitions < 1):
        raise RefusedPolicyError(
            f"{prefix}[defaultNumPartitions] cannot be null when the type is partitioned."
            if partitions is None
            else f"{prefix}[defaultNumPartitions] cannot be less than 1 for partition type."
        )


def _check_entry_filters(value: dict[str, str]) -> None:
    name = value["entryFilterNames"]
    raise RefusedPolicyError(
        f"Entry filter '{name}' not found" if name else "entryFilterNames can't be empty", is_shape=True
    )


def _check_quorums(value: dict[str, Any]) -> None:
    quorums = [value[f"bookkeeper{each}"] for each in ("Ensemble", "WriteQuorum", "AckQuorum")]
    if quorums != sorted(quorums, reverse=True):
        raise RefusedPolicyError(
            "Bookkeeper Ensemble ({}) >= WriteQuorum ({}) >= AckQuorum ({})".format(*quorums), is_shape=True
        )


_CHECKS: Final[dict[str, Callable[[Any], None]]] = {
    AUTO_TOPICS.name: _check_auto_topics,
    "entryFilters": _check_entry_filters,
    PERSISTENCE.name: _check_quorums,
    RETENTION.name: _check_retention,
}
"""Maps the name of a policy to a further check. The check gets a value that already has the right JSON
type."""


def namespace_json(stored: dict[str, Any]) -> dict[str, Any]:
    """Return all policies of a namespace in Pulsar's JSON form.

    Policies that are not stored have their default values.
    """
    known: dict[str, Any] = {
        "auth_policies": NO_PERMISSIONS,
        "bundles": {"boundaries": list(BUNDLES), "numBundles": len(BUNDLES) - 1},
        "latency_stats_sample_rate": {},
        "deleted": False,
        "migrated": False,
        "clusterDispatchRate": {},
    }
    for each in POLICIES:
        if each.field and (each.unset is not None or each.per_cluster):
            known[each.field] = {} if each.per_cluster else each.unset
    # Pulsar omits these two fields.
    del known["max_topics_per_namespace"], known["dispatcherPauseOnAckStatePersistentEnabled"]
    for field, value in stored.items():
        policy = next((each for each in POLICIES if each.field == field), None)
        known[field] = {CLUSTER: value} if policy is not None and policy.per_cluster else value
    known["clusterDispatchRate"] = known[DISPATCH_RATE.field]
    # Pulsar does not store these policies in the namespace's JSON.
    elsewhere = ("bookie_affinity", "anti_affinity", "offload_deletion_lag_ms")
    return {name: value for name, value in known.items() if name not in elsewhere}


def from_namespace_json(given: dict[str, Any]) -> dict[str, Any]:
    """Return the policies to store for a new namespace, from Pulsar's JSON form.

    Empty fields and unknown fields are ignored.
    """
    stored: dict[str, Any] = {}
    for each in POLICIES:
        value = given.get(each.field)
        if each.per_cluster:
            value = value.get(CLUSTER) if isinstance(value, dict) else None
        if value is not None and (value := checked(each, value)) not in (None, [], each.unset):
            stored[each.field] = value
    if given.get("auth_policies"):
        stored["auth_policies"] = given["auth_policies"]
    return stored


def rate_of(subscription: str) -> str:
    """Return the key under which a topic stores the dispatch rate of one subscription."""
    return f"dispatchRate of {subscription}"


class Retention(NamedTuple):
    """The maximum age and the maximum total size of the consumed ledgers to keep. -1 means no limit."""

    time_ms: int
    size_bytes: int

    @classmethod
    def of(cls, policy: Any) -> Self:
        """Return the retention that a policy describes. Without a policy, no consumed ledger is kept."""
        minutes, size_mb = (policy.get(name, 0) for name in RETENTION.example) if policy else (0, 0)
        return cls(minutes if minutes < 0 else 60_000 * minutes, size_mb if size_mb < 0 else MB * size_mb)

    def deletes(self, age_ms: int, rest_bytes: int) -> bool:
        """Return whether to delete a consumed ledger.

        `age_ms` is the time since the ledger was closed. `rest_bytes` is the total size of all later ledgers.
        """
        return 0 <= self.time_ms < age_ms or 0 <= self.size_bytes <= rest_bytes


def unacked_limits(
    settings: SubscriptionSettings, per_consumer: Any, per_subscription: Any
) -> tuple[int, int]:
    """Return the maximum unacknowledged messages of a consumer and of a subscription; 0 for no limit.

    `per_consumer` and `per_subscription` are the policies; None means that no policy is set. A policy
    replaces the limit in `settings`.
    """
    return (
        settings.max_unacked_per_consumer if per_consumer is None else per_consumer,
        settings.max_unacked_per_subscription if per_subscription is None else per_subscription,
    )
