"""Partials to cursors, on the executors: merge, apply the mark-delete rule, build the row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from ackwell import Ledgers
from ackwell.errors import ProtocolError
from ackwell.replay import tables
from ackwell.replay.columns import partial_rows
from ackwell.replay.events import Event, Kind
from ackwell.replay.folded import Folded
from ackwell.replay.states import SubscriptionState, cursor_settings, settings_of
from ackwell.spark.tasks.rows import cursor_row

Name = tuple[str, str]

CURSOR_SCHEMA: Final = tables.arrow_schema(tables.CURSORS)
_ROWS: Final = 64
"""Cursors of one batch: each may hold a long text of ranges."""


def merge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join partials of one (topic, subscription, ledger) into one row."""
    merged: dict[tuple[str, str, int | None], Folded] = {}
    for batch in batches:
        for topic, subscription, ledger_id, state in _rows(batch):
            part = Folded.decode(ledger_id, state)
            _join(merged, (topic, subscription, ledger_id), part)
    for (topic, subscription, _), folded in merged.items():
        yield from partial_rows({(topic, subscription): folded})


def cursor_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the partials of each subscription and give its cursor's row."""
    merged: dict[Name, Folded] = {}
    directories: dict[Name, dict[int, int]] = {}
    for batch in batches:
        given = batch.column("directory")
        for index, (topic, subscription, ledger_id, state) in enumerate(_rows(batch)):
            if state is None:
                directories[topic, subscription] = dict(given[index].as_py())
            else:
                _join(merged, (topic, subscription), Folded.decode(ledger_id, state))
    rows: list[dict[str, Any]] = []
    for name in sorted(merged):
        # Taken out one by one, so that what is finished is freed.
        rows.append(cursor_row(state_of(name, merged.pop(name), directories.get(name))))
        if len(rows) == _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=CURSOR_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=CURSOR_SCHEMA)


def state_of(name: Name, folded: Folded, directory: dict[int, int] | None = None) -> SubscriptionState:
    """Return the state of a subscription whose events are all folded."""
    partial = folded.partial
    settings = {}
    if folded.settings is not None:
        (file, sequence), detail = folded.settings
        settings = settings_of(Event(*name, sequence, Kind.META, detail=detail, file=file))
    if folded.seek is not None:
        partial.seek = (*folded.seek.order, folded.seek.position)
    ledgers = None if directory is None else Ledgers(sorted(directory.items()))
    try:
        cursor = partial.cursor(ledgers, settings=cursor_settings(settings))
    except ProtocolError as error:
        raise ProtocolError(f"{name[0]}, {name[1]}: {error}") from None
    return SubscriptionState(*name, cursor, partial.batch_sizes, settings)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, str, int | None, bytes]]:
    columns = ("topic", "subscription", "ledger_id", "state")
    return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _join(merged: dict[Any, Folded], name: Any, part: Folded) -> None:
    known = merged.get(name)
    if known is None:
        merged[name] = part
    else:
        known.merge(part)
