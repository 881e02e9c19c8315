"""SHA-256 digests in plans, snapshots and journals. A file whose digest does not match is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ackwell.errors import StatsError
from ackwell.json_values import json_value
from ackwell.regular_files import read_regular
from ackwell.sources import SourceKind, source_kind, wrong_kind


def with_sha256(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values with their digest added as the key `sha256`.

    >>> len(with_sha256({"a": 1})["sha256"])
    64
    """
    return {**value, "sha256": _digest(value)}


def check_sha256(value: Mapping[str, Any], source: str) -> None:
    """Raise `StatsError` if the digest in `value` does not match the other values."""
    if value.get("sha256") != _digest({key: each for key, each in value.items() if key != "sha256"}):
        raise StatsError("changed since it was written: its SHA-256 does not match; write it again", source)


def read_with_sha256(file: Path, kind: SourceKind, version: int, *, key: str) -> dict[str, Any]:
    """Read a file that `with_sha256` wrote.

    Raises `StatsError` for a file without `key`, of another version, or with a wrong digest.
    """
    data = read_regular(file)
    try:
        value: dict[str, Any] = json_value(data)
        found, _ = value["version"], value[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StatsError(wrong_kind(source_kind(data), kind), str(file)) from None
    if found != version:
        raise StatsError(f"{kind} of version {found}; this ackwell reads version {version}", str(file))
    check_sha256(value, str(file))
    return value


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
