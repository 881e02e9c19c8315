"""Words of 64 entries to partials: the end of the strategy `words`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackwell.errors import EventError
from ackwell.replay.columns import named_codes, pairs_of, partial_batches
from ackwell.replay.event_columns import NULL
from ackwell.replay.fold import Fold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.replay.resets import Resets

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
"""The columns of the branches of `words`: each branch uses some, and the others are null."""

_ENTRIES = 0
"""The branch of whole entries."""

TRIMMED, DELETED, SETTINGS = 3, 4, 5
"""The rare branches."""

_TEXTS: Final = ("topic", "subscription", "file", "detail")
_NUMBERS: Final = tuple(name for name in COLUMNS if name not in _TEXTS)


class Assemble:
    """The function that `mapInArrow` runs on the reduced rows of some (subscription, ledger)."""

    def __init__(self, resets: Resets, *, strict: bool) -> None:
        self._resets = resets
        self._strict = strict

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows of the table `PARTIALS`."""
        fold = Fold(self._resets)
        for batch in batches:
            if batch.num_rows:
                _feed(fold, batch)
        fold.raise_flaw(all_flaws=self._strict)
        yield from partial_batches(fold)


def _feed(fold: Fold, batch: pa.RecordBatch) -> None:
    if batch.column("topic").null_count:
        row = batch.filter(batch.column("topic").is_null()).slice(0, 1).to_pylist()[0]
        raise EventError("topic is null", file=row["file"] or None, line=row["flaw_at"])
    files = named_codes(batch.column("file").fill_null(""))
    pairs = pairs_of(fold, batch)
    columns = {name: _integers(batch, name) for name in _NUMBERS}
    # What is negative is a flaw already, and belongs to no ledger.
    nowhere = (columns["branch"] == _ENTRIES) & ((columns["ledger_id"] < 0) | (columns["at"] < 0))
    columns["ledger_id"] = np.where(nowhere, NULL, columns["ledger_id"])
    columns["at"] = np.where(columns["at"] < 0, NULL, columns["at"])
    # A word in which entry 63 alone is acknowledged is the number that means null.
    no_bits = batch.column("bits").is_null().to_numpy(zero_copy_only=False)
    columns["bits"] = np.where(no_bits & (columns["branch"] == _ENTRIES), 0, columns["bits"])
    fold.feed_words(pairs, files, list(columns.values()))
    settings = batch.filter(pc.equal(batch.column("branch"), SETTINGS))
    for row in settings.select(["topic", "subscription", "file", "at", "detail"]).to_pylist():
        fold.settle((row["topic"], row["subscription"]), row["file"] or "", row["at"], row["detail"])


def _integers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = batch.column(name).fill_null(NULL).to_numpy(zero_copy_only=False)
    return values
