"""Resets: the events whose order matters. They must be known before events can be folded in any order.

A seek voids the acknowledgments before it, a cleared backlog without a position acknowledges the entries
published before it, and an acknowledgment in a transaction takes effect when the transaction is committed.
Resets are rare, so `find_resets` searches for them first. `ackwell.spark.reset_query` finds them with a Spark
query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.position import Position
from ackwell.replay.events import EFFECTS, Kind

if TYPE_CHECKING:
    from ackwell.replay.event_columns import Columns

Name = tuple[str, str]
"""Topic and subscription."""

Order = tuple[str, int]
"""File and sequence of an event, which define the order."""


class Seek(NamedTuple):
    """A seek: its place `(file, sequence)`, and the next position to read after it."""

    order: Order
    position: Position
    ack_set: tuple[int, ...] | None = None
    """The unacknowledged messages of the entry at `position`; None if all its messages are unacknowledged."""


class Resets(NamedTuple):
    """The seeks, the cleared backlogs without a position, and the committed transactions of some events."""

    seeks: dict[Name, Seek]
    """The last seek of each subscription."""
    clears: dict[Name, tuple[Order, Position]]
    """The last cleared backlog of each subscription, if it has no later seek, and the last position that was
    published before the backlog was cleared."""
    committed: frozenset[tuple[str, str, str]] = frozenset()
    """The committed transactions: topic, subscription and transaction of each."""
    unresolved_clears: dict[Name, Order] = {}  # noqa: RUF012 (a named tuple has no other way)
    """The cleared backlogs, without a later seek, before which the events contain no publish."""


NO_RESETS: Final = Resets({}, {})

RESETTING: Final = frozenset(kind.value for kind, effect in EFFECTS.items() if effect.resets)
"""The kinds of events that a fold must know before it folds other events."""

PUBLISHING: Final = frozenset(kind.value for kind, effect in EFFECTS.items() if effect.exists)
"""The kinds that prove that an entry exists."""

Batches = Callable[[], "Iterable[Columns]"]
"""A function that reads the same event rows at each call."""


def find_resets(batches: Batches, resetting: Batches | None = None) -> Resets:
    """Find the resets of events. If a backlog was cleared, a second pass finds the last publish before it.

    `batches` is called for each pass. If given, `resetting` is called instead for the first pass; it reads
    only the rows of the reset kinds.
    """
    found = _Found()
    for columns in (resetting or batches)():
        for row in _rows(columns, RESETTING):
            found.add(row)
    clears = found.open_clears()
    if not clears:
        return Resets(found.seeks, {}, frozenset(found.committed))
    last: dict[Name, Position] = {}
    topics = {name[0] for name in clears}
    for columns in batches():
        for row in _rows(columns, PUBLISHING):
            if row["topic"] in topics:
                _note(last, clears, row)
    return with_clears(Resets(found.seeks, {}, frozenset(found.committed)), clears, last)


def with_clears(resets: Resets, clears: Mapping[Name, Order], last: Mapping[Name, Position]) -> Resets:
    """Return `resets` with the cleared backlogs, each with the last position published before it, if any."""
    return resets._replace(
        clears={name: (order, last[name]) for name, order in clears.items() if name in last},
        unresolved_clears={name: order for name, order in clears.items() if name not in last},
    )


class _Found:
    def __init__(self) -> None:
        self.seeks: dict[Name, Seek] = {}
        self.clears: dict[Name, Order] = {}
        self.committed: set[tuple[str, str, str]] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        name, order = (row["topic"], row["subscription"] or ""), (row.get("file") or "", row["sequence"] or 0)
        ledger_id, entry_id = row["ledger_id"], row["entry_id"]
        if row["kind"] == Kind.COMMIT:
            self.committed.add((*name, row.get("transaction") or ""))
        elif row["kind"] == Kind.CLEAR_BACKLOG:
            if ledger_id is None:
                self.clears[name] = max(self.clears.get(name, order), order)
        elif ledger_id is not None and entry_id is not None and min(ledger_id, entry_id) >= 0:
            known = self.seeks.get(name)
            if known is None or known.order < order:
                words = row.get("ack_set")
                position = Position(ledger_id, entry_id)
                self.seeks[name] = Seek(order, position, None if words is None else tuple(words))

    def open_clears(self) -> dict[Name, Order]:
        """Return the cleared backlogs that have no later seek."""
        return {
            name: order
            for name, order in self.clears.items()
            if name not in self.seeks or self.seeks[name].order < order
        }


def _note(last: dict[Name, Position], clears: Mapping[Name, Order], row: Mapping[str, Any]) -> None:
    """Record the position of the published entry `row` for each subscription that was cleared after it."""
    order = row.get("file") or "", row["sequence"] or 0
    if row["ledger_id"] is None or row["entry_id"] is None:
        return
    position = Position(row["ledger_id"], row["entry_id"])
    for name, cleared in clears.items():
        if name[0] == row["topic"] and (row["subscription"] or name[1]) == name[1] and order < cleared:
            last[name] = max(last.get(name, position), position)


def _rows(columns: Columns, kinds: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the given kinds as dictionaries."""
    for row in columns.rows_of(kinds).tolist():
        yield columns.row(row)
