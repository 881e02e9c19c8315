"""The policies of a namespace that the dev broker keeps to; it refuses any other by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ackwell.subscription import SubscriptionSettings

_PER_CONSUMER = "maxUnackedMessagesPerConsumer"
_PER_SUBSCRIPTION = "maxUnackedMessagesPerSubscription"

_TTL = "messageTTL"
_RETENTION = "retention"
_MINUTES = "retentionTimeInMinutes"
_SIZE_MB = "retentionSizeInMB"

POLICIES: Final = (
    "deduplication",
    _PER_CONSUMER,
    _PER_SUBSCRIPTION,
    _TTL,
    _RETENTION,
    "schemaCompatibilityStrategy",
)

MB: Final = 1 << 20

AGES_CHECKED_MS: Final = 300_000
"""A broker looks for messages that are too old every five minutes (`messageExpiryCheckIntervalInMinutes`)."""


class Retention(NamedTuple):
    """How old, and how many bytes of, consumed ledgers are kept; -1 for all."""

    time_ms: int
    size_bytes: int

    def deletes(self, age_ms: int, rest_bytes: int) -> bool:
        """Return whether a consumed ledger may go: it is too old, or the topic without it is large enough."""
        return 0 <= self.time_ms < age_ms or 0 <= self.size_bytes <= rest_bytes


def retention(policies: dict[str, Any]) -> Retention:
    """Return a namespace's retention; without one nothing that was consumed is kept."""
    given = policies.get(_RETENTION) or {}
    minutes, size_mb = given.get(_MINUTES, 0), given.get(_SIZE_MB, 0)
    return Retention(minutes if minutes < 0 else 60_000 * minutes, size_mb if size_mb < 0 else MB * size_mb)


def ttl_seconds(policies: dict[str, Any]) -> int:
    """Return after how many seconds a message counts as acknowledged; 0 for never."""
    found: int = policies.get(_TTL) or 0
    return found


def check_value(name: str, value: Any) -> None:
    """Raise `ValueError` for a time to live or a retention that a broker refuses."""
    if name == _TTL and not _is_int(value, 0):
        raise ValueError(f"Invalid value for message TTL: {value!r}; it is a number of seconds from 0 on")
    if name == _RETENTION:
        given = value if isinstance(value, dict) else {}
        limits = [given.get(each, 0) for each in (_MINUTES, _SIZE_MB)]
        if not isinstance(value, dict) or not all(_is_int(each, -1) for each in limits):
            raise ValueError(f"Invalid retention policy: {value!r}; {_MINUTES} and {_SIZE_MB} are from -1 on")
        if limits.count(0) == 1:
            raise ValueError("Invalid retention policy: a limit of 0 beside one that is not; -1 is no limit")


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def unacked_limits(settings: SubscriptionSettings, policies: dict[str, Any]) -> tuple[int, int]:
    """Return how many messages may be unacknowledged, a consumer and a subscription; 0 for any number."""
    return (
        _number(policies.get(_PER_CONSUMER), settings.max_unacked_per_consumer),
        _number(policies.get(_PER_SUBSCRIPTION), settings.max_unacked_per_subscription),
    )


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise
