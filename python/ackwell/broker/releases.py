"""Releases of a broker as numbers that compare."""

from __future__ import annotations


def release_number(version: str) -> tuple[int, ...]:
    """Return a release as numbers that compare; a milestone comes before its release.

    >>> release_number("4.0.13") > release_number("4.0.7") > release_number("4.0.7-M1")
    True
    """
    release, _, milestone = version.partition("-")
    numbers = [int(part) if part.isdecimal() else 0 for part in release.split(".")]
    return (*[*numbers, 0, 0, 0][:3], 0 if milestone else 1)
