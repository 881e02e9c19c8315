"""The limits of the 64-bit integers that Pulsar uses for ids, times and properties, and checks of int64s."""

from operator import index
from typing import Final, SupportsIndex, TypeGuard

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
UINT64_MAX: Final = (1 << 64) - 1

NOT_INT64: Final = "contains a value that is not a 64-bit integer"
"""The message for a column. The name of the column precedes it."""


def is_int64(value: object) -> TypeGuard[int]:
    """Return whether a value is an int64. A boolean is not an integer.

    >>> is_int64(-(1 << 63)), is_int64(1 << 63), is_int64(True), is_int64("1")
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and INT64_MIN <= value <= INT64_MAX


def check_int64(name: str, value: SupportsIndex) -> int:
    """Check and return an argument that is an int64; raise `ValueError` if it is outside int64."""
    number = index(value)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{name} is {number}; expected an int64")
    return number
