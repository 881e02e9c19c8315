"""Count messages in entries: an entry holds one message, or a batch of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ackwell.cursor.ack_sets import from_words, last_unacked
from ackwell.cursor.cursor_state import AckSetMapping

if TYPE_CHECKING:
    from ackwell import PositionRangeSet


class PositionSet(Protocol):
    """A set of positions that only supports the operator `in`."""

    def __contains__(self, position: tuple[int, int], /) -> bool:
        """Return whether the set contains a position."""


class CountedAckSets(AckSetMapping, ABC):
    """Ack sets by position, with a precomputed count of their acknowledged messages."""

    @abstractmethod
    def first(self, count: int) -> AckSetMapping:
        """Return the first `count` ack sets, in order of position."""

    @abstractmethod
    def without_first(self, count: int) -> CountedAckSets:
        """Return the ack sets after the first `count`."""

    @abstractmethod
    def acked(self) -> Bounds:
        """Count the acknowledged messages of all ack sets."""


class CountedSizes(Mapping[tuple[int, int], int], ABC):
    """Batch sizes by position. `sum_of` adds up the sizes in ranges without a loop over positions."""

    @abstractmethod
    def sum_of(self, ranges: PositionRangeSet | None) -> tuple[int, int]:
        """Return the number of entries in `ranges` (None: all entries), and the number of their messages."""


class Bounds(NamedTuple):
    """The lowest and highest possible number of messages; `at_most` is None if there is no upper bound.

    >>> str(Bounds(3, 3)), str(Bounds(1, 2_000)), str(Bounds(7, None)), str(Bounds(0, None))
    ('3', '1 to 2,000', '7 or more', 'unknown')
    """

    at_least: int
    at_most: int | None

    @property
    def exact(self) -> int | None:
        """The number if both bounds are equal, else None."""
        return self.at_least if self.at_least == self.at_most else None

    def plus_up_to(self, more: int | None) -> Bounds:
        """Return the bounds of this number plus an unknown number from 0 to `more`.

        If `more` is None, the result has no upper bound.
        """
        at_most = None if self.at_most is None or more is None else self.at_most + more
        return Bounds(self.at_least, at_most)

    def up_to(self, most: int | None) -> Bounds:
        """Return the bounds after reducing `at_most` to `most`, but not below `at_least`.

        If `most` is None, return the bounds unchanged.
        """
        if most is None or (self.at_most is not None and self.at_most <= most):
            return self
        return Bounds(self.at_least, max(self.at_least, most))

    def or_else(self, other: Bounds) -> Bounds:
        """Return the narrowest bounds that contain the bounds of `self` and of `other`.

        >>> str(Bounds(3, 3).or_else(Bounds(0, 5))), str(Bounds(3, 3).or_else(Bounds(7, None)))
        ('0 to 5', '3 or more')
        """
        at_most = None if self.at_most is None or other.at_most is None else max(self.at_most, other.at_most)
        return Bounds(min(self.at_least, other.at_least), at_most)

    def __str__(self) -> str:
        if self.at_most is None:
            return f"{self.at_least:,} or more" if self.at_least else "unknown"
        if self.at_least == self.at_most:
            return f"{self.at_least:,}"
        return f"{self.at_least:,} to {self.at_most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizes:
    """The batch size of each entry: `of` maps positions to sizes, and all other entries have the size `each`.

    If `each` is None, the size of the other entries is unknown. The totals then limit the possible sizes: all
    `total_entries` entries together hold `total_messages` messages, and every entry holds at least one
    message. If the broker counted the backlog, its `backlog_entries` entries (those that are not wholly
    acknowledged) hold `backlog_messages` messages.

    >>> BatchSizes(each=10).acked(3)
    Bounds(at_least=30, at_most=30)
    >>> BatchSizes(each=None, total_messages=20, total_entries=10).acked(3)
    Bounds(at_least=3, at_most=13)
    >>> BatchSizes(
    ...     each=None, total_messages=20, total_entries=10, backlog_messages=12, backlog_entries=7
    ... ).acked(3)
    Bounds(at_least=8, at_most=8)
    """

    each: int | None = 1
    of: Mapping[tuple[int, int], int] = field(default_factory=dict)
    total_messages: int | None = None
    total_entries: int | None = None
    backlog_messages: int | None = None
    backlog_entries: int | None = None

    def acked(
        self,
        entries: int,
        partial: AckSetMapping | None = None,
        *,
        within: PositionSet | None = None,
    ) -> Bounds:
        """Count the acknowledged messages in wholly and partly acknowledged entries.

        `entries` is the number of wholly acknowledged entries, and `within` is the set of their positions. If
        `within` is None, all positions in `of` are wholly acknowledged. `partial` contains the ack sets of
        the partly acknowledged entries.
        """
        partial = partial or {}
        if not entries and not partial:
            return Bounds(0, 0)
        if isinstance(partial, CountedAckSets):
            parts = [partial.acked()]
        else:
            parts = [self._acked_in(position, words) for position, words in partial.items()]
        if self.each is not None:
            whole = entries * self.each + (self._listed(self.each, within) if entries else 0)
            if None not in (part.at_most for part in parts):
                exact = whole + sum(part.at_least for part in parts)
                return Bounds(exact, exact)
            return Bounds(whole + sum(part.at_least for part in parts), None)
        at_least = entries + sum(part.at_least for part in parts)
        if self.total_messages is None or self.total_entries is None:
            return Bounds(at_least, None)
        others = self.total_entries - entries - len(partial)
        if not partial and self.backlog_messages is not None and self.backlog_entries is not None:
            # The wholly acknowledged entries hold all messages that are not in the backlog. Each of these
            # entries holds at least one message.
            whole = self.total_entries - self.backlog_entries
            messages = self.total_messages - self.backlog_messages
            if 0 <= entries == whole <= messages:
                return Bounds(messages, messages)
            if entries < whole <= messages:
                return Bounds(at_least, messages - (whole - entries))
        unacked = sum(from_words(words).bit_count() for words in partial.values())
        return Bounds(at_least, max(at_least, self.total_messages - others - unacked))

    def _listed(self, each: int, within: PositionSet | None) -> int:
        """Return the sum of `size - each` over the entries of `of` that are in `within` (None: over all)."""
        from ackwell import PositionRangeSet

        if isinstance(self.of, CountedSizes) and (within is None or isinstance(within, PositionRangeSet)):
            entries, messages = self.of.sum_of(within)
            return messages - entries * each
        return sum(n - each for p, n in self.of.items() if within is None or p in within)

    def most_hidden(self, entries: int | None) -> int | None:
        """Return the maximum number of acknowledged messages in `entries` partly acknowledged entries.

        Each of these entries contains at least one unacknowledged message. Return None if no bound is known.

        >>> BatchSizes(each=1).most_hidden(5), BatchSizes(each=10).most_hidden(5)
        (0, 45)
        >>> BatchSizes(each=None, total_messages=20, total_entries=10).most_hidden(3)
        10
        >>> BatchSizes(each=None, backlog_messages=7, backlog_entries=3).most_hidden(3)
        4
        """
        if entries == 0 or (self.each == 1 and not self.of):
            return 0
        bounds = []
        if entries is not None and self.each is not None and not self.of:
            bounds.append(entries * (self.each - 1))
        if self.total_messages is not None and self.total_entries is not None:
            bounds.append(max(self.total_messages - self.total_entries, 0))
        if entries is not None and entries == self.backlog_entries and self.backlog_messages is not None:
            bounds.append(max(self.backlog_messages - entries, 0))
        return min(bounds, default=None)

    def most_words(self, entries: int, backlog_entries: int | None) -> int | None:
        """Return the maximum number of 64-bit words in the ack sets of `entries` entries of the backlog.

        Return None if no bound is known.

        >>> BatchSizes(each=100).most_words(3, 10), BatchSizes(each=None).most_words(3, 10)
        (6, None)
        >>> BatchSizes(each=None, backlog_messages=640, backlog_entries=10).most_words(3, 10)
        13
        """
        if self.each is not None and not self.of:
            return entries * -(-self.each // 64)
        messages = self.total_messages
        if self.backlog_messages is not None and self.backlog_entries == backlog_entries:
            messages = self.backlog_messages
        # An ack set has one word for each 64 messages, and less than one further word for the rest.
        return None if messages is None else entries + messages // 64

    def unacked(self, entries: int) -> Bounds:
        """Count the unacknowledged messages of `entries` entries that are not wholly acknowledged.

        Each of these entries has at least one unacknowledged message. The result does not depend on ack sets.

        >>> sizes = BatchSizes(each=None, total_messages=20, total_entries=10)
        >>> sizes.unacked(3)
        Bounds(at_least=3, at_most=13)
        """
        most = None if self.each is None or self.of else entries * self.each
        for messages, of in (
            (self.total_messages, self.total_entries),
            (self.backlog_messages, self.backlog_entries),
        ):
            # Each of the other `of - entries` entries holds at least one message.
            if entries and messages is not None and of is not None and entries <= of <= messages:
                bound = messages - (of - entries)
                most = bound if most is None else min(most, bound)
        return Bounds(entries, 0 if not entries else most)

    def most_acked(self, unacked_entries: int | None) -> int | None:
        """Return the maximum number of acknowledged messages in the topic; None if no bound is known.

        Each of the `unacked_entries` entries has at least one unacknowledged message.

        >>> BatchSizes(each=None, total_messages=20, total_entries=10).most_acked(3)
        17
        """
        if self.total_messages is None or unacked_entries is None:
            return None
        return max(self.total_messages - unacked_entries, 0)

    def _acked_in(self, position: tuple[int, int], words: Sequence[int]) -> Bounds:
        """Count the acknowledged messages of one entry; a set bit in `words` is an unacknowledged message.

        `Partials.cursors` has the same count for the batches of many cursors (`acked_in_batches` in Rust).
        """
        unacked = from_words(words)
        unacked_count, highest = unacked.bit_count(), last_unacked(unacked)
        size = self.of.get(position, self.each)
        if size is not None and size > max(highest, 1):
            return Bounds(size - unacked_count, size - unacked_count)
        # The words end at the last unacknowledged message, so they do not show the size of the batch. An ack
        # set exists only if at least one message was acknowledged.
        return Bounds(max(highest + 1 - unacked_count, 1), None)
