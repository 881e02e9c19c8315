"""Rows of columns brought together by a small code: how a batch of events is cut by subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ackwell.arrays import Int64s


WIDTH_MAX = 1 << 24


def group_rows(
    codes: NDArray[np.int32], width: int, columns: Sequence[ArrayLike]
) -> tuple[Int64s, Int64s, list[Int64s]]:
    """Return the codes that occur, where the rows of each begin, and the columns in order of code."""
    arrays = [np.asarray(column, dtype=np.int64) for column in columns]
    if any(len(array) != len(codes) for array in arrays):
        raise ValueError("columns of different lengths")
    if width > max(WIDTH_MAX, len(codes)):
        raise ValueError(f"{width} codes for {len(codes)} rows: at most {WIDTH_MAX}")
    for code in codes.tolist():
        if not 0 <= code < width:
            raise ValueError(f"code {code}: it is at least 0 and below {width}")
    order = sorted(range(len(codes)), key=codes.tolist().__getitem__)
    ordered = [int(codes[row]) for row in order]
    present = sorted(set(ordered))
    starts = [*map(ordered.index, present), len(ordered)]
    moved = [array[np.array(order, dtype=np.intp)] for array in arrays]
    return np.array(present, dtype=np.int64), np.array(starts, dtype=np.int64), moved
