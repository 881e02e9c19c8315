"""The overview of a broker: every topic that it has loaded, in one answer of `GET broker-stats/topics`.

The overview shows the backlog, the number of ranges, the consumers and the rates of each subscription. It
shows no positions, no ledgers and no state of the cursor. A broker renews the overview every
`statsUpdateFrequencyInSecs`, by default 60 s, so a subscription may have changed since.

A topic needs a closer look if one of its subscriptions has ranges, may have acknowledged parts of batches, or
has a backlog that does not move. For every other topic, the overview is sufficient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell._native import Ledgers, PositionRangeSet
from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.fields import count, flag, integer, known_integer, object_of, objects, rate, text
from ackwell.broker.stats import SubscriptionOverview, SubscriptionStats
from ackwell.errors import StatsError
from ackwell.json_values import object_in
from ackwell.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicOverview(NamedTuple):
    """One topic in the overview of the broker that owns it."""

    topic: str
    owner: str
    """The admin address of the broker, `host:port`; empty for the queried broker."""
    source: str
    time_ms: int | None
    """The time of the answer by the broker's clock."""
    delivered_nothing: bool
    subscriptions: Mapping[str, Mapping[str, Any]]

    @property
    def needs_closer_look(self) -> bool:
        """Whether the overview is not enough for a verdict. Also True if a field has a wrong type."""
        try:
            return any(map(_needs_closer_look, map(object_in, self.subscriptions.values())))
        except (TypeError, ValueError):
            return True

    @property
    def has_ranges(self) -> bool:
        """Whether any subscription has acknowledged ranges, or an unknown number of them."""
        return any(
            not isinstance(each, dict) or each.get("totalNonContiguousDeletedMessagesRange") != 0
            for each in self.subscriptions.values()
        )

    def stats(self) -> Sequence[SubscriptionStats]:
        """Return the statistics of each subscription. `needs_closer_look` must be false."""
        return [
            SubscriptionStats(
                topic=self.topic,
                subscription=name,
                source=self.source,
                mark_delete_position=_NO_POSITION,
                read_position=None,
                individually_deleted=_NO_RANGES,
                batch_deleted=None,
                ledgers=_NO_LEDGERS,
                ledger_sizes=(),
                cursor_ledger="open",
                batch_sizes=_NO_SIZES,
                persisted_mark_delete=None,
                delayed_messages=None,
                subscription_type=text(shown, "type"),
                durable=True,
                time_ms=self.time_ms,
                mark_delete_moved_ms=None,
                dispatch=None,
                internal_cursor=False,
                shows_cursor=False,
                owner=self.owner or None,
                overview=SubscriptionOverview(count(shown, "msgBacklog"), self.delivered_nothing),
            )
            for name, shown in self.subscriptions.items()
        ]


_NO_POSITION = Position(0, -1)
_NO_RANGES = PositionRangeSet()
_NO_LEDGERS = Ledgers()
_NO_SIZES = BatchSizes(each=None)


def overviews_of(answer: Any, owner: str, source: str, time_ms: int | None) -> Iterator[TopicOverview]:
    """Yield the persistent topics of an answer of `broker-stats/topics`.

    A topic without `subscriptions` is left out. Raises `StatsError` if the answer does not have the structure
    of an overview.
    """
    try:
        for namespace in object_in(answer):
            bundles = object_of(answer, namespace)
            for bundle in bundles:
                topics = object_of(object_of(bundles, bundle), "persistent")
                for topic in topics:
                    shown = object_of(topics, topic)
                    subscriptions = shown.get("subscriptions")
                    if isinstance(subscriptions, dict):
                        delivered_nothing = shown.get("msgOutCount") == 0
                        yield TopicOverview(topic, owner, source, time_ms, delivered_nothing, subscriptions)
    except TypeError as error:
        raise StatsError(f"not an answer of `broker-stats/topics`: {error}", source) from None


def _needs_closer_look(shown: Mapping[str, Any]) -> bool:
    """Return whether a subscription has ranges, or a backlog that may be stuck or contain batches.

    Return True also if a field is missing.
    """
    ranges = known_integer(shown, "totalNonContiguousDeletedMessagesRange")
    backlog = known_integer(shown, "msgBacklog")
    if ranges != 0 or backlog is None or backlog < 0 or text(shown, "type") is None:
        return True
    if not backlog:
        return False
    moves = rate(shown, "msgRateOut") > 0 and rate(shown, "messageAckRate") > 0
    consumers = objects(shown, "consumers")
    batches = any(integer(each, "avgMessagesPerEntry", 0) > 1 for each in consumers)
    blocked = flag(shown, "blockedSubscriptionOnUnackedMsgs") or any(
        flag(each, "blockedConsumerOnUnackedMsgs") for each in consumers
    )
    return not moves or not consumers or batches or bool(blocked)
