"""A SHA-256 in files that decide what is acknowledged: a changed bit never becomes an acknowledgment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ackwell.errors import StatsError


def with_sha256(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values with the digest of all of them.

    >>> len(with_sha256({"a": 1})["sha256"])
    64
    """
    return {**value, "sha256": _digest(value)}


def check_sha256(value: Mapping[str, Any], source: str) -> None:
    """Raise `StatsError` if the values are not those that were with_sha256."""
    if value.get("sha256") != _digest({key: each for key, each in value.items() if key != "sha256"}):
        raise StatsError("not as it was written: its SHA-256 is of something else; make it anew", source)


def read_with_sha256(file: Path, kind: str, of: str, version: int, *, key: str) -> dict[str, Any]:
    """Read a file that `with_sha256` wrote.

    Raises `StatsError` for a file without `key`, of another version, or with a wrong digest.
    """
    try:
        value: dict[str, Any] = json.loads(file.read_bytes())
        found, _ = value["version"], value[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StatsError(f"not {kind} of {of}", str(file)) from None
    if found != version:
        raise StatsError(f"{kind} of version {found}; this ackwell reads {version}", str(file))
    check_sha256(value, str(file))
    return value


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
