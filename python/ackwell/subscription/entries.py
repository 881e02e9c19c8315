"""Entries that are offered for dispatch, as columns: positions, batch sizes, hashes and delivery times."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Self

from ackwell.arrays import as_int64, same_length
from ackwell.cursor.ack_sets import check_batch_size
from ackwell.subscription.arguments import check_hash, position_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ackwell.arrays import Int64s

    Bools = NDArray[np.bool_]


class Entries(NamedTuple):
    """Entries as columns of equal length.

    If `sizes` is None, each entry has one message. If `hashes` is None, each hash is 0. If `deliver_at_ms` is
    None, no entry is delayed.
    """

    ledger_ids: Int64s
    entry_ids: Int64s
    sizes: Int64s | None
    hashes: Int64s | None
    deliver_at_ms: Int64s | None

    @classmethod
    def of(
        cls,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        sizes: ArrayLike | None = None,
        hashes: ArrayLike | None = None,
        deliver_at_ms: ArrayLike | None = None,
    ) -> Self:
        """Check the columns and return them as `Entries`.

        Raises `ValueError` for different lengths, a negative id, a batch size below 1 or a hash outside 32
        bits. Raises `LimitError` for a batch larger than any broker accepts.
        """
        ledgers, entries = position_columns(ledger_ids, entry_ids)
        columns = [None if other is None else as_int64(other) for other in (sizes, hashes, deliver_at_ms)]
        same_length(ledgers, entries, *(column for column in columns if column is not None))
        if columns[0] is not None and len(ledgers):
            check_batch_size(int(columns[0].min()))
            check_batch_size(int(columns[0].max()))
        if columns[1] is not None and len(ledgers):
            check_hash(int(columns[1].min()))
            check_hash(int(columns[1].max()))
        return cls(ledgers, entries, *columns)

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self.ledger_ids)

    def pick(self, which: Bools | slice) -> Entries:
        """Return the entries that a mask or slice selects."""
        return Entries(*(None if column is None else column[which] for column in self))  # type: ignore[arg-type]

    def split(self, read_position: tuple[int, int]) -> tuple[Entries, Entries]:
        """Return the entries before the read position, and the entries at or after the read position."""
        ledger_id, entry_id = read_position
        if not self.entries or (int(self.ledger_ids[0]), int(self.entry_ids[0])) >= read_position:
            return self.pick(slice(0)), self
        new = (self.ledger_ids > ledger_id) | ((self.ledger_ids == ledger_id) & (self.entry_ids >= entry_id))
        return self.pick(~new), self.pick(new)

    def at(self, indexes: list[int]) -> Entries:
        """Return the entries at the given indexes, which must be ascending."""
        import numpy as np

        if len(indexes) == self.entries:
            return self
        places = np.array(indexes, dtype=np.int64)
        return Entries(*(None if column is None else column[places] for column in self))  # type: ignore[arg-type]

    def grouped(self, owners: NDArray[np.signedinteger], count: int) -> list[Entries]:
        """Return one group of entries for each owner from 0 to `count - 1`.

        Each group keeps the order of the entries. Entries with owner -1 are in no group.
        """
        import numpy as np

        if count <= 4 and self.hashes is None:
            # With few owners, consecutive entries often have the same owner, so a mask is fast.
            return [self.pick(owners == index) for index in range(count)]
        # A stable sort of small integers is a radix sort: one pass for any number of owners.
        order = np.argsort(owners.astype(np.int16, copy=False), kind="stable")
        ends = np.cumsum(np.bincount(owners + np.int16(1), minlength=count + 1))
        ordered = Entries(*(None if column is None else column[order] for column in self))  # type: ignore[arg-type]
        return [ordered.pick(slice(ends[index], ends[index + 1])) for index in range(count)]

    def rows(self) -> Iterable[tuple[int, int, int, int, int]]:
        """Return the entries as rows: ledger id, entry id, size, hash, delivery time.

        The value of a missing column is 1 for sizes, and 0 for hashes and delivery times.
        """
        sizes = repeat(1) if self.sizes is None else self.sizes.tolist()
        hashes = repeat(0) if self.hashes is None else self.hashes.tolist()
        times = repeat(0) if self.deliver_at_ms is None else self.deliver_at_ms.tolist()
        return zip(self.ledger_ids.tolist(), self.entry_ids.tolist(), sizes, hashes, times)  # noqa: B905

    def has_delayed(self, now_ms: int) -> bool:
        """Return whether any entry has a delivery time after `now_ms`."""
        return self.deliver_at_ms is not None and bool((self.deliver_at_ms > now_ms).any())

    def matches(self, ledger_ids: Int64s, entry_ids: Int64s) -> bool:
        """Return whether the entries have exactly these positions, in this order."""
        import numpy as np

        return np.array_equal(self.entry_ids, entry_ids) and np.array_equal(self.ledger_ids, ledger_ids)
