"""Who gets the next message: one policy for each subscription type.

A policy sees consumers, permits and limits, and nothing of positions. `choose` answers for one
message, `choose_many` for a run of them at a time, with the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ackwell.errors import ProtocolError
from ackwell.subscription.selectors import FailoverRing, Selector, select_many
from ackwell.subscription.sticky_key import SLOTS, HashRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.outstanding import Outstanding
    from ackwell.subscription.replay_queue import ReplayQueue

    Int64s = NDArray[np.int64]
    Owners = NDArray[np.signedinteger]


class Policy(Protocol):
    """What a subscription asks its type."""

    individual: bool
    """Shared and Key_Shared: what each consumer has is tracked; a cumulative acknowledgment is illegal."""

    by_key: bool
    """Key_Shared: no message overtakes an older one of its hash."""

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Take a consumer in; tell whether everything unacknowledged is to be read again."""

    def leave(self, consumer: Consumer) -> bool:
        """Let a consumer go; tell whether everything unacknowledged is to be read again."""

    def choose(self, sticky_key_hash: int) -> Consumer | None:
        """Name who gets a message now; `None` if nobody can."""

    def choose_many(
        self, consumers: Sequence[Consumer], sizes: Int64s | None, hashes: Int64s | None, count: int
    ) -> Owners | None:
        """Give, for each of `count` entries, an index into `consumers`, -1 for nobody.

        `sizes` are messages in each entry, `None` for one; `None` as result means that only one by
        one will do.
        """

    def available(self) -> bool:
        """Return whether anybody could get a message now."""

    def audit(self) -> list[str]:
        """Recompute what the policy counts; describe each difference."""

    @property
    def active(self) -> Consumer | None:
        """The one consumer that gets everything, on Exclusive and Failover."""


class RoundRobin:
    """Shared: consumers in turn, a few entries each, the highest priority first.

    Only when nobody of one priority has permits does the next one get anything.
    """

    individual = True
    by_key = False

    def __init__(self, outstanding: Outstanding, batch_size: int) -> None:
        self._outstanding = outstanding
        self._batch_size = batch_size
        self._order: list[Consumer] = []
        self._current: Consumer | None = None
        self._left = 0
        self.active = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Place the consumer behind the others of its priority."""
        if hash_ranges:
            raise ProtocolError("hash ranges belong to a Key_Shared subscription")
        self._order.append(consumer)
        self._order.sort(key=lambda each: each.priority)
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Take the consumer out of the round."""
        self._order.remove(consumer)
        if self._current is consumer:
            self._current = None
        return False

    def choose(self, sticky_key_hash: int) -> Consumer | None:
        """Return the consumer whose turn it is, or whose turn begins."""
        consumer = self._current
        if (
            self._left > 0
            and consumer is not None
            and consumer.permits > 0
            and not consumer.blocked
            and not self._outstanding.blocked
        ):
            self._left -= 1
            return consumer
        return self._next_turn(1)

    def choose_many(
        self, consumers: Sequence[Consumer], sizes: Int64s | None, hashes: Int64s | None, count: int
    ) -> Owners | None:
        """Lay out whole turns at once; O(entries / round-robin batch size)."""
        import numpy as np

        at_once = self._even(consumers, count) if sizes is None else None
        if at_once is not None:
            return at_once
        index_of = {consumer.name: index for index, consumer in enumerate(consumers)}
        allowance = [self._outstanding.allowance(consumer) for consumer in consumers]
        rest = self._outstanding.room()
        ends = None if sizes is None else np.cumsum(sizes)
        turns: list[int] = []
        lengths: list[int] = []
        done = 0
        while done < count and rest > 0:
            if self._left <= 0 or self._current is None or allowance[index_of[self._current.name]] <= 0:
                candidates = [each for each in self._order if allowance[index_of[each.name]] > 0]
                if not candidates:
                    break
                self._begin(candidates)
            assert self._current is not None
            index = index_of[self._current.name]
            wanted = min(self._left, count - done)
            start = 0 if ends is None or done == 0 else int(ends[done - 1])
            limit = min(allowance[index], rest)
            if ends is None:
                taken = messages = min(wanted, limit)
            else:
                # An entry goes out as long as the messages before it leave any permit.
                taken = min(wanted, int(np.searchsorted(ends[done:], start + limit)) + 1)
                messages = int(ends[done + taken - 1]) - start
            allowance[index] -= messages
            rest -= messages
            self._left -= taken
            turns.append(index)
            lengths.append(taken)
            done += taken
        turns.append(-1)
        lengths.append(count - done)
        return np.repeat(np.array(turns, dtype=np.int64), lengths)

    def _even(self, consumers: Sequence[Consumer], count: int) -> Int64s | None:
        """Lay out a round in which nobody runs out of permits; `None` if somebody might."""
        import numpy as np

        first = [each for each in self._order if each.priority == self._order[0].priority]
        share = (count // (len(first) * self._batch_size) + 2) * self._batch_size if first else 0
        if not first or min(map(self._outstanding.allowance, first)) < share:
            return None
        if self._outstanding.room() < count:
            return None
        if self._left <= 0 or self._current not in first:
            self._begin(first)
        assert self._current is not None
        start, used = first.index(self._current), self._batch_size - self._left
        turns = (np.arange(used, used + count) // self._batch_size + start) % len(first)
        last, taken = divmod(used + count - 1, self._batch_size)
        self._current = first[(start + last) % len(first)]
        self._left = self._batch_size - taken - 1
        places = np.array([consumers.index(each) for each in first], dtype=np.int64)
        owners: Int64s = places[turns]
        return owners

    def available(self) -> bool:
        """Return whether anybody has permits and is not blocked."""
        return any(self._outstanding.allowance(consumer) > 0 for consumer in self._order)

    def audit(self) -> list[str]:
        """Find nothing: a round has no counters."""
        return []

    def _next_turn(self, taken: int) -> Consumer | None:
        allowance = self._outstanding.allowance
        candidates = [consumer for consumer in self._order if allowance(consumer) > 0]
        if not candidates:
            return None
        self._begin(candidates)
        self._left -= taken
        return self._current

    def _begin(self, candidates: list[Consumer]) -> None:
        """Start the turn of the next consumer after the current one, among the highest priority."""
        first = [each for each in candidates if each.priority == candidates[0].priority]
        place = self._order.index(self._current) if self._current is not None else -1
        self._current = next((each for each in first if self._order.index(each) > place), first[0])
        self._left = self._batch_size


class ByKey:
    """Key_Shared: the owner of the message's hash, unless that would overtake an older message."""

    individual = True
    by_key = True

    def __init__(self, outstanding: Outstanding, replay: ReplayQueue, selector: Selector) -> None:
        self._outstanding = outstanding
        self._replay = replay
        self.selector = selector
        self.active = None
        self._owners: NDArray[np.int16] | None = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Return the consumer its slots; what others have of them drains first."""
        self.selector.add(consumer.name, hash_ranges)
        self._reassign()
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Return the consumer's slots to the others."""
        self.selector.remove(consumer.name)
        self._reassign()
        return False

    def choose(self, sticky_key_hash: int) -> Consumer | None:
        """Return the owner of the hash if it can take a message and nobody else has one of the hash."""
        outstanding = self._outstanding
        name = self.selector.select(sticky_key_hash)
        if name is None or outstanding.blocked:
            return None
        consumer = outstanding.consumers[name]
        if consumer.permits <= 0 or consumer.blocked:
            return None
        if outstanding.draining.pending and outstanding.draining.blocks(name, sticky_key_hash):
            return None
        return consumer

    def choose_many(
        self, consumers: Sequence[Consumer], sizes: Int64s | None, hashes: Int64s | None, count: int
    ) -> Owners | None:
        """Answer at once where every owner can take all of its messages and nothing waits or drains."""
        import numpy as np

        if hashes is None or self._outstanding.draining.pending or self._replay.active:
            return None
        if self._owners is None:
            # A byte pair a slot, made anew when somebody comes or goes, saves a search for each message.
            slots = np.arange(SLOTS, dtype=np.int64)
            names = [consumer.name for consumer in consumers]
            self._owners = select_many(self.selector, slots, names).astype(np.int16)
        if not count or hashes.min() < 0 or hashes.max() >= SLOTS:
            return None
        owners = self._owners[hashes]
        if owners.min() < 0:
            return None
        wanted = np.bincount(owners, weights=sizes, minlength=len(consumers))
        allowance = self._outstanding.allowance
        fits = all(
            messages <= allowance(consumer) for messages, consumer in zip(wanted, consumers, strict=True)
        )
        return owners if fits and int(wanted.sum()) <= self._outstanding.room() else None

    def available(self) -> bool:
        """Return whether anybody has permits and is not blocked."""
        return any(
            self._outstanding.allowance(consumer) > 0 for consumer in self._outstanding.consumers.values()
        )

    def audit(self) -> list[str]:
        """Count the draining hashes anew."""
        return self._outstanding.draining.audit(self._outstanding.consumers.values(), self.selector)

    def _reassign(self) -> None:
        self._owners = None
        self._outstanding.draining.reassign(self._outstanding.consumers.values(), self.selector)


class OneActive:
    """Exclusive and Failover: everything goes to one consumer, the others wait for it to leave.

    The active one is the first by priority, then name; of a partition, the one at `partition` modulo
    the number of consumers of the highest priority; of a topic without partitions, the one that a ring
    over their names gives the topic.
    """

    individual = False
    by_key = False

    def __init__(
        self, outstanding: Outstanding, *, exclusive: bool, partition: int | None, topic: str | None
    ) -> None:
        self._outstanding = outstanding
        self._exclusive = exclusive
        self._partition = partition
        self._ring = FailoverRing(topic) if topic is not None else None
        self.active: Consumer | None = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Take the consumer in; `ProtocolError` if an Exclusive subscription has one already."""
        if hash_ranges:
            raise ProtocolError("hash ranges belong to a Key_Shared subscription")
        if self._exclusive and self.active is not None:
            raise ProtocolError(f"exclusive consumer {self.active.name!r} is already connected")
        return self._pick([*self._outstanding.consumers.values()])

    def leave(self, consumer: Consumer) -> bool:
        """Let the consumer go and pick the next active one."""
        return self._pick([each for each in self._outstanding.consumers.values() if each is not consumer])

    def choose(self, sticky_key_hash: int) -> Consumer | None:
        """Return the active consumer if it has permits."""
        active = self.active
        return active if active is not None and active.permits > 0 else None

    def choose_many(
        self, consumers: Sequence[Consumer], sizes: Int64s | None, hashes: Int64s | None, count: int
    ) -> Owners | None:
        """Return the active consumer as many entries as its permits allow."""
        import numpy as np

        owners = np.full(count, -1, dtype=np.int64)
        if self.active is not None and self.active.permits > 0:
            taken = self.active.permits
            if sizes is not None:
                taken = int(np.searchsorted(np.cumsum(sizes), self.active.permits)) + 1
            owners[:taken] = list(consumers).index(self.active)
        return owners

    def available(self) -> bool:
        """Return whether the active consumer has permits."""
        return self.active is not None and self.active.permits > 0

    def audit(self) -> list[str]:
        """Find nothing: there are no counters."""
        return []

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
                names = [each.name for each in highest]
                index = names.index(self._ring.active(names))
            self.active = highest[index]
        # A new active consumer starts from the first unacknowledged message.
        return self.active is not before
