"""Shared: consumers in turn, a few entries each, the highest priority first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.subscription.policies.policy import why
from ackwell.subscription.reads import Read
from ackwell.subscription.undelivered import Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import Consumer
    from ackwell.subscription.consumers import Consumers
    from ackwell.subscription.policies.policy import Owners
    from ackwell.subscription.sticky_key import HashRange


class RoundRobin(EqualByState):
    """Only when nobody of one priority has permits does the next priority get anything."""

    individual = True
    by_key = False
    in_key_order = False
    active = None

    def __init__(self, consumers: Consumers, batch_size: int) -> None:
        self._consumers = consumers
        self._batch_size = batch_size
        self._order: list[Consumer] = []
        self._current: Consumer | None = None
        self._left = 0
        self.read: Read | None = None

    def join(self, consumer: Consumer, hash_ranges: Sequence[HashRange]) -> bool:
        """Place the consumer behind the others of its priority."""
        if hash_ranges:
            raise ProtocolError(
                "hash ranges belong to a Key_Shared subscription", code=ErrorCode.CONSUMER_ASSIGN_ERROR
            )
        self._order.append(consumer)
        self._order.sort(key=lambda each: each.priority)
        return False

    def leave(self, consumer: Consumer) -> bool:
        """Remove the consumer from the round."""
        self._order = [each for each in self._order if each is not consumer]
        if self._current is consumer:
            self._current = None
        return False

    def begin_round(self) -> None:
        """End the turn: a broker begins one with each read, so single messages go to consumers in turn."""
        self._left = 0

    def choose(self, sticky_key_hash: int, *, new: bool) -> Consumer | Undelivered:
        """Return the consumer whose turn it is, or whose turn begins."""
        consumer = self._current
        if (
            self._left > 0
            and consumer is not None
            and (
                # The share of a read was decided on when the turn began.
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

    def choose_many(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Lay out whole turns at once; O(entries / round-robin batch size)."""
        import numpy as np

        at_once = self._even(consumers, count) if sizes is None else None
        if at_once is not None:
            return at_once
        index_of = {consumer.key: index for index, consumer in enumerate(consumers)}
        allowance = [self._consumers.allowance(consumer) for consumer in consumers]
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

    def choose_all(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        count: int,
    ) -> Owners | None:
        """Lay out the turns of all reads if nobody runs out of permits; O(turns)."""
        import numpy as np

        self.begin_round()
        everybody, size = self._consumers, self._consumers.read_max
        means_stay = sizes is None and all(each.mean_batch_size == 1 for each in consumers)
        if means_stay and size % self._batch_size == 0:
            return self._even(consumers, count)
        first = [each for each in self._order if each.priority == self._order[0].priority]
        ends = [0, *range(1, count + 1)] if sizes is None else [0, *sizes.cumsum().tolist()]
        largest = 1 if sizes is None else int(sizes.max())
        if not everybody.all_fit(first, [ends[-1]] * len(first), largest):
            return None
        place = next((index for index, each in enumerate(first) if each is self._current), -1)
        turns: list[int] = []
        lengths: list[int] = []
        for start in range(0, count, size):
            done, stop = start, min(start + size, count)
            read = Read(everybody, stop - start, ends[stop] - ends[start])
            while done < stop:
                place = (place + 1) % len(first)
                taken = min(read.share(first[place]), stop - done)
                read.count_sent(first[place].key, ends[done + taken] - ends[done], taken)
                turns.append(place)
                lengths.append(taken)
                done += taken
            read.end()
        self._current = first[place]
        index_of = {consumer.key: index for index, consumer in enumerate(consumers)}
        places = np.array([index_of[each.key] for each in first], dtype=np.int64)
        return np.repeat(places[turns], lengths)

    def take_read(
        self,
        consumers: Sequence[Consumer],
        sizes: NDArray[np.int64] | None,
        hashes: NDArray[np.int64] | None,
        owners: Owners,
    ) -> bool:
        """Lay out the turns of one read; O(turns)."""
        assert self.read is not None
        index_of = {consumer.key: index for index, consumer in enumerate(consumers)}
        ends = range(1, len(owners) + 1) if sizes is None else sizes.cumsum().tolist()
        done = before = 0
        while done < len(owners):
            consumer = self._next_turn(new=True)
            if isinstance(consumer, Undelivered):
                break
            taken = min(self._left + 1, len(owners) - done)
            self._left -= taken - 1
            owners[done : done + taken] = index_of[consumer.key]
            done += taken
            self._consumers.count(consumer, ends[done - 1] - before)
            self.read.count_sent(consumer.key, ends[done - 1] - before, taken)
            before = ends[done - 1]
        return True

    def stall(self, *, new: bool) -> Undelivered | None:
        """Return why nobody can get a message; `None` if anybody has permits and is not blocked."""
        if any(self._consumers.allowance(consumer, new=new) > 0 for consumer in self._order):
            return None
        return why(self._consumers, self._order, new=new)

    def audit(self) -> list[str]:
        """Find nothing: a round has no counters."""
        return []

    def _even(self, consumers: Sequence[Consumer], count: int) -> NDArray[np.int64] | None:
        """Lay out a round in which nobody runs out of permits; `None` if somebody might."""
        import numpy as np

        first = [each for each in self._order if each.priority == self._order[0].priority]
        share = (count // (len(first) * self._batch_size) + 2) * self._batch_size if first else 0
        if not first or min(map(self._consumers.allowance, first)) < min(share, count):
            return None
        if self._consumers.room() < count:
            return None
        index_of = {consumer.key: index for index, consumer in enumerate(consumers)}
        keys = [each.key for each in first]
        if self._left <= 0 or self._current is None or self._current.key not in keys:
            self._begin(lambda _: True)
        assert self._current is not None
        start, used = keys.index(self._current.key), self._batch_size - self._left
        turns = (np.arange(used, used + count) // self._batch_size + start) % len(first)
        last, taken = divmod(used + count - 1, self._batch_size)
        self._current = first[(start + last) % len(first)]
        self._left = self._batch_size - taken - 1
        places = np.array([index_of[key] for key in keys], dtype=np.int64)
        owners: NDArray[np.int64] = places[turns]
        return owners

    def _next_turn(self, *, new: bool) -> Consumer | Undelivered:
        if self._consumers.room(new=new) <= 0 or not self._begin(_has_permits):
            return why(self._consumers, self._order, new=new)
        assert self._current is not None
        if self.read is not None:
            self._left = self.read.share(self._current)
        self._left -= 1
        return self._current

    def _begin(self, available: Callable[[Consumer], bool]) -> bool:
        """Start the turn of the next available consumer of the highest priority; return whether one is."""
        chosen = None
        is_behind = self._current is None
        for consumer in self._order:
            if chosen is not None and consumer.priority != chosen.priority:
                break
            if available(consumer):
                if is_behind:
                    chosen = consumer
                    break
                # The first one begins the next round if nobody behind the current one is available.
                chosen = chosen or consumer
            is_behind = is_behind or consumer is self._current
        if chosen is None:
            return False
        self._current, self._left = chosen, self._batch_size
        return True


def _has_permits(consumer: Consumer) -> bool:
    return consumer.permits > 0 and not consumer.blocked
