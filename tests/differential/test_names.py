"""Both engines number the same names alike, and refuse the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import _native
from tests import reference

ENGINES: tuple[Any, ...] = (_native, reference)


@given(st.lists(st.text(max_size=4)), st.lists(st.text(max_size=4)))
def test_both_engines_number_the_same(first: list[str], texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    native, twin = (engine.Names(first) for engine in ENGINES)
    numbers = [names.number_many(offsets, data) for names in (native, twin)]
    assert numbers[0].tolist() == numbers[1].tolist() == [twin.number(text) for text in texts]
    assert numbers[0].dtype == numbers[1].dtype == np.int32
    assert len(native) == len(twin)
    assert list(native) == list(twin)
    for start in (0, len(first), len(twin) + 1):
        ends, tail = native.to_arrays(start)
        assert (ends.tolist(), tail) == (twin.to_arrays(start)[0].tolist(), twin.to_arrays(start)[1])
    for names in (native, twin):
        names.validate()


@pytest.mark.parametrize(
    ("offsets", "data"), [([0, 3], b"ab"), ([1, 0], b"ab"), ([-1, 1], b"ab"), ([0, 1, 2], b"a\xff")]
)
def test_both_engines_refuse_the_same_texts(offsets: list[int], data: bytes) -> None:
    messages = []
    for engine in ENGINES:
        names = engine.Names()
        with pytest.raises(ValueError, match=r"name|offsets") as caught:
            names.number_many(np.array(offsets, np.int32), np.frombuffer(data, np.uint8))
        names.validate()
        messages.append((str(caught.value), len(names)))
        for unknown in (len(names), -1):
            with pytest.raises(IndexError):
                names[unknown]
    assert messages[0] == messages[1]
