"""Equality of objects by their attributes."""

from __future__ import annotations


class EqualByState:
    """A base class that makes objects equal if they have the same class and equal attributes.

    An attribute must not refer to the object itself, directly or through others. Otherwise the comparison
    does not end.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.__getstate__() == other.__getstate__())
