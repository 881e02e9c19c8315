"""Report scalable topics (`topic://`, from Pulsar 5.0 on) as unreadable sources.

The messages of a scalable topic are in segments. Each segment has its own cursors. For each segment, the
admin API of 5.0.1 shows the backlog of a subscription, but no positions and no ranges. The restart loss can
therefore not be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ackwell.broker.fields import count, object_of
from ackwell.broker.stats import UnreadableSource
from ackwell.errors import StatsError
from ackwell.releases import release_number

DOMAINS: Final = ("topic", "segment")
"""The domains of scalable topics and of their segments."""

NOT_JUDGED: Final = "not judged: the admin API does not show the cursors of a scalable topic"


def may_exist(version: str | None) -> bool:
    """Return whether a broker of a version may have scalable topics; True for an unknown version.

    >>> may_exist("4.2.5"), may_exist("5.0.0-M1"), may_exist(None)
    (False, True, True)
    """
    return version is None or release_number(version)[0] >= 5


def is_scalable(topic: str | None) -> bool:
    """Return whether `topic` is the name of a scalable topic or of a segment."""
    return topic is not None and topic.partition("://")[0] in DOMAINS


def not_judged(topic: str, ask: Callable[[], Any]) -> UnreadableSource:
    """Return the `UnreadableSource` for a scalable topic; `ask` requests the topic's statistics."""
    try:
        details = "; ".join(_details(ask()))
    except (StatsError, TypeError, ValueError):
        details = "its statistics cannot be read, either"
    return UnreadableSource(topic, topic, f"{NOT_JUDGED}; {details}")


def _details(stats: Any) -> Iterator[str]:
    """Yield texts: the number of segments, and the backlog of each subscription."""
    if not isinstance(stats, Mapping):
        raise TypeError("expected a JSON object")
    segments = len(object_of(object_of(stats, "layout"), "segments"))
    yield f"{segments:,} segment{'' if segments == 1 else 's'}"
    subscriptions = object_of(stats, "subscriptions")
    for name in subscriptions:
        yield f"subscription {name}: backlog {count(object_of(subscriptions, name), 'msgBacklog'):,}"
