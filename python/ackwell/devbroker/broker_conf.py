"""A `broker.conf` for the dev broker: the settings that it emulates, by Pulsar's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker.credentials import Credentials, secret_key
from ackwell.devbroker.devbroker_settings import DevBrokerSettings

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
"""Maps settings of a broker to fields of `DevBrokerSettings`."""

SECONDS: Final = {
    "backlogQuotaCheckIntervalInSeconds": "backlog_quota_check_ms",
    "managedLedgerCursorPositionFlushSeconds": "cursor_flush_ms",
}
"""Maps settings of a broker in seconds to fields in milliseconds."""

LIMITS: Final = {
    "maxUnackedMessagesPerConsumer": "max_unacked_per_consumer",
    "maxUnackedMessagesPerSubscription": "max_unacked_per_subscription",
}
"""Maps settings of a broker to fields of `SubscriptionSettings`."""


def settings_of(assignments: Iterable[str], **fields: Any) -> DevBrokerSettings:
    """Return the settings that assignments `name=value` of a `broker.conf` give; `fields` have priority.

    Raises `ValueError` for a value of the wrong type.
    """
    assignments = tuple(assignments)
    values = values_of(assignments)
    found: dict[str, Any] = {
        field: _converted(name, values[name], getattr(DevBrokerSettings, field))
        for name, field in FIELDS.items()
        if name in values
    }
    limits = {field: _converted(name, values[name], 0) for name, field in LIMITS.items() if name in values}
    for name, field in SECONDS.items():
        if name in values:
            found[field] = 1_000 * _converted(name, values[name], 0)
    if values.get("allowAutoTopicCreationType") == "partitioned":
        found["auto_create_partitions"] = _converted("", values.get("defaultNumPartitions", "1"), 1)
    if values.get("authorizationEnabled") == "true":
        found["super_users"] = tuple(filter(None, values.get("superUserRoles", "").split(",")))
    return DevBrokerSettings(broker_conf=assignments, limits=limits, **(found | fields))


def credentials_of(
    assignments: Iterable[str], users: Mapping[str, str], token_key: str | None
) -> Credentials | None:
    """Return the credentials that a broker accepts; None if it authenticates no client.

    Raises `OSError` or `ValueError` for a key that cannot be read.
    """
    values = values_of(assignments)
    is_enabled = values.get("authenticationEnabled") == "true"
    if not (is_enabled or users or token_key):
        return None
    source = token_key or values.get("tokenSecretKey")
    return Credentials(
        users=users,
        token_key=None if source is None else secret_key(source),
        anonymous_role=values.get("anonymousUserRole"),
    )


def values_of(assignments: Iterable[str]) -> dict[str, str]:
    """Return the last value of each setting."""
    split = (each.partition("=") for each in assignments)
    return {name.strip(): value.strip() for name, _, value in split if value.strip()}


def _converted(name: str, value: str, example: bool | int) -> bool | int:
    if isinstance(example, bool):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {value!r}")
        return value.lower() == "true"
    if not value.isdecimal() or len(value) > 18:
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return int(value)
