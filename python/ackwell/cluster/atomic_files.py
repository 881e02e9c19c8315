"""Write files atomically: a temporary file in the same folder is synced and then renamed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags for `os.open`: do not follow a symbolic link, and do not translate line ends."""


def write_atomically(file: Path, data: bytes) -> None:
    """Replace a file with `data`, synced to disk. If this fails, the old file is unchanged."""
    temporary = file.with_name(f".{file.name}.tmp")
    # An interrupted run, or another user of the folder, may have left a file or a link with this name.
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)
