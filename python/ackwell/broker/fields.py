"""Read the fields of a broker's answer. A value of a wrong type raises an error that names the field."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Final

from ackwell.integers import is_int64

_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""A broker writes a number that is not finite as one of these texts."""


def shortened(value: Any) -> str:
    """Return the `repr` of a value, shortened for an error message."""
    return reprlib.repr(value)


def object_of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that is an object; an empty object if the field is missing or null."""
    value = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {shortened(value)}; expected an object")
    return value


def objects(values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return a field that is an array of objects; an empty list if the field is missing or null."""
    value = values.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise TypeError(f"{name} is {shortened(value)}; expected an array of objects")
    return value


def integer(values: Mapping[str, Any], name: str, missing: int | None = None) -> int:
    """Return a field that is an int64, or `missing` if the answer does not have the field."""
    value = values[name] if missing is None else values.get(name, missing)
    if not is_int64(value):
        raise ValueError(f"{name} is {shortened(value)}; expected an int64")
    return value


def count(values: Mapping[str, Any], name: str, missing: int | None = None) -> int:
    """Return a field that is a count, or `missing` if the field is missing; a negative count is an error."""
    value = integer(values, name, missing)
    if value < 0:
        raise ValueError(f"{name} is {value}; expected 0 or more")
    return value


def known_integer(values: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is an int64; None if it is missing or null."""
    return None if values.get(name) is None else integer(values, name)


def known_count(values: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a count; None if it is missing or null. A negative count is an error."""
    return None if values.get(name) is None else count(values, name)


def words(values: Mapping[str, Any], name: str) -> list[int]:
    """Return a field that is an ack set: an array of int64."""
    value = values[name]
    if not isinstance(value, list) or any(type(each) is not int for each in value):
        raise TypeError(f"{name} is {shortened(value)}; expected an array of integers of 64 bits")
    return value


def text(values: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text; None if it is missing or null."""
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {shortened(value)}; expected text")
    return value


def flag(values: Mapping[str, Any], name: str) -> bool | None:
    """Return a field that is true or false; None if it is missing or null."""
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} is {shortened(value)}; expected true or false")
    return value


def rate(values: Mapping[str, Any], name: str) -> float:
    """Return a field that is a rate; 0 if it is missing, null or not finite."""
    value = values.get(name)
    if value is None or value in _NOT_FINITE:
        return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is {shortened(value)}; expected a number")
    # An integer is not converted to a float, because it may be too large for one.
    return value
