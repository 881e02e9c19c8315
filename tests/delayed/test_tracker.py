"""The tracker over each index; regression tests for the bugs of Pulsar's trackers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackwell import LimitError, TimeBuckets, TimeWheel, TripleLongHeap
from ackwell.delayed import DelayedDeliveryTracker, DelayedIndex
from tests import reference

TICK_MS = 1_000
INDEXES: dict[str, Callable[[], DelayedIndex]] = {
    "heap": TripleLongHeap,
    "buckets": lambda: TimeBuckets(9),
    "buckets, rounded up": lambda: TimeBuckets(9, "round_up"),
    "buckets, due at their end": lambda: TimeBuckets(9, "bucket_end"),
    "wheel": lambda: TimeWheel(1),
    "wheel of seconds": lambda: TimeWheel(1_000),
    "reference heap": reference.TripleLongHeap,
    "reference wheel": lambda: reference.TimeWheel(1),
}
every_index = pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES.keys())


def tracker_over(make: Callable[[], DelayedIndex], **options: Any) -> DelayedDeliveryTracker:
    return DelayedDeliveryTracker(make(), **options)


@every_index
def test_a_message_already_due_is_not_tracked(make: Callable[[], DelayedIndex]) -> None:
    tracker = tracker_over(make, strict=True)
    assert not tracker.add(1_000, 3, 15, now_ms=1_000)
    assert tracker.add(1_001, 3, 15, now_ms=1_000)
    assert len(tracker) == 1


def test_the_lenient_cut_off_is_one_tick_ahead() -> None:
    tracker = DelayedDeliveryTracker(tick_time_ms=TICK_MS, strict=False)
    assert not tracker.add(11_000, 3, 15, now_ms=10_000)
    assert tracker.add(11_001, 3, 15, now_ms=10_000)
    assert tracker.next_wakeup_ms() == 10_001
    assert not tracker.has_due(10_000)
    assert tracker.has_due(10_001)


def test_the_strict_cut_off_is_now() -> None:
    tracker = DelayedDeliveryTracker(strict=True)
    assert tracker.add(10_001, 3, 15, now_ms=10_000)
    assert tracker.next_wakeup_ms() == 10_001
    assert not len(tracker.pop_due(10_000, 10)[0])
    assert len(tracker.pop_due(10_001, 10)[0]) == 1
    assert tracker.next_wakeup_ms() is None


def test_an_index_that_rounds_up_implies_the_strict_cut_off() -> None:
    assert DelayedDeliveryTracker(TimeBuckets(9, "round_up")).strict
    assert not DelayedDeliveryTracker(TimeBuckets(9)).strict
    with pytest.raises(ValueError, match="strict"):
        DelayedDeliveryTracker(TimeBuckets(9, "round_up"), strict=False)


PULSAR_TRACKERS = {
    # deliver_at_ms of a message added at 0, and the first ms at which 4.2.4's arithmetic has it due
    # (InMemoryDelayedDeliveryTracker.roundTimestamp and getBucketCutoffTime, tick 1,000 ms, 512 ms buckets).
    True: {1: 512, 512: 512, 513: 1024, 10_000: 10_240, 10_240: 10_240, 10_241: 10_752},
    False: {1_001: 23, 1_023: 23, 1_024: 535, 10_000: 9_239, 10_239: 9_239, 10_240: 9_751},
}


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_the_tracker_of_pulsar_is_due_when_4_2_4_is(strict: bool) -> None:
    for deliver_at_ms, due_ms in PULSAR_TRACKERS[strict].items():
        tracker = DelayedDeliveryTracker.pulsar(strict=strict)
        assert tracker.add(deliver_at_ms, 3, 15, now_ms=0)
        assert tracker.next_wakeup_ms() == due_ms
        assert not tracker.has_due(due_ms - 1)
        assert tracker.has_due(due_ms)
        early_ms = deliver_at_ms - due_ms
        assert (-511 <= early_ms <= 0) if strict else (489 <= early_ms <= 1_000)


@every_index
def test_the_same_position_counts_once(make: Callable[[], DelayedIndex]) -> None:
    """Also apache/pulsar#25076: the count ran ahead of the map, and dispatch met an empty one."""
    tracker = tracker_over(make, strict=True)
    for time in (5_000, 5_000, 9_000):
        assert tracker.add(time, 3, 15, now_ms=0)
    assert tracker.add_many([5_000, 6_000, 6_000], [3, 3, 3], [15, 16, 16], now_ms=0).all()
    assert len(tracker) == 2
    tracker.validate()
    _, ledgers, entries = tracker.pop_due(20_000, 10)
    assert list(zip(ledgers.tolist(), entries.tolist(), strict=True)) == [(3, 15), (3, 16)]
    assert len(tracker) == 0
    assert not tracker.has_due(10**12)


def test_a_message_that_waits_and_is_due_goes_to_whoever_reads_it() -> None:
    """apache/pulsar#26230: a message in the index was skipped by the reader and never popped."""
    tracker = DelayedDeliveryTracker(strict=True)
    assert tracker.add(5_000, 3, 15, now_ms=0)
    assert not tracker.add(5_000, 3, 15, now_ms=6_000)
    assert not tracker.contains(3, 15)
    assert len(tracker.pop_due(6_000, 10)[0]) == 0
    # The message may be read again with another delivery time.
    tracker.add_many([7_000, 9_000], [3, 3], [14, 15], now_ms=6_000)
    assert not tracker.add(6_500, 3, 15, now_ms=6_800)
    assert list(tracker.index) == [(7_000, 3, 14)]
    tracker.validate()


@every_index
def test_counter_and_positions_agree_whatever_is_taken_out(
    make: Callable[[], DelayedIndex],
) -> None:
    """apache/pulsar#26251: counter and deduplication bitmap diverged for filtered and popped messages."""
    tracker = tracker_over(make, strict=True)
    tracker.add_many(np.arange(100) * 100 + 50_000, np.full(100, 3), np.arange(100), now_ms=0)
    for entry in range(0, 100, 3):
        assert tracker.remove(entry * 100 + 50_000, 3, entry)
        assert not tracker.remove(entry * 100 + 50_000, 3, entry)
    tracker.pop_due(52_000, 7)
    tracker.validate()
    while len(tracker):
        tracker.pop_due(10**9, 10)
        tracker.validate()
    assert not any(tracker.contains(3, entry) for entry in range(100))


@every_index
def test_popping_in_small_batches_skips_and_repeats_nothing(
    make: Callable[[], DelayedIndex],
) -> None:
    """apache/pulsar#19615: merged parts were recorded a second time."""
    tracker = tracker_over(make, strict=True)
    entries = np.arange(3_000)
    tracker.add_many(entries * 7_919 % 60_000 + 100_000, entries // 1_000, entries, now_ms=0)
    seen: list[int] = []
    later = False
    for now_ms in range(100_000, 170_000, 500):
        while len(batch := tracker.pop_due(now_ms, 13)[2]):
            seen += batch.tolist()
            if len(seen) > 1_500 and not later:  # Messages keep coming while others leave.
                tracker.add_many([165_000] * 10, [9] * 10, range(10), now_ms)
                later = True
    assert sorted(seen) == sorted([*entries.tolist(), *range(10)])


def test_a_saved_index_is_tracked_at_once() -> None:
    """apache/pulsar#26103: recovery of the index blocked the dispatcher; here it is one call on bytes."""
    before = DelayedDeliveryTracker(TimeWheel(1), strict=True)
    before.add_many(np.arange(1_000) + 5_000, np.full(1_000, 3), np.arange(1_000), now_ms=0)
    assert isinstance(before.index, TimeWheel)
    after = DelayedDeliveryTracker(TimeWheel.from_bytes(before.index.to_bytes()), strict=True)
    assert after.add(5_010, 3, 10, now_ms=0)
    assert len(after) == 1_000
    after.validate()


def test_a_position_twice_in_a_given_index_is_tracked_once() -> None:
    heap = TripleLongHeap.from_arrays([5, 6, 7], [1, 1, 1], [2, 2, 3])
    tracker = DelayedDeliveryTracker(heap, strict=True)
    assert list(tracker.index) == [(5, 1, 2), (7, 1, 3)]


@every_index
def test_an_early_bucket_is_not_offered_again_and_again(make: Callable[[], DelayedIndex]) -> None:
    """apache/pulsar#26012, #26188: a message was popped early and added back, and its wake-up was lost."""
    tracker = tracker_over(make, strict=True)
    tracker.add(5_500, 3, 15, now_ms=0)
    for now_ms in range(5_000, 6_100, 50):
        if tracker.has_due(now_ms):
            for time, ledger, entry in zip(*tracker.pop_due(now_ms, 10), strict=True):
                if now_ms < 5_500:
                    tracker.add(5_500, int(ledger), int(entry), now_ms)
                assert time <= now_ms
        wakeup = tracker.next_wakeup_ms()
        assert (wakeup is None) == (len(tracker) == 0)
    assert len(tracker) == 0


def test_the_memory_reported_is_what_is_allocated() -> None:
    """apache/pulsar#23699: the memory estimate included only the bitmaps and was ten times too small."""
    tracker = DelayedDeliveryTracker(TimeBuckets(9))
    random = np.random.default_rng(3)
    times = random.integers(10**9, 2 * 10**9, 20_000)
    tracker.add_many(times, np.arange(20_000) // 5_000, np.arange(20_000), now_ms=0)
    # One message in each bucket takes at least a key, a ledger and a range (the allocator test is in Rust).
    assert tracker.nbytes > 20_000 * 50
    tracker.clear()
    assert tracker.nbytes == 0


def test_fixed_delays_pause_dispatch_until_one_is_due() -> None:
    tracker = DelayedDeliveryTracker(strict=True, fixed_delay_lookahead=100)
    for entry in range(99):
        tracker.add(10_000 + entry, 3, entry, now_ms=entry)
    assert not tracker.should_pause_dispatch(99)
    tracker.add(10_099, 3, 99, now_ms=99)
    assert tracker.should_pause_dispatch(99)
    assert not tracker.should_pause_dispatch(10_000)
    tracker.add(10_099 - TICK_MS, 3, 100, now_ms=99)
    assert tracker.should_pause_dispatch(99), "jitter within a tick is still one delay"
    tracker.add(10_098 - TICK_MS, 3, 101, now_ms=99)
    assert not tracker.should_pause_dispatch(99)
    tracker.pop_due(20_000, 1_000)
    tracker.add_many(range(30_000, 30_100), [3] * 100, range(200, 300), now_ms=20_000)
    assert tracker.should_pause_dispatch(20_000), "an empty tracker starts anew"


def test_the_times_of_a_batch_count_for_the_fixed_delay() -> None:
    tracker = DelayedDeliveryTracker(strict=True, fixed_delay_lookahead=1)
    tracker.add_many([10_000, 9_999 - TICK_MS], [3, 3], [0, 1], now_ms=0)
    assert not tracker.waits_for_fixed_delay


@pytest.mark.parametrize(
    "empty", [lambda tracker: tracker.pop_due(10_000, 9), lambda tracker: tracker.clear()]
)
def test_an_empty_tracker_forgets_the_latest_time(empty: Callable[[DelayedDeliveryTracker], object]) -> None:
    tracker = DelayedDeliveryTracker(strict=True, fixed_delay_lookahead=1)
    tracker.add_many([10_000, 10_000 - 2 * TICK_MS], [3, 3], [0, 1], now_ms=0)
    assert not tracker.waits_for_fixed_delay
    empty(tracker)
    tracker.add(10_000 - 2 * TICK_MS, 3, 2, now_ms=0)
    assert tracker.waits_for_fixed_delay


def test_a_refused_message_does_not_end_the_fixed_delay() -> None:
    tracker = DelayedDeliveryTracker(strict=True, fixed_delay_lookahead=1)
    tracker.add(100_000, 3, 0, now_ms=0)
    tracker.max_bytes = 0
    with pytest.raises(LimitError):
        tracker.add(50_000, 3, 1, now_ms=0)
    assert tracker.waits_for_fixed_delay


@pytest.mark.parametrize("batch", [False, True])
def test_a_message_that_is_due_ends_the_pause_until_the_tracker_is_empty(*, batch: bool) -> None:
    """Pulsar 4.2.4 delivered 30 of 30 messages after fixed delays once one message was undelayed or due."""
    tracker = DelayedDeliveryTracker(strict=True, fixed_delay_lookahead=2)
    for entry in range(3):
        tracker.add(10_000 + entry, 3, entry, now_ms=0)
    assert tracker.should_pause_dispatch(0)
    if batch:
        assert not tracker.add_many([0], [3], [9], now_ms=0).any()
    else:
        assert not tracker.add(0, 3, 9, now_ms=0)
    assert not tracker.should_pause_dispatch(0)
    tracker.add(10_003, 3, 10, now_ms=3)
    assert not tracker.should_pause_dispatch(3)
    tracker.pop_due(20_000, 10)
    tracker.add_many([30_000, 30_000], [3, 3], [11, 12], now_ms=20_000)
    assert tracker.should_pause_dispatch(20_000)


def test_no_look_ahead_never_pauses() -> None:
    tracker = DelayedDeliveryTracker()
    tracker.add(10_000, 3, 1, now_ms=0)
    assert not tracker.should_pause_dispatch(0)


@every_index
@pytest.mark.parametrize("max_bytes", [0, 5_000, 100_000, 300_000])
def test_the_limit_is_hard_and_delivers_nothing_early(
    make: Callable[[], DelayedIndex], max_bytes: int
) -> None:
    tracker = tracker_over(make, strict=True, max_bytes=max_bytes)
    random = np.random.default_rng(1)
    tracked = 0

    def fill() -> None:
        nonlocal tracked
        for time in random.integers(10**9, 10**12, 200_000).tolist():
            tracker.add(time, tracked % 7, tracked * 3, now_ms=0)
            tracked += 1
            if tracked % 100 == 0:
                assert tracker.nbytes <= max_bytes

    with pytest.raises(LimitError, match=f"{max_bytes} bytes"):
        fill()
    assert tracker.nbytes <= max_bytes
    assert tracked == len(tracker)
    tracker.validate()
    with pytest.raises(LimitError):
        tracker.add(10**9, 99, 99, now_ms=0)
    assert not tracker.has_due(10**9 - 1_000)
    if tracked:
        freed = len(tracker.pop_due(10**13, 10**6)[0])
        assert tracked == freed
        assert tracker.add(10**14, 99, 99, now_ms=0), "what was freed can be used again"


@pytest.mark.parametrize(
    "free",
    [
        lambda tracker: tracker.remove(5_000, 3, 0),
        lambda tracker: tracker.add(5_000, 3, 0, now_ms=5_000),
        lambda tracker: tracker.add_many([5_000], [3], [0], now_ms=5_000),
        lambda tracker: tracker.pop_due(5_000, 1),
        lambda tracker: tracker.clear(),
    ],
    ids=["removed", "read again when due", "read again in a batch", "popped", "cleared"],
)
def test_what_leaves_a_full_tracker_makes_room(free: Callable[[DelayedDeliveryTracker], object]) -> None:
    tracker = tracker_over(TripleLongHeap, strict=True)
    tracker.add(5_000, 3, 0, now_ms=0)
    tracker.index.shrink_to_fit()
    tracker.max_bytes = tracker.nbytes
    with pytest.raises(LimitError):
        tracker.add(6_000, 3, 1, now_ms=0)
    free(tracker)
    assert not tracker.contains(3, 0)
    assert tracker.add(6_000, 3, 0, now_ms=0)
    assert len(tracker) == 1
    tracker.validate()


def test_unused_memory_is_released_before_a_message_is_refused() -> None:
    tracker = tracker_over(TripleLongHeap, strict=True)
    tracker.add_many(np.arange(1_000) + 1, np.full(1_000, 3), np.arange(1_000), now_ms=0)
    tracker.index.shrink_to_fit()
    tracker.max_bytes = tracker.nbytes + 1_000
    assert tracker.add(20_000, 3, 1_000, now_ms=0)
    assert tracker.nbytes <= tracker.max_bytes


def test_a_full_tracker_takes_a_batch_that_adds_nothing() -> None:
    tracker = tracker_over(TripleLongHeap, strict=True)
    tracker.add_many([5_000, 6_000], [3, 3], [0, 1], now_ms=0)
    tracker.max_bytes = 0
    with pytest.raises(LimitError, match="1 more"):
        tracker.add(7_000, 3, 2, now_ms=0)
    assert tracker.add_many([5_000, 6_000], [3, 3], [0, 1], now_ms=5_000).tolist() == [False, True]
    assert list(tracker.index) == [(6_000, 3, 1)]
    tracker.validate()


def test_a_message_that_the_index_refuses_does_not_wait() -> None:
    class Refusing:
        """An index that refuses every message."""

        def __len__(self) -> int:
            return 0

        def add(self, *_: int) -> bool:
            raise MemoryError

    tracker = DelayedDeliveryTracker(Refusing())  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        tracker.add(10**6, 3, 0, now_ms=0)
    assert not tracker.contains(3, 0)


def test_a_batch_over_the_limit_changes_nothing() -> None:
    tracker = DelayedDeliveryTracker(strict=True, max_bytes=50_000)
    tracker.add(5_000, 1, 1, now_ms=0)
    random = np.random.default_rng(1)
    times = random.integers(10**9, 10**12, 100_000)
    with pytest.raises(LimitError):
        tracker.add_many(times, np.full(len(times), 2), np.arange(len(times)), now_ms=0)
    assert list(tracker.index) == [(5_000, 1, 1)]
    tracker.validate()
    assert tracker.add(6_000, 1, 2, now_ms=0)


@pytest.mark.parametrize(
    "options", [{"tick_time_ms": 0}, {"max_bytes": -1}, {"fixed_delay_lookahead": -1}], ids=str
)
def test_settings_outside_their_domain_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        DelayedDeliveryTracker(**options)  # type: ignore[arg-type]


def test_negative_ids_and_columns_of_different_lengths_change_nothing() -> None:
    tracker = DelayedDeliveryTracker()
    with pytest.raises(ValueError, match="at least 0"):
        tracker.add(10**6, -1, 0, now_ms=0)
    with pytest.raises(ValueError, match="at least 0"):
        tracker.add_many([10**6, 10**6], [1, 1], [1, -1], now_ms=0)
    with pytest.raises(ValueError, match="at least 0"):
        tracker.add_many([10**6, 0], [1, 1], [1, -1], now_ms=0)
    for columns in (([10**6] * 2, [1], [1]), ([10**6], [1] * 2, [1]), ([10**6], [1], [1] * 2)):
        with pytest.raises(ValueError, match="length"):
            tracker.add_many(*columns, now_ms=0)
    assert len(tracker) == 0


@pytest.mark.parametrize("index", [TimeBuckets(9), TimeWheel(1)], ids=["buckets", "wheel"])
def test_an_index_accepts_the_least_position_and_refuses_negative_ids(index: DelayedIndex) -> None:
    index = copy.copy(index)
    for ledger_id, entry_id in ((-1, 0), (0, -1), (-1, -1)):
        with pytest.raises(ValueError, match="at least 0"):
            index.add(1_000, ledger_id, entry_id)
        with pytest.raises(ValueError, match="at least 0"):
            index.add_many([1_000], [ledger_id], [entry_id])
    assert len(index) == 0
    assert index.add(1_000, 0, 0)
    assert index.add_many([5_000], [0], [0]) == 1


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 2**70, -(2**70)])
def test_a_time_beyond_int64_is_refused_also_where_it_would_be_due(time: int) -> None:
    tracker = DelayedDeliveryTracker()
    tracker.add(10**6, 1, 0, now_ms=0)
    with pytest.raises(ValueError, match="expected an int64"):
        tracker.add(time, 1, 0, now_ms=0)
    assert list(tracker.index) == [(10**6, 1, 0)]


class TrackerMachine(RuleBasedStateMachine):
    """A tracker over an exact index against a dict of position → time; the clock never goes back."""

    @initialize(make=st.sampled_from(list(INDEXES.values())), strict=st.booleans())
    def create(self, make: Callable[[], DelayedIndex], strict: bool) -> None:
        index = make()
        rounds_up = getattr(index, "mode", "") == "round_up"
        self.tracker = DelayedDeliveryTracker(index, tick_time_ms=50, strict=strict or rounds_up)
        self.rounded = getattr(reference, type(index).__name__)
        arguments = [getattr(index, name) for name in ("bits", "mode", "tick_ms") if hasattr(index, name)]
        self.twin = self.rounded(*arguments)
        self.waiting: dict[tuple[int, int], int] = {}
        self.now_ms = 1_000

    @rule(delay=st.integers(-100, 5_000), ledger=st.integers(0, 2), entry=st.integers(0, 30))
    def add(self, delay: int, ledger: int, entry: int) -> None:
        time = self.now_ms + delay
        waits = time > self.tracker.cutoff(self.now_ms)
        assert waits == self.tracker.add(time, ledger, entry, self.now_ms)
        if waits:
            self.waiting.setdefault((ledger, entry), time)
        else:
            self.waiting.pop((ledger, entry), None)

    @rule(step=st.integers(0, 1_500), count=st.integers(0, 20))
    def pop(self, step: int, count: int) -> None:
        self.now_ms += step
        due = self.tracker.pop_due(self.now_ms, count)
        expected = sorted(
            (self.twin._rounded(time), *position)
            for position, time in self.waiting.items()
            if self.twin._rounded(time) <= self.tracker.cutoff(self.now_ms)
        )[:count]
        assert expected == list(zip(*(column.tolist() for column in due), strict=True))
        for _, ledger, entry in expected:
            del self.waiting[ledger, entry]

    @rule()
    def clear(self) -> None:
        self.tracker.clear()
        self.waiting.clear()

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "tracker"):
            return
        self.tracker.validate()
        assert len(self.waiting) == len(self.tracker)
        times = [self.twin._rounded(time) for time in self.waiting.values()]
        lead = 0 if self.tracker.strict else 50
        assert self.tracker.next_wakeup_ms() == (min(times) - lead if times else None)


TestTracker = TrackerMachine.TestCase
TestTracker.settings = settings(stateful_step_count=30)


@every_index
def test_a_position_that_is_twice_in_a_batch_or_there_already_waits_once(
    make: Callable[[], DelayedIndex],
) -> None:
    for batch in ([1, 1], [1, 2, 1], [3, 1, 2]):
        tracker = tracker_over(make, strict=True)
        tracker.add(5_000, 3, 3, 0)
        tracker.add_many([5_000] * len(batch), [3] * len(batch), batch, 0)
        assert sorted(entry_id for _, _, entry_id in tracker.index) == sorted({*batch, 3})
        assert len(tracker) == len({*batch, 3})


def test_times_reach_from_the_least_int64_to_the_greatest() -> None:
    tracker = DelayedDeliveryTracker(TripleLongHeap(), strict=True)
    least, greatest = -(2**63), 2**63 - 1
    assert tracker.cutoff(np.int64(least)) == least  # type: ignore[arg-type]
    assert not tracker.add(least, 3, 0, now_ms=least)
    assert tracker.add(greatest, 3, 0, now_ms=greatest - 1)
    assert tracker.add(np.int64(greatest), 3, 1, now_ms=np.int64(least))  # type: ignore[arg-type]
    assert tracker.next_wakeup_ms() == greatest
    assert not tracker.has_due(greatest - 1)
    assert len(tracker.pop_due(greatest, 10)[0]) == 2


def test_after_a_refused_message_nothing_is_tried_until_memory_is_freed() -> None:
    class Counting(reference.TripleLongHeap):
        tried = 0

        def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
            self.tried += 1
            return super().add(deliver_at_ms, ledger_id, entry_id)

    index = Counting()
    tracker = DelayedDeliveryTracker(index, strict=True)
    assert tracker.add(10, 3, 0, now_ms=0)
    tracker.max_bytes = 0
    tried = index.tried
    for _ in range(5):
        with pytest.raises(LimitError, match=r"^1 more delayed messages would exceed"):
            tracker.add(11, 3, 1, now_ms=0)
    assert index.tried == tried + 1
    assert (len(tracker), tracker.contains(3, 1), tracker.contains(3, 2)) == (1, False, False)
    # A batch may exceed the limit although a single message does not.
    tracker = DelayedDeliveryTracker(TripleLongHeap(), strict=True)
    tracker.max_bytes = tracker.nbytes
    with pytest.raises(LimitError, match=r"^2 more delayed messages would exceed \d+ bytes, 0 wait; "):
        tracker.add_many([11, 12], [3, 3], [1, 2], now_ms=0)
    assert not tracker._full
    # A removed message frees memory, so an add is tried again.
    tracker = DelayedDeliveryTracker(index, strict=True, max_bytes=0)
    for free in (lambda: tracker.remove(10, 3, 0), lambda: tracker.clear()):
        with pytest.raises(LimitError):
            tracker.add(11, 3, 1, now_ms=0)
        tried = index.tried
        free()
        with pytest.raises(LimitError):
            tracker.add(11, 3, 1, now_ms=0)
        assert index.tried == tried + 1
        tracker.max_bytes = None
        tracker.add(10, 3, 0, now_ms=0)
        tracker.max_bytes = 0


def test_a_cleared_tracker_is_a_new_one() -> None:
    tracker, new = (DelayedDeliveryTracker(max_bytes=1 << 20, fixed_delay_lookahead=2) for _ in range(2))
    for deliver_at_ms in (5_000, 3_000, 100):
        tracker.add(deliver_at_ms, 3, deliver_at_ms, now_ms=1_000)
    assert tracker != new
    tracker.clear()
    assert tracker == new
