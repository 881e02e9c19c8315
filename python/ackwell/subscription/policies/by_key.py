"""Key_Shared: each message goes to the consumer that owns its sticky-key hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.subscription.consumers import NO_LIMIT
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.policies.policy import Policy, blocking_reason
from ackwell.subscription.reads import average, entries_allowed
from ackwell.subscription.selectors import owners_of_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.run import Owners, Run
    from ackwell.subscription.reads import Read
    from ackwell.subscription.replay_queue import ReplayQueue
    from ackwell.subscription.selectors import Selector
    from ackwell.subscription.sticky_key import HashRange


class ByKeyPolicy(Policy):
    """The policy of Key_Shared: each sticky-key hash has one consumer as its owner.

    A hash *drains* if it has a new owner and its old owner still has pending messages of the hash. With
    `in_key_order`, messages of such a hash are not delivered.
    """

    individual = True
    by_key = True

    def __init__(
        self, consumers: Consumers, replay: ReplayQueue, selector: Selector, *, in_key_order: bool
    ) -> None:
        self._consumers = consumers
        self._replay = replay
        self.selector = selector
        self.in_key_order = in_key_order
        self._owners: NDArray[np.int16] | None = None
        self.read = None

    def __getstate__(self) -> dict[str, Any]:
        # The table of owners can be computed from the selector. It is built again when it is needed.
        return {**self.__dict__, "_owners": None}

    @property
    def slots(self) -> HashRange:
        """The slots of the selector."""
        return self.selector.slots

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Assign slots to the consumer.

        With `in_key_order`, a hash in these slots is blocked while another consumer has pending messages of
        the hash.
        """
        self.selector.add(consumer.key, hash_ranges, name=consumer.name)
        self._reassign()
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Give the consumer's slots to the other consumers. Return False, as no entry becomes unread."""
        self.selector.remove(consumer.key)
        self._reassign()
        return False

    def begin_round(self) -> None:
        """Do nothing, because the owner of an entry does not depend on the read."""

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | NonDelivery:
        """Return the owner of the hash, or the reason why the owner gets no message now."""
        consumers = self._consumers
        key = self.selector.select(sticky_key_hash)
        if key is None:
            return NonDelivery.NO_CONSUMER
        consumer = consumers.by_key[key]
        if consumers.blocked and consumers.room(new=new) <= 0:
            return NonDelivery.SUBSCRIPTION_BLOCKED
        if self.read is not None:
            return self._choose_in_read(self.read, consumer, sticky_key_hash)
        # A consumer is rarely blocked or full, so most messages do not need the full rule.
        if (consumer.blocked or consumer.unacked >= consumers.full_at) and not consumers.may_take_of_key(
            consumer
        ):
            return NonDelivery.CONSUMER_BLOCKED
        if consumer.permits <= 0:
            return NonDelivery.NO_PERMITS
        if consumers.draining.pending and consumers.draining.blocks(key, sticky_key_hash):
            return NonDelivery.KEY_WAITS
        return consumer

    def choose_many(self, run: Run) -> Owners | None:
        """Return the owner of each entry; `None` if an owner cannot take all of its entries.

        If `read` is set, an owner gets only its first entries, as many as the read allows. Its other entries
        have the value -1.
        """
        owners = self._owners_of(run)
        if owners is None:
            return None
        if self.read is not None:
            return self._choose_read(self.read, run, owners)
        fits = self._fit_in_reads(run, owners) if run.by_reads else self._fit_by_messages(run, owners)
        return owners if fits else None

    def record_delivery(self, consumer: Consumer, sticky_key_hash: int) -> None:
        """Update the draining hashes if a recorded delivery went to a consumer that does not own the hash."""
        if self.in_key_order and self.selector.select(sticky_key_hash) != consumer.key:
            self._consumers.draining.reassign(self._consumers, self.selector)

    def candidates(self, sticky_key_hash: int) -> Sequence[Consumer]:
        """Return the owner of the hash, if there is one."""
        key = self.selector.select(sticky_key_hash)
        return [] if key is None else [self._consumers.by_key[key]]

    def stall(self, *, new: bool) -> NonDelivery | None:
        """Return the reason why no consumer can get a message; `None` if a consumer can."""
        consumers = self._consumers
        reads = False
        for each in consumers:
            if consumers.allowance(each, new=new) > 0:
                if not consumers.is_full(each):
                    return None
                reads = True
        if reads and any(each.permits > 0 and consumers.may_take_of_key(each) for each in consumers):
            return None
        return blocking_reason(self._consumers, self._consumers, new=new)

    def looks_ahead(self, hashes: NDArray[np.int64] | None) -> bool:
        """Return whether a broker reads new entries after a read of the queue that delivered nothing.

        `hashes` are the hashes of that read. A broker reads new entries if a consumer that owns none of these
        hashes can get an entry.
        """
        assert hashes is not None
        consumers = self._consumers
        owners = {self.selector.select(each) for each in hashes.tolist()}
        return any(each.key not in owners and entries_allowed(consumers, each) > 0 for each in consumers)

    def audit(self) -> list[str]:
        """Recompute the draining hashes; return a text if the stored hashes are not the same."""
        if not self.in_key_order:
            return []
        return self._consumers.draining.audit(self._consumers, self.selector)

    def _choose_in_read(self, read: Read, consumer: Consumer, sticky_key_hash: int) -> Consumer | NonDelivery:
        """Return the consumer if it may get one more entry of the read, else the reason why not."""
        if read.allows(consumer) <= 0:
            return NonDelivery.NO_PERMITS
        draining = self._consumers.draining
        if draining.pending and draining.blocks(consumer.key, sticky_key_hash):
            return NonDelivery.KEY_WAITS
        read.reserve(consumer)
        return consumer

    def _choose_read(self, read: Read, run: Run, owned: Owners) -> Owners | None:
        """Assign to each owner its first entries, as many as the read allows, and count the messages.

        The other entries have the value -1. Return `None` if the subscription has a limit of unacknowledged
        messages.
        """
        import numpy as np

        if self._consumers.room() < NO_LIMIT:
            return None
        owners = owned
        counts = np.bincount(owned, minlength=len(run.consumers)).tolist()
        for index, (consumer, entries) in enumerate(zip(run.consumers, counts, strict=True)):
            if not entries:
                continue
            allowed = min(read.allows(consumer), entries)
            if allowed < entries:
                owners[np.flatnonzero(owned == index)[allowed:]] = -1
            if allowed:
                messages = allowed if run.sizes is None else int(run.sizes.sum(where=owners == index))
                self._consumers.count(consumer, messages)
                read.count_sent(consumer.key, messages, allowed)
        return owners

    def _fit_by_messages(self, run: Run, owners: Owners) -> bool:
        """Return whether every owner can take all messages of its entries. False if the queue has entries."""
        import numpy as np

        if self._replay.active:
            return False
        messages = np.bincount(owners, weights=run.sizes, minlength=len(run.consumers))
        allowance = self._consumers.allowance
        fits = all(
            each <= allowance(consumer) for each, consumer in zip(messages, run.consumers, strict=True)
        )
        return fits and int(messages.sum()) <= self._consumers.room()

    def _fit_in_reads(self, run: Run, owners: Owners) -> bool:
        """Return whether every read of the run fits into the permits and limits of the consumers.

        If so, update the mean batch sizes of the consumers.
        """
        import numpy as np

        consumers, sizes = run.consumers, run.sizes
        first = 1 if sizes is None else int(sizes[0])
        means = {0, first}.issuperset([each.mean_batch_size for each in consumers])
        if means and (sizes is None or bool((sizes == first).all())):
            # If all entries have the same size, the mean batch size is that size in every read. So one sum is
            # enough.
            entries = np.bincount(owners, minlength=len(consumers)).tolist()
            fits = self._consumers.all_fit(consumers, [first * each for each in entries], first)
            for consumer, number in zip(consumers, entries, strict=True):
                if fits and number:
                    consumer.mean_batch_size = first
            return fits
        # The arrays have one cell for each pair of a read and a consumer.
        size, number = self._consumers.read_max, len(consumers)
        reads = -(-run.entries // size)
        cells = np.arange(0, reads * number, number).repeat(size)[: run.entries] + owners
        entries = np.bincount(cells, minlength=reads * number).tolist()
        messages, largest = entries, 1
        if sizes is not None:
            largest = int(sizes.max())
            messages = np.bincount(cells, sizes, minlength=reads * number).tolist()
        totals = [sum(messages[index::number]) for index in range(number)]
        if not self._consumers.all_fit(consumers, totals, largest):
            return False
        for index, consumer in enumerate(consumers):
            average(consumer, messages[index::number], entries[index::number])
        return True

    def _owners_of(self, run: Run) -> Owners | None:
        """Return the owner of each entry's hash; `None` if a hash has no owner or if any hash drains."""
        hashes = run.hashes
        assert hashes is not None
        if self._consumers.draining.pending or hashes.min() < 0:
            return None
        if self._owners is None:
            # The table takes two bytes for each slot, and replaces a search for each message. A join or leave
            # discards the table.
            self._owners = owners_of_slots(self.selector, [consumer.key for consumer in run.consumers])
        try:
            owners = self._owners[hashes]
        except IndexError:
            return None
        return owners if owners.min() >= 0 else None

    def _reassign(self) -> None:
        self._owners = None
        if self.in_key_order:
            self._consumers.draining.reassign(self._consumers, self.selector)
