"""CRC-32C against the examples of RFC 3720, appendix B.4, and against itself in two parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwell import _native

EXAMPLES = [
    (b"", 0),
    (b"123456789", 0xE306_9283),
    (bytes(32), 0x8A91_36AA),
    (b"\xff" * 32, 0x62A8_AB43),
    (bytes(range(32)), 0x46DD_794E),
    (bytes(reversed(range(32))), 0x113F_DB5C),
]


@pytest.mark.parametrize(("data", "expected"), EXAMPLES)
def test_the_examples_of_the_standard(data: bytes, expected: int) -> None:
    assert _native.crc32c(data) == expected
    # The crate computes long inputs in blocks, so the examples also continue after each prefix.
    for cut in range(len(data) + 1):
        assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == expected


@given(st.binary(max_size=20_000), st.integers(0, 20_000), st.integers(0, 2**32 - 1))
def test_a_checksum_continues_from_the_checksum_of_a_prefix(data: bytes, cut: int, crc: int) -> None:
    assert _native.crc32c(data[cut:], _native.crc32c(data[:cut], crc)) == _native.crc32c(data, crc)
