"""Reads a `broker.conf`: the settings that the dev broker emulates, by Pulsar's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.broker.broker_settings import boolean, integer
from ackwell.devbroker.accepted_credentials import AcceptedCredentials, secret_key
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.integers import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIELDS: Final = {
    "activeConsumerFailoverDelayTimeMillis": "failover_delay_ms",
    "allowAutoTopicCreation": "auto_create_topics",
    "brokerDeduplicationEnabled": "deduplication",
    "delayedDeliveryTickTimeMillis": "delayed_delivery_tick_ms",
    "managedLedgerMaxEntriesPerLedger": "entries_per_ledger",
    "maxMessageSize": "max_message_bytes",
    "subscriptionKeySharedUseConsistentHashing": "key_shared_consistent_hashing",
}
"""Maps the name of a broker setting to the field of `DevBrokerSettings` that has its value."""

TIMES: Final = {
    "backlogQuotaCheckIntervalInSeconds": ("backlog_quota_check_ms", 1_000),
    "managedLedgerCursorPositionFlushSeconds": ("cursor_flush_ms", 1_000),
    "managedLedgerMaxLedgerRolloverTimeMinutes": ("ledger_rollover_ms", 60_000),
}
"""Maps the name of a broker setting to a field of `DevBrokerSettings` in milliseconds. The number is the unit
of the setting, in milliseconds."""

LIMITS: Final = {
    "maxUnackedMessagesPerConsumer": "max_unacked_per_consumer",
    "maxUnackedMessagesPerSubscription": "max_unacked_per_subscription",
}
"""Maps the name of a broker setting to the field of `SubscriptionSettings` that has its value."""

NUMBER_MAX: Final = INT64_MAX // 60_000
"""The largest value of a setting, because minutes are converted to milliseconds in an int64."""


def settings_of(assignments: Iterable[str], **fields: Any) -> DevBrokerSettings:
    """Convert settings `name=value` of a `broker.conf` to `DevBrokerSettings`.

    A value in `fields` replaces the value from the `broker.conf`. Raises `ValueError` for a value of the
    wrong type.
    """
    assignments = tuple(assignments)
    values = values_of(assignments)
    found: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if name in values:
            read = boolean if isinstance(getattr(DevBrokerSettings, field), bool) else _number
            found[field] = read(name, values[name])
    limits = {field: _number(name, values[name]) for name, field in LIMITS.items() if name in values}
    for name, (field, unit_ms) in TIMES.items():
        if name in values:
            found[field] = unit_ms * _number(name, values[name])
    if values.get("allowAutoTopicCreationType") == "partitioned":
        found["auto_create_partitions"] = _number(
            "defaultNumPartitions", values.get("defaultNumPartitions", "1")
        )
    if _is_on(values, "authorizationEnabled"):
        roles = (each.strip() for each in values.get("superUserRoles", "").split(","))
        found["super_users"] = tuple(filter(None, roles))
    return DevBrokerSettings(broker_conf=assignments, limits=limits, **(found | fields))


def credentials_of(
    assignments: Iterable[str], users: Mapping[str, str], token_key: str | None
) -> AcceptedCredentials | None:
    """Return the credentials that a broker with these settings accepts; None if it accepts every client.

    Raises `OSError` or `ValueError` for a key that cannot be read.
    """
    values = values_of(assignments)
    if not (_is_on(values, "authenticationEnabled") or users or token_key):
        return None
    source = token_key or values.get("tokenSecretKey")
    return AcceptedCredentials(
        users=users,
        token_key=None if source is None else secret_key(source),
        anonymous_role=values.get("anonymousUserRole"),
    )


def values_of(assignments: Iterable[str]) -> dict[str, str]:
    """Return a map from the names to the values of settings `name=value`.

    Empty values are ignored. If a name occurs more than once, its last value applies.
    """
    split = (each.partition("=") for each in assignments)
    return {name.strip(): value.strip() for name, _, value in split if value.strip()}


def _is_on(values: Mapping[str, str], name: str) -> bool:
    return boolean(name, values.get(name, "false"))


def _number(name: str, value: str) -> int:
    number = integer(name, value)
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"{name} is a whole number from 0 to {NUMBER_MAX}, not {value!r}")
    return number
