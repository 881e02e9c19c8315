"""Draining hashes: sticky-key hashes with a new owner and with messages that are pending at the old owner.

To keep the order of each key, the new owner gets no message of a hash while the old owner has pending
messages of it. Hashes get a new owner only when a consumer joins or leaves, so the pending messages are
searched only then. While no hash drains, this module adds no cost to a dispatch or an acknowledgment. (In
Pulsar: `DrainingHashesTracker`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ackwell.equality import EqualByState

if TYPE_CHECKING:
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.selectors import Selector


class DrainingHashes(EqualByState):
    """The draining hashes, each with its new owner and its number of pending entries at each consumer."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: dict[int, tuple[ConsumerKey | None, dict[ConsumerKey, int]]] = {}

    def reassign(self, consumers: Iterable[Consumer], selector: Selector) -> None:
        """Find the draining hashes after the selector has changed; O(pending entries)."""
        self.pending = drained(consumers, selector)

    def blocks(self, consumer: ConsumerKey, sticky_key_hash: int) -> bool:
        """Return whether a consumer other than the given one has pending entries of a hash that drains."""
        _, holders = self.pending.get(sticky_key_hash, (None, {}))
        return any(holder != consumer for holder in holders)

    def count_delivered(self, consumer: ConsumerKey, sticky_key_hash: int) -> None:
        """Add one pending entry of a consumer to the count of a hash, if the hash drains."""
        if sticky_key_hash in self.pending:
            _, holders = self.pending[sticky_key_hash]
            holders[consumer] = holders.get(consumer, 0) + 1

    def count_removed(self, consumer: ConsumerKey, sticky_key_hash: int) -> None:
        """Subtract one pending entry of a consumer from the count of a hash.

        If no consumer except the new owner has pending entries of the hash, the hash no longer drains.
        """
        _, holders = self.pending.get(sticky_key_hash, (None, {}))
        if consumer in holders:
            holders[consumer] -= 1
            if not holders[consumer]:
                self._remove(consumer, sticky_key_hash)

    def forget_consumer(self, consumer: ConsumerKey) -> None:
        """Remove all counts of a consumer that has no pending entries."""
        for sticky_key_hash in [key for key, (_, holders) in self.pending.items() if consumer in holders]:
            self._remove(consumer, sticky_key_hash)

    def by_consumer(self) -> dict[ConsumerKey, dict[int, int]]:
        """Return the number of pending entries by old owner and draining hash. O(hashes)."""
        found: dict[ConsumerKey, dict[int, int]] = {}
        for sticky_key_hash, (owner, holders) in self.pending.items():
            for holder, entries in holders.items():
                if holder != owner:
                    found.setdefault(holder, {})[sticky_key_hash] = entries
        return found

    def audit(self, consumers: Iterable[Consumer], selector: Selector) -> list[str]:
        """Recompute the draining hashes; return a text if the stored hashes are not the same."""
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
    """Return each draining hash with its new owner and its number of pending entries at each consumer."""
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
