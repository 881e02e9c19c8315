"""A batch of event rows as arrays: checked, and grouped by subscription and by what the rows do."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell.errors import EventError
from ackwell.events import Event, Kind, event_from_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.spark.folded import Order, Seek

    Ints = NDArray[np.int64]

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
"""What a fold reads of an event; the other columns never leave their file."""


class Action(IntEnum):
    """What a row does to its subscription's partial."""

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
    """Something that no array method serves."""
    NOTHING = 6


_ACTION_OF_KIND: Final = {
    Kind.ACK.value: Action.ACK,
    Kind.PUBLISH.value: Action.EXISTS,
    Kind.RECEIVE.value: Action.EXISTS,
    Kind.ACK_CUMULATIVE.value: Action.UP_TO,
    Kind.CLEAR_BACKLOG.value: Action.UP_TO,
    Kind.META.value: Action.ROW,
    Kind.SEEK.value: Action.ROW,
}
_KINDS: Final = {kind.value for kind in Kind}
_NEED_POSITION: Final = {Kind.NACK.value} | _ACTION_OF_KIND.keys() - {
    Kind.META.value,
    Kind.CLEAR_BACKLOG.value,
}
_INDEX_MAX: Final = 62
"""Batch indexes up to here are folded as bits of one int64."""


class EventRows:
    """The columns of a batch as arrays, checked."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._arrays: dict[str, Ints] = {}
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
        # Order by file only where there are files: most tables have one sequence for all.
        self._files = None if self._column("file") is None else self._encoded("file", null="")
        self._check(np.array([kind in _NEED_POSITION for kind in self._kinds])[self._kind_codes])
        self._actions = self._classify()

    def groups(self) -> Iterator[tuple[Name, Action, Ints]]:
        """Give the rows of each (subscription, action), in their order."""
        codes = self._topic_codes * len(self._subscriptions) + self._subscription_codes
        codes = codes * len(Action) + self._actions
        width = len(self._topics) * len(self._subscriptions) * len(Action)
        if width > np.iinfo(np.uint16).max:
            encoded = pc.dictionary_encode(pa.array(codes))
            known = encoded.dictionary.to_numpy()
            codes, width = encoded.indices.to_numpy(), len(known)
        else:
            known = np.arange(width)
        # A stable sort of 16-bit integers is a radix sort: O(n).
        small = np.uint16 if width <= np.iinfo(np.uint16).max else np.int32
        codes = codes.astype(small)
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1, [len(codes)]))
        for start, end in pairwise(starts):
            pair, action = divmod(int(known[codes[start]]), len(Action))
            topic, subscription = divmod(pair, len(self._subscriptions))
            name = self._topics[topic], self._subscriptions[subscription]
            yield name, Action(action), order[start:end]

    def of_kind(self, *kinds: Kind) -> Ints:
        """Find the rows of some kinds."""
        codes = [code for code, kind in enumerate(self._kinds) if kind in kinds]
        return np.flatnonzero(np.isin(self._kind_codes, codes)) if codes else np.empty(0, np.int64)

    def sizes(self, indexes: Ints) -> Ints:
        """Give the batch's size as far as each row tells it."""
        sizes = self.batch_sizes[indexes]
        return np.where(sizes > 0, sizes, self.batch_indexes[indexes] + 1)

    def bounds(self, indexes: Ints) -> tuple[Order, Order]:
        """Give the order of the first and the last of these rows."""
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

    def after(self, seek: Seek | None, indexes: Ints) -> Ints:
        """Keep the rows that come after a seek."""
        if seek is None:
            return indexes
        sequences = self.sequences[indexes]
        if self._files is None:
            later = (sequences > seek.order[1]) & (seek.order[0] == "")
        else:
            codes, files = self._files
            same = np.array([file == seek.order[0] for file in files])[codes[indexes]]
            beyond = np.array([file > seek.order[0] for file in files])[codes[indexes]]
            later = beyond | (same & (sequences > seek.order[1]))
        return indexes[later]

    def events(self, indexes: Ints) -> Iterator[Event]:
        """Give rows as events, checked as those of a trace are."""
        if not len(indexes):
            return
        for fields in self._batch.take(pa.array(np.sort(indexes))).to_pylist():
            file = fields.get("file")
            yield event_from_fields(fields, file=file, line=fields["sequence"])

    def _check(self, needs_position: NDArray[np.bool_]) -> None:
        """Refuse what is no event, by the rules of `ackwell.events.event_from_fields`."""
        for name in ("ledger_id", "entry_id"):
            column = self._column(name)
            if column is None or column.null_count:
                missing = self._constant(True) if column is None else _nulls(column)
                self._refuse(
                    missing & needs_position,
                    "no position; this kind needs a ledger id and an entry id",
                )
        for name in ("ledger_id", "entry_id", "sequence", "batch_index", "batch_size"):
            column, values = self._column(name), self._integers(name)
            if column is not None and values.min() < 0:
                negative = (values < 0) & ~_nulls(column)
                self._refuse(negative, f"{name} is negative; it is at least 0")

    def _classify(self) -> Ints:
        """Tell what each row does."""
        actions = np.array([_ACTION_OF_KIND.get(kind, Action.NOTHING) for kind in self._kinds])[
            self._kind_codes
        ]
        # A cleared backlog without position is among the turns.
        actions[(actions == Action.UP_TO) & (self.ledger_ids < 0)] = Action.NOTHING
        if self._column("batch_index") is not None or self._column("batch_size") is not None:
            indexed = self._present("batch_index")
            batched = indexed | self._present("batch_size")
            actions[batched & (actions == Action.EXISTS)] = Action.SIZED
            actions[batched & (actions == Action.UP_TO)] = Action.ROW
            acks = actions == Action.ACK
            actions[acks & batched] = Action.ROW
            actions[acks & indexed & (self.batch_indexes <= _INDEX_MAX)] = Action.INDEX
        if self._column("ack_set") is not None:
            partly = (actions == Action.ACK) | (actions == Action.UP_TO) | (actions == Action.INDEX)
            actions[self._present("ack_set") & partly] = Action.ROW
        return actions

    def _present(self, name: str) -> NDArray[np.bool_]:
        column = self._column(name)
        return self._constant(False) if column is None else ~_nulls(column)

    def _constant(self, value: bool) -> NDArray[np.bool_]:
        return np.full(self._batch.num_rows, value)

    def _column(self, name: str) -> pa.Array | None:
        """Give a column; `None` where it is missing or holds nothing but nulls."""
        index = self._batch.schema.get_field_index(name)
        column = None if index < 0 else self._batch.column(index)
        return None if column is None or column.null_count == len(column) else column

    def _integers(self, name: str) -> Ints:
        """Give an int64 column, -1 for null."""
        if name not in self._arrays:
            column = self._column(name)
            if column is None:
                self._arrays[name] = np.broadcast_to(np.int64(-1), self._batch.num_rows)
            else:
                column = column.fill_null(-1) if column.null_count else column
                self._arrays[name] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return self._arrays[name]

    def _encoded(self, name: str, null: str | None = None) -> tuple[Ints, list[str]]:
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
        return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()

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
