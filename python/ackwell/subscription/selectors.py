"""Selectors: the three methods by which Pulsar assigns sticky-key hashes to consumers.

A selector maps a hash, also called a slot, to a consumer. The map changes only when a consumer joins or
leaves. A selector has sorted boundaries: a hash belongs to the first boundary at or above it. To join or
leave costs O(points), and to select costs O(log points). A consumer is identified by its key (see
`ConsumerKey`). Its name need not be unique. The name determines only the slots of the consumer's points.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from ackwell.equality import EqualByState
from ackwell.errors import ErrorCode, ProtocolError
from ackwell.subscription.sticky_key import (
    FROM_ONE,
    FROM_ZERO,
    SLOTS,
    HashRange,
    positive_hash,
    sticky_key_hash,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ackwell.subscription.consumer import ConsumerKey

RING_POINTS: Final = 100
"""The number of points of each consumer: `subscriptionKeySharedConsistentHashingReplicaPoints`, the default
of 4.2."""


@runtime_checkable
class Selector(Protocol):
    """The protocol of a selector: it maps the sticky-key hashes of a Key_Shared subscription to consumers."""

    slots: HashRange
    """The first and the last slot to which `sticky_key_hash` maps keys for this selector."""

    def add(
        self, consumer: ConsumerKey, hash_ranges: Sequence[HashRange] = (), *, name: str | None = None
    ) -> None:
        """Add a consumer; `ProtocolError` if it cannot get a slot.

        `name` is the name of the consumer; by default, it is the consumer's key as text.
        """

    def remove(self, consumer: ConsumerKey) -> None:
        """Remove a consumer and give its slots to the other consumers."""

    def select(self, sticky_key_hash: int) -> ConsumerKey | None:
        """Return the owner of a slot, or `None` if the slot has no owner."""

    def boundaries(self) -> list[tuple[int, ConsumerKey | None]]:
        """Return the last slot and the owner of each run of slots with the same owner, in order."""


class ConsistentHashing(EqualByState):
    """A ring with 100 points for each consumer: the default selector of Pulsar 4.2.

    Point `i` of a consumer is at the hash of the text `name NUL n NUL i`. `n` is the lowest number that no
    other consumer with the same name has. If points of two consumers share a slot, the consumer that joined
    first owns the slot, until it leaves. Slots after the last point belong to the first point.

    >>> ring = ConsistentHashing()
    >>> ring.add("a")
    >>> ring.add("b")
    >>> {ring.select(slot) for slot in range(1, SLOTS)} == {"a", "b"}
    True
    """

    slots = FROM_ONE

    def __init__(self, points: int = RING_POINTS) -> None:
        if points < 1:
            raise ValueError(f"{points} points; a consumer needs at least one")
        self._points = points
        self._ring: dict[int, list[ConsumerKey]] = {}
        self._slots: list[int] = []
        self._names: dict[ConsumerKey, tuple[str, int]] = {}
        """Key of a consumer → its name, and its number among the consumers with that name."""

    def add(
        self, consumer: ConsumerKey, hash_ranges: Sequence[HashRange] = (), *, name: str | None = None
    ) -> None:
        """Add the points of a consumer to the ring.

        If other consumers own the slots of all these points, the new consumer owns no slot until one of the
        other consumers leaves.
        """
        name = str(consumer) if name is None else name
        taken = {number for other, number in self._names.values() if other == name}
        self._names[consumer] = name, next(number for number in count() if number not in taken)
        for slot in self._slots_of(consumer):
            if slot not in self._ring:
                insort(self._slots, slot)
            self._ring.setdefault(slot, []).append(consumer)

    def remove(self, consumer: ConsumerKey) -> None:
        """Remove the points of a consumer from the ring."""
        for slot in self._slots_of(consumer):
            self._ring[slot].remove(consumer)
            if not self._ring[slot]:
                del self._ring[slot]
                self._slots.remove(slot)
        del self._names[consumer]

    def select(self, sticky_key_hash: int) -> ConsumerKey | None:
        """Return the owner of the first point at or after the slot."""
        if not self._slots:
            return None
        index = bisect_left(self._slots, sticky_key_hash)
        return self._ring[self._slots[index if index < len(self._slots) else 0]][0]

    def boundaries(self) -> list[tuple[int, ConsumerKey | None]]:
        """Return the slot and the owner of each point, in order of the slots.

        The last pair has the last slot and the owner of the first point, because the ring wraps.
        """
        runs: list[tuple[int, ConsumerKey | None]] = [(slot, self._ring[slot][0]) for slot in self._slots]
        if runs and runs[-1][0] < SLOTS - 1:
            runs.append((SLOTS - 1, runs[0][1]))
        return runs

    def _slots_of(self, consumer: ConsumerKey) -> Iterable[int]:
        name, number = self._names[consumer]
        return (sticky_key_hash(f"{name}\0{number}\0{point}") for point in range(self._points))


class AutoSplit(EqualByState):
    """Ranges of slots, one for each consumer. A consumer that joins gets the lower half of the widest range.

    When a consumer leaves, its range is added to the next higher range. The highest range is added to the
    next lower one.

    >>> split = AutoSplit()
    >>> split.add("a")
    >>> split.add("b")
    >>> split.boundaries()
    [(32768, 'b'), (65536, 'a')]
    """

    slots = FROM_ZERO

    def __init__(self, slots: int = SLOTS) -> None:
        if slots < 2 or slots & slots - 1:
            raise ValueError(f"{slots} slots; expected a power of two, at least 2")
        self._size = slots
        self._ends: list[int] = []
        self._owners: dict[int, ConsumerKey] = {}

    def add(
        self, consumer: ConsumerKey, hash_ranges: Sequence[HashRange] = (), *, name: str | None = None
    ) -> None:
        """Split the widest range, and give its lower half to the consumer.

        If several ranges have this width, the lowest of them is split. Raises `ProtocolError` if no range has
        more than one slot.
        """
        if not self._ends:
            end = self._size
        else:
            starts = [0, *self._ends[:-1]]
            widths = [end - start for start, end in zip(starts, self._ends, strict=True)]
            widest = widths.index(max(widths))
            if widths[widest] <= 1:
                raise ProtocolError(
                    f"no hash range is left to split for consumer {consumer!r}",
                    code=ErrorCode.CONSUMER_ASSIGN_ERROR,
                )
            end = self._ends[widest] - (widths[widest] >> 1)
        insort(self._ends, end)
        self._owners[end] = consumer

    def remove(self, consumer: ConsumerKey) -> None:
        """Add the range of a consumer to a neighbouring range."""
        end = next(end for end, owner in self._owners.items() if owner == consumer)
        if end == self._size and len(self._ends) > 1:
            self._owners[end] = self._owners.pop(self._ends.pop(-2))
        else:
            del self._owners[end]
            self._ends.remove(end)

    def select(self, sticky_key_hash: int) -> ConsumerKey | None:
        """Return the owner of the range that contains the slot."""
        if not self._ends:
            return None
        return self._owners[self._ends[bisect_left(self._ends, sticky_key_hash % self._size)]]

    def boundaries(self) -> list[tuple[int, ConsumerKey | None]]:
        """Return the end and the owner of each range."""
        return [(end, self._owners[end]) for end in self._ends]


class StickyRanges(EqualByState):
    """Ranges of slots that each consumer chooses itself. They must not overlap. Other slots have no owner.

    >>> sticky = StickyRanges()
    >>> sticky.add("a", [(0, 99)])
    >>> sticky.select(99), sticky.select(100)
    ('a', None)
    """

    slots = FROM_ZERO

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, ConsumerKey]] = []

    def add(
        self, consumer: ConsumerKey, hash_ranges: Sequence[HashRange] = (), *, name: str | None = None
    ) -> None:
        """Assign the ranges to the consumer.

        Raises `ProtocolError` if `hash_ranges` is empty or if a slot already belongs to a range. Raises
        `ValueError` for an empty range, or for a range that is not inside the slots.
        """
        if not hash_ranges:
            raise ProtocolError(
                f"consumer {consumer!r} brings no hash ranges", code=ErrorCode.CONSUMER_ASSIGN_ERROR
            )
        claimed = list(self._ranges)
        for first, last in hash_ranges:
            if not 0 <= first <= last < SLOTS:
                raise ValueError(f"hash range {first}..{last}; expected 0 <= first <= last < {SLOTS}")
            for taken_first, taken_last, owner in claimed:
                if first <= taken_last and taken_first <= last:
                    raise ProtocolError(
                        f"hash range {first}..{last} is taken by consumer {owner!r}",
                        code=ErrorCode.CONSUMER_ASSIGN_ERROR,
                    )
            claimed.append((first, last, consumer))
        self._ranges = sorted(claimed, key=lambda claim: claim[:2])

    def remove(self, consumer: ConsumerKey) -> None:
        """Remove the ranges of a consumer. Their slots have no owner afterwards."""
        self._ranges = [claim for claim in self._ranges if claim[2] != consumer]

    def select(self, sticky_key_hash: int) -> ConsumerKey | None:
        """Return the consumer whose range contains the slot; `None` if there is none."""
        slot = sticky_key_hash % SLOTS
        index = bisect_left(self._ranges, slot + 1, key=itemgetter(0)) - 1
        if index < 0 or self._ranges[index][1] < slot:
            return None
        return self._ranges[index][2]

    def boundaries(self) -> list[tuple[int, ConsumerKey | None]]:
        """Return the last slot and the owner of each range, in order.

        The gaps before, between and after the ranges are included: for a gap, the owner is `None`.
        """
        runs: list[tuple[int, ConsumerKey | None]] = []
        free = 0
        for first, last, owner in self._ranges:
            if first > free:
                runs.append((first - 1, None))
            runs.append((last, owner))
            free = last + 1
        return [*runs, (SLOTS - 1, None)] if free < SLOTS else runs


def hash_ranges(selector: Selector) -> dict[ConsumerKey, list[HashRange]]:
    """Return the slots of each consumer in the form of the broker's statistics (`keyHashRangeArrays`).

    >>> split = AutoSplit()
    >>> split.add("a")
    >>> hash_ranges(split)
    {'a': [(1, 65535)]}
    """
    ranges: dict[ConsumerKey, list[HashRange]] = {}
    first = 1
    previous: ConsumerKey | None = None
    for end, owner in selector.boundaries():
        last = min(end, SLOTS - 1)
        if owner is not None and last >= first:
            owned = ranges.setdefault(owner, [])
            if owner == previous:
                owned[-1] = (owned[-1][0], last)
            else:
                owned.append((first, last))
        previous, first = owner, last + 1
    return ranges


def owners_of_slots(selector: Selector, consumers: Sequence[ConsumerKey]) -> NDArray[np.int16]:
    """Return the owner of each of the `SLOTS` slots, as an index into `consumers`; -1 means no owner."""
    import numpy as np

    runs = selector.boundaries()
    index_of = {consumer: index for index, consumer in enumerate(consumers)}
    ends = np.array([min(end, SLOTS - 1) for end, _ in runs], dtype=np.int64)
    owners = np.array([-1 if owner is None else index_of[owner] for _, owner in runs], dtype=np.int16)
    table = np.repeat(owners, np.diff(ends, prepend=-1))
    return np.pad(table, (0, SLOTS - len(table)), constant_values=-1)


class FailoverRing(EqualByState):
    """The hash ring that chooses the active consumer of a topic without partitions.

    The topic's hash selects the consumer. Unlike the ring of Key_Shared, this ring uses the full 31-bit
    range, and the texts that are hashed have no separators. If two consumers have the same point, the point
    belongs to the consumer that comes later in the list of names.
    """

    def __init__(self, topic: str) -> None:
        self._hash = positive_hash(topic.encode())

    def active(self, names: Sequence[str]) -> int:
        """Return the index of the active consumer in `names`. `names` must be sorted."""
        ring: dict[int, int] = {}
        for index, name in enumerate(names):
            for point in range(RING_POINTS):
                ring[positive_hash(f"{name}{point}".encode())] = index
        at_or_above = [point for point in ring if point >= self._hash]
        return ring[min(at_or_above or ring)]
