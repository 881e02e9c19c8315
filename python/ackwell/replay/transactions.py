"""Acknowledgments in transactions: those that count, those that do not, and those that wait.

An acknowledgment in a transaction counts if the transaction is committed, before or after it. What is
committed is either known before all events, or found in them: then acknowledgments wait for their commit.
No Python code runs for each event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ackwell._native import LongMap
from ackwell.replay.event_columns import codes_of
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.replay.event_columns import Columns

    Ints = NDArray[np.int64]


class Transactions:
    """The transactions of a fold, by the numbers of its pairs and of their names.

    `waits` says that all events are given to this fold.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._committed = LongMap()
        """A key for each pair and transaction."""
        self._waiting: list[Columns] = []

    def commit(self, pairs: Ints, transactions: NDArray[Any]) -> None:
        """Take what is committed."""
        keys = _keys(pairs, transactions)
        self._committed.put_many(keys, np.zeros(len(keys), np.int64))

    def committed(self) -> tuple[Ints, Ints]:
        """Return what is committed: pairs and transactions."""
        keys, _ = self._committed.to_arrays()
        return keys >> 32, keys & 0xFFFFFFFF

    def uncertain(self, columns: Columns, rows: Ints, pairs: Ints, transactions: NDArray[Any]) -> Ints:
        """Return the rows whose transaction is not committed, as far as that is known; take commits.

        `rows` are those that name a transaction, and for each its pair and its transaction.
        """
        if self._waits:
            kinds = [kind == Kind.COMMIT.value for kind in columns.kinds[1]]
            commits = np.array(kinds, bool)[codes_of(columns.kinds, len(columns.ledger_ids))[rows]]
            if commits.any():
                self.commit(pairs[commits], transactions[commits])
        keys = _keys(pairs, transactions)
        # A transaction acknowledges several entries one after the other.
        heads = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        found = self._committed.contains_many(keys[heads])
        uncertain: Ints = rows[np.repeat(~found, np.diff(heads, append=len(keys)))]
        return uncertain

    def wait(self, columns: Columns, rows: Ints) -> bool:
        """Let rows wait for their commit; return whether they do."""
        if self._waits and len(rows):
            self._waiting.append(columns.take(rows))
        return self._waits

    def join(self, waiting: Iterable[Columns]) -> None:
        """Take what waited elsewhere."""
        self._waiting += waiting

    def take(self) -> list[Columns]:
        """Return what waits, which is to be fed again."""
        waiting, self._waiting = self._waiting, []
        return waiting


def _keys(pairs: Any, transactions: Any) -> Ints:
    keys: Ints = pairs.astype(np.int64) << 32 | transactions.astype(np.int64)
    return keys
