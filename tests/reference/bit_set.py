"""`BitSet` as a set of ints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ackwell.arrays import as_int64
from ackwell.errors import LimitError
from tests.reference.integers import int64

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

LIMIT_DEFAULT = 2**31


def index(bit: int) -> int:
    """Return `bit`; `ValueError` below 0 or outside int64."""
    if int64(bit) < 0:
        raise ValueError(f"bit {bit}: bits are at least 0")
    return bit


class BitSet:
    """A set of bit indexes from 0 up to a limit; setting a bit at or past the limit is an error."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, bits: Iterable[int] | None = None, /, *, limit: int = LIMIT_DEFAULT) -> None:
        self._limit = index(limit)
        self._bits: set[int] = set()
        for bit in () if bits is None else bits:
            self.set(bit)

    @classmethod
    def from_words(cls, words: ArrayLike, limit: int = LIMIT_DEFAULT) -> BitSet:
        """Build a set of signed 64-bit words, the lowest first."""
        bits = int.from_bytes(as_int64(words).astype("<i8").tobytes(), "little")
        return cls([at for at in range(bits.bit_length()) if bits >> at & 1], limit=limit)

    @property
    def limit(self) -> int:
        """The first index that is too large."""
        return self._limit

    def to_words(self) -> NDArray[np.int64]:
        """Return signed 64-bit words, the lowest first, without zero words at the end."""
        import numpy as np

        word_count = max(self._bits, default=-1) // 64 + 1
        number = sum(1 << bit for bit in self._bits)
        return np.frombuffer(number.to_bytes(8 * word_count, "little"), dtype="<i8").copy()

    def _settable(self, bit: int) -> int:
        if bit >= self.limit:
            raise LimitError(f"bit {bit}: this set holds bits below {self.limit}")
        return bit

    def set(self, bit: int, /) -> bool:
        """Set a bit; return whether it was clear."""
        was_clear = self._settable(index(bit)) not in self._bits
        self._bits.add(bit)
        return was_clear

    def clear(self, bit: int, /) -> bool:
        """Clear a bit; return whether it was set."""
        was_set = index(bit) in self._bits
        self._bits.discard(bit)
        return was_set

    def get(self, bit: int, /) -> bool:
        """Return whether a bit is set."""
        return index(bit) in self._bits

    def __contains__(self, bit: int, /) -> bool:
        return int64(bit) in self._bits

    def set_many(self, bits: ArrayLike) -> int:
        """Set many bits, or none if one is refused; return how many were clear."""
        new = [index(bit) for bit in as_int64(bits).tolist()]
        before = len(self._bits)
        self._bits.update([self._settable(bit) for bit in new])
        return len(self._bits) - before

    def get_many(self, bits: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean for each bit."""
        import numpy as np

        return np.array([self.get(bit) for bit in as_int64(bits).tolist()], dtype=np.bool_)

    @staticmethod
    def _range(start: int, end: int) -> range:
        if index(end) < index(start):
            raise ValueError(f"range {start}..{end} ends before it starts")
        return range(start, end)

    def set_range(self, start: int, end: int, /) -> None:
        """Set every bit from `start` up to, without, `end`."""
        bits = self._range(start, end)
        if bits:
            self._settable(bits[-1])
        self._bits.update(bits)

    def clear_range(self, start: int, end: int, /) -> None:
        """Clear every bit from `start` up to, without, `end`."""
        bits = self._range(start, end)
        self._bits = {bit for bit in self._bits if bit not in bits}

    def clear_prefix(self, bit: int, /) -> NDArray[np.int64]:
        """Clear every bit up to and including `bit`; return the bits that were set, in order."""
        removed = sorted(found for found in self._bits if found <= index(bit))
        self._bits.difference_update(removed)
        index(bit)
        return as_int64(removed)

    def clear_all(self) -> None:
        """Clear every bit."""
        self._bits.clear()

    def next_set(self, bit: int, /) -> int | None:
        """Return the first set bit at or after `bit`, or None."""
        bit = index(bit)
        return min((found for found in self._bits if found >= bit), default=None)

    def next_clear(self, bit: int, /) -> int:
        """Return the first clear bit at or after `bit`."""
        bit = index(bit)
        while bit in self._bits:
            bit += 1
        return bit

    def previous_set(self, bit: int, /) -> int | None:
        """Return the last set bit at or before `bit`, or None."""
        bit = index(bit)
        return max((found for found in self._bits if found <= bit), default=None)

    def previous_clear(self, bit: int, /) -> int | None:
        """Return the last clear bit at or before `bit`, or None."""
        bit = index(bit)
        while bit in self._bits:
            bit -= 1
        return bit if bit >= 0 else None

    def first(self) -> int | None:
        """Return the first set bit, or None."""
        return min(self._bits, default=None)

    def last(self) -> int | None:
        """Return the last set bit, or None."""
        return max(self._bits, default=None)

    @property
    def cardinality(self) -> int:
        """The number of set bits."""
        return len(self._bits)

    def __len__(self) -> int:
        return len(self._bits)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._bits))

    def _with(self, bits: Iterable[int]) -> BitSet:
        return BitSet(bits, limit=self.limit)

    def __and__(self, other: BitSet, /) -> BitSet:
        return self._with(self._bits & other._bits)

    def __or__(self, other: BitSet, /) -> BitSet:
        return self._with(self._bits | other._bits)

    def __sub__(self, other: BitSet, /) -> BitSet:
        return self._with(self._bits - other._bits)

    def __iand__(self, other: BitSet, /) -> BitSet:
        self._bits = (self & other)._bits
        return self

    def __ior__(self, other: BitSet, /) -> BitSet:
        self._bits = (self | other)._bits
        return self

    def __isub__(self, other: BitSet, /) -> BitSet:
        self._bits = (self - other)._bits
        return self

    def shrink_to_fit(self) -> None:
        """Do nothing, because Python's set has no spare capacity to release."""

    @property
    def nbytes(self) -> int:
        """The bytes of the set, without its integers."""
        return self._bits.__sizeof__()

    def validate(self) -> None:
        """Check the invariants: bits are from 0 up to the limit."""
        assert all(0 <= bit < self.limit for bit in self._bits)

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, BitSet):
            return NotImplemented
        return self._bits == other._bits

    def __repr__(self) -> str:
        return f"<BitSet {len(self)} bits>"

    def copy(self) -> BitSet:
        """Return a set of the same bits and limit."""
        return self._with(self._bits)

    __copy__ = copy
