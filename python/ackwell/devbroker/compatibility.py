"""Schema compatibility: Avro's rules of schema resolution, for Avro and JSON schemas.

`can_read(reader, writer)` decides whether data of the writer's schema can be read with the reader's schema.
It compares types, promotions of numbers, names of records and enums, unions, and the defaults of fields that
are missing in the writer's schema. Schemas of other types are compatible only if they are equal.
"""

from __future__ import annotations

import json
from typing import Any, Final

_PROMOTED: Final = {
    "int": {"int", "long", "float", "double"},
    "long": {"long", "float", "double"},
    "float": {"float", "double"},
    "string": {"string", "bytes"},
    "bytes": {"bytes", "string"},
}
_DEPTH_MAX: Final = 64
"""The maximum nesting depth of a comparison, because schemas can be recursive. Everything below this depth
counts as compatible."""

STRATEGIES: Final = (
    "ALWAYS_COMPATIBLE",
    "ALWAYS_INCOMPATIBLE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
"""Pulsar's compatibility strategies. `FULL` is Pulsar's default."""


def compatible(new: bytes, versions: list[bytes], strategy: str) -> bool:
    """Return whether the compatibility strategy `strategy` accepts the schema `new` after `versions`.

    The schemas are Avro or JSON schemas. Returns False for invalid JSON.
    """
    if strategy == "ALWAYS_COMPATIBLE" or not versions:
        return True
    if strategy == "ALWAYS_INCOMPATIBLE":
        return False
    compared = versions if strategy.endswith("_TRANSITIVE") else versions[-1:]
    try:
        given = json.loads(new)
        others = [json.loads(each) for each in compared]
    except ValueError:
        return False
    backward = strategy.startswith(("BACKWARD", "FULL"))
    forward = strategy.startswith(("FORWARD", "FULL"))
    return all(
        (not backward or can_read(given, other)) and (not forward or can_read(other, given))
        for other in others
    )


_PRIMITIVE_TYPES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_COMPLEX_PARTS: Final = {
    "record": "fields",
    "error": "fields",
    "enum": "symbols",
    "fixed": "size",
    "array": "items",
    "map": "values",
}
"""Maps each complex type of Avro to the attribute that a definition of this type must have."""


def is_avro_schema(data: bytes) -> bool:
    """Return whether bytes define an Avro schema: they are valid JSON, and all types are known."""
    try:
        schema = json.loads(data)
    except ValueError:
        return False
    named: dict[str, Any] = {}
    _collect(schema, named)
    return _is_schema(schema, frozenset(name.rpartition(".")[2] for name in named), 0)


def _is_schema(schema: Any, named: frozenset[str], depth: int) -> bool:
    if depth > _DEPTH_MAX:
        return True
    if isinstance(schema, str):
        return schema in _PRIMITIVE_TYPES or schema.rpartition(".")[2] in named
    if isinstance(schema, list):
        return all(_is_schema(each, named, depth + 1) for each in schema)
    if not isinstance(schema, dict) or "type" not in schema:
        return False
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in _COMPLEX_PARTS:
        return _is_schema(kind, named, depth + 1)
    part = schema.get(_COMPLEX_PARTS[kind])
    if kind in ("array", "map"):
        return _is_schema(part, named, depth + 1)
    if kind in ("record", "error"):
        return isinstance(part, list) and all(
            isinstance(each, dict) and "name" in each and _is_schema(each.get("type"), named, depth + 1)
            for each in part
        )
    return isinstance(part, int if kind == "fixed" else list)


def can_read(reader: Any, writer: Any) -> bool:
    """Return whether data that was written with the schema `writer` can be read with the schema `reader`.

    >>> can_read("double", "int"), can_read("int", "double"), can_read(["null", "int"], "int")
    (True, False, True)
    """
    return _Resolution(reader, writer).can_read(reader, writer, 0)


class _Resolution:
    """The comparison of two schemas, with the named types that each schema defines."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._readers: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        _collect(reader, self._readers)
        _collect(writer, self._writers)

    def can_read(self, reader: Any, writer: Any, depth: int) -> bool:
        if depth > _DEPTH_MAX:
            return True
        reader, writer = self._readers.get(_key(reader), reader), self._writers.get(_key(writer), writer)
        if isinstance(writer, list):
            return all(self.can_read(reader, each, depth + 1) for each in writer)
        if isinstance(reader, list):
            return any(self.can_read(each, writer, depth + 1) for each in reader)
        wanted, given = _type(reader), _type(writer)
        if wanted != given:
            return wanted in _PROMOTED.get(given, ())
        return self._same_kind(wanted, reader, writer, depth)

    def _same_kind(self, kind: str, reader: Any, writer: Any, depth: int) -> bool:
        if kind == "record":
            return self._record(reader, writer, depth)
        if kind == "enum":
            return "default" in reader or set(writer["symbols"]) <= set(reader["symbols"])
        if kind == "array":
            return self.can_read(reader["items"], writer["items"], depth + 1)
        if kind == "map":
            return self.can_read(reader["values"], writer["values"], depth + 1)
        if kind == "fixed":
            return bool(reader["size"] == writer["size"])
        return True

    def _record(self, reader: Any, writer: Any, depth: int) -> bool:
        written = {each["name"]: each["type"] for each in writer.get("fields", ())}
        return all(
            self.can_read(each["type"], written[each["name"]], depth + 1)
            if each["name"] in written
            else "default" in each
            for each in reader.get("fields", ())
        )


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return kind if isinstance(kind, str) else "" if kind is None else _type(kind)


def _key(schema: Any) -> str:
    return schema if isinstance(schema, str) else ""


def _collect(schema: Any, named: dict[str, Any], depth: int = 0) -> None:
    """Add all named types that a schema defines to `named`."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(schema, list):
        for each in schema:
            _collect(each, named, depth + 1)
    elif isinstance(schema, dict):
        if isinstance(schema.get("name"), str) and schema.get("type") in ("record", "enum", "fixed"):
            named[schema["name"]] = schema
        for each in schema.get("fields", ()):
            _collect(each.get("type"), named, depth + 1)
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), dict | list):
                _collect(schema[part], named, depth + 1)
