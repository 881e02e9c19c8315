"""The acknowledgments that a restart would lose, computed from the columns of folded cursors.

The rules are those of `ackwell.broker.restart`. The ack sets and batch sizes stay in the columns of
`Partials.cursors`, so that no Python object is created per batch. Therefore Rust counts the acknowledged
messages of a batch, by the rule of `BatchSizes.acked`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ackwell.broker.batch_sizes import BatchSizes, Bounds, CountedAckSets, CountedSizes
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.restart import restart_loss
from ackwell.broker.writes import not_read_back
from ackwell.cursor.cursor_state import CursorState
from ackwell.position import Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell import PositionRangeSet

    Ints = NDArray[np.int64]


class Losses(NamedTuple):
    """The loss of each row of a table of cursors, with its reason.

    The loss is the number of acknowledged messages that a graceful restart of a 4.2 broker forgets.
    """

    at_least: Ints
    at_most: Ints
    """The upper bound of each row's loss; `UNBOUNDED` if there is no known upper bound."""
    codes: NDArray[np.int32]
    """The reason of each row's loss, as an index in `reasons`."""
    reasons: list[str | None]

    def messages(self, row: int) -> Bounds:
        """Return the lower and upper bound of the number of messages that a row loses."""
        at_most = int(self.at_most[row])
        return Bounds(int(self.at_least[row]), None if at_most == UNBOUNDED else at_most)


UNBOUNDED: Final = -1


def losses_of(columns: dict[str, Any]) -> Losses:
    """Return the loss of each row of `Partials.cursors`. A row without a cursor has the loss 0."""
    from ackwell import Ledgers, PositionRangeSet

    integers, sets, ledgers = columns["integers"], columns["batch_deleted"], columns["ledgers"]
    # A close writes the other cursors to the metadata store. The next broker reads back all their ranges, but
    # no ack set.
    large = BrokerSettings().needs_ledger(integers["range_count"])
    counts = np.where(large, 0, np.diff(sets["offsets"]))
    acked, unsure = (_sums(values, sets["offsets"]) for values in _acked(sets["acked"]))
    at_least = np.where(counts > 0, acked, 0)
    at_most = np.where((counts > 0) & (unsure > 0), UNBOUNDED, at_least)
    distinct, codes = np.unique(np.where(at_most == 0, 0, counts), return_inverse=True)
    reasons = [str(not_read_back(count)) if count else None for count in distinct.tolist()]
    for row in np.flatnonzero(large).tolist():
        own = slice(*ledgers["offsets"][row : row + 2].tolist())
        mark_delete = [int(integers[name][row]) for name in ("mark_delete_ledger_id", "mark_delete_entry_id")]
        state = CursorState(
            Position(*mark_delete),
            PositionRangeSet.parse(text_at(columns["individually_deleted"], row).decode()),
            AckSetColumns(sets, *sets["offsets"][row : row + 2].tolist()),
            Ledgers(list(zip(ledgers["ids"][own].tolist(), ledgers["entries"][own].tolist(), strict=True))),
        )
        loss = restart_loss(state, batch_sizes=unpack_sizes(text_at(columns["batch_sizes"], row) or None))
        most = loss.messages.at_most
        at_least[row], at_most[row] = loss.messages.at_least, UNBOUNDED if most is None else most
        codes[row] = len(reasons)
        reasons.append("; ".join(map(str, loss.reasons)) or None)
    return Losses(at_least, at_most, codes.astype(np.int32), reasons)


def _acked(acked: Ints) -> tuple[Ints, Ints]:
    """Decode the column `acked`. Return two arrays with a value for each ack set.

    The first array has the minimum number of acknowledged messages. The second array has 1 if the number can
    be greater than this minimum, else 0.
    """
    return np.where(acked < 0, -acked - 1, acked), (acked < 0).astype(np.int64)


def _sums(values: Ints, offsets: NDArray[np.int32]) -> Ints:
    """Return the sum of each row's values. Those of row `i` are `values[offsets[i] : offsets[i + 1]]`."""
    sums: Ints = np.diff(np.concatenate(([0], np.cumsum(values)))[offsets])
    return sums


def text_at(texts: dict[str, Any], row: int) -> bytes:
    """Return the text of a row in a column of texts, as bytes."""
    start, end = texts["offsets"][row : row + 2].tolist()
    return bytes(texts["data"][start:end])


class AckSetColumns(CountedAckSets):
    """The ack sets of one row. They are views of the columns that contain the ack sets of all rows."""

    def __init__(self, columns: dict[str, Any], start: int, end: int) -> None:
        self._columns = columns
        self._start, self._end = start, end

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Position]:
        for at in range(self._start, self._end):
            ledger_id, _, entry_id = text_at(self._columns["keys"], at).partition(b":")
            yield Position(int(ledger_id), int(entry_id))

    def __getitem__(self, position: Position) -> Sequence[int]:
        return self._by_position[position]

    @cached_property
    def _by_position(self) -> dict[Position, Sequence[int]]:
        return self.first(len(self))

    def first(self, count: int) -> dict[Position, Sequence[int]]:
        """Return the first `count` ack sets as a dictionary from position to words."""
        part = AckSetColumns(self._columns, self._start, min(self._end, self._start + count))
        words = self._columns["words"]
        bounds = self._columns["word_offsets"][part._start : part._end + 1].tolist()
        sets = (words[start:end].tolist() for start, end in pairwise(bounds))
        return dict(zip(part, sets, strict=True))

    def to_json(self) -> dict[str, tuple[int, ...]]:
        """Return the ack sets as JSON values: a map from position, as text, to words."""
        keys, rows = self._columns["keys"], slice(self._start, self._end + 1)
        text_ends, word_ends = keys["offsets"][rows], self._columns["word_offsets"][rows]
        text = bytes(keys["data"][text_ends[0] : text_ends[-1]]).decode()
        words = tuple(self._columns["words"][word_ends[0] : word_ends[-1]].tolist())
        texts = pairwise((text_ends - text_ends[0]).tolist())
        sets = pairwise((word_ends - word_ends[0]).tolist())
        spans = zip(texts, sets, strict=True)
        return {text[start:end]: words[first:last] for (start, end), (first, last) in spans}

    def without_first(self, count: int) -> AckSetColumns:
        """Return the ack sets without the first `count`."""
        return AckSetColumns(self._columns, min(self._end, self._start + count), self._end)

    def acked(self) -> Bounds:
        """Return the bounds of the number of acknowledged messages in these ack sets."""
        acked, unsure = _acked(self._columns["acked"][self._start : self._end])
        at_least = int(acked.sum())
        return Bounds(at_least, None if unsure.any() else at_least)


class SizeColumns(CountedSizes):
    """Batch sizes, stored as runs. A run consists of consecutive entries of one ledger with equal sizes."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    @cached_property
    def _columns(self) -> tuple[Ints, Ints, Ints]:
        """The ledger id, entry id and size of each entry."""
        runs = np.frombuffer(zlib.decompress(self._packed), dtype="<i8").reshape(4, -1)
        ledger_ids, firsts, counts, sizes = runs
        starts = np.cumsum(counts) - counts
        entry_ids = np.arange(counts.sum()) - np.repeat(starts - firsts, counts)
        return np.repeat(ledger_ids, counts), entry_ids, np.repeat(sizes, counts)

    @cached_property
    def _by_position(self) -> dict[tuple[int, int], int]:
        ledger_ids, entry_ids, sizes = (column.tolist() for column in self._columns)
        return dict(zip(map(Position, ledger_ids, entry_ids), sizes, strict=True))

    def __len__(self) -> int:
        return len(self._columns[2])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._by_position)

    def __getitem__(self, position: tuple[int, int]) -> int:
        return self._by_position[position]

    def sum_of(self, ranges: PositionRangeSet | None) -> tuple[int, int]:
        """Return the number of batches whose entry is in `ranges`, and the number of messages in them.

        If `ranges` is None, count all batches.
        """
        ledger_ids, entry_ids, sizes = self._columns
        if ranges is not None:
            sizes = sizes[ranges.contains_many(ledger_ids, entry_ids)]
        return len(sizes), int(sizes.sum())


def unpack_sizes(packed: bytes | None) -> BatchSizes:
    """Return the batch sizes in a value of the column `batch_sizes`. A null value has no batch sizes."""
    return BatchSizes() if packed is None else BatchSizes(of=SizeColumns(packed))
