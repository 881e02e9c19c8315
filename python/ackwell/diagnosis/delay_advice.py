"""Which bucket width a subscription's delays ask for, by building the indexes and weighing them.

The author of the buckets (apache/pulsar#23611) models their size by the number of messages a bucket; real
delays are jittered, so the model errs. Here a sample of the real delays is put into the structures
themselves, and the entropy of the delays says how far any index could still go.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

from ackwell._native import TimeBuckets, TimeWheel
from ackwell.integers import INT64_MAX

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# Delays beyond this are sampled evenly: what is weighed takes a second, and its bytes a message are stable.
SAMPLE_MAX = 500_000
# The more exact of two is preferred while it costs at most this many times the smaller.
WORTH_NARROWING = 1.1


@dataclass(frozen=True, slots=True)
class WidthAdvice:
    """What buckets of `2**bits` ms cost these delays."""

    bits: int
    width_ms: int
    buckets: int
    bytes_per_message: float


@dataclass(frozen=True, slots=True)
class DelayAdvice:
    """What `advise` found; bytes are heap bytes a message, measured on a sample.

    Attributes
    ----------
    bits : int
        The recommended width of `TimeBuckets`: the narrowest within a tenth of the smallest.
    bytes_per_message : float
        What that width costs.
    widths : tuple of WidthAdvice
        Every width that the tolerance allows, the narrowest first.
    wheel_bytes_per_message, exact_wheel_bytes_per_message : float
        What `TimeWheel` costs with ticks of `tolerance_ms`, and exact to the millisecond.
    heap_bytes_per_message : float
        What a heap costs: three int64.
    entropy_bound_bytes, exact_entropy_bound_bytes : float
        The fewest bytes any index needs on average, with that tick and to the millisecond.
    recommended : str
        The constructor call to use: the buckets, unless the wheel takes less than half of them.
    """

    tolerance_ms: int
    messages: int
    bits: int
    bytes_per_message: float
    widths: tuple[WidthAdvice, ...]
    wheel_bytes_per_message: float
    exact_wheel_bytes_per_message: float
    heap_bytes_per_message: float
    entropy_bound_bytes: float
    exact_entropy_bound_bytes: float
    recommended: str


def advise(
    delays: ArrayLike,
    tolerance: int,
    *,
    messages_per_second: float = 1_000.0,
    delayed_share: float = 1.0,
    entries_per_ledger: int = 50_000,
) -> DelayAdvice:
    """Recommend a bucket width for delays in milliseconds, in the order of publishing.

    Parameters
    ----------
    delays : array_like of int
        Delivery time minus publish time of each delayed message, at least one, each at least 0.
    tolerance : int
        How many milliseconds a message may be off its time, at least 0.
    messages_per_second : float
        The rate of all entries of the topic, delayed or not.
    delayed_share : float
        The share of them that is delayed, above 0 and at most 1.
    entries_per_ledger : int
        Entries after which a new ledger begins; each ledger in each bucket is a set of its own.

    Notes
    -----
    Raises `ValueError` outside these domains, and where a message would be published after 2**61 ms. Takes
    about a second for any number of delays.

    Examples
    --------
    >>> fixed = advise([60_000] * 10_000, 1_023, messages_per_second=10_000)
    >>> fixed.bits <= 10, fixed.bytes_per_message < 0.5, fixed.entropy_bound_bytes
    (True, True, 0.0)
    """
    import numpy as np

    from ackwell.arrays import as_int64

    values = as_int64(delays)
    if not len(values) or int(values.min()) < 0 or int(values.max()) >= 1 << 61:
        raise ValueError("delays are at least one, none negative, all below 2**61 ms")
    if tolerance < 0 or not messages_per_second > 0 or not 0 < entries_per_ledger <= INT64_MAX:
        raise ValueError("tolerance is at least 0; rate and entries per ledger are positive")
    if not 0 < delayed_share <= 1:
        raise ValueError(f"delayed_share is above 0 and at most 1, got {delayed_share}")
    if SAMPLE_MAX * 1_000.0 / delayed_share / min(messages_per_second, 1_000.0) >= 1 << 61:
        raise ValueError(
            "so few delayed messages a second are published in no time that an int64 of ms holds"
        )
    # A sample keeps neighbours together, or the runs in it would be lost: its head, not every n-th.
    sample = values[:SAMPLE_MAX]
    numbers = np.arange(len(sample), dtype=np.float64) / delayed_share
    entries = numbers.astype(np.int64)
    times = (numbers * (1_000.0 / messages_per_second)).astype(np.int64) + sample
    columns = times, entries // entries_per_ledger, entries % entries_per_ledger

    def weighed(index: TimeBuckets | TimeWheel) -> float:
        index.add_many(*columns)
        return index.nbytes / len(sample)

    widths = []
    for bits in range(min((tolerance + 1).bit_length() - 1, 62) + 1):
        buckets = TimeBuckets(bits)
        each = weighed(buckets)
        widths.append(WidthAdvice(bits, 1 << bits, buckets.bucket_count, each))
    # Of widths that cost the same, the narrowest.
    chosen = min(widths, key=lambda width: width.bytes_per_message)
    tick_ms = max(tolerance, 1)
    wheel, exact = weighed(TimeWheel(tick_ms)), weighed(TimeWheel(1))
    if wheel < chosen.bytes_per_message / 2:
        # The exact wheel is the better advice where it costs about the same.
        tick_ms = 1 if exact <= wheel * WORTH_NARROWING else tick_ms
        recommended = f"TimeWheel({tick_ms})"
    else:
        recommended = f"TimeBuckets({chosen.bits})"
    return DelayAdvice(
        tolerance_ms=tolerance,
        messages=len(values),
        bits=chosen.bits,
        bytes_per_message=chosen.bytes_per_message,
        widths=tuple(widths),
        wheel_bytes_per_message=wheel,
        exact_wheel_bytes_per_message=exact,
        heap_bytes_per_message=24.0,
        entropy_bound_bytes=entropy_bound_bytes(values, max(tolerance, 1), delayed_share),
        exact_entropy_bound_bytes=entropy_bound_bytes(values, 1, delayed_share),
        recommended=recommended,
    )


def entropy_bound_bytes(delays: NDArray[np.int64], tick_ms: int, delayed_share: float = 1.0) -> float:
    """Return the fewest bytes a message that any index of these delays needs on average.

    Which entries are delayed takes `H2(p) / p` bits, and when takes the entropy of the delay less
    `log2(tick)`, at least 0: independent delays, entries known by their order.

    >>> import numpy as np
    >>> week = np.random.default_rng(1).integers(0, 7 * 86_400_000, 100_000)
    >>> round(entropy_bound_bytes(week, 1), 1), round(entropy_bound_bytes(week, 1_000), 1)
    (3.6, 2.4)
    """
    import numpy as np

    # The entropy of a density from spacings of m neighbours (Vasicek): a histogram would stop at log2(n).
    ordered = np.sort(delays).astype(np.float64)
    count = len(ordered)
    reach = max(1, int(count**0.5) // 2)
    index = np.arange(count)
    low, high = np.maximum(index - reach, 0), np.minimum(index + reach, count - 1)
    spacing = (ordered[high] - ordered[low]) * (count / np.maximum(high - low, 1))
    delay_bits = float(np.log2(np.maximum(spacing, tick_ms) / tick_ms).mean())
    share = delayed_share
    which_bits = 0.0
    if share < 1:
        which_bits = (-share * log2(share) - (1 - share) * log2(1 - share)) / share
    return (which_bits + delay_bits) / 8
