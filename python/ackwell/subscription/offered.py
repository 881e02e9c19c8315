"""Entries offered for dispatch, as columns: what the messages say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Self

from ackwell.arrays import as_int64, same_length

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Offered(NamedTuple):
    """Columns of one length; `None` for a column that is the same everywhere: 1 message, hash 0, no delay."""

    ledger_ids: Int64s
    entry_ids: Int64s
    sizes: Int64s | None
    hashes: Int64s | None
    deliver_at_ms: Int64s | None

    @classmethod
    def of(cls, ledger_ids: ArrayLike, entry_ids: ArrayLike, *others: ArrayLike | None) -> Self:
        """Check the columns; `ValueError` for different lengths, or an entry without any message."""
        ledgers, entries = as_int64(ledger_ids), as_int64(entry_ids)
        columns = [None if other is None else as_int64(other) for other in others]
        same_length(ledgers, entries, *(column for column in columns if column is not None))
        sizes = columns[0]
        if sizes is not None and len(sizes) and sizes.min() < 1:
            raise ValueError(f"batch size {sizes.min()}; an entry holds at least one message")
        return cls(ledgers, entries, *columns)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self.ledger_ids)

    def pick(self, which: Bools | slice) -> Offered:
        """Return some of the entries."""
        return Offered(*(None if column is None else column[which] for column in self))  # type: ignore[arg-type]

    def split(self, read_position: tuple[int, int]) -> tuple[Offered, Offered]:
        """Split into those read before, and the new ones from the read position on."""
        ledger_id, entry_id = read_position
        if not self.entries or (int(self.ledger_ids[0]), int(self.entry_ids[0])) >= read_position:
            return self.pick(slice(0)), self
        new = (self.ledger_ids > ledger_id) | ((self.ledger_ids == ledger_id) & (self.entry_ids >= entry_id))
        return self.pick(~new), self.pick(new)

    def at(self, indexes: list[int]) -> Offered:
        """Return the entries at these places."""
        import numpy as np

        places = np.array(indexes, dtype=np.int64)
        return Offered(*(None if column is None else column[places] for column in self))  # type: ignore[arg-type]

    def grouped(self, owners: NDArray[np.signedinteger], count: int) -> list[Offered]:
        """Split the entries by owner, 0 to `count - 1`, each group in order; -1 is in none."""
        import numpy as np

        if count <= 4 and self.hashes is None:
            # Few consumers in turn: long runs, which a mask takes fast.
            return [self.pick(owners == index) for index in range(count)]
        # A stable sort of small integers is a radix sort: one pass for any number of owners.
        order = np.argsort(owners.astype(np.int16, copy=False), kind="stable")
        ends = np.cumsum(np.bincount(owners + np.int16(1), minlength=count + 1))
        ordered = Offered(*(None if column is None else column[order] for column in self))  # type: ignore[arg-type]
        return [ordered.pick(slice(ends[index], ends[index + 1])) for index in range(count)]

    def rows(self) -> Iterable[tuple[int, int, int, int, int]]:
        """Return the entries one by one, with the values that left-out columns stand for."""
        sizes = repeat(1) if self.sizes is None else self.sizes.tolist()
        hashes = repeat(0) if self.hashes is None else self.hashes.tolist()
        times = repeat(0) if self.deliver_at_ms is None else self.deliver_at_ms.tolist()
        return zip(self.ledger_ids.tolist(), self.entry_ids.tolist(), sizes, hashes, times)  # noqa: B905

    def asks_for_delay(self, now_ms: int) -> bool:
        """Return whether one of the entries is to be delivered later."""
        return self.deliver_at_ms is not None and bool((self.deliver_at_ms > now_ms).any())

    def follows(self, ledger_ids: Int64s, entry_ids: Int64s) -> bool:
        """Return whether the entries are exactly these."""
        import numpy as np

        return np.array_equal(self.entry_ids, entry_ids) and np.array_equal(self.ledger_ids, ledger_ids)
