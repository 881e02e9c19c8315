"""One read of a broker, and the number of its entries that each consumer may get.

A broker reads as many entries as its consumers have permits. It distributes all entries of the read before it
counts the messages in them. Instead of the exact number of messages, Shared uses the mean batch size of the
read, and Key_Shared counts one message for each entry. Therefore batches can make permits negative and exceed
limits. Entries without a consumer wait in the replay queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.consumers import Consumers

_WEIGHT = 0.9
"""The weight of the old mean batch size when a read updates the mean. `Consumer.avgPercent` in the broker."""


class Read:
    """The current read: the number of its entries and messages, and the share of each consumer."""

    __slots__ = ("_allowed", "_consumers", "_mean", "_messages", "_sent", "_settings")

    def __init__(self, consumers: Consumers, entries: int, messages: int) -> None:
        self._consumers = consumers
        self._settings = consumers.settings
        self._mean = max(messages // entries, 1)
        self._messages = messages
        """The number of messages in the entries that are not delivered yet."""
        self._allowed: dict[ConsumerKey, int] = {}
        self._sent: dict[ConsumerKey, tuple[int, int]] = {}

    def share(self, consumer: Consumer) -> int:
        """Return the number of entries that a Shared consumer gets in its turn; at least one."""
        messages = min(self._messages, consumer.permits)
        if self._settings.max_unacked_per_consumer:
            messages = min(messages, max(self._consumers.full_at - consumer.unacked, 0))
        return max(min(self._settings.round_robin_batch_size, -(-messages // self._mean)), 1)

    def allows(self, consumer: Consumer) -> int:
        """Return how many more entries of this read a Key_Shared consumer may get."""
        allowed = self._allowed.get(consumer.key)
        if allowed is None:
            allowed = self._allowed[consumer.key] = entries_allowed(self._consumers, consumer)
        return allowed

    def restrict(self, allowed: Mapping[ConsumerKey, int]) -> None:
        """Set how many entries of this read each Key_Shared consumer may get."""
        self._allowed.update(allowed)

    def reserve(self, consumer: Consumer) -> None:
        """Record that a Key_Shared consumer gets an entry of this read: `allows` decreases by one."""
        self._allowed[consumer.key] -= 1

    def count_sent(self, key: ConsumerKey, messages: int, entries: int = 1) -> None:
        """Record a delivery to a consumer: the number of entries, and the number of messages in them."""
        self._messages -= messages
        before, sent = self._sent.get(key, (0, 0))
        self._sent[key] = before + messages, sent + entries

    def end(self) -> None:
        """End the read: update the mean batch size of each consumer that got entries."""
        for key, (messages, entries) in self._sent.items():
            average(self._consumers.by_key[key], (messages,), (entries,))


def entries_allowed(consumers: Consumers, consumer: Consumer) -> int:
    """Return the number of entries that a Key_Shared consumer may get from a new read."""
    if consumer.permits <= 0 or not consumers.may_take_of_key(consumer):
        return 0
    if not consumers.settings.max_unacked_per_consumer:
        return consumer.permits
    mean = max(int(consumer.mean_batch_size + 0.5), 1)
    return min(consumer.permits, -(-(consumers.full_at - consumer.unacked) // mean))


def average(consumer: Consumer, messages: Iterable[float], entries: Iterable[int]) -> None:
    """Update the mean batch size of a consumer.

    `messages` and `entries` have one number for each of several reads: how many messages and how many entries
    the consumer got in this read.
    """
    mean = consumer.mean_batch_size
    for each, number in zip(messages, entries, strict=True):
        if number:
            mean = mean * _WEIGHT + (1 - _WEIGHT) * (each / number) if mean >= 1 else each / number
    consumer.mean_batch_size = mean
