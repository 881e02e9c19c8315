"""The loss of a restart, computed from the columns of a folded cursor."""

from __future__ import annotations

from typing import Any

import pytest

from ackwell.broker.batch_sizes import Bounds
from ackwell.replay.cursor_rows import cursor_rows
from ackwell.replay.event_columns import columns_of
from ackwell.replay.events import Event, Kind
from ackwell.replay.fold import Fold
from ackwell.replay.in_order import OrderedFold


@pytest.mark.parametrize(
    ("batch_size", "words", "lost"),
    [
        (5, (0b00001,), Bounds(4, 4)),
        (2, (0b01,), Bounds(1, 1)),
        # The batch size is unknown, so more messages can be acknowledged.
        (None, (0b10,), Bounds(1, None)),
    ],
)
def test_messages_of_a_batch_that_nobody_has_measured_have_no_upper_bound(
    batch_size: int | None, words: tuple[int, ...], lost: Bounds
) -> None:
    fold = Fold(whole=True)
    at: dict[str, Any] = {"ledger_id": 3, "entry_id": 0}
    events = [
        Event("t", "", 1, Kind.PUBLISH, batch_size=batch_size, **at),
        Event("t", "s", 2, Kind.ACK, ack_set=words, **at),
    ]
    fold.feed(columns_of(events))
    fold.end()
    (row,) = cursor_rows(fold)
    assert row.lost == lost


def test_a_seek_ends_what_a_clearing_before_everything_has_hidden() -> None:
    clear = Event("t", "s", 1, Kind.CLEAR_BACKLOG)
    published = Event("t", "", 2, Kind.PUBLISH, ledger_id=3, entry_id=0)
    seek = Event("t", "s", 3, Kind.SEEK, ledger_id=3, entry_id=0)
    other = seek._replace(subscription="u")
    for events, hidden in (
        ([clear, published], 1),
        ([clear, other, published], 1),
        ([clear, seek, published], 0),
    ):
        fold = OrderedFold()
        fold.feed(columns_of([clear]))
        fold.feed(columns_of(events[1:]))
        fold.end()
        assert len(fold.settings()[1]) == hidden
