"""`Names` against a dictionary: a new text has the next number."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell._native import Names


@given(st.lists(st.text(max_size=4)), st.lists(st.text(max_size=4)))
def test_names_are_numbered_in_the_order_of_their_first_text(first: list[str], texts: list[str]) -> None:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(first + texts))}
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    names = Names(first)
    found = names.number_many(offsets, np.frombuffer(b"".join(encoded), np.uint8))
    assert found.dtype == np.int32
    assert found.tolist() == [numbers[text] for text in texts]
    assert [names.number(text) for text in first + texts] == [numbers[text] for text in first + texts]
    assert len(names) == len(numbers)
    assert [names[number] for number in range(len(names))] == list(numbers)
    for start in (0, len(first), len(numbers) + 1):
        ends, data = names.to_arrays(start)
        pieces = [data[begin:end].decode() for begin, end in pairwise(ends.tolist())]
        assert pieces == list(numbers)[start:]
    names.validate()


@pytest.mark.parametrize(
    ("offsets", "data", "error", "kept"),
    [
        ([0, 3], b"ab", "offsets outside their bytes", 0),
        ([1, 0], b"ab", "offsets outside their bytes", 0),
        ([-1, 1], b"ab", "offsets outside their bytes", 0),
        ([0, 1, 2], b"a\xff", "a name that is not UTF-8", 1),
    ],
)
def test_texts_with_an_error_are_refused_after_the_names_before_it(
    offsets: list[int], data: bytes, error: str, kept: int
) -> None:
    names = Names()
    with pytest.raises(ValueError, match=error):
        names.number_many(np.array(offsets, np.int32), np.frombuffer(data, np.uint8))
    names.validate()
    assert len(names) == kept
    for unknown in (len(names), -1):
        with pytest.raises(IndexError):
            names[unknown]
