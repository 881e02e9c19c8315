"""The worked example of the author of Pulsar's delayed-message buckets (apache/pulsar#23611)."""

from __future__ import annotations

import numpy as np
import pytest

from ackwell import TimeBuckets, TimeWheel


@pytest.mark.slow
def test_batches_of_one_day_with_a_fixed_delay() -> None:
    """8.64 M batches: 10,000 messages/s in batches of 100, which take 198 MiB as a heap.

    24 bytes each are 207.36 MB = 197.75 MiB, which the author rounds to 198; two subscriptions take 396.
    """
    batches = 8_640_000
    assert round(batches * 24 / 2**20) == 198
    number = np.arange(batches)
    columns = 1_700_000_000_000 + number * 10, number // 50_000, number % 50_000
    buckets, wheel = TimeBuckets(10), TimeWheel(1)
    assert batches == buckets.add_many(*columns) == wheel.add_many(*columns)
    # The exact wheel needs a few kB instead of the 198 MiB of the heap.
    assert wheel.nbytes < 10_000
    # A bucket of 1,024 ms holds a range of 102 batches: 84,375 buckets of 100 bytes.
    assert buckets.nbytes < 10 * 2**20
    assert wheel.to_arrays()[0].tolist() == columns[0].tolist()
