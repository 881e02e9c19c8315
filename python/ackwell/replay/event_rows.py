"""A batch of event rows as arrays: checked, and grouped by subscription and by the effect of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell._native import group_rows
from ackwell.ack_sets import BATCH_SIZE_MAX
from ackwell.errors import EventError
from ackwell.replay.events import ENTRY_ID_MAX, NEED_POSITION, Event, Kind, event_from_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.arrays import Int64s
    from ackwell.replay.folded import Order, Seek

    Codes = NDArray[np.int32]

Name = tuple[str, str]
"""Topic and subscription."""

COLUMNS: Final = (
    "topic",
    "subscription",
    "sequence",
    "kind",
    "ledger_id",
    "entry_id",
    "batch_index",
    "batch_size",
    "ack_set",
    "detail",
    "file",
)
"""The columns that a fold reads; the others are never read from their file."""


class Action(IntEnum):
    """The effect of a row on the partial of its subscription."""

    ACK = 0
    """A whole entry is acknowledged."""
    EXISTS = 1
    UP_TO = 2
    """Everything up to a whole entry is acknowledged."""
    SIZED = 3
    """An entry exists and holds a batch."""
    INDEX = 4
    """One message of a batch is acknowledged."""
    ROW = 5
    """An effect that no array method has."""
    NOTHING = 6


_ACTION_OF_KIND: Final = {
    Kind.ACK.value: Action.ACK,
    Kind.PUBLISH.value: Action.EXISTS,
    Kind.DISPATCH.value: Action.EXISTS,
    Kind.RECEIVE.value: Action.EXISTS,
    Kind.ACK_CUMULATIVE.value: Action.UP_TO,
    Kind.CLEAR_BACKLOG.value: Action.UP_TO,
    Kind.SKIP.value: Action.UP_TO,
    Kind.EXPIRE.value: Action.UP_TO,
    Kind.META.value: Action.ROW,
    Kind.SEEK.value: Action.ROW,
}
_KINDS: Final = {kind.value for kind in Kind}
_NEED_POSITION: Final = {kind.value for kind in NEED_POSITION}
_GREATEST: Final = {
    "entry_id": ENTRY_ID_MAX,
    "batch_index": BATCH_SIZE_MAX - 1,
    "batch_size": BATCH_SIZE_MAX,
}
"""Upper limits of columns; see `ackwell.ack_sets` for those of a batch."""

_INDEX_MAX: Final = 62
"""Batch indexes up to this one are folded as bits of one int64."""
_WIDTH_MAX: Final = 1 << 16
"""Codes below this are grouped as they are; with more names, only the codes that occur are counted."""


class Group(NamedTuple):
    """The rows of a batch that have the same effect on one subscription, in their order."""

    name: Name
    action: Action
    ledger_ids: Int64s
    entry_ids: Int64s
    indexes: Int64s
    """Their indexes in the batch; empty if only their positions are needed."""

    def only(self, mask: NDArray[np.bool_]) -> Group:
        """Keep some of the rows."""
        return self._replace(
            ledger_ids=self.ledger_ids[mask],
            entry_ids=self.entry_ids[mask],
            indexes=self.indexes[mask],
        )


class EventRows:
    """The columns of a batch as arrays, checked."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._arrays: dict[str, Int64s] = {}
        self._topic_codes, self._topics = self._encoded("topic")
        self._subscription_codes, self._subscriptions = self._encoded("subscription")
        self._kind_codes, self._kinds = self._encoded("kind")
        for code, kind in enumerate(self._kinds):
            if kind not in _KINDS:
                known = ", ".join(Kind)
                message = f"unknown event kind {kind!r}; known are {known}"
                self._refuse(self._kind_codes == code, message)
        self.ledger_ids = self._integers("ledger_id")
        self.entry_ids = self._integers("entry_id")
        self.batch_indexes = self._integers("batch_index")
        self.batch_sizes = self._integers("batch_size")
        self.sequences = self._integers("sequence")
        # Order by file only if there are files: most tables have one sequence for all.
        self._files = None if self._column("file") is None else self._encoded("file", null="")
        self._check()
        self._actions = self._classify()

    def groups(self, *, indexed: bool) -> Iterator[Group]:
        """Return the rows of each (subscription, action), with their indexes if any row needs them."""
        codes, known = self._coded()
        columns = [self.ledger_ids, self.entry_ids]
        if indexed or self._has_more:
            columns.append(np.arange(len(codes)))
        present, starts, columns = group_rows(codes, len(known), columns)
        ledger_ids, entry_ids, indexes = (*columns, np.empty(0, np.int64))[:3]
        for code, (start, end) in zip(known[present].tolist(), pairwise(starts.tolist()), strict=True):
            pair, action = divmod(code, len(Action))
            topic, subscription = divmod(pair, len(self._subscriptions))
            name = self._topics[topic], self._subscriptions[subscription]
            rows = slice(start, end)
            yield Group(name, Action(action), ledger_ids[rows], entry_ids[rows], indexes[rows])

    def _coded(self) -> tuple[Codes, Int64s]:
        """Return the (topic, subscription, action) of each row as a small code, and what each code means."""
        width = len(self._topics) * len(self._subscriptions) * len(Action)
        if width <= _WIDTH_MAX:
            # Arithmetic with Python integers keeps the arrays int32.
            pairs = self._topic_codes * len(self._subscriptions) + self._subscription_codes
            return pairs * len(Action) + self._actions, np.arange(width)
        wide = self._topic_codes.astype(np.int64) * len(self._subscriptions) + self._subscription_codes
        encoded = pc.dictionary_encode(pa.array(wide * len(Action) + self._actions))
        return encoded.indices.to_numpy(), encoded.dictionary.to_numpy()

    def of_kind(self, *kinds: Kind) -> Int64s:
        """Find the rows of some kinds."""
        codes = [code for code, kind in enumerate(self._kinds) if kind in kinds]
        return np.flatnonzero(np.isin(self._kind_codes, codes)) if codes else np.empty(0, np.int64)

    def sizes(self, indexes: Int64s) -> Int64s:
        """Return the size of each row's batch, as far as the row says it."""
        sizes = self.batch_sizes[indexes]
        return np.where(sizes > 0, sizes, self.batch_indexes[indexes] + 1)

    def bounds(self, indexes: Int64s) -> tuple[Order, Order]:
        """Return the order of the first and the last of these rows."""
        sequences = self.sequences[indexes]
        if self._files is None:
            return ("", int(sequences.min())), ("", int(sequences.max()))
        codes, files = self._files
        orders = [
            (file, int(part.min()), int(part.max()))
            for code, file in enumerate(files)
            if len(part := sequences[codes[indexes] == code])
        ]
        first, last = min(orders), max(orders)
        return (first[0], first[1]), (last[0], last[2])

    def after(self, seek: Seek, indexes: Int64s) -> NDArray[np.bool_]:
        """Return which rows come after a seek."""
        sequences = self.sequences[indexes]
        if self._files is None:
            return (sequences > seek.order[1]) & (seek.order[0] == "")
        codes, files = self._files
        same = np.array([file == seek.order[0] for file in files])[codes[indexes]]
        beyond = np.array([file > seek.order[0] for file in files])[codes[indexes]]
        return beyond | (same & (sequences > seek.order[1]))

    def events(self, indexes: Int64s) -> Iterator[Event]:
        """Return rows as events, checked as those of a trace are."""
        if not len(indexes):
            return
        for fields in self._batch.take(pa.array(np.sort(indexes))).to_pylist():
            file = fields.get("file")
            yield event_from_fields(fields, file=file, line=fields.get("sequence"))

    def _check(self) -> None:
        """Refuse rows that are no events, by the rules of `ackwell.replay.events.event_from_fields`."""
        for name in ("ledger_id", "entry_id"):
            column = self._column(name)
            if column is None or column.null_count:
                missing = self._constant(True) if column is None else _nulls(column)
                needs_position = np.array([kind in _NEED_POSITION for kind in self._kinds])
                self._refuse(
                    missing & needs_position[self._kind_codes],
                    "no position; this kind needs a ledger id and an entry id",
                )
        for name in ("ledger_id", "entry_id", "sequence", "batch_index", "batch_size"):
            column, values = self._column(name), self._integers(name)
            if column is not None and values.min() < 0:
                negative = (values < 0) & ~_nulls(column)
                self._refuse(negative, f"{name} is negative; it is at least 0")
        for name, greatest in _GREATEST.items():
            values = self._integers(name)
            if values.max() > greatest:
                self._refuse(values > greatest, f"{name} is above {greatest}, the greatest possible")

    def _classify(self) -> Codes:
        """Return the action of each row."""
        # These actions need more than a position.
        self._has_more = any(_ACTION_OF_KIND.get(kind) is Action.ROW for kind in self._kinds)
        by_kind = np.array([_ACTION_OF_KIND.get(kind, Action.NOTHING) for kind in self._kinds], np.int32)
        actions = by_kind[self._kind_codes]
        ledger_ids = self._column("ledger_id")
        if Action.UP_TO in by_kind and (ledger_ids is None or ledger_ids.null_count):
            # A cleared backlog without a position is one of the `Turns`.
            actions[(actions == Action.UP_TO) & (self.ledger_ids < 0)] = Action.NOTHING
        if self._column("batch_index") is not None or self._column("batch_size") is not None:
            self._has_more = True
            indexed = self._present("batch_index")
            batched = indexed | self._present("batch_size")
            actions[batched & (actions == Action.EXISTS)] = Action.SIZED
            actions[batched & (actions == Action.UP_TO)] = Action.ROW
            acks = actions == Action.ACK
            actions[acks & batched] = Action.ROW
            actions[acks & indexed & (self.batch_indexes <= _INDEX_MAX)] = Action.INDEX
        if self._column("ack_set") is not None:
            self._has_more = True
            partly = (actions == Action.ACK) | (actions == Action.UP_TO) | (actions == Action.INDEX)
            actions[self._present("ack_set") & partly] = Action.ROW
        return actions

    def _present(self, name: str) -> NDArray[np.bool_]:
        column = self._column(name)
        return self._constant(False) if column is None else ~_nulls(column)

    def _constant(self, value: bool) -> NDArray[np.bool_]:
        return np.full(self._batch.num_rows, value)

    def _column(self, name: str) -> pa.Array | None:
        """Return a column; `None` if it is missing or all null."""
        index = self._batch.schema.get_field_index(name)
        column = None if index < 0 else self._batch.column(index)
        return None if column is None or column.null_count == len(column) else column

    def _integers(self, name: str) -> Int64s:
        """Return an int64 column, -1 for null."""
        if name not in self._arrays:
            column = self._column(name)
            if column is None:
                self._arrays[name] = np.broadcast_to(np.int64(-1), self._batch.num_rows)
            else:
                column = column.fill_null(-1) if column.null_count else column
                self._arrays[name] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return self._arrays[name]

    def _encoded(self, name: str, null: str | None = None) -> tuple[Codes, list[str]]:
        column = self._column(name)
        if column is None:
            known = self._batch.schema.get_field_index(name) >= 0
            raise EventError(f"{name} is null" if known else f"no column {name!r}")
        if null is not None:
            column = column.cast(pa.string()).fill_null(null)
        elif column.null_count:
            self._refuse(_nulls(column), f"{name} is null")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return column.indices.cast(pa.int32()).to_numpy(zero_copy_only=False), column.dictionary.to_pylist()

    def _refuse(self, mask: NDArray[np.bool_], message: str) -> None:
        """Raise `EventError` for the first row in `mask`, if any."""
        if not mask.any():
            return
        index = int(mask.argmax())
        fields = self._batch.slice(index, 1).to_pylist()[0]
        where = f"{fields.get('topic')}, {fields.get('subscription')}: "
        raise EventError(where + message, file=fields.get("file"), line=fields.get("sequence"))


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask
