"""Sizes of samples that grow with the level: `make check`, `make test`, `make proof`."""

from __future__ import annotations

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
