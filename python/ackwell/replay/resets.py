"""Resets: the events whose order matters. They must be known before events can be folded in any order.

There are three kinds of resets. A seek voids the acknowledgments before it. A cleared backlog without a
position acknowledges the entries that were published before it. A commit makes the acknowledgments of its
transaction take effect. Resets are rare, so `find_resets` finds them in a pass before the fold.
`ackwell.spark.reset_query` finds them with a Spark query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.position import Position
from ackwell.replay.events import EFFECTS, Kind

if TYPE_CHECKING:
    from ackwell.replay.event_columns import Columns

Name = tuple[str, str]
"""The topic and the subscription."""

Order = tuple[str, int]
"""The file and the sequence of an event. Events are ordered by this pair."""


class Seek(NamedTuple):
    """A seek. `order` is the place of its event, and `position` the next position to read after the seek."""

    order: Order
    position: Position
    ack_set: tuple[int, ...] | None = None
    """The ack set of the entry at `position`: bit 1 means unacknowledged. None if all its messages are
    unacknowledged."""


class Resets(NamedTuple):
    """The resets among some events: seeks, cleared backlogs without a position, and commits."""

    seeks: dict[Name, Seek]
    """The last seek of each subscription."""
    clears: dict[Name, tuple[Order, Position]]
    """Maps a subscription to its last cleared backlog: the place of the event, and the last position that was
    published before this event. A subscription with a later seek is left out."""
    committed: frozenset[tuple[str, str, str]] = frozenset()
    """The topic, subscription and transaction of each commit."""
    unresolved_clears: dict[Name, Order] = {}  # noqa: RUF012 (a named tuple has no other way)
    """Maps a subscription to the place of the event that last cleared its backlog, if the events contain no
    publish before this event. A subscription with a later seek is left out."""


NO_RESETS: Final = Resets({}, {})

RESETTING: Final = frozenset(kind.value for kind, effect in EFFECTS.items() if effect.resets)
"""The kinds of resets. A fold in any order needs all events of these kinds before it folds other events."""

PUBLISHING: Final = frozenset(kind.value for kind, effect in EFFECTS.items() if effect.exists)
"""The kinds of events that prove that their entry exists."""

Batches = Callable[[], "Iterable[Columns]"]
"""A function that reads event rows from their start. Each call yields the same rows."""


def find_resets(batches: Batches, resetting: Batches | None = None) -> Resets:
    """Find the resets of events in one or two passes.

    The first pass finds the resets. If a backlog was cleared, a second pass finds the last publish before it.
    Each pass calls `batches`. If `resetting` is given, the first pass calls `resetting` instead of `batches`.
    `resetting` may omit the rows of other kinds.
    """
    found = ResetSearch()
    for columns in (resetting or batches)():
        for row in _rows(columns, RESETTING):
            found.add(row)
    clears = found.open_clears()
    last: dict[Name, Position] = {}
    topics = {name[0] for name in clears}
    for columns in batches() if clears else ():
        for row in _rows(columns, PUBLISHING):
            if row["topic"] in topics:
                _note(last, clears, row)
    return found.resets(last)


class ResetSearch:
    """A search for resets. Event rows are added in any order, and `resets` returns the result."""

    def __init__(self) -> None:
        self.seeks: dict[Name, Seek] = {}
        self.clears: dict[Name, Order] = {}
        self.committed: set[tuple[str, str, str]] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of a reset kind."""
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
        """Return the place of the event that last cleared the backlog of each subscription.

        Subscriptions with a later seek are left out.
        """
        return {
            name: order
            for name, order in self.clears.items()
            if name not in self.seeks or self.seeks[name].order < order
        }

    def resets(self, last: Mapping[Name, Position]) -> Resets:
        """Return the resets.

        For each subscription in `open_clears`, `last` has the last position that was published before its
        backlog was cleared.
        """
        clears = self.open_clears()
        return Resets(
            self.seeks,
            {name: (order, last[name]) for name, order in clears.items() if name in last},
            frozenset(self.committed),
            {name: order for name, order in clears.items() if name not in last},
        )


def _note(last: dict[Name, Position], clears: Mapping[Name, Order], row: Mapping[str, Any]) -> None:
    """Record in `last` the position that `row` publishes.

    `last` maps a subscription to the greatest position that was published before its backlog was cleared.
    `clears` has the place of the event that cleared the backlog.
    """
    order = row.get("file") or "", row["sequence"] or 0
    if row["ledger_id"] is None or row["entry_id"] is None:
        return
    position = Position(row["ledger_id"], row["entry_id"])
    for name, cleared in clears.items():
        if name[0] == row["topic"] and (row["subscription"] or name[1]) == name[1] and order < cleared:
            last[name] = max(last.get(name, position), position)


def _rows(columns: Columns, kinds: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield a dictionary for each row whose kind is in `kinds`."""
    for row in columns.rows_of(kinds).tolist():
        yield columns.row(row)
