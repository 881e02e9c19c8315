"""Checks of scalar arguments that the native engine makes, too: integers inside int64."""

from __future__ import annotations

from operator import index
from typing import TypeGuard

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def int64(value: object) -> int:
    """Return `value` as an int; `TypeError` for anything else, `ValueError` outside int64.

    >>> int64(7)
    7
    """
    number = index(value)  # type: ignore[arg-type]
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError("integer outside int64")
    return number


def is_int64(value: object) -> TypeGuard[int]:
    """Return whether `value` is an integer inside int64.

    >>> is_int64(7), is_int64(2**63), is_int64("a")
    (True, False, False)
    """
    try:
        int64(value)
    except (TypeError, ValueError):
        return False
    return True


def boolean(value: object) -> bool:
    """Return a bool; `TypeError` for anything else.

    >>> boolean(True)
    True
    """
    if not isinstance(value, bool):
        raise TypeError(f"expected a bool, got {type(value).__name__}")
    return value


def pair(values: tuple[int, int]) -> tuple[int, int]:
    """Return both integers of a tuple; `TypeError` for anything else, `ValueError` for another length.

    >>> pair((3, 15))
    (3, 15)
    """
    if not isinstance(values, tuple):
        raise TypeError(f"expected a tuple of two integers, got {type(values).__name__}")
    first, second = values
    return int64(first), int64(second)
