"""Numbers of names: a list and a dictionary."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Names:
    """See `ackwell._native.Names`."""

    def __init__(self, names: list[str] | None = None) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        for name in names or []:
            self.number(name)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: int, /) -> str:
        if not 0 <= number < len(self._names):
            raise IndexError("a number that no name has")
        return self._names[number]

    def number(self, name: str) -> int:
        """Return the number of a name."""
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def number_many(self, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the number of each text."""
        numbers = []
        texts = data.tobytes()
        for start, end in pairwise(offsets.tolist()):
            if not 0 <= start <= end <= len(texts):
                raise ValueError("offsets outside their bytes")
            try:
                numbers.append(self.number(texts[start:end].decode()))
            except UnicodeDecodeError:
                raise ValueError("a name that is not UTF-8") from None
        return np.array(numbers, np.int32)

    def to_arrays(self, start: int = 0) -> tuple[NDArray[np.int32], bytes]:
        """Return the names from a number on."""
        texts = [name.encode() for name in self._names[start:]]
        return np.cumsum([0, *map(len, texts)]).astype(np.int32), b"".join(texts)

    def validate(self) -> None:
        """Check the invariants."""
        assert self._numbers == {name: number for number, name in enumerate(self._names)}
