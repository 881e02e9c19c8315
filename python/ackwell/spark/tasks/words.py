"""Words of 64 entries to partials, on the executors: the end of the strategy `words`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ackwell.ack_sets import BATCH_SIZE_MAX
from ackwell.errors import EventError
from ackwell.position import Position
from ackwell.replay.columns import begin, partial_rows
from ackwell.replay.events import ENTRY_ID_MAX, Kind

if TYPE_CHECKING:
    from ackwell.arrays import Int64s
    from ackwell.replay.folded import Folded, Turns
    from ackwell.replay.partial import Partial


COLUMNS: Final = (
    "branch",
    "topic",
    "subscription",
    "file",
    "ledger_id",
    "at",
    "word",
    "bits",
    "exists",
    "up_to",
    "first",
    "last",
    "flaw",
    "flaw_at",
    "detail",
)
"""What the branches of `words` give: each uses some, and the rest is null."""

FLAWS: Final = (
    "topic, subscription, kind or sequence is null",
    f"unknown event kind; known are {', '.join(Kind)}",
    "no position; this kind needs a ledger id and an entry id",
    "a negative id, sequence, batch index or batch size; they are at least 0",
    f"a batch above {BATCH_SIZE_MAX:,} messages, or an entry id above {ENTRY_ID_MAX}; none is possible",
)

_SPAN: Final = 16
"""Words are joined as a dense array where it is at most so many times longer than the words given."""


class Assemble:
    """The function that `mapInArrow` runs on the reduced rows of some (subscription, ledger)."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows of the table `PARTIALS`."""
        folded: dict[tuple[str, str], Folded] = {}
        for batch in batches:
            _refuse_flaws(batch)
            for name, group in _by_name(batch):
                if name not in folded:
                    folded[name] = begin(name, self._turns)
                _join(folded[name], group)
        yield from partial_rows(folded)


def _by_name(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Return the rows of each subscription."""
    topics, subscriptions = (batch.column(name).dictionary_encode() for name in ("topic", "subscription"))
    count = len(subscriptions.dictionary)
    codes = topics.indices.to_numpy() * np.int64(count) + subscriptions.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1, [len(codes)]))
    for start, end in pairwise(starts):
        if start < end:
            topic, subscription = divmod(int(codes[start]), count)
            name = topics.dictionary[topic].as_py(), subscriptions.dictionary[subscription].as_py()
            yield name, batch.take(pa.array(order[start:end]))


def _join(folded: Folded, rows: pa.RecordBatch) -> None:
    """Join the reduced rows of one subscription."""
    branches = _integers(rows, "branch")
    for branch, join in enumerate((_join_words, _join_sizes, _join_ack_sets, _join_settings)):
        chosen = np.flatnonzero(branches == branch)
        if len(chosen):
            join(folded, rows.take(pa.array(chosen)))


def _join_words(folded: Folded, rows: pa.RecordBatch) -> None:
    partial = folded.partial
    _cover(folded, rows)
    rows = rows.filter(rows.column("ledger_id").is_valid())
    ledger_ids, words, bits = (_integers(rows, name) for name in ("ledger_id", "at", "bits"))
    for ledger_id in np.unique(ledger_ids).tolist():
        here = (ledger_ids == ledger_id) & (bits != 0)
        if here.any():
            _acknowledge_words(partial, ledger_id, words[here], bits[here])
    for column, act in (("exists", partial.publish_many), ("up_to", None)):
        present = rows.filter(rows.column(column).is_valid())
        if not present.num_rows:
            continue
        ledger_ids, entry_ids = _integers(present, "ledger_id"), _integers(present, column)
        if act is not None:
            act(ledger_ids, entry_ids)
        else:
            last = ledger_ids.max()
            entry_id = int(entry_ids[ledger_ids == last].max())
            partial.acknowledge_up_to(Position(int(last), entry_id))


def _acknowledge_words(partial: Partial, ledger_id: int, words: Int64s, bits: Int64s) -> None:
    length = int(words.max()) + 1
    if length <= _SPAN * len(words):
        dense = np.zeros(length, dtype=np.int64)
        # A word may come from several files.
        np.bitwise_or.at(dense, words, bits)
        partial.acknowledge_words(ledger_id, dense)
        return
    set_bits = np.unpackbits(bits.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    row, bit = np.nonzero(set_bits)
    entry_ids = words[row] * 64 + bit
    partial.acknowledge_many(np.full(len(entry_ids), ledger_id), entry_ids)


def _join_sizes(folded: Folded, rows: pa.RecordBatch) -> None:
    for row in rows.select(["ledger_id", "at", "bits"]).to_pylist():
        if row["bits"] is not None:
            folded.partial.has_size(Position(row["ledger_id"], row["at"]), row["bits"])


def _join_ack_sets(folded: Folded, rows: pa.RecordBatch) -> None:
    """Each row holds one word; what lies beyond the words of an ack set is acknowledged."""
    for row in rows.select(["ledger_id", "at", "word", "bits", "exists"]).to_pylist():
        shift = 64 * row["word"]
        owed = ((row["bits"] & _WORD) << shift) | ~(_WORD << shift)
        if row["exists"] is not None:
            owed &= (1 << 64 * row["exists"]) - 1
        folded.partial.acknowledge(Position(row["ledger_id"], row["at"]), owed)


def _join_settings(folded: Folded, rows: pa.RecordBatch) -> None:
    for row in rows.select(["file", "first", "detail"]).to_pylist():
        folded.settle(((row["file"], row["first"]), row["detail"]))


def _cover(folded: Folded, rows: pa.RecordBatch) -> None:
    acks = rows.filter(rows.column("first").is_valid())
    if not acks.num_rows:
        return
    files = acks.column("file").dictionary_encode()
    codes = files.indices.to_numpy()
    firsts, lasts = _integers(acks, "first"), _integers(acks, "last")
    for code, file in enumerate(files.dictionary.to_pylist()):
        here = codes == code
        folded.cover((file, int(firsts[here].min())), (file, int(lasts[here].max())))


def _refuse_flaws(batch: pa.RecordBatch) -> None:
    """Raise `EventError` for the first row that is no event."""
    flawed = batch.filter(batch.column("flaw").is_valid())
    for row in flawed.to_pylist():
        where = f"{row['topic']}, {row['subscription']}: "
        raise EventError(where + FLAWS[row["flaw"]], file=row["file"], line=row["flaw_at"])


def _integers(rows: pa.RecordBatch, name: str) -> Int64s:
    values: Int64s = rows.column(name).fill_null(0).to_numpy(zero_copy_only=False)
    return values


_WORD: Final = (1 << 64) - 1
