"""Helpers for tests of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell import Ledgers
from ackwell.subscription import Subscription, SubscriptionSettings, SubscriptionType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ackwell import Position
    from ackwell.engine import Engine
    from ackwell.subscription import ConsumerKey, Selector
    from ackwell.subscription.delayed_messages import DelayedMessages

FULL = 10**6


def opened(
    kind: str,
    entries: int | Ledgers = 10,
    consumers: str = "a",
    permits: int = FULL,
    *,
    selector: Selector | None = None,
    delayed: DelayedMessages | None = None,
    partition: int | None = None,
    chunk_entries: Callable[[Position, Position], Iterable[Position]] | None = None,
    engine: Engine | None = None,
    **settings: Any,
) -> Subscription:
    """Return a subscription to one ledger, 3, with its consumers and their permits."""
    subscription = Subscription(
        SubscriptionType(kind),
        Ledgers({3: entries}) if isinstance(entries, int) else entries,
        settings=SubscriptionSettings(**settings),
        selector=selector,
        delayed=delayed,
        partition=partition,
        chunk_entries=chunk_entries,
        engine=engine,
    )
    for name in consumers:
        subscription.add_consumer(name)
        subscription.flow(name, permits)
    return subscription


def deliver(
    subscription: Subscription, now_ms: int = 0, *, limit: int = 10**4, **values: int
) -> dict[ConsumerKey, list[int]]:
    """Deliver all deliverable entries; return the entries that each consumer got."""
    got: dict[ConsumerKey, list[int]] = {}
    for position in subscription.next_reads(limit, now_ms):
        outcome = subscription.dispatch(position, now_ms=now_ms, **{"sticky_key_hash": 0, **values})
        if outcome.consumer is not None:
            got.setdefault(outcome.consumer, []).append(position.entry_id)
    return got
