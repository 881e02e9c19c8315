"""The common base of the three indexes of delayed messages: a sorted list of rounded triples."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Self

from ackwell.arrays import as_int64, same_length
from tests.reference.integers import int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

Triple = tuple[int, int, int]


class DelayedList:
    """A sorted list of `(deliver_at_ms, ledger_id, entry_id)`, times rounded by `_rounded`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._messages: list[Triple] = []

    def _rounded(self, deliver_at_ms: int) -> int:
        """Return the rounded delivery time; subclasses define the rounding."""
        return deliver_at_ms

    def _settings(self) -> str:
        """Return the constructor's arguments, for `repr` and `==`."""
        return ""

    def _accept(self, ledger_id: int, entry_id: int) -> None:
        """Check that a position is valid."""
        if ledger_id < 0 or entry_id < 0:
            raise ValueError("ledger and entry ids are at least 0")

    def _insert(self, message: Triple) -> bool:
        """Insert a rounded message unless the index holds it; return whether it was new."""
        if self._holds(message):
            return False
        insort(self._messages, message)
        return True

    def _holds(self, message: Triple) -> bool:
        place = bisect_left(self._messages, message)
        return self._messages[place : place + 1] == [message]

    def _key(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> Triple:
        time, ledger, entry = int64(deliver_at_ms), int64(ledger_id), int64(entry_id)
        return self._rounded(time), ledger, entry

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Add a message; return whether it was new."""
        key = self._key(deliver_at_ms, ledger_id, entry_id)
        self._accept(key[1], key[2])
        return self._insert(key)

    def add_many(self, deliver_at_ms: ArrayLike, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Check all messages, then add them one by one; return the number of new ones."""
        columns = as_int64(deliver_at_ms), as_int64(ledger_ids), as_int64(entry_ids)
        same_length(*columns)
        messages = list(zip(*(column.tolist() for column in columns), strict=True))
        for _, ledger_id, entry_id in messages:
            self._accept(ledger_id, entry_id)
        return sum(self._insert(self._key(*message)) for message in messages)

    def pop_due(self, now_ms: int, max: int) -> Columns:  # noqa: A002 (the protocol's name)
        """Take up to `max` messages whose rounded time is at or before `now_ms`."""
        now_ms, count = int64(now_ms), int64(max)
        if count < 0:
            raise ValueError(f"max is at least 0, got {count}")
        due = [message for message in self._messages if message[0] <= now_ms][:count]
        del self._messages[: len(due)]
        return _columns(due)

    def contains(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Return whether the index holds a message added with these three integers."""
        return self._holds(self._key(deliver_at_ms, ledger_id, entry_id))

    def remove(self, deliver_at_ms: int, ledger_id: int, entry_id: int, /) -> bool:
        """Remove a message; return whether the index held it."""
        key = self._key(deliver_at_ms, ledger_id, entry_id)
        if not self._holds(key):
            return False
        self._messages.remove(key)
        return True

    def has_due(self, now_ms: int) -> bool:
        """Return whether the earliest rounded time is at or before `now_ms`."""
        now_ms = int64(now_ms)
        return bool(self._messages) and self._messages[0][0] <= now_ms

    def next_due(self) -> int | None:
        """Return the earliest rounded time."""
        return self._messages[0][0] if self._messages else None

    def clear(self) -> None:
        """Remove every message."""
        self._messages.clear()

    def shrink_to_fit(self) -> None:
        """Do nothing, because the reference does not model memory."""

    @property
    def nbytes(self) -> int:
        """24 bytes for each message: three integers."""
        return 24 * len(self)

    def to_arrays(self) -> Columns:
        """Return every message as three int64 arrays, in order."""
        return _columns(self._messages)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "_messages": self._messages.copy()}
        return other

    __copy__ = copy

    def validate(self) -> None:
        """Check that the messages are sorted."""
        assert self._messages == sorted(self._messages)

    def __contains__(self, message: Triple) -> bool:
        return self.contains(*message)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Triple]:
        return iter(self._messages.copy())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self._settings(), self._messages) == (other._settings(), other._messages)

    def __repr__(self) -> str:
        comma = ", " if self._settings() else ""
        return f"<{type(self).__name__} {self._settings()}{comma}{len(self)} messages>"


def _columns(messages: list[Triple]) -> Columns:
    import numpy as np

    table = np.array(messages, dtype=np.int64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()
