"""Java properties."""

from __future__ import annotations

import pytest

from ackwell.broker.properties import properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\r\nb: 2\rc 3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("! no\n  # no \\\n a = x = y \n", [("a", "x = y")]),
        ("a\\=b\\:=c\\\\d\\u0041\\t.", [("a=b:", "c\\dA\t.")]),
        ("a=b\\\n   c\\\\\nd", [("a", "bc\\"), ("d", "")]),
        ("a=b\\", [("a", "b")]),
        ("=x", [("", "x")]),
        ("", []),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, found: list[tuple[str, str]]) -> None:
    assert list(properties(text)) == found
