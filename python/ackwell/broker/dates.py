"""Read the clock in milliseconds, and convert any int64 that a broker or producer may write to a date."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST_MS: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - _EPOCH) // timedelta(
    milliseconds=1
)


def clock_ms() -> int:
    """Return the time of the machine's clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def date_of(time_ms: int) -> datetime:
    """Return a time in milliseconds since 1970 as a date, UTC.

    A time has 64 bits on the wire, and some producers write 2**63 - 1 for "never". The last date is in the
    year 9999, the first in the year 1. A time outside this range is shown as the nearest of these dates.

    >>> date_of(1_795_518_453_250).isoformat(timespec="milliseconds")
    '2026-11-24T11:07:33.250+00:00'
    >>> date_of(2**63 - 1).year, date_of(-(2**63)).year
    (9999, 1)
    """
    return _EPOCH + timedelta(milliseconds=min(max(time_ms, _FIRST_MS), _LAST_MS))
