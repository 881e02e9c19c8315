"""The policies of a namespace that the dev broker keeps to; it refuses any other by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ackwell.subscription import SubscriptionSettings

_PER_CONSUMER = "maxUnackedMessagesPerConsumer"
_PER_SUBSCRIPTION = "maxUnackedMessagesPerSubscription"

POLICIES: Final = ("deduplication", _PER_CONSUMER, _PER_SUBSCRIPTION, "schemaCompatibilityStrategy")


def unacked_limits(settings: SubscriptionSettings, policies: dict[str, Any]) -> tuple[int, int]:
    """Return how many messages may be unacknowledged, a consumer and a subscription; 0 for any number."""
    return (
        _number(policies.get(_PER_CONSUMER), settings.max_unacked_per_consumer),
        _number(policies.get(_PER_SUBSCRIPTION), settings.max_unacked_per_subscription),
    )


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise
