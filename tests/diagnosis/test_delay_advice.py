"""`advise` on delays whose answer is known, and the worked example of apache/pulsar#23611's author."""

from __future__ import annotations

import numpy as np
import pytest

from ackwell import TimeBuckets, TimeWheel
from ackwell.diagnosis.delay_advice import advise, entropy_bound_bytes


def test_a_fixed_delay_costs_nothing_and_needs_no_wide_bucket() -> None:
    advice = advise(np.full(200_000, 3_600_000), 1_023, messages_per_second=10_000)
    assert advice.entropy_bound_bytes == 0
    assert advice.exact_wheel_bytes_per_message < 0.02
    assert [width.bits for width in advice.widths] == list(range(11))
    assert advice.recommended == "TimeWheel(1)"


@pytest.mark.slow
def test_scattered_delays_ask_for_the_wheel_near_its_bound() -> None:
    week = np.random.default_rng(1).integers(0, 7 * 86_400_000, 300_000)
    advice = advise(week, 1_000)
    assert advice.entropy_bound_bytes == pytest.approx(2.40, abs=0.03)
    assert advice.exact_entropy_bound_bytes == pytest.approx(3.65, abs=0.03)
    assert advice.wheel_bytes_per_message < 3.1
    assert advice.exact_wheel_bytes_per_message < 4.5
    assert advice.bytes_per_message > 24
    assert advice.recommended == "TimeWheel(1000)"


def test_the_share_that_is_delayed_is_part_of_the_bound() -> None:
    advice = advise(np.full(10_000, 5_000), 0, delayed_share=0.1)
    assert advice.entropy_bound_bytes == pytest.approx(4.69 / 8, abs=0.01)


@pytest.mark.parametrize(
    ("delays", "options"),
    [
        ([], {}),
        ([-1], {}),
        ([1], {"tolerance": -1}),
        ([1], {"delayed_share": 0}),
        ([1], {"messages_per_second": 0}),
        ([2**62], {}),
    ],
    ids=str,
)
def test_what_is_no_delay_or_rate_is_refused(delays: list[int], options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least|above"):
        advise(delays, **{"tolerance": 100, **options})  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_worked_example_of_the_buckets_author() -> None:
    """8.64 M batches of one day, 10,000 messages/s in batches of 100: 198 MB a subscription as a heap.

    24 bytes each are 207.36 MB = 197.75 MiB, which the author rounds to 198; two subscriptions take 396.
    """
    batches = 8_640_000
    assert round(batches * 24 / 2**20) == 198
    number = np.arange(batches)
    columns = 1_700_000_000_000 + number * 10, number // 50_000, number % 50_000
    buckets, wheel = TimeBuckets(10), TimeWheel(1)
    assert batches == buckets.add_many(*columns) == wheel.add_many(*columns)
    # The exact wheel keeps in a few kB what the heap keeps in 198 MiB.
    assert wheel.nbytes < 10_000
    # A bucket of 1,024 ms holds a range of 102 batches: 84,375 buckets of 100 bytes.
    assert buckets.nbytes < 10 * 2**20
    assert wheel.to_arrays()[0].tolist() == columns[0].tolist()


def test_the_bounds_are_of_the_tick_and_of_a_millisecond() -> None:
    delays = np.random.default_rng(1).integers(0, 10_000_000, 2_000)
    advice = advise(delays, 1_023, delayed_share=0.5)
    assert advice.exact_entropy_bound_bytes == entropy_bound_bytes(delays, 1, 0.5)
    assert advice.entropy_bound_bytes < advice.exact_entropy_bound_bytes
    assert entropy_bound_bytes(delays, 2, 0.5) == pytest.approx(advice.exact_entropy_bound_bytes - 1 / 8)
