"""More recordings than the repository carries, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_folder(name: str) -> Path | None:
    """Return a folder of recordings: in `$ACKWELL_SHARED`, or in `../shared` beside the checkout."""
    root = os.environ.get("ACKWELL_SHARED", Path(__file__).parents[2] / "shared")
    folder = Path(root) / name
    return folder if folder.is_dir() else None


def shared_path(name: str) -> Path:
    """Return a folder of recordings, or skip the test."""
    folder = shared_folder(name)
    if folder is None:
        pytest.skip(f"no {name} here; $ACKWELL_SHARED may name a folder that has it")
    return folder
