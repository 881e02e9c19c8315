"""Hashes that changed their owner while messages of theirs are still pending with the old one.

Order per key requires that the new owner gets nothing of a hash before the old one has finished. Only a
consumer that joins or leaves moves hashes, so the pending messages are searched then, and a dispatch or
an acknowledgment costs nothing while no hash drains (Pulsar's `DrainingHashesTracker`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.selectors import Selector


class DrainingHashes(EqualByState):
    """Hash → its new owner, and consumer → how many of its pending entries have that hash."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: dict[int, tuple[ConsumerKey | None, dict[ConsumerKey, int]]] = {}

    def reassign(self, consumers: Iterable[Consumer], selector: Selector) -> None:
        """Find what drains now that the selector has changed; O(pending entries)."""
        self.pending = drained(consumers, selector)

    def blocks(self, consumer: ConsumerKey, sticky_key_hash: int) -> bool:
        """Return whether another consumer still has entries of this hash."""
        _, holders = self.pending.get(sticky_key_hash, (None, {}))
        return any(holder != consumer for holder in holders)

    def count_delivered(self, consumer: ConsumerKey, sticky_key_hash: int) -> None:
        """Count one more pending entry of a hash that drains."""
        if sticky_key_hash in self.pending:
            _, holders = self.pending[sticky_key_hash]
            holders[consumer] = holders.get(consumer, 0) + 1

    def count_removed(self, consumer: ConsumerKey, sticky_key_hash: int) -> None:
        """Count one pending entry less; the last one sets the hash free."""
        _, holders = self.pending.get(sticky_key_hash, (None, {}))
        if consumer in holders:
            holders[consumer] -= 1
            if not holders[consumer]:
                self._remove(consumer, sticky_key_hash)

    def forget_consumer(self, consumer: ConsumerKey) -> None:
        """Forget a consumer that has nothing pending any more."""
        for sticky_key_hash in [key for key, (_, holders) in self.pending.items() if consumer in holders]:
            self._remove(consumer, sticky_key_hash)

    def audit(self, consumers: Iterable[Consumer], selector: Selector) -> list[str]:
        """Recount; describe what differs."""
        found = drained(consumers, selector)
        return [] if found == self.pending else [f"draining hashes are {self.pending}, found {found}"]

    def _remove(self, consumer: ConsumerKey, sticky_key_hash: int) -> None:
        owner, holders = self.pending[sticky_key_hash]
        del holders[consumer]
        if all(holder == owner for holder in holders):
            del self.pending[sticky_key_hash]


def drained(
    consumers: Iterable[Consumer], selector: Selector
) -> dict[int, tuple[ConsumerKey | None, dict[ConsumerKey, int]]]:
    """Count the pending entries, by hash and consumer, of every hash that another consumer owns now."""
    import numpy as np

    by_hash: dict[int, dict[ConsumerKey, int]] = {}
    for consumer in consumers:
        if len(consumer.pending):
            hashes, counts = np.unique(consumer.pending.to_arrays()[3], return_counts=True)
            for sticky_key_hash, count in zip(hashes.tolist(), counts.tolist(), strict=True):
                by_hash.setdefault(sticky_key_hash, {})[consumer.key] = count
    found = {}
    for sticky_key_hash, holders in by_hash.items():
        owner = selector.select(sticky_key_hash)
        if any(holder != owner for holder in holders):
            found[sticky_key_hash] = owner, holders
    return found
