"""Equality of objects that are their state."""

from __future__ import annotations


class EqualByState:
    """Two objects of one class are equal when their attributes are.

    The attributes of these classes never lead back to the object, so the comparison ends.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.__getstate__() == other.__getstate__())
