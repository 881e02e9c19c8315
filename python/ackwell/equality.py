"""Equality by attributes."""

from __future__ import annotations


class EqualByState:
    """A base class whose objects are equal if their class and attributes are equal.

    Attributes must not refer back to the object, otherwise the comparison does not end.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.__getstate__() == other.__getstate__())
