"""Conversion of the numbers in a command to members of enumerations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ackwell.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E")


def enum_of(kind: Callable[[int], E], value: int) -> E:
    """Return the member of an enumeration with the number `value`. `FrameError` if there is none."""
    try:
        return kind(value)
    except ValueError as error:
        raise FrameError(str(error)) from None
