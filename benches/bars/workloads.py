"""The workloads of `benches/workloads.toml`, for Python sides."""

from __future__ import annotations

import tomllib
from typing import Any

from benches.bars.sides import ROOT


def section(name: str) -> dict[str, Any]:
    """Read the section `name` of the file."""
    content = tomllib.loads((ROOT / "benches" / "workloads.toml").read_text())
    found: dict[str, Any] = content[name]
    return found
