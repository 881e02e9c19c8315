"""Files that are there as a whole or not at all: written beside their place, synced, and renamed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags that open a file and no symbolic link in its place, and change no bytes."""


def write_whole(file: Path, data: bytes) -> None:
    """Write a file as a whole, to the disk, or not at all."""
    beside = file.with_name(f".{file.name}.tmp")
    # Left by a run that was cut off, or laid there by somebody else: it is removed, and never followed.
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
