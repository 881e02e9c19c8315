"""Shared: consumers take turns, and get a few entries in each turn. The highest priority comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.policies.policy import Policy, blocking_reason, refuse_hash_ranges
from ackwell.subscription.reads import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.run import Owners, Run
    from ackwell.subscription.sticky_key import HashRange


class RoundRobinPolicy(Policy):
    """The policy of Shared: consumers get messages in turn.

    A consumer gets messages only if no consumer of a higher priority has permits.
    """

    individual = True

    def __init__(self, consumers: Consumers, batch_size: int) -> None:
        self._consumers = consumers
        self._batch_size = batch_size
        self._order: list[Consumer] = []
        self._current: Consumer | None = None
        """The consumer of the current turn."""
        self._next = 0
        """The index in `_order` at which the search for the next consumer begins.

        As in the broker, this index does not change when a consumer joins or leaves, although the indexes of
        other consumers then change.
        """
        self._left = 0
        self.read = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Place the consumer after the others of its priority. Return False, as no entry becomes unread."""
        refuse_hash_ranges(hash_ranges)
        self._order.append(consumer)
        self._order.sort(key=lambda each: each.priority)
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Remove the consumer from the order of turns. Return False, as no entry becomes unread."""
        self._order = [each for each in self._order if each is not consumer]
        if self._current is consumer:
            self._current = None
        return False

    def begin_round(self) -> None:
        """End the turn of the current consumer, because a broker starts a new turn with each read."""
        self._left = 0

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | NonDelivery:
        """Return the consumer of the current turn. If this turn is over, start the next turn."""
        consumer = self._current
        if (
            self._left > 0
            and consumer is not None
            and (
                # In a read, the share of the consumer was fixed at the start of its turn.
                self.read is not None
                or (
                    consumer.permits > 0
                    and not consumer.blocked
                    and (not self._consumers.blocked or self._consumers.room(new=new) > 0)
                )
            )
        ):
            self._left -= 1
            return consumer
        return self._next_turn(new=new)

    def choose_many(self, run: Run) -> Owners | None:
        """Assign the entries of a run to consumers in turns.

        If the run consists of reads of a broker, the length of a turn depends on the read (see `reads`).
        """
        if self.read is not None:
            return self._choose_read(self.read, run)
        if run.by_reads:
            return self._choose_reads(run)
        evenly = self._choose_evenly(run) if run.sizes is None else None
        return self._choose_by_messages(run) if evenly is None else evenly

    def candidates(self, sticky_key_hash: int) -> Sequence[Consumer]:
        """Return all consumers in the order of turns, those with a higher priority first."""
        return self._order

    def stall(self, *, new: bool) -> NonDelivery | None:
        """Return the reason why no consumer can get a message; `None` if a consumer can."""
        if any(self._consumers.allowance(consumer, new=new) > 0 for consumer in self._order):
            return None
        return blocking_reason(self._consumers, self._order, new=new)

    def _first(self) -> list[Consumer]:
        """Return the consumers with the highest priority."""
        return [each for each in self._order if each.priority == self._order[0].priority]

    def _choose_by_messages(self, run: Run) -> Owners:
        """Assign entries in turns if each message takes a permit. O(entries / round-robin batch size)."""
        import numpy as np

        sizes, count, index_of = run.sizes, run.entries, run.indexes()
        allowance = [self._consumers.allowance(consumer) for consumer in run.consumers]
        rest = self._consumers.room()
        ends = None if sizes is None else np.cumsum(sizes)
        turns: list[int] = []
        lengths: list[int] = []
        done = 0

        def is_available(consumer: Consumer) -> bool:
            return allowance[index_of[consumer.key]] > 0

        while done < count and rest > 0:
            goes_on = self._left > 0 and self._current is not None and is_available(self._current)
            if not goes_on and not self._begin(is_available):
                break
            assert self._current is not None
            index = index_of[self._current.key]
            entries = min(self._left, count - done)
            start = 0 if ends is None or done == 0 else int(ends[done - 1])
            limit = min(allowance[index], rest)
            if ends is None:
                taken = messages = min(entries, limit)
            else:
                # An entry is delivered if the messages before it leave at least one permit.
                taken = min(entries, int(np.searchsorted(ends[done:], start + limit)) + 1)
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

    def _choose_reads(self, run: Run) -> Owners | None:
        """Assign the entries of several reads in turns; `None` if a consumer may run out of permits.

        O(turns).
        """
        import numpy as np

        self.begin_round()
        sizes, count, size = run.sizes, run.entries, self._consumers.read_max
        means_stay = sizes is None and all(each.mean_batch_size == 1 for each in run.consumers)
        if means_stay and size % self._batch_size == 0:
            return None if self._consumers.reach_limit(count) else self._choose_evenly(run)
        first = self._first()
        ends = [0, *range(1, count + 1)] if sizes is None else [0, *sizes.cumsum().tolist()]
        largest = 1 if sizes is None else int(sizes.max())
        if not self._consumers.all_fit(first, [ends[-1]] * len(first), largest):
            return None
        place = self._first_place(first) - 1
        turns: list[int] = []
        lengths: list[int] = []
        for start in range(0, count, size):
            done, stop = start, min(start + size, count)
            read = Read(self._consumers, stop - start, ends[stop] - ends[start])
            while done < stop:
                place = (place + 1) % len(first)
                taken = min(read.share(first[place]), stop - done)
                read.count_sent(first[place].key, ends[done + taken] - ends[done], taken)
                turns.append(place)
                lengths.append(taken)
                done += taken
            read.end()
        self._take_turn(place)
        index_of = run.indexes()
        places = np.array([index_of[each.key] for each in first], dtype=np.int64)
        return np.repeat(places[turns], lengths)

    def _choose_read(self, read: Read, run: Run) -> Owners:
        """Assign the entries of one read in turns, and count their messages. O(turns)."""
        import numpy as np

        index_of = run.indexes()
        owners: Owners = np.full(run.entries, -1, dtype=np.int16)
        ends = range(1, run.entries + 1) if run.sizes is None else run.sizes.cumsum().tolist()
        done = before = 0
        while done < run.entries:
            consumer = self._next_turn(new=True)
            if isinstance(consumer, NonDelivery):
                break
            taken = min(self._left + 1, run.entries - done)
            self._left -= taken - 1
            owners[done : done + taken] = index_of[consumer.key]
            done += taken
            self._consumers.count(consumer, ends[done - 1] - before)
            read.count_sent(consumer.key, ends[done - 1] - before, taken)
            before = ends[done - 1]
        return owners

    def _choose_evenly(self, run: Run) -> NDArray[np.int64] | None:
        """Assign entries with one message each, in turns of equal length; `None` if permits may run out.

        O(entries).
        """
        import numpy as np

        first, count = self._first(), run.entries
        share = (count // (len(first) * self._batch_size) + 2) * self._batch_size if first else 0
        if not first or min(map(self._consumers.allowance, first)) < min(share, count):
            return None
        if self._consumers.room() < count:
            return None
        index_of = run.indexes()
        keys = [each.key for each in first]
        if self._left <= 0 or self._current is None or self._current.key not in keys:
            self._begin(lambda _: True)
        assert self._current is not None
        start, used = keys.index(self._current.key), self._batch_size - self._left
        turns = (np.arange(used, used + count) // self._batch_size + start) % len(first)
        last, taken = divmod(used + count - 1, self._batch_size)
        self._take_turn((start + last) % len(first))
        self._left = self._batch_size - taken - 1
        places = np.array([index_of[key] for key in keys], dtype=np.int64)
        owners: NDArray[np.int64] = places[turns]
        return owners

    def _next_turn(self, *, new: bool) -> Consumer | NonDelivery:
        if self._consumers.room(new=new) <= 0 or not self._begin(_has_permits):
            return blocking_reason(self._consumers, self._order, new=new)
        assert self._current is not None
        if self.read is not None:
            self._left = self.read.share(self._current)
        self._left -= 1
        return self._current

    def _begin(self, available: Callable[[Consumer], bool]) -> bool:
        """Start the turn of the next available consumer; return False if none is available.

        A consumer of a lower priority is chosen only if no consumer of a higher priority is available.
        """
        order, start = self._order, self._next
        chosen = None
        for place, consumer in enumerate(order):
            if chosen is not None and consumer.priority != order[chosen].priority:
                break
            if available(consumer):
                if place >= start:
                    chosen = place
                    break
                # If no consumer of the same priority at a later index is available, the round starts again
                # with this consumer.
                chosen = place if chosen is None else chosen
        if chosen is None:
            return False
        self._take_turn(chosen)
        self._left = self._batch_size
        return True

    def _take_turn(self, place: int) -> None:
        """Start the turn of the consumer with index `place` in `_order`."""
        self._current = self._order[place]
        self._next = place + 1

    def _first_place(self, first: Sequence[Consumer]) -> int:
        """Return the index in `first` of the consumer whose turn is next."""
        return self._next if self._next < len(first) else 0


def _has_permits(consumer: Consumer) -> bool:
    return consumer.permits > 0 and not consumer.blocked
