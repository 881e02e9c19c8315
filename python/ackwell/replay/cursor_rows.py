"""The cursors of a fold without `Cursor` objects: as columns, in parts of some MB, or as rows to print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ackwell.cursor.cursor_state import ack_sets_to_json
from ackwell.errors import ProtocolError
from ackwell.replay.fold import cursor_settings
from ackwell.replay.losses import AckSetColumns, losses_of, text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell.broker.batch_sizes import Bounds
    from ackwell.cursor.cursor_state import AckSetMapping
    from ackwell.replay.fold import Fold
    from ackwell.replay.resets import Name

    Ints = NDArray[np.int64]


def cursor_columns(fold: Fold, order: Ints) -> Iterator[tuple[Ints, dict[str, Any], dict[int, str]]]:
    """Yield the cursors of subscriptions as columns, in parts of some MB.

    `order` has the pairs to yield, in this order. A pair is the number of a (topic, subscription). Pairs
    without a subscription are skipped. Each part is yielded as three values: its pairs, the columns of their
    cursors (from `Partials.cursors`), and a map from the row of an invalid subscription to its error.
    """
    settings, wrong = fold.settings()
    whole_acks = [pair for pair, known in settings.items() if not cursor_settings(known).batch_index_acks]
    order = order[fold.partials.names()[1][order] != 0]
    start = 0
    while start < len(order):
        columns = fold.partials.cursors(order[start:], whole_acks)
        pairs = order[start : start + columns["taken"]]
        start += len(pairs)
        errors = dict(columns["errors"])
        if wrong:
            errors |= {row: wrong[pair] for row, pair in enumerate(pairs.tolist()) if pair in wrong}
        yield pairs, columns, errors


class CursorRow(NamedTuple):
    """The values that `ackwell replay` prints for one subscription: its state after its events."""

    topic: str
    subscription: str
    mark_delete: str
    individually_deleted: str
    range_count: int
    batch_deleted: AckSetMapping
    backlog_entries: int
    lost: Bounds
    """The number of acknowledged messages that a graceful restart redelivers, with the settings of 4.2."""

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values. The keys are the names that Pulsar's tools print."""
        sets = self.batch_deleted
        return {
            "topic": self.topic,
            "subscription": self.subscription,
            "markDeletePosition": self.mark_delete,
            "individuallyDeletedMessages": self.individually_deleted,
            "batchDeletedIndexes": sets.to_json()
            if isinstance(sets, AckSetColumns)
            else ack_sets_to_json(sets),
            "backlogEntries": self.backlog_entries,
        }


def cursor_rows(fold: Fold, errors: dict[Name, str] | None = None) -> Iterator[CursorRow]:
    """Yield the row of every subscription that is not deleted, ordered by topic and subscription.

    The error of a subscription with invalid events is added to `errors`. Without `errors`, the first such
    error is raised.
    """
    fold.raise_flaw(all_flaws=errors is None)
    names = fold.names()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    for pairs, columns, wrong in cursor_columns(fold, order):
        deleted = set(columns["deleted"])
        integers, sets = columns["integers"], columns["batch_deleted"]
        ledger_ids, entry_ids, ranges, backlogs = (
            integers[name].tolist()
            for name in ("mark_delete_ledger_id", "mark_delete_entry_id", "range_count", "backlog_entries")
        )
        bounds, losses = sets["offsets"].tolist(), losses_of(columns)
        for row, pair in enumerate(pairs.tolist()):
            if row in deleted:
                continue
            if row in wrong:
                if errors is None:
                    # `cursor` raises an error that has the position of the invalid event.
                    fold.cursor(pair, {})
                    raise ProtocolError(f"{', '.join(names[pair])}: {wrong[row]}")
                errors[names[pair]] = f"{', '.join(names[pair])}: {wrong[row]}"
                continue
            topic, subscription = names[pair]
            yield CursorRow(
                topic,
                subscription,
                f"{ledger_ids[row]}:{entry_ids[row]}",
                text_at(columns["individually_deleted"], row).decode(),
                ranges[row],
                AckSetColumns(sets, *bounds[row : row + 2]),
                backlogs[row],
                losses.messages(row),
            )
