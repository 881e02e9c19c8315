"""Fold columns of events into partials, a batch of rows at a time; runs on the executors.

A batch is grouped by (subscription, what its rows do), natively and by dictionary codes, so that every
group goes to `Partial` as arrays. Rows that no array method serves (settings, seeks, ack sets)
are fed one by one. The result is the same as `Partial.feed` gives, event by event and in any order,
but for seeks and cleared backlogs: where those turn the order around must be known before (`Turns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ackwell.errors import EventError
from ackwell.position import Position
from ackwell.replay import tables
from ackwell.replay.event_rows import Action, EventRows, Group, Name
from ackwell.replay.events import Kind
from ackwell.replay.folded import Folded, Turns

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.replay.partial import Partial


class Fold:
    """Partials of many subscriptions, fed with batches of event rows.

    `turns` are the seeks and cleared backlogs of all events, where they are known before. `ordered` keeps
    the order of each partial's first and last acknowledgment, which a later seek must know; where all
    events are folded at once and their seeks are known, there is no later one.
    """

    def __init__(self, turns: Turns | None = None, *, ordered: bool = True) -> None:
        self._turns = turns or Turns({}, {})
        self._turns_known = turns is not None
        self._ordered = ordered or turns is None
        self._folded: dict[Name, Folded] = {}

    def __len__(self) -> int:
        return len(self._folded)

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take in rows whose columns are those of `COLUMNS`; optional ones may be missing."""
        if batch.num_rows == 0:
            return
        rows = EventRows(batch)
        if not self._turns_known:
            self._turn(rows)
        indexed = self._ordered or not self._turns_known or bool(self._turns.seeks)
        for group in rows.groups(indexed=indexed):
            folded = self._folded.get(group.name)
            if folded is None:
                folded = self._folded[group.name] = begin(group.name, self._turns)
            self._apply(folded, rows, group)

    def _turn(self, rows: EventRows) -> None:
        """Take the seeks of a batch first, for they make its earlier acknowledgments void."""
        for event in rows.events(rows.of_kind(Kind.SEEK, Kind.CLEAR_BACKLOG)):
            if event.kind is Kind.CLEAR_BACKLOG and event.ledger_id is None:
                raise EventError(
                    "a cleared backlog without position cannot be streamed; "
                    "record the last position published before it",
                    file=event.file,
                    line=event.sequence,
                )
            name = event.topic, event.subscription
            if name not in self._folded:
                self._folded[name] = begin(name, self._turns)
            self._folded[name].feed(event)

    def partials(self) -> Iterator[pa.RecordBatch]:
        """Return the rows of the table `PARTIALS`, and forget what was folded."""
        folded, self._folded = self._folded, {}
        yield from partial_rows(folded)

    def _apply(self, folded: Folded, rows: EventRows, group: Group) -> None:
        if group.action in _ACKNOWLEDGING:
            if folded.seek is not None:
                group = group.only(rows.after(folded.seek, group.indexes))
                if not len(group.ledger_ids):
                    return
            if self._ordered:
                folded.cover(*rows.bounds(group.indexes))
        if group.action is Action.ROW:
            for event in rows.events(group.indexes):
                folded.feed(event)
        elif group.action is not Action.NOTHING:
            _APPLY[group.action](folded.partial, rows, group)


def begin(name: Name, turns: Turns) -> Folded:
    """Begin the partial of a subscription."""
    folded = Folded(turns.seeks.get(name))
    if name in turns.clears:
        order, last = turns.clears[name]
        folded.partial.acknowledge_up_to(last)
        folded.cover(order, order)
    return folded


def fold_batches(batches: Iterable[pa.RecordBatch], turns: Turns | None = None) -> Iterator[pa.RecordBatch]:
    """Fold event rows into rows of the table `PARTIALS`."""
    fold = Fold(turns)
    for batch in batches:
        fold.feed(batch)
    yield from fold.partials()


def _acknowledge(partial: Partial, _: EventRows, group: Group) -> None:
    partial.acknowledge_many(group.ledger_ids, group.entry_ids)


def _publish(partial: Partial, _: EventRows, group: Group) -> None:
    partial.publish_many(group.ledger_ids, group.entry_ids)


def _acknowledge_up_to(partial: Partial, _: EventRows, group: Group) -> None:
    last = group.ledger_ids.max()
    entry_id = group.entry_ids[group.ledger_ids == last].max()
    partial.acknowledge_up_to(Position(int(last), int(entry_id)))


def _publish_batches(partial: Partial, rows: EventRows, group: Group) -> None:
    _publish(partial, rows, group)
    for position, size in _reduced(group, rows.sizes(group.indexes), np.maximum):
        partial.has_size(position, size)


def _acknowledge_indexes(partial: Partial, rows: EventRows, group: Group) -> None:
    told = rows.batch_sizes[group.indexes]
    sized = told >= 0
    for position, size in _reduced(group.only(sized), told[sized], np.maximum):
        partial.has_size(position, size)
    bits = np.left_shift(1, rows.batch_indexes[group.indexes])
    for position, acked in _reduced(group, bits, np.bitwise_or):
        partial.acknowledge(position, ~acked)


_APPLY: Final = {
    Action.ACK: _acknowledge,
    Action.EXISTS: _publish,
    Action.UP_TO: _acknowledge_up_to,
    Action.SIZED: _publish_batches,
    Action.INDEX: _acknowledge_indexes,
}
_ACKNOWLEDGING: Final = (Action.ACK, Action.UP_TO, Action.INDEX)

PARTIAL_SCHEMA: Final = tables.arrow_schema(tables.PARTIALS)
_ROWS: Final = 1_000
"""Rows of one batch of partials: some MB."""


def partial_rows(folded: Mapping[Name, Folded]) -> Iterator[pa.RecordBatch]:
    """Return partials as rows of the table `PARTIALS`."""
    rows: list[tuple[str, str, int | None, bytes]] = []
    for name, item in folded.items():
        for ledger_id, state in item.encode():
            rows.append((*name, ledger_id, state))
            if len(rows) == _ROWS:
                yield _record_batch(rows)
                rows = []
    if rows:
        yield _record_batch(rows)


def _record_batch(rows: list[tuple[str, str, int | None, bytes]]) -> pa.RecordBatch:
    columns = [
        pa.array(column, type=field.type)
        for column, field in zip(zip(*rows, strict=True), PARTIAL_SCHEMA, strict=True)
    ]
    return pa.record_batch(columns, schema=PARTIAL_SCHEMA)


def _reduced(group: Group, values: Int64s, join: np.ufunc) -> Iterator[tuple[Position, int]]:
    """Join the values of each position."""
    ledger_ids, entry_ids = group.ledger_ids, group.entry_ids
    if not len(ledger_ids):
        return
    order = np.lexsort((entry_ids, ledger_ids))
    ledger_ids, entry_ids = ledger_ids[order], entry_ids[order]
    changes = (ledger_ids[1:] != ledger_ids[:-1]) | (entry_ids[1:] != entry_ids[:-1])
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
    joined = join.reduceat(values[order], starts)
    positions = map(Position, ledger_ids[starts].tolist(), entry_ids[starts].tolist())
    yield from zip(positions, joined.tolist(), strict=True)
