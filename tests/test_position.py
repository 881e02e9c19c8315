"""Positions as text."""

import pytest

from ackwell import Position


@pytest.mark.parametrize("text", ["0:0", "3:-1", f"{2**63 - 1}:{2**63 - 1}", f"{-(2**63)}:0"])
def test_what_int64_holds_is_read(text: str) -> None:
    assert str(Position.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "3", "3:", "a:1", "1:2:3", f"{2**63}:0", f"0:{-(2**63) - 1}", "9" * 5000]
)
def test_what_is_not_a_position_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)
