"""A batch larger than a block is rejected as a whole, for any invalid row and any array layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ackwell import PositionRangeSet, TimeBuckets, TimeWheel

# More than a block of the binding, and not a multiple of the four elements that it reads at a time.
ROWS = (1 << 14) + 7

MAKE: dict[str, tuple[Callable[[], Any], int]] = {
    "PositionRangeSet": (PositionRangeSet, 2),
    "TimeBuckets": (lambda: TimeBuckets(4), 3),
    "TimeWheel": (lambda: TimeWheel(8), 3),
}


def contiguous(values: Any) -> Any:
    return values


def unaligned(values: Any) -> Any:
    data = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:]
    return data.view(np.int64)


def strided(values: Any) -> Any:
    return np.repeat(values, 3)[::3]


def backwards(values: Any) -> Any:
    return values[::-1].copy()[::-1]


@pytest.mark.parametrize("layout", [contiguous, unaligned, strided, backwards])
@pytest.mark.parametrize(("make", "width"), MAKE.values(), ids=MAKE)
def test_one_negative_id_refuses_all_rows(
    make: Callable[[], Any], width: int, layout: Callable[[Any], Any]
) -> None:
    for bad in (0, 1, ROWS // 2, *range(ROWS - 7, ROWS)):
        for column in (width - 2, width - 1):
            columns = [np.arange(ROWS) for _ in range(width)]
            columns[column][bad] = -5
            structure = make()
            with pytest.raises(ValueError, match="-5"):
                structure.add_many(*map(layout, columns))
            assert structure == make()


@pytest.mark.parametrize("layout", [contiguous, unaligned, strided, backwards])
@pytest.mark.parametrize(("make", "width"), MAKE.values(), ids=MAKE)
def test_every_layout_adds_every_row(
    make: Callable[[], Any], width: int, layout: Callable[[Any], Any]
) -> None:
    columns = [np.arange(ROWS) for _ in range(width)]
    structure, plain = make(), make()
    assert structure.add_many(*map(layout, columns)) == ROWS
    plain.add_many(*columns)
    assert structure == plain
