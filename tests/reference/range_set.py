"""Acknowledged positions: a sorted list of ranges for each ledger, rebuilt by every change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Self

from ackwell.arrays import as_int64, same_length
from ackwell.errors import CorruptStateError, LimitError
from ackwell.position import Position
from tests.reference.integers import INT64_MAX, int64

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Range = tuple[int, int, int]
"""Ledger id, entry before the first, last entry."""

JAVA_BIT_SET_BITS: Final = 2**31
SPACE: Final = r"[ \t\n\x0c\r]*"
RANGE: Final = re.compile(r"\((-?[0-9]+):(-?[0-9]+)(?:\.\.|‥)(-?[0-9]+):(-?[0-9]+)\]")


class PositionRangeSet:
    """Per ledger the acknowledged `(lower, upper]`, sorted and not touching."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ranges: Iterable[Range] | None = None) -> None:
        self._ledgers: dict[int, list[tuple[int, int]]] = {}
        for ledger_id, lower, upper in ranges or ():
            self.add_range(ledger_id, lower, upper)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `[(3:-1..3:5],(3:7..3:9]]`, also with spaces and with `‥` for `..`."""
        acked = cls()

        def refuse(at: int, message: str) -> CorruptStateError:
            return CorruptStateError(message, len(text[:at].encode()))

        def skip(pattern: str, at: int) -> int:
            found = re.compile(pattern).match(text, at)
            if not found:
                raise refuse(at, f"expected {pattern}")
            return found.end()

        at = skip(rf"{SPACE}\[{SPACE}", 0)
        while not text.startswith("]", at):
            found = RANGE.match(text, at)
            if not found:
                raise refuse(at, "expected a range")
            ledger_id, lower, upper_ledger_id, upper = map(int, found.groups())
            if ledger_id != upper_ledger_id:
                raise refuse(at, "a range across ledgers")
            try:
                acked.add_range(ledger_id, lower, upper)
            except ValueError as error:
                raise refuse(at, str(error)) from None
            at = skip(SPACE, found.end())
            if not text.startswith("]", at):
                at = skip(rf",{SPACE}(?=\()", at)
        if skip(rf"\]{SPACE}", at) != len(text):
            raise refuse(at, "more after the last ']'")
        return acked

    def add(self, ledger_id: int, entry_id: int) -> bool:
        """Add a position; return whether it was new."""
        checked(ledger_id, entry_id)
        return self.add_range(ledger_id, entry_id - 1, entry_id) == 1

    def add_range(self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int) -> int:
        """Add `(lower, upper]`; return how many positions are new."""
        lower, upper = lower_entry_exclusive, upper_entry_inclusive
        checked_range(ledger_id, lower, upper)
        if lower == upper:
            return 0
        before = self.cardinality_of(ledger_id)
        apart = []
        for low, high in self._ledgers.get(ledger_id, []):
            if high < lower or upper < low:
                apart.append((low, high))
            else:
                lower, upper = min(low, lower), max(high, upper)
        self._ledgers[ledger_id] = sorted([*apart, (lower, upper)])
        return self.cardinality_of(ledger_id) - before

    def add_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Add the positions of two columns; return how many are new."""
        pairs = rows(ledger_ids, entry_ids)
        for ledger_id, entry_id in pairs:
            checked(ledger_id, entry_id)
        return sum(self.add(ledger_id, entry_id) for ledger_id, entry_id in pairs)

    def add_ranges(
        self, ledger_ids: ArrayLike, lowers_exclusive: ArrayLike, uppers_inclusive: ArrayLike
    ) -> int:
        """Add the ranges of three columns; return how many positions are new."""
        ranges = rows(ledger_ids, lowers_exclusive, uppers_inclusive)
        for ledger_id, lower, upper in ranges:
            checked_range(ledger_id, lower, upper)
        return sum(self.add_range(*range_) for range_ in ranges)

    def add_words(self, ledger_id: int, words: ArrayLike) -> int:
        """Add the bits of Java's `BitSet.toLongArray`; return how many positions are new."""
        int64(ledger_id)
        array = as_int64(words)
        checked(ledger_id, 0)
        return sum(
            self.add(ledger_id, 64 * index + bit)
            for index, word in enumerate(array.tolist())
            for bit in range(64)
            if word >> bit & 1
        )

    def remove(self, ledger_id: int, entry_id: int) -> bool:
        """Remove a position; return whether it was present."""
        if not self.contains(ledger_id, entry_id):
            return False
        return self.remove_range(ledger_id, entry_id - 1, entry_id) == 1

    def remove_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> int:
        """Remove the positions of two columns; return the number of removed ones."""
        return sum(self.remove(*pair) for pair in rows(ledger_ids, entry_ids))

    def remove_range(self, ledger_id: int, lower_entry_exclusive: int, upper_entry_inclusive: int) -> int:
        """Remove `(lower, upper]`; return the number of removed positions."""
        lower, upper = lower_entry_exclusive, upper_entry_inclusive
        checked_range(ledger_id, lower, upper)
        before = self.cardinality_of(ledger_id)
        ranges = self._ledgers.get(ledger_id, [])
        if lower < upper:
            below = [(low, min(high, lower)) for low, high in ranges]
            above = [(max(low, upper), high) for low, high in ranges]
            self._keep(ledger_id, below + above)
        return before - self.cardinality_of(ledger_id)

    def remove_up_to(self, ledger_id: int, entry_id: int) -> int:
        """Remove all positions up to this one; return their number."""
        int64(entry_id)
        before, last = self.cardinality, int64(ledger_id)
        for ledger in [known for known in self._ledgers if known <= last]:
            up_to = entry_id if ledger == ledger_id else INT64_MAX
            self._keep(ledger, [(max(low, up_to), high) for low, high in self._ledgers[ledger]])
        return before - self.cardinality

    def clear(self) -> None:
        """Remove everything."""
        self._ledgers.clear()

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether a position is acknowledged."""
        return self.range_containing(ledger_id, entry_id) is not None

    def contains_many(self, ledger_ids: ArrayLike, entry_ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean for each position of two columns."""
        import numpy as np

        found = [self.contains(ledger, entry) for ledger, entry in rows(ledger_ids, entry_ids)]
        return np.array(found, dtype=np.bool_)

    @property
    def cardinality(self) -> int:
        """The number of positions."""
        return sum(self.cardinality_of(ledger_id) for ledger_id in self._ledgers)

    def cardinality_of(self, ledger_id: int) -> int:
        """Return the number of positions of one ledger."""
        return sum(high - low for low, high in self._ledgers.get(int64(ledger_id), []))

    def ledger_ids(self) -> list[int]:
        """Return the ledgers that have a position."""
        return sorted(self._ledgers)

    def words_of(self, ledger_id: int) -> NDArray[np.int64]:
        """Return the bits of one ledger in the form of `add_words`."""
        import numpy as np

        ranges = self._ledgers.get(int64(ledger_id), [])
        if ranges and ranges[-1][1] >= JAVA_BIT_SET_BITS:
            raise LimitError("an entry is past the 2**31 bits of a Java BitSet")
        bits = sum((1 << high + 1) - (1 << low + 1) for low, high in ranges)
        length = (bits.bit_length() + 63) // 64
        return np.frombuffer(bits.to_bytes(8 * length, "little"), dtype="<i8").astype(np.int64)

    def first_range(self) -> Range | None:
        """Return the first range."""
        return next(self.ranges(), None)

    def range_containing(self, ledger_id: int, entry_id: int) -> Range | None:
        """Return the range that a position is in."""
        entry = int64(entry_id)
        for low, high in self._ledgers.get(int64(ledger_id), []):
            if low < entry <= high:
                return ledger_id, low, high
        return None

    def ranges(self) -> Iterator[Range]:
        """Iterate over a snapshot of the ranges."""
        return iter([(id_, *range_) for id_ in self.ledger_ids() for range_ in self._ledgers[id_]])

    def positions(self) -> Iterator[Position]:
        """Iterate over a snapshot of the positions."""
        return (
            Position(ledger_id, before + 1)
            for ledger_id, low, high in self.ranges()
            for before in range(low, high)
        )

    def to_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the ranges as three columns."""
        import numpy as np

        ledger_ids, lowers, uppers = np.array(list(self.ranges()), dtype=np.int64).reshape(-1, 3).T
        return ledger_ids, lowers, uppers

    def union(self, other: PositionRangeSet) -> Self:
        """Return a set with the positions of both."""
        both = self.copy()
        both |= other
        return both

    def difference(self, other: PositionRangeSet) -> Self:
        """Return a set with the positions that the other does not have."""
        left = self.copy()
        for range_ in own(other).ranges():
            left.remove_range(*range_)
        return left

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.ranges())

    @property
    def nbytes(self) -> int:
        """The bytes of the dict and its lists."""
        return self._ledgers.__sizeof__() + sum(map(list.__sizeof__, self._ledgers.values()))

    def validate(self) -> None:
        """Check the invariants."""
        for ledger_id, ranges in self._ledgers.items():
            assert ledger_id >= 0
            assert ranges
            flat = [-2, *(bound for range_ in ranges for bound in range_)]
            assert flat == sorted(set(flat))

    def __or__(self, other: object) -> Self:
        return self.union(other) if isinstance(other, PositionRangeSet) else NotImplemented

    def __ior__(self, other: object) -> Self:
        if not isinstance(other, PositionRangeSet):
            return NotImplemented
        for range_ in other.ranges():
            self.add_range(*range_)
        return self

    def __sub__(self, other: object) -> Self:
        return self.difference(other) if isinstance(other, PositionRangeSet) else NotImplemented

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def __iter__(self) -> Iterator[Range]:
        return self.ranges()

    def __contains__(self, position: tuple[int, int]) -> bool:
        return self.contains(*pair(position))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PositionRangeSet):
            return NotImplemented
        return self._ledgers == other._ledgers

    def __str__(self) -> str:
        ranges = (f"({id_}:{low}..{id_}:{high}]" for id_, low, high in self.ranges())
        return f"[{','.join(ranges)}]"

    def __repr__(self) -> str:
        shown = [f"({id_}:{low}..{id_}:{high}]" for id_, low, high in list(self)[:4]]
        if len(self) > len(shown):
            shown.append(f"... {len(self)} ranges")
        return f"<PositionRangeSet [{','.join(shown)}]>"

    def _keep(self, ledger_id: int, ranges: list[tuple[int, int]]) -> None:
        """Set the ranges of a ledger without empty ones; remove a ledger without ranges."""
        kept = sorted((low, high) for low, high in ranges if low < high)
        if kept:
            self._ledgers[ledger_id] = kept
        else:
            self._ledgers.pop(ledger_id, None)


def checked(ledger_id: int, entry_id: int) -> None:
    """Check that an entry is valid."""
    if int64(ledger_id) < 0 or int64(entry_id) < 0:
        raise ValueError(f"position {ledger_id}:{entry_id}: ledger and entry ids are at least 0")


def checked_range(ledger_id: int, lower: int, upper: int) -> None:
    """Check that a range is valid."""
    if int64(ledger_id) < 0 or int64(lower) < -1 or int64(upper) < lower:
        raise ValueError(f"not a range: ({ledger_id}:{lower}..{ledger_id}:{upper}]")


def rows(*columns: ArrayLike) -> list[tuple[int, ...]]:
    """Return columns of one length as rows."""
    arrays = [as_int64(column) for column in columns]
    same_length(*arrays)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


def pair(position: tuple[int, int]) -> tuple[int, int]:
    """Return a position; `TypeError` for anything but a tuple of two."""
    if not isinstance(position, tuple) or len(position) != 2:
        raise TypeError(f"not a position: {position!r}")
    return position


def own(other: PositionRangeSet) -> PositionRangeSet:
    """Check that a set belongs to this engine."""
    if not isinstance(other, PositionRangeSet):
        raise TypeError(f"not a PositionRangeSet of this engine: {other!r}")
    return other
