"""Events as columns of NumPy arrays: the result of each reader and the input of the fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from ackwell._native import Names
from ackwell.integers import INT64_MIN
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.replay.events import Event

    Ints = NDArray[np.int64]

NULL: Final = INT64_MIN
"""The integer that represents null in columns of integers."""


class Texts(Protocol):
    """A sequence of texts: a list, or the native `Names`."""

    def __len__(self) -> int:
        """Return the number of texts."""

    def __getitem__(self, code: int, /) -> str:
        """Return the text that has the given code."""


class Columns(NamedTuple):
    """Events as columns. A column of integers is an int64 array with `NULL` for null.

    A column of texts is a pair `(codes, texts)`. `codes` has one code for each row, and `texts[code]` is the
    text of the row. If `codes` is None, each row has code 0.
    """

    topics: tuple[NDArray[np.int32] | None, Texts]
    subscriptions: tuple[NDArray[np.int32] | None, Texts]
    """The subscription of each event. An empty name means that the event is about the topic as a whole."""
    kinds: tuple[NDArray[np.int32] | None, Sequence[str | None]]
    ledger_ids: Ints
    entry_ids: Ints
    sequences: Ints | None = None
    """The sequence of each event. None if the order of the events does not matter and error messages need
    not name the sequence."""
    batch_indexes: Ints | None = None
    batch_sizes: Ints | None = None
    ack_sets: tuple[Ints, Ints] | None = None
    """Two arrays: the indexes in `words` at which each row's ack set starts, and those at which it ends."""
    words: Ints | None = None
    files: tuple[NDArray[np.int32] | None, Sequence[str]] | None = None
    transactions: tuple[NDArray[np.int32] | None, Texts] | None = None
    """The transaction of each event. An empty name means that the event is not in a transaction."""
    settings: dict[int, str] | None = None
    """Maps the number of each `meta` row that has broker settings to the settings, as JSON text."""

    def head(self, rows: int) -> Columns:
        """Return the first `rows` rows."""
        return self if rows >= len(self.ledger_ids) else self.take(slice(rows))

    def take(self, rows: slice | Ints) -> Columns:
        """Return the rows with the given numbers, which must ascend. A slice is returned without a copy."""

        def selected(values: Any) -> Any:
            return None if values is None else values[rows]

        def named(codes: Any) -> Any:
            return None if codes is None else (selected(codes[0]), codes[1])

        settings = self.settings
        if settings:
            numbers = np.arange(len(self.ledger_ids))[rows].tolist()
            settings = {new: settings[row] for new, row in enumerate(numbers) if row in settings}
        return Columns(
            topics=named(self.topics),
            subscriptions=named(self.subscriptions),
            kinds=named(self.kinds),
            ledger_ids=selected(self.ledger_ids),
            entry_ids=selected(self.entry_ids),
            sequences=selected(self.sequences),
            batch_indexes=selected(self.batch_indexes),
            batch_sizes=selected(self.batch_sizes),
            ack_sets=self.ack_sets and (selected(self.ack_sets[0]), selected(self.ack_sets[1])),
            words=self.words,
            files=named(self.files),
            transactions=named(self.transactions),
            settings=settings,
        )

    def rows_of(self, kinds: frozenset[str]) -> Ints:
        """Return the numbers of the rows whose kind is in `kinds`, in ascending order."""
        codes = [code for code, kind in enumerate(self.kinds[1]) if kind in kinds]
        if not codes:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isin(codes_of(self.kinds, len(self.ledger_ids)), codes))

    def row(self, row: int) -> dict[str, Any]:
        """Return one row as a dictionary from column name to value. A null is None."""

        def integer(values: Ints | None) -> int | None:
            value = NULL if values is None else int(values[row])
            return None if value == NULL else value

        ack_set = None
        if self.ack_sets is not None and self.words is not None and self.ack_sets[0][row] != NULL:
            ack_set = self.words[self.ack_sets[0][row] : self.ack_sets[1][row]].tolist()
        return {
            "topic": name_at(self.topics, row),
            "subscription": name_at(self.subscriptions, row),
            "kind": self.kinds[1][code_at(self.kinds, row)],
            "ledger_id": integer(self.ledger_ids),
            "entry_id": integer(self.entry_ids),
            "sequence": integer(self.sequences),
            "ack_set": ack_set,
            "transaction": None if self.transactions is None else name_at(self.transactions, row) or None,
            "file": "" if self.files is None else name_at(self.files, row),
        }


def columns_of(events: Sequence[Event]) -> Columns:
    """Return events as columns."""
    topics, subscriptions, transactions, files = Names(), Names([""]), Names([""]), Names()

    def integers(name: str) -> Ints:
        values = [NULL if (value := getattr(event, name)) is None else value for event in events]
        return np.array(values, np.int64)

    sets = [event.ack_set for event in events]
    ends = np.cumsum([len(words or ()) for words in sets], dtype=np.int64)
    starts = ends - np.array([len(words or ()) for words in sets], np.int64)
    starts[np.array([words is None for words in sets], bool)] = NULL
    kinds = [kind.value for kind in Kind]
    codes = {kind: code for code, kind in enumerate(kinds)}

    def numbered(known: Any, names: Iterable[str | None]) -> tuple[NDArray[np.int32], Any]:
        return np.array([known.number(name or "") for name in names], np.int32), known

    return Columns(
        topics=numbered(topics, (event.topic for event in events)),
        subscriptions=numbered(subscriptions, (event.subscription for event in events)),
        kinds=(np.array([codes[event.kind.value] for event in events], np.int32), kinds),
        ledger_ids=integers("ledger_id"),
        entry_ids=integers("entry_id"),
        sequences=integers("sequence"),
        batch_indexes=integers("batch_index"),
        batch_sizes=integers("batch_size"),
        ack_sets=(starts, ends),
        words=np.array([word for words in sets for word in words or ()], np.int64),
        files=numbered(files, (event.file for event in events)),
        transactions=numbered(transactions, (event.transaction for event in events)),
        settings={
            row: event.detail
            for row, event in enumerate(events)
            if event.kind is Kind.META and event.detail is not None
        },
    )


def codes_of(codes: tuple[NDArray[np.int32] | None, Any], count: int) -> NDArray[np.int32]:
    """Return an array with the code of each row. `codes` is a column of texts with `count` rows."""
    return np.zeros(count, np.int32) if codes[0] is None else codes[0]


def code_at(codes: tuple[NDArray[np.int32] | None, Any], row: int) -> int:
    """Return the code of a row in a column of texts."""
    return 0 if codes[0] is None else int(codes[0][row])


def name_at(codes: tuple[NDArray[np.int32] | None, Texts], row: int) -> str:
    """Return the text of a row in a column of texts."""
    return codes[1][code_at(codes, row)]
