"""CRC-32C: both engines give the same, and the value that the standard's check string has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ackwell import _native
from tests import reference


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_both_engines_give_the_same(data: bytes, crc: int) -> None:
    assert _native.crc32c(data, crc) == reference.crc32c(data, crc)


@given(st.binary(max_size=100), st.integers(0, 100))
def test_a_checksum_goes_on_where_another_ended(data: bytes, cut: int) -> None:
    assert _native.crc32c(data[cut:], _native.crc32c(data[:cut])) == _native.crc32c(data)


def test_the_check_value_is_the_standard_s() -> None:
    assert _native.crc32c(b"123456789") == 0xE306_9283
