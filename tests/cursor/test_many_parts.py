"""`Cursor.ack_many` with ack sets: equal to `ack_batch` for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import Cursor, CursorSettings, Ledgers, LimitError, ProtocolError
from ackwell.cursor.ack_sets import WORDS_MAX
from tests import reference

Rows = list[tuple[int, int, list[int]]]

SETTINGS = [
    CursorSettings(),
    CursorSettings.pulsar("4.2.4"),
    CursorSettings.pulsar("5.0.1"),
    CursorSettings(batch_index_acks=False),
]
WORD = st.sampled_from([0, -1, 5, 0b1110, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.tuples(st.sampled_from([3, 4]), st.integers(0, 6), st.lists(WORD, max_size=3)), max_size=12
)


def columns(rows: Rows) -> tuple[Any, Any, tuple[Any, Any]]:
    starts = np.cumsum([0, *(len(words) for _, _, words in rows)])
    words = np.array([word for _, _, words in rows for word in words], dtype=np.int64)
    return [row[0] for row in rows], [row[1] for row in rows], (starts, words)


@pytest.mark.parametrize("engine", [None, reference], ids=["native", "reference"])
@given(settings=st.sampled_from(SETTINGS), before=ROWS, rows=ROWS, seek=st.booleans())
def test_rows_at_once_equal_rows_one_by_one(
    engine: Any, settings: CursorSettings, before: Rows, rows: Rows, seek: bool
) -> None:
    together, alone = (Cursor(Ledgers({3: 7, 4: 7}), settings=settings, engine=engine) for _ in range(2))
    for cursor in (together, alone):
        if seek:
            cursor.reset(3, 1, (0,))
        for row in before:
            cursor.ack_batch(*row)
    ledger_ids, entry_ids, ack_sets = columns(rows)
    changed = together.ack_many(ledger_ids, entry_ids, ack_sets)
    assert changed == sum([alone.ack_batch(*row) for row in rows])
    assert together == alone
    together.validate()


def test_rows_that_are_refused_change_nothing() -> None:
    cursor = Cursor(Ledgers({3: 7}))
    for rows, error in (
        ([(3, 1, [5]), (3, 7, [5])], ProtocolError),
        ([(3, 1, [5]), (3, -1, [5])], ValueError),
        ([(3, 1, [5]), (3, 2, [5] * (WORDS_MAX + 1))], LimitError),
    ):
        with pytest.raises(error):
            cursor.ack_many(*columns(rows))
    with pytest.raises(ValueError, match="starts"):
        cursor.ack_many([3], [1], ([0, 2], [5]))
    assert cursor == Cursor(Ledgers({3: 7}))
