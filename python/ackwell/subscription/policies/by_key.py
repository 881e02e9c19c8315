"""Key_Shared: each message goes to the consumer that owns its sticky-key hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.equality import EqualByState
from ackwell.subscription.consumers import NO_LIMIT
from ackwell.subscription.policies.policy import why
from ackwell.subscription.reads import average
from ackwell.subscription.selectors import owners_of_slots
from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.policy import Owners
    from ackwell.subscription.reads import Read
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.sticky_key import HashRange


class ByKey(EqualByState):
    """Where order per key rules, a hash that changed its owner waits until the old one has finished."""

    individual = True
    by_key = True
    active = None

    def __init__(
        self, consumers: Consumers, replay: ReplayQueue, selector: Selector, *, in_key_order: bool
    ) -> None:
        self._consumers = consumers
        self._replay = replay
        self.selector = selector
        self.in_key_order = in_key_order
        self._owners: NDArray[np.int16] | None = None
        self._all_owned = False
        """Whether each slot of that table has an owner."""
        self.read: Read | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The table of owners follows from the selector and is built again when needed.
        return {**self.__dict__, "_owners": None}

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Assign the consumer its slots; what others have of them drains first."""
        self.selector.add(consumer.key, hash_ranges, name=consumer.name)
        self._reassign()
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Return the consumer's slots to the others."""
        self.selector.remove(consumer.key)
        self._reassign()
        return False

    def begin_round(self) -> None:
        """Do nothing: who gets an entry does not depend on the read."""

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | Undelivered:
        """Return the owner of the hash if it can take a message and nobody else has one of the hash."""
        consumers = self._consumers
        key = self.selector.select(sticky_key_hash)
        if key is None:
            return Undelivered.NO_CONSUMER
        consumer = consumers.by_key[key]
        if consumers.blocked and consumers.room(new=new) <= 0:
            return Undelivered.SUBSCRIPTION_BLOCKED
        if self.read is not None:
            return self._of_read(self.read, consumer, sticky_key_hash)
        # Hardly ever is a consumer blocked or full, so the rule is seldom asked for.
        if (consumer.blocked or consumer.unacked >= consumers.full_at) and not consumers.may_take_of_key(
            consumer
        ):
            return Undelivered.CONSUMER_BLOCKED
        if consumer.permits <= 0:
            return Undelivered.NO_PERMITS
        if consumers.draining.pending and consumers.draining.blocks(key, sticky_key_hash):
            return Undelivered.KEY_WAITS
        return consumer

    def _of_read(self, read: Read, consumer: Consumer, sticky_key_hash: int) -> Consumer | Undelivered:
        """Return the consumer if the read allows it one entry more."""
        if read.allows(consumer) <= 0:
            return Undelivered.NO_PERMITS if consumer.permits <= 0 else Undelivered.CONSUMER_BLOCKED
        draining = self._consumers.draining
        if draining.pending and draining.blocks(consumer.key, sticky_key_hash):
            return Undelivered.KEY_WAITS
        read.reserve(consumer)
        return consumer

    def choose_many(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Answer at once if every owner can take all of its messages and nothing waits or drains."""
        import numpy as np

        owners = self._owners_of(consumers, hashes)
        if owners is None or self._replay.active:
            return None
        wanted = np.bincount(owners, weights=sizes, minlength=len(consumers))
        allowance = self._consumers.allowance
        fits = all(
            messages <= allowance(consumer) for messages, consumer in zip(wanted, consumers, strict=True)
        )
        return owners if fits and int(wanted.sum()) <= self._consumers.room() else None

    def choose_all(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Answer at once if no permits and no limit can end in any of the reads."""
        import numpy as np

        owners = self._owners_of(consumers, hashes)
        if owners is None:
            return None
        first = 1 if sizes is None else int(sizes[0])
        means = {0, first}.issuperset([each.mean_batch_size for each in consumers])
        if means and (sizes is None or bool((sizes == first).all())):
            # A mean of entries of one size is that size, read by read, so one sum for all reads will do.
            entries = np.bincount(owners, minlength=len(consumers)).tolist()
            if not self._consumers.all_fit(consumers, [first * each for each in entries], first):
                return None
            for consumer, number in zip(consumers, entries, strict=True):
                if number:
                    consumer.mean_batch_size = first
            return owners
        # A cell for each read and consumer.
        size, everybody = self._consumers.read_max, len(consumers)
        reads = -(-count // size)
        cells = np.arange(0, reads * everybody, everybody).repeat(size)[:count] + owners
        entries = np.bincount(cells, minlength=reads * everybody).tolist()
        messages, largest = entries, 1
        if sizes is not None:
            largest = int(sizes.max())
            messages = np.bincount(cells, sizes, minlength=reads * everybody).tolist()
        wanted = [sum(messages[index::everybody]) for index in range(everybody)]
        if not self._consumers.all_fit(consumers, wanted, largest):
            return None
        for index, consumer in enumerate(consumers):
            average(consumer, messages[index::everybody], entries[index::everybody])
        return owners

    def take_read(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        owners: Owners,
    ) -> bool:
        """Allow each owner the first of its entries."""
        import numpy as np

        owned = self._owners_of(consumers, hashes)
        if owned is None or self._consumers.room() < NO_LIMIT:
            return False
        assert self.read is not None
        owners[:] = owned
        wanted = np.bincount(owned, minlength=len(consumers)).tolist()
        for index, (consumer, entries) in enumerate(zip(consumers, wanted, strict=True)):
            if not entries:
                continue
            allowed = min(max(self.read.allows(consumer), 0), entries)
            if allowed < entries:
                owners[np.flatnonzero(owned == index)[allowed:]] = -1
            if allowed:
                messages = allowed if sizes is None else int(sizes.sum(where=owners == index))
                self._consumers.count(consumer, messages)
                self.read.count_sent(consumer.key, messages, allowed)
        return True

    def _owners_of(self, consumers: Sequence[Consumer], hashes: NDArray[np.int64] | None) -> Owners | None:
        """Return the owner of each hash; `None` if one has none, or drains."""
        if hashes is None or self._consumers.draining.pending or hashes.min(initial=0) < 0:
            return None
        if self._owners is None:
            # Two bytes a slot, built again after a consumer joined or left, save a search for each message.
            self._owners = owners_of_slots(self.selector, [consumer.key for consumer in consumers])
            self._all_owned = bool(self._owners.min() >= 0)
        try:
            owners = self._owners[hashes]
        except IndexError:
            return None
        return owners if self._all_owned or owners.min(initial=0) >= 0 else None

    def record_delivery(self, consumer: Consumer, sticky_key_hash: int) -> None:
        """Let a hash drain that somebody else delivered to a consumer that does not own it."""
        if self.in_key_order and self.selector.select(sticky_key_hash) != consumer.key:
            self._consumers.draining.reassign(self._consumers, self.selector)

    def stall(self, *, new: bool) -> Undelivered | None:
        """Return why nobody can get a message; `None` if anybody has permits and is not blocked."""
        consumers = self._consumers
        reads = False
        for each in consumers:
            if consumers.allowance(each, new=new) > 0:
                if not consumers.is_full(each):
                    return None
                reads = True
        if reads and any(each.permits > 0 and consumers.may_take_of_key(each) for each in consumers):
            return None
        return why(self._consumers, self._consumers, new=new)

    def audit(self) -> list[str]:
        """Recount the draining hashes."""
        if not self.in_key_order:
            return []
        return self._consumers.draining.audit(self._consumers, self.selector)

    def _reassign(self) -> None:
        self._owners = None
        if self.in_key_order:
            self._consumers.draining.reassign(self._consumers, self.selector)
