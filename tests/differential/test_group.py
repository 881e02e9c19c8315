"""Rows grouped by code: both engines move them alike, and refuse alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import _native, reference
from tests.differential.pair import outcome

if TYPE_CHECKING:
    from ackwell.engine import Engine

CODES = st.lists(st.integers(-1, 9), max_size=80)


@given(codes=CODES, width=st.integers(0, 12), columns=st.integers(0, 3), short=st.booleans())
def test_both_engines_group_alike(codes: list[int], width: int, columns: int, *, short: bool) -> None:
    rows = np.arange(len(codes) - (short and len(codes) > 0))
    given_ = np.array(codes, dtype=np.int32), width, [rows * (n + 1) for n in range(columns)]
    native = outcome(lambda: _native.group_rows(*given_))
    assert native == outcome(lambda: reference.group_rows(*given_))


def test_rows_of_one_code_keep_their_order() -> None:
    codes, starts, (rows,) = _native.group_rows(np.array([3, 1, 3, 3, 1], np.int32), 4, [np.arange(5)])
    assert (codes.tolist(), starts.tolist(), rows.tolist()) == ([1, 3], [0, 2, 5], [1, 4, 0, 2, 3])


@pytest.mark.parametrize("engine", [_native, reference])
def test_a_width_no_table_has_is_refused_before_it_takes_memory(engine: Engine) -> None:
    with pytest.raises(ValueError, match="codes for 0 rows"):
        engine.group_rows(np.zeros(0, np.int32), 1 << 40, [])
