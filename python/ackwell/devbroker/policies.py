"""The namespace policies that the dev broker implements; it refuses all others by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from ackwell.subscription import SubscriptionSettings

_PER_CONSUMER = "maxUnackedMessagesPerConsumer"
_PER_SUBSCRIPTION = "maxUnackedMessagesPerSubscription"

TTL: Final = "messageTTL"
"""The seconds after which a message counts as acknowledged; 0 for never."""
RETENTION: Final = "retention"
_LIMITS = ("retentionTimeInMinutes", "retentionSizeInMB")

POLICIES: Final = (
    "deduplication",
    _PER_CONSUMER,
    _PER_SUBSCRIPTION,
    TTL,
    RETENTION,
    "schemaCompatibilityStrategy",
)

MB: Final = 1 << 20

AGES_CHECKED_MS: Final = 300_000
"""Brokers expire old messages every five minutes (`messageExpiryCheckIntervalInMinutes`)."""


class Retention(NamedTuple):
    """The maximum age and bytes of consumed ledgers that are kept; -1 for no limit."""

    time_ms: int
    size_bytes: int

    @classmethod
    def of(cls, policy: Any) -> Self:
        """Return the retention of a namespace's policy; without a policy, no consumed ledger is kept."""
        minutes, size_mb = (policy.get(name, 0) for name in _LIMITS) if policy else (0, 0)
        return cls(minutes if minutes < 0 else 60_000 * minutes, size_mb if size_mb < 0 else MB * size_mb)

    def deletes(self, age_ms: int, rest_bytes: int) -> bool:
        """Return whether to delete a consumed ledger, by its age and the size of the rest of the topic."""
        return 0 <= self.time_ms < age_ms or 0 <= self.size_bytes <= rest_bytes


def check_value(name: str, value: Any) -> None:
    """Raise `ValueError` for a time to live or a retention that a broker refuses."""
    if name == TTL and not _is_int(value, 0):
        raise ValueError(f"Invalid value for message TTL: {value!r}; it is a number of seconds from 0 on")
    if name == RETENTION:
        limits = [value.get(each, 0) for each in _LIMITS] if isinstance(value, dict) else [None]
        if not all(_is_int(each, -1) for each in limits):
            raise ValueError(f"Invalid retention policy: {value!r}; {' and '.join(_LIMITS)} are from -1 on")
        if limits.count(0) == 1:
            raise ValueError(
                "Invalid retention policy: one limit is 0 and the other is not; -1 means unlimited"
            )


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def unacked_limits(settings: SubscriptionSettings, policies: dict[str, Any]) -> tuple[int, int]:
    """Return the limits of unacknowledged messages per consumer and per subscription; 0 for no limit."""
    return (
        _number(policies.get(_PER_CONSUMER), settings.max_unacked_per_consumer),
        _number(policies.get(_PER_SUBSCRIPTION), settings.max_unacked_per_subscription),
    )


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise
