"""Copy the sources to the folder in which the mutants run."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"


def copied(place: Path) -> None:
    """Copy the files of the checkout with their uncommitted changes, and the native module."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    native = [str(path.relative_to(ROOT)) for path in ROOT.glob("python/ackwell/_native*.so")]
    for name in [*listed.split("\0")[:-1], *native]:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            here, there = (ROOT / name).read_bytes(), place / name
            # Cargo builds a file again if its time is new.
            if not there.is_file() or there.read_bytes() != here:
                there.write_bytes(here)
