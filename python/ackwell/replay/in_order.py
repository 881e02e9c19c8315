"""Fold events in their order. The resets (`ackwell.replay.resets`) need not be known in advance.

A seek voids the acknowledgments before it. A transaction takes effect when its commit is read. A cleared
backlog without a position acknowledges the entries that were published before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ackwell.replay.event_columns import NULL, name_at
from ackwell.replay.events import Kind
from ackwell.replay.fold import Fold

if TYPE_CHECKING:
    from ackwell.engine import Engine
    from ackwell.replay.event_columns import Columns

_CLEARING: Final = frozenset([Kind.CLEAR_BACKLOG.value])
_SEEKING: Final = frozenset([Kind.SEEK.value])


class OrderedFold(Fold):
    """A fold that receives the events in their order.

    Call `end` before you read a state. More events may follow `end`.
    """

    def __init__(self, *, engine: Engine | None = None) -> None:
        super().__init__(whole=True, engine=engine)
        self._unresolved: set[int] = set()
        """The numbers of the (topic, subscription) pairs whose backlog was cleared before the first publish
        of their topic. A later seek of the subscription removes its pair."""

    def feed(self, columns: Columns) -> bool:
        """Fold the next events, and return whether a row was not an event. O(rows)."""
        clears = columns.rows_of(_CLEARING)
        flawed, start = False, 0
        for row in clears[columns.ledger_ids[clears] == NULL].tolist():
            flawed |= self._run(columns.take(slice(start, row)))
            flawed |= self._clear(columns.take(slice(row, row + 1)))
            start = row + 1
        return self._run(columns.take(slice(start, None)) if start else columns) or flawed

    def _run(self, columns: Columns) -> bool:
        if self._unresolved:
            self._unresolved -= {self._pair(columns, row) for row in columns.rows_of(_SEEKING).tolist()}
        return super().feed(columns)

    def _clear(self, columns: Columns) -> bool:
        last = self.partials.last_published(self._pair(columns, 0))
        if last is not None:
            ledger_ids, entry_ids = (np.array([value]) for value in last)
            columns = columns._replace(ledger_ids=ledger_ids, entry_ids=entry_ids)
        elif name_at(columns.subscriptions, 0):
            self._unresolved.add(self._pair(columns, 0))
            return False
        return super().feed(columns)

    def _pair(self, columns: Columns, row: int) -> int:
        return self.pair((name_at(columns.topics, row), name_at(columns.subscriptions, row)))

    def settings(self) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
        """Return two maps: from pair to broker settings, and from pair to error.

        A pair is the number of a (topic, subscription). Each pair in `_unresolved` has an error.
        """
        settings, wrong = super().settings()
        return settings, wrong | dict.fromkeys(
            self._unresolved, "backlog cleared before anything was published"
        )
