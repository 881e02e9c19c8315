"""Exclusive and Failover: one consumer gets all messages; the others wait until it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.errors import ErrorCode, ProtocolError
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.policies.policy import Policy, refuse_hash_ranges
from ackwell.subscription.selectors import FailoverRing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.run import Owners, Run
    from ackwell.subscription.sticky_key import HashRange


class OneActivePolicy(Policy):
    """The policy of Exclusive and Failover: the active consumer gets all messages.

    Only consumers with the highest priority can become active. They are sorted by name. If the topic is a
    partition, the active consumer is the one with index `partition` modulo the number of these consumers. For
    a topic without partitions, a hash ring of the names chooses it. If neither partition nor topic is given,
    the active consumer is the first one.

    With `reads_by_permits`, a read takes as many entries as the consumer has permits when the read begins.
    All of these entries are delivered, even if they have more messages than there are permits.
    """

    individual = False

    def __init__(
        self,
        consumers: Consumers,
        *,
        exclusive: bool,
        partition: int | None,
        topic: str | None,
        read_max: int | None,
    ) -> None:
        self._consumers = consumers
        self._exclusive = exclusive
        self._partition = partition
        self._ring = FailoverRing(topic) if topic is not None else None
        self._read_max = read_max
        """The maximum number of entries in a read; `None` if each message takes a permit."""
        self._left = 0
        """The number of entries that the current read may still take."""
        self.active = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Add the consumer and choose the active consumer; return whether the active consumer changed.

        Raises `ProtocolError` if an Exclusive subscription already has a consumer.
        """
        refuse_hash_ranges(hash_ranges)
        if self._exclusive and self.active is not None:
            raise ProtocolError(
                f"exclusive consumer {self.active.key!r} is already connected", code=ErrorCode.CONSUMER_BUSY
            )
        return self._pick([*self._consumers])

    def leave(self, consumer: Consumer) -> bool:
        """Remove the consumer and choose the active consumer; return whether the active consumer changed."""
        return self._pick([each for each in self._consumers if each is not consumer])

    def begin_round(self) -> None:
        """End the current read. The next read takes as many entries as the consumer then has permits."""
        self._left = 0

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | NonDelivery:
        """Return the active consumer, or the reason why it gets no message.

        It gets a message if the current read still has a place for an entry, or if it has permits.
        """
        active, read_max = self.active, self._read_max
        if active is None:
            return NonDelivery.NO_CONSUMER
        if read_max is not None:
            left = self._left
            if left > 0:
                self._left = left - 1
                return active
            self._left = max(min(active.permits, read_max) - 1, 0)
        return active if active.permits > 0 else NonDelivery.NO_PERMITS

    def choose_many(self, run: Run) -> Owners | None:
        """Assign the first entries to the active consumer, as its permits allow; the others get -1."""
        import numpy as np

        owners = np.full(run.entries, -1, dtype=np.int64)
        active = self.active
        if active is not None:
            taken = self._count_taken(active, run.sizes, run.entries)
            owners[:taken] = [each is active for each in run.consumers].index(True) if taken else -1
        return owners

    def candidates(self, sticky_key_hash: int) -> Sequence[Consumer]:
        """Return the active consumer, if there is one."""
        return [] if self.active is None else [self.active]

    def stall(self, *, new: bool) -> NonDelivery | None:
        """Return the reason why the active consumer cannot get a message; `None` if it can."""
        if self.active is None:
            return NonDelivery.NO_CONSUMER
        return NonDelivery.NO_PERMITS if self.active.permits <= 0 else None

    def _count_taken(self, active: Consumer, sizes: NDArray[np.int64] | None, count: int) -> int:
        """Return how many of `count` entries the active consumer gets.

        With `reads_by_permits`, a permit is needed for each entry of a read, not for each message.
        """
        import numpy as np

        permits = active.permits
        if self._read_max is None:
            if permits <= 0 or sizes is None:
                return max(permits, 0)
            return int(np.searchsorted(np.cumsum(sizes), permits)) + 1
        messages = count if sizes is None else int(sizes.sum())
        if permits - messages >= self._read_max:
            # There are enough permits for every read to be full.
            self._left = (self._left - count) % self._read_max
            return count
        taken = 0
        while taken < count:
            if self._left == 0:
                if permits <= 0:
                    break
                self._left = min(permits, self._read_max)
            end = min(taken + self._left, count)
            self._left -= end - taken
            permits -= end - taken if sizes is None else int(sizes[taken:end].sum())
            taken = end
        return taken

    def _pick(self, consumers: list[Consumer]) -> bool:
        before = self.active
        self.active = None
        if consumers:
            consumers.sort(key=lambda each: (each.priority, each.name))
            highest = [each for each in consumers if each.priority == consumers[0].priority]
            index = 0
            if self._partition is not None:
                index = self._partition % len(highest)
            elif self._ring is not None:
                index = self._ring.active([each.name for each in highest])
            self.active = highest[index]
        if self.active is not before:
            self._left = 0
        # A new active consumer starts from the first unacknowledged message.
        return self.active is not before
