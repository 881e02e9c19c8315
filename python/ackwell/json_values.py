"""Decoding of one JSON value, with limits of its size and depth, and without duplicate keys."""

from __future__ import annotations

import json
from typing import Any, Final

JSON_BYTES_MAX: Final = 512 << 20
"""The maximum size of a JSON text, in bytes."""


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises `ValueError` if the text is not JSON, is too large, is nested too deeply, or if an object has the
    same key twice.

    >>> json_value('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' is twice in one object
    """
    if len(text) > JSON_BYTES_MAX:
        raise ValueError(f"more than {JSON_BYTES_MAX >> 20} MiB of JSON")
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def object_in(value: Any) -> dict[str, Any]:
    """Return a JSON value if it is an object; raise `TypeError` for any other value."""
    if not isinstance(value, dict):
        raise TypeError(f"a value of type {type(value).__name__}; expected an object")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary; `ValueError` if two pairs have the same key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} is twice in one object")
            seen.add(key)
    return found
