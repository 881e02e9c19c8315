"""Delayed delivery: the waiting messages, and the times at which they may be dispatched.

`DelayedIndex` is the protocol of the three structures that can hold the waiting messages:

===================  ==================================  ==========================================
structure            delivery times                      bytes for each message
===================  ==================================  ==========================================
`TripleLongHeap`     exact                               8 to 9, or 24 if it cannot be packed
`TimeBuckets(bits)`  within `2**bits` ms, early or late  0.1 or less for a fixed delay, 100 or more
                                                         if the times are scattered
`TimeWheel(tick)`    rounded up to a tick; a tick of     0.0004 for a fixed delay, 2.7 to 4.1 if
                     1 ms is exact                       the times are scattered
===================  ==================================  ==========================================

`DelayedDeliveryTracker` adds the operations that a dispatcher needs, like Apache Pulsar's trackers;
`DelayedDeliveryTracker.pulsar` is the tracker of Pulsar 4.2.4. Callers pass the current time as `now_ms`,
because this module has no clock and no timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, Self

from ackwell._native import PositionRangeSet, TimeBuckets, TimeWheel
from ackwell.equality import EqualByState
from ackwell.errors import LimitError
from ackwell.integers import INT64_MAX, INT64_MIN, check_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# Pulsar's delayedDeliveryTickTimeMillis and delayedDeliveryFixedDelayDetectionLookahead.
TICK_TIME_MS = 1000
FIXED_DELAY_LOOKAHEAD = 50_000

# Memory is measured only if the adds since the last measurement may have reached the limit. On average, an
# add takes at most this many bytes. A single message in a new bucket of a new ledger takes 700 bytes.
BYTES_PER_ADD_MAX = 2048
# If less than this number of bytes is left to the limit, memory is measured after each add.
BYTES_NEAR_LIMIT = 256 * 1024


class DelayedIndex(Protocol):
    """The protocol of an index of delayed messages. Three native classes implement and document it."""

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Add a message with its delivery time; return whether it was new."""

    def add_many(self, deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Add messages, given as three columns; return the number of new messages."""

    def pop_due(
        self,
        now_ms: int,
        max: int,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove and return up to `max` messages that are due at `now_ms`, the earliest first.

        The three columns are delivery times, ledger ids and entry ids.
        """

    def contains(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether the index has a message that was added with these three integers."""

    def remove(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Remove the message that was added with these three integers; return whether the index had it."""

    def has_due(self, now_ms: int) -> bool:
        """Return whether any message is due at `now_ms`."""

    def next_due(self) -> int | None:
        """Return the time at which the earliest message is due, as rounded by the index; None if empty."""

    def clear(self) -> None:
        """Remove all messages."""

    def shrink_to_fit(self) -> None:
        """Release unused memory."""

    def copy(self) -> Self:
        """Return an independent copy."""

    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return all messages as three columns, in the order of `pop_due`."""

    def validate(self) -> None:
        """Check the invariants of the structure."""

    @property
    def nbytes(self) -> int:
        """The number of bytes that are allocated on the heap."""

    def __len__(self) -> int:
        """Return the number of messages."""

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield `(deliver_at_ms, ledger_id, entry_id)` of each message, in the order of `pop_due`."""


class DelayedDeliveryTracker(EqualByState):
    """The delayed messages of one subscription, stored in a `DelayedIndex`.

    Only one thread may use it at a time.

    Parameters
    ----------
    index : DelayedIndex, optional
        The structure that stores the waiting messages. Its bucket width determines the precision. The
        default, `TimeWheel(1)`, is exact and takes the least memory. The tracker owns the index from then on,
        and tracks the messages that the index already has.
    tick_time_ms : int
        Pulsar's `delayedDeliveryTickTimeMillis`, at least 1.
    strict : bool, optional
        If true, a message is due if its time is at or before `now_ms`. If false, Pulsar's default, a message
        is due if its time is at or before `now_ms + tick_time_ms`. If the index rounds times up, the default
        is true, and False raises `ValueError`.
    max_bytes : int, optional
        The limit of `nbytes`. An add that would exceed it raises `LimitError` and changes nothing. No message
        is delivered early to free memory.
    fixed_delay_lookahead : int
        Pulsar's `delayedDeliveryFixedDelayDetectionLookahead`. If at least this many messages wait, all with
        the same delay, and none is due, `should_pause_dispatch` returns True, because messages that are read
        later are due later. With the default 0, it always returns False. A pause saves little memory, because
        the indexes need little memory for messages with one delay. A pause would also delay later messages
        that have no delay.

    Notes
    -----
    A position has one delivery time. If it is added again with another time while it waits, the first time
    stays. So a dispatcher may read and add a message again.

    Examples
    --------
    >>> tracker = DelayedDeliveryTracker(strict=True)
    >>> tracker.add(5_000, 3, 15, now_ms=1_000)
    True
    >>> tracker.add(900, 3, 16, now_ms=1_000)
    False
    >>> tracker.next_wakeup_ms(), tracker.has_due(4_999)
    (5000, False)
    >>> [column.tolist() for column in tracker.pop_due(5_000, 100)]
    [[5000], [3], [15]]
    """

    def __init__(
        self,
        index: DelayedIndex | None = None,
        *,
        tick_time_ms: int = TICK_TIME_MS,
        strict: bool | None = None,
        max_bytes: int | None = None,
        fixed_delay_lookahead: int = 0,
    ) -> None:
        if tick_time_ms < 1:
            raise ValueError(f"tick time is at least 1 ms, got {tick_time_ms}")
        if max_bytes is not None and max_bytes < 0:
            raise ValueError(f"max_bytes is at least 0, got {max_bytes}")
        if fixed_delay_lookahead < 0:
            raise ValueError(f"fixed_delay_lookahead is at least 0, got {fixed_delay_lookahead}")
        self.index: DelayedIndex = TimeWheel(1) if index is None else index
        rounds_up = getattr(self.index, "mode", None) == "round_up"
        if rounds_up and strict is False:
            raise ValueError("buckets that round up imply the strict cut-off; see mode 'bucket_end'")
        self.strict = rounds_up if strict is None else strict
        self.tick_time_ms = tick_time_ms
        self.max_bytes = max_bytes
        self.fixed_delay_lookahead = fixed_delay_lookahead
        self._positions = PositionRangeSet()
        self._fixed_delay = True
        self._latest_ms: int | None = None
        self._unmeasured = 0
        self._full = False
        if len(self.index):
            self._adopt()

    @classmethod
    def pulsar(
        cls,
        *,
        tick_time_ms: int = TICK_TIME_MS,
        strict: bool = False,
        fixed_delay_lookahead: int = FIXED_DELAY_LOOKAHEAD,
    ) -> Self:
        """Return the tracker of Pulsar 4.2.4 (`InMemoryDelayedDeliveryTracker`).

        Its buckets are `2**floor(log2(tick_time_ms))` ms wide. `strict` is the broker's
        `isDelayedDeliveryDeliverAtTimeStrict`. If true, delivery times are rounded up. A message is then
        never early, and it is late by less than the width of a bucket. If false, a bucket is due if its last
        millisecond is at or before `now_ms + tick_time_ms`. A message is then early by at most one tick.

        >>> tracker = DelayedDeliveryTracker.pulsar()
        >>> tracker.add(10_000, 3, 15, now_ms=0)
        True
        >>> tracker.next_wakeup_ms()
        9239
        """
        mode: Literal["round_up", "bucket_end"] = "round_up" if strict else "bucket_end"
        return cls(
            TimeBuckets.from_tick(tick_time_ms, mode),
            tick_time_ms=tick_time_ms,
            strict=strict,
            fixed_delay_lookahead=fixed_delay_lookahead,
        )

    def _adopt(self) -> None:
        """Track the messages that the index already has. Of several messages with one position, keep one."""
        held = self.index.to_arrays()
        if self._positions.add_many(held[1], held[2]) != len(held[0]):
            self._positions = PositionRangeSet()
            self.index.clear()
            for deliver_at_ms, ledger_id, entry_id in zip(*held, strict=True):
                if self._positions.add(ledger_id, entry_id):
                    self.index.add(deliver_at_ms, ledger_id, entry_id)

    def cutoff(self, now_ms: int) -> int:
        """Return the latest delivery time that is due at `now_ms`. All earlier times are due, too."""
        if now_ms.__class__ is not int:
            now_ms = check_int64("now_ms", now_ms)
        return now_ms if self.strict else now_ms + self.tick_time_ms

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, now_ms: int) -> bool:
        """Track a message, unless it is already due; return whether it is tracked.

        A message that is due may be dispatched now. If it was tracked, it is removed, because the caller
        dispatches it. Raises `ValueError` for negative ids, and `LimitError` if `max_bytes` would be
        exceeded.
        """
        if deliver_at_ms.__class__ is not int or not INT64_MIN <= deliver_at_ms <= INT64_MAX:
            deliver_at_ms = check_int64("deliver_at_ms", deliver_at_ms)
        if deliver_at_ms <= self.cutoff(now_ms):
            if self._positions.contains(ledger_id, entry_id):
                self._take_out(deliver_at_ms, ledger_id, entry_id)
                self._positions.remove(ledger_id, entry_id)
            self.note_undelayed()
            return False
        if not self._positions.contains(ledger_id, entry_id):
            self._track(deliver_at_ms, ledger_id, entry_id)
        return True

    def _track(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> None:
        measure = self.max_bytes is not None and not self._may_add(1)
        self._positions.add(ledger_id, entry_id)
        try:
            self.index.add(deliver_at_ms, ledger_id, entry_id)
        except BaseException:
            self._positions.remove(ledger_id, entry_id)
            raise
        if measure and self._exceeds_limit():
            self.index.remove(deliver_at_ms, ledger_id, entry_id)
            self._positions.remove(ledger_id, entry_id)
            self._refuse(1)
        self._see(deliver_at_ms)

    def add_many(
        self, deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike, now_ms: int
    ) -> NDArray[np.bool_]:
        """Track many messages, given as int64 arrays; return a boolean for each message.

        True means that the message is tracked, False that it is already due. A call that raises `LimitError`
        or `ValueError` changes nothing.
        """
        from ackwell.arrays import as_int64, same_length

        times, ledgers, entries = as_int64(deliver_at_ms), as_int64(ledger_ids), as_int64(entry_ids)
        same_length(times, ledgers, entries)
        waits = times > self.cutoff(now_ms)
        if min(ledgers.min(initial=0), entries.min(initial=0)) < 0:
            raise ValueError("ledger and entry ids are at least 0")
        before = None
        if self.max_bytes is not None:
            # Messages that are already tracked or due need no memory, so they do not count for the limit.
            count = int((~self._positions.contains_many(ledgers[waits], entries[waits])).sum())
            if count and not self._may_add(count):
                before = self.index.copy(), self._positions.copy()
        if not self._add_new(times[waits], ledgers[waits], entries[waits]):
            # In this rare case, a position is already tracked, or is in the batch twice.
            for time, ledger, entry in zip(
                times[waits].tolist(), ledgers[waits].tolist(), entries[waits].tolist(), strict=True
            ):
                if self._positions.add(ledger, entry):
                    self.index.add(time, ledger, entry)
        if before is not None and self._exceeds_limit():
            self.index, self._positions = before
            self._refuse(count)
        for time in times[waits].tolist() if self._fixed_delay else ():
            self._see(time)
        for time, ledger, entry in zip(
            times[~waits].tolist(), ledgers[~waits].tolist(), entries[~waits].tolist(), strict=True
        ):
            self.add(time, ledger, entry, now_ms)
        return waits

    def _add_new(
        self, times: NDArray[np.int64], ledgers: NDArray[np.int64], entries: NDArray[np.int64]
    ) -> bool:
        """Add messages if all their positions are untracked and distinct. Return whether they were added."""
        if self._positions.contains_many(ledgers, entries).any():
            return False
        if self._positions.add_many(ledgers, entries) < len(entries):
            self._positions.remove_many(ledgers, entries)
            return False
        self.index.add_many(times, ledgers, entries)
        return True

    def _may_add(self, count: int) -> bool:
        """Return whether `count` further messages fit within the limit if each takes the maximum memory.

        If not, the caller adds the messages and then measures the memory. Raises `LimitError` if the tracker
        is full.
        """
        if self._full:
            self._refuse(count)
        if self._unmeasured < count:
            assert self.max_bytes is not None
            left = self.max_bytes - self.nbytes - BYTES_NEAR_LIMIT
            self._unmeasured = max(0, left) // BYTES_PER_ADD_MAX
        if self._unmeasured < count:
            return False
        self._unmeasured -= count
        return True

    def _exceeds_limit(self) -> bool:
        """Return whether the memory exceeds the limit, even after unused memory is released."""
        assert self.max_bytes is not None
        if self.nbytes <= self.max_bytes:
            return False
        self.index.shrink_to_fit()
        return self.nbytes > self.max_bytes

    def _refuse(self, count: int) -> None:
        self._full = count == 1 or self._full
        # Release the memory of the refused messages. This is needed only once, because no further add is
        # tried until messages leave.
        self.index.shrink_to_fit()
        self._positions = self._positions.copy()
        raise LimitError(
            f"{count} more delayed messages would exceed {self.max_bytes} bytes, {len(self)} wait; "
            "raise max_bytes, widen the buckets, or wait until some are due"
        )

    def note_undelayed(self) -> None:
        """Record that a message had no delay or was already due.

        `should_pause_dispatch` then returns False until the tracker is empty. `add` calls this method for due
        messages. A dispatcher calls it for messages that it does not add.
        """
        self._fixed_delay = False

    def _see(self, deliver_at_ms: int) -> None:
        """Record the delivery time of a new message, to find out whether all messages have the same delay.

        The delays differ if the new time is more than a tick before the latest recorded delivery time.
        """
        if self._latest_ms is None or deliver_at_ms > self._latest_ms:
            self._latest_ms = deliver_at_ms
        elif deliver_at_ms < self._latest_ms - self.tick_time_ms:
            self._fixed_delay = False

    def pop_due(
        self,
        now_ms: int,
        max: int,  # noqa: A002
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Remove and return up to `max` messages that are due, the earliest first.

        The three int64 arrays are delivery times (rounded as the index rounds them), ledger ids and entry
        ids.
        """
        due = self.index.pop_due(min(self.cutoff(now_ms), INT64_MAX), max)
        self._positions.remove_many(due[1], due[2])
        self._note_removed(len(due[0]))
        return due

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether the message at a position is tracked."""
        return self._positions.contains(ledger_id, entry_id)

    def remove(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> bool:
        """Remove a message before its delivery time; return whether it was tracked."""
        if not self.index.remove(deliver_at_ms, ledger_id, entry_id):
            return False
        self._positions.remove(ledger_id, entry_id)
        self._note_removed(1)
        return True

    def _take_out(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> None:
        """Remove a tracked message from the index.

        The index may have the message with another delivery time than `deliver_at_ms`.
        """
        if not self.index.remove(deliver_at_ms, ledger_id, entry_id):
            for time, ledger, entry in self.index:
                if (ledger, entry) == (ledger_id, entry_id):
                    self.index.remove(time, ledger, entry)
                    break
        self._note_removed(1)

    def _note_removed(self, count: int) -> None:
        if count:
            self._full = False
        if not len(self.index):
            self._fixed_delay, self._latest_ms = True, None

    def has_due(self, now_ms: int) -> bool:
        """Return whether any message is due at `now_ms`."""
        return self.index.has_due(min(self.cutoff(now_ms), INT64_MAX))

    def next_wakeup_ms(self) -> int | None:
        """Return the first `now_ms` at which a message is due, or None if no message waits.

        This time is in the past if a message is already due. A caller with a timer must set the timer again
        after every change.
        """
        due = self.index.next_due()
        return due if due is None or self.strict else due - self.tick_time_ms

    def should_pause_dispatch(self, now_ms: int) -> bool:
        """Return whether a dispatcher should not read further messages now.

        This is so if `waits_for_fixed_delay` is true and no message is due.
        """
        due = self.has_due(now_ms)
        return self.waits_for_fixed_delay and not due

    @property
    def waits_for_fixed_delay(self) -> bool:
        """Whether at least `fixed_delay_lookahead` messages wait, all with the same delay.

        Messages that are read later are then due later, so a dispatcher need not read now. Always False if
        `fixed_delay_lookahead` is 0.
        """
        return 0 < self.fixed_delay_lookahead <= len(self) and self._fixed_delay

    def clear(self) -> None:
        """Remove all messages, for example when the backlog is cleared or the cursor is reset."""
        self.index.clear()
        self._positions.clear()
        self._full, self._unmeasured = False, 0
        self._note_removed(1)

    @property
    def nbytes(self) -> int:
        """The heap bytes of the index and of the set of positions."""
        return self.index.nbytes + self._positions.nbytes

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        cutoff = "strict" if self.strict else f"lenient by {self.tick_time_ms} ms"
        return f"<DelayedDeliveryTracker over {self.index!r}, {cutoff}>"

    def validate(self) -> None:
        """Check the index and the set of positions. Both must have the same positions."""
        self.index.validate()
        self._positions.validate()
        _, ledgers, entries = self.index.to_arrays()
        assert self._positions.cardinality == len(self.index) == len(ledgers)
        assert bool(self._positions.contains_many(ledgers, entries).all())
