"""The content of hostile files: JSON documents with invalid values, and damaged bytes."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st


class Raw(str):
    """Raw JSON text that `json.dumps` cannot write."""

    __slots__ = ()


DEEP = 3_000
"""A depth above Python's recursion limit and below the limit of a parser in C."""

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63 - 2,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    10**400,
    0.5,
    -0.0,
    1e308,
    "",
    " ",
    "0",
    "-1:-1",
    "3:5",
    "3:-5",
    "9223372036854775807:9223372036854775807",
    "99999999999999999999:1",
    "(3:5..3:5]",
    "[(3:5..3:2]]",
    "[(3:5..9:2],(3:0..3:1]]",
    "[(-5:1..3:2]]",
    "[(0:0..9223372036854775806:9223372036854775806]]",
    "persistent://a/b/c",
    "\x00",
    "\x1b[31m",
    "a\nb\r\u2028c",
    "\ud800",
    "\u202e",
    "ä" * 300,
    [],
    [[]],
    [0],
    [-1, 2**63],
    ["x"],
    [None],
    [1] * 5_000,
    {},
    {"": None},
    {"a": {"b": []}},
    {"3:5": [1]},
    Raw("NaN"),
    Raw("-Infinity"),
    Raw("1e999"),
    Raw("9" * 5_000),
    Raw("01"),
    Raw("'x'"),
    Raw("[" * DEEP + "]" * DEEP),
    Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    Raw("[" * 200_000),
    Raw('{"a": 1, "a": 2}'),
    Raw('"\\ud800"'),
    Raw('"\\x"'),
]
"""Values at the limits of the expected ranges and of JSON."""


def places(document: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value in a document, as keys and indexes."""
    found = [place] if place else []
    if isinstance(document, dict | list):
        keys = document if isinstance(document, dict) else range(len(document))
        for key in keys:
            found += places(document[key], (*place, key))
    return found


def changed(document: Any, place: tuple[Any, ...], change: Any) -> Any:
    """Return the document with a value replaced, or removed where `change` is `...`."""
    new = copy.deepcopy(document)
    inner = new
    for key in place[:-1]:
        inner = inner[key]
    if change is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = change
    return new


def text_of(document: Any) -> str:
    """Return the JSON text of a document, with unchanged `Raw` text."""
    if isinstance(document, Raw):
        return str(document)
    if isinstance(document, dict):
        items = (f"{json.dumps(key)}: {text_of(value)}" for key, value in document.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(document, list):
        return f"[{', '.join(map(text_of, document))}]"
    return json.dumps(document)


@st.composite
def hostile(draw: st.DrawFn, document: Any, most: int = 3) -> str:
    """Draw JSON text of a document in which some values are odd, or missing."""
    for _ in range(draw(st.integers(1, most))):
        open_places = places(document)
        if not open_places:
            break
        place = draw(st.sampled_from(open_places))
        document = changed(document, place, draw(st.sampled_from([..., *ODD])))
    return text_of(document)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw bytes cut off, or with some replaced, taken out, repeated or put in."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        end = min(len(data), at + draw(st.sampled_from([1, 2, 4, 40])))
        put = draw(st.sampled_from([b"", b"\x00", b"\xff", b"\n", b'"', b"}", b"\xff" * 8, data[at:end] * 2]))
        data = data[:at] if draw(st.booleans()) and put == b"" else data[:at] + put + data[end:]
    return data
