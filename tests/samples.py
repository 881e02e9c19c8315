"""Sizes of samples that grow with the level: `make check`, `make test`, `make proof`."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Final

from hypothesis import settings

EXAMPLES: Final = 40
"""Hypothesis examples of a test in `make test`."""


def examples(count: int) -> int:
    """Return how many examples the current level draws of a test that draws `count` in `make test`.

    >>> examples(EXAMPLES) == settings().max_examples
    True
    """
    return max(1, count * settings().max_examples // EXAMPLES)


def number_of_commit(count: int) -> int:
    """Return a number below `count` that depends on the commit, so that commits draw different samples.

    Without a checkout it is 0.
    """
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return zlib.crc32(done.stdout) % count
