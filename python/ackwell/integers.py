"""The limits of the 64-bit integers that Pulsar uses for ids, times and properties."""

from typing import Final

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
UINT64_MAX: Final = (1 << 64) - 1
