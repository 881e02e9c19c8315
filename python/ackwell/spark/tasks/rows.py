"""One subscription's state as a row of the table `CURSORS`; local replay and Spark both build it here."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ackwell import Cursor, Ledgers, PositionInfo
from ackwell.ack_sets import from_words
from ackwell.broker.restart import BatchSizes
from ackwell.errors import LimitError
from ackwell.position import Position
from ackwell.replay.states import SubscriptionState
from ackwell.saving.chunks import chunk_count


def cursor_row(state: SubscriptionState) -> dict[str, Any]:
    """Return the row of one subscription."""
    cursor = state.cursor
    info = cursor.to_position_info()
    sizes = batch_sizes(state)
    loss = state.restart_loss()
    compact = info.encode("compact")
    position_info = info.encode("pulsar-auto")
    deleted = cursor.individually_deleted
    return {
        "topic": state.topic,
        "subscription": state.subscription,
        "mark_delete_ledger_id": cursor.mark_delete_position.ledger_id,
        "mark_delete_entry_id": cursor.mark_delete_position.entry_id,
        "individually_deleted": str(deleted),
        "range_count": len(deleted),
        "individually_deleted_entries": deleted.cardinality,
        "batch_deleted": {str(position): list(words) for position, words in cursor.batch_deleted.items()},
        "backlog_entries": cursor.backlog_entries,
        "unacked_messages": unacked_messages(state),
        "position_info": position_info,
        "compact": compact,
        "pulsar_ranges_bytes": _size(info, "pulsar-ranges"),
        "pulsar_long_array_bytes": _size(info, "pulsar-long-array"),
        "compact_bytes": len(compact),
        "chunks": chunk_count(len(position_info)),
        "restart_loses": loss.messages.at_least,
        "restart_reason": "; ".join(map(str, loss.reasons)) or None,
        "ledgers": dict(cursor.ledgers),
        "batch_sizes": pack_sizes(sizes.of),
    }


def state_of_row(row: Mapping[str, Any]) -> SubscriptionState:
    """Return the state that a row of `CURSORS` was built from; the events' settings are not in it."""
    ledgers = Ledgers(sorted(row["ledgers"].items()))
    info = PositionInfo.decode(bytes(row["compact"]))
    return SubscriptionState(
        row["topic"],
        row["subscription"],
        Cursor.from_position_info(info, ledgers),
        dict(unpack_sizes(row["batch_sizes"]).of),
        {},
    )


def _size(info: PositionInfo, form: str) -> int | None:
    """Return the size in a form; `None` where the form would pass what any store takes."""
    try:
        return len(info.encode(form))
    except LimitError:
        return None


def batch_sizes(state: SubscriptionState) -> BatchSizes:
    """Return the sizes of the batches beyond the mark-delete position; other entries hold one message."""
    mark_delete = state.cursor.mark_delete_position
    return BatchSizes(of={p: size for p, size in state.batch_sizes.items() if p > mark_delete})


def pack_sizes(sizes: Mapping[tuple[int, int], int]) -> bytes | None:
    """Pack positions and sizes: DEFLATE'd little-endian int64 columns; `None` for none."""
    if not sizes:
        return None
    rows = [(*position, size) for position, size in sorted(sizes.items())]
    return zlib.compress(np.array(rows, dtype="<i8").T.tobytes(), 1)


def unpack_sizes(packed: bytes | None) -> BatchSizes:
    """Read what `pack_sizes` gave."""
    if packed is None:
        return BatchSizes()
    ledger_ids, entry_ids, sizes = np.frombuffer(zlib.decompress(packed), dtype="<i8").reshape(3, -1).tolist()
    positions = map(Position, ledger_ids, entry_ids)
    return BatchSizes(of=dict(zip(positions, sizes, strict=True)))


def unacked_messages(state: SubscriptionState) -> int:
    """Count the messages not acknowledged: an entry is one, a batch as many as it still owes."""
    cursor = state.cursor
    owed: dict[tuple[int, int], int] = {
        position: from_words(words).bit_count() for position, words in cursor.batch_deleted.items()
    }
    more = sum(
        owed.get(position, size) - 1
        for position, size in state.batch_sizes.items()
        if not cursor.is_acked(*position)
    )
    return cursor.backlog_entries + more
